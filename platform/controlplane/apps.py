from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # The web server and commands ask for rounds too. Without this, Celery's `current_app` would be a
        # nameless one there, with a broker that does not run.
        from controlplane.celery import app

        app.set_default()
