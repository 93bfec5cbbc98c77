"""How long a plan stands without an event: until then, time alone does not change it.

Most rounds of a calm cluster find nothing new. Such a round need not be decided if the last one changed
nothing, and if every part of it states until when it does not depend on the clock. Policies that do not set
`Decision.stands_until` do not state that; neither do gangs that grow after a while, the market, and placers
of jobs without GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from scheduler.core.model.plan import Plan
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.long_waits import LongWaits
from scheduler.core.round.run_view import ViewOutcome


def stands_until(
    facts: Facts,
    admission: Admission,
    outcomes: Sequence[ViewOutcome],
    beside: Sequence[ViewOutcome],
    long_waits: LongWaits,
    plan: Plan,
) -> float:
    """Return the instant until which a plan stands; minus infinity if it is unknown.

    `beside` has the outcomes for jobs without GPUs, whose placers may read anything.
    """
    if plan.actions or plan.degraded or plan.ledger or beside or facts.frame.lending is not None:
        return -inf
    if any([outcome.decision.grants or outcome.decision.stops for outcome in outcomes]):
        return -inf
    if any([job.elastic is not None for job in facts.jobs.values()]):
        return -inf
    said = [outcome.decision.stands_until for outcome in outcomes]
    ends = [-inf if instant is None else instant for instant in said]
    return min(
        [*ends, admission.next_alarm, long_waits.stands_until, inf if plan.wake_at is None else plan.wake_at]
    )
