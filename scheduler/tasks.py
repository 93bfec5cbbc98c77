"""Celery's entries: each fetches nothing and calls one service. All may run twice, late or never."""

from celery import shared_task

from scheduler.hints import ask_for_round, round_begins
from scheduler.rounds.run import run_round as run_one_round
from scheduler.services import housekeeping, leases


# Hard limit: the backstop for a policy that never returns. Nothing is left behind by a killed round.
@shared_task(time_limit=60)
def run_round() -> None:
    round_begins()
    if run_one_round() is None:
        # The round under way may have missed what this one was asked for: look again when it is done.
        ask_for_round()


@shared_task(time_limit=60)
def expire_leases() -> None:
    leases.expire_leases()


@shared_task(time_limit=60)
def sample_usage() -> None:
    housekeeping.sample_usage()


@shared_task(time_limit=300)
def prune() -> None:
    housekeeping.prune()
