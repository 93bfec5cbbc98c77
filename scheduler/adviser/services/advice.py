"""Questions about the assignment of cells: checked, kept, and in the end applied.

`scheduler.adviser.services.advising` works them out.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from scheduler.adviser.models import Advice, WorkState
from scheduler.cells.selectors.in_force import InForce, cells_in_force
from scheduler.cells.services.dividing import cells_apply, field_errors, summary_of
from scheduler.cells.services.proposal import cells_proposal
from scheduler.clock import database_now
from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.sim.advice import AdviceError, Demands, minimum_of
from scheduler.wakeups import request_advice
from tenants.errors import Conflict, Invalid, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

DAYS = 7.0
#: A question that nobody has answered after so long never will be.
PATIENCE = timedelta(minutes=10)
#: Questions kept; older ones make room.
KEPT = 50


def demands_of(question: Mapping[str, Any]) -> Demands:
    """Return the operator's demands as the core takes them."""
    return Demands(
        budget_gpus=question["budget_gpus"],
        minimum=question["minimum"],
        keep=tuple(question["keep"]),
        price_per_gpu_hour=question["price_per_gpu_hour"],
    )


def base_of(now: InForce) -> Layout:
    """Return what the advice begins with: the cells in force, or else today's hardware as cells."""
    return now.layout if now.layout.chains else compiled(cells_proposal())


def advice_ask(*, viewer: Viewer, question: Mapping[str, Any]) -> Advice:
    """Keep a question and have it worked out soon. Raises Invalid for names that do not exist."""
    now = cells_in_force()
    names = list(VirtualCluster.objects.order_by("name").values_list("name", flat=True))
    try:
        minimum_of(demands_of(question), base_of(now), names)
    except AdviceError as error:
        raise Invalid(summary_of(error.problems), field_errors(error.problems)) from None
    with transaction.atomic():
        row = Advice.objects.create(
            asked_by=viewer.user,
            asked_at=database_now(),
            question=dict(question),
            based_on_version=now.version,
        )
        kept = Advice.objects.order_by("-number").values_list("number", flat=True)[:KEPT]
        Advice.objects.exclude(number__in=list(kept)).delete()
        transaction.on_commit(lambda: request_advice(str(row.id)))
    return row


def advice_get(advice_id: UUID) -> Advice:
    """Return a question; raises NotFound."""
    row = Advice.objects.select_related("asked_by").filter(id=advice_id).first()
    if row is None:
        raise NotFound("There is no such advice; it may have made room for newer ones.")
    return row


def is_given_up(row: Advice) -> bool:
    """Whether the worker that had it must have died."""
    unanswered = row.state in (WorkState.WAITING, WorkState.RUNNING)
    return unanswered and row.asked_at < database_now() - PATIENCE


@transaction.atomic
def advice_apply(*, viewer: Viewer, advice_id: UUID) -> InForce:
    """Put the advised cells in force. Raises Conflict when there are none yet, or the cells changed since."""
    row = advice_get(advice_id)
    if row.state != WorkState.DONE:
        raise Conflict(f"This advice is {row.state}; there is nothing to apply.")
    done = cells_apply(document=row.specification, version=row.based_on_version, actor=viewer.actor)
    Advice.objects.filter(number=row.number).update(applied_at=database_now())
    return done
