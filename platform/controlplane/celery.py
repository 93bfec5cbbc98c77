"""The Celery app of processes that run tasks or ask for them; that of beat is `controlplane.beat`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from controlplane.celery_settings import celery_app

app = celery_app()
app.autodiscover_tasks(["scheduler", "controlplane"])
