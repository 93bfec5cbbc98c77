"""Celery's entries for what the API itself leaves behind."""

from celery import shared_task
from django.core.management import call_command

from controlplane import idempotency


@shared_task(time_limit=300)
def prune() -> None:
    idempotency.prune()
    call_command("clearsessions")
