"""The platform's Celery app with tasks that ask the database, for `test_pool`."""

from pathlib import Path

from django.db import connection

from controlplane.celery import app


@app.task
def ask(told: str, *, ends: bool = False) -> None:
    """Add the number of the server's process that answers; `ends`: that process is ended then."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    with Path(told).open("a") as answers:
        answers.write(f"{backend}\n")
    if ends:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
