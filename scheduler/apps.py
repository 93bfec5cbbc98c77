from django.apps import AppConfig
from django.core import checks


class SchedulerConfig(AppConfig):
    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(_installed_plugins)


def _installed_plugins(**_: object) -> list[checks.CheckMessage]:
    from scheduler.core.round.registry import UNUSABLE

    return [
        checks.Warning(f"The plug-in {name} is installed, but cannot be used: {why}", id="scheduler.W001")
        for name, why in UNUSABLE.items()
    ]
