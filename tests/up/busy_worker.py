"""The platform's Celery app with a task that never ends, for `test_pool`."""

import signal
from pathlib import Path

from controlplane.celery import app


@app.task
def never_end(started: str) -> None:
    Path(started).touch()
    signal.pause()
