"""Rounds that are kept, and views whose policies take too long."""

from collections.abc import Collection

from scheduler.models.rounds import Round, ViewComputing
from scheduler.wiring.representation import Representation
from tenants.errors import NotFound
from tenants.times import iso


def round_get(number: int) -> Round:
    row = Round.objects.defer("snapshot").filter(number=number).first()
    if row is None:
        raise NotFound(f"There is no round {number}, or its record was pruned.")
    return row


def overruns(views: Collection[str]) -> dict[str, Representation]:
    """Return those views for which a cheap policy decides at present, their own taking too long, and why."""
    rows = ViewComputing.objects.filter(view__in=views, since__isnull=False)
    return {row.view: {"since": iso(row.since), "message": row.message} for row in rows}
