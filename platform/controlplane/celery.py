"""The Celery app of whoever runs tasks or asks for them; that of beat is `controlplane.beat`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from controlplane.celery_settings import celery_app

app = celery_app()
app.autodiscover_tasks(["scheduler", "controlplane"])
