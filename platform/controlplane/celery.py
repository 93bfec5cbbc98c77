"""The Celery app of processes that run tasks or ask for them; that of beat is `controlplane.beat`."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from celery.signals import task_postrun
from django.db import close_old_connections

from controlplane.celery_settings import celery_app

app = celery_app()
app.autodiscover_tasks(["scheduler", "controlplane"])


@task_postrun.connect
def give_connections_back(sender: Any, **_: Any) -> None:
    """Let the pool have the connection again, and look at whether it works, as after a request."""
    if not sender.request.is_eager:
        close_old_connections()
