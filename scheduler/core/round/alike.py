"""The number of equal jobs that a round needs to see; further ones could not start in it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.building_blocks.growing import TRIED as TRIED_IN_GROWTH
from scheduler.core.fitting.quotas import Amounts, Quota
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.round.long_waits import TRIED as TRIED_AS_DUE

#: Jobs seen beyond those that fit, so that steps that try only the first jobs of a queue have enough.
SPARE = max(TRIED_IN_GROWTH, TRIED_AS_DUE) + 1

BEHIND_OWN = (
    Reason(
        code="behind_own",
        tier=Tier.ORDER,
        message="More jobs like it of its user are ahead than the cluster could start at once.",
        hint="It is considered when enough of them have started. Cancel those that are no longer needed.",
    ),
)


def most_that_count(amounts: Amounts, gpus: int, quotas: Sequence[Quota]) -> int:
    """Return how many gangs of these amounts, the earliest of equal ones, can matter to one round.

    It is the number that the empty cluster holds, or that a quota of the tenant or user admits where that is
    more: each admitted job takes from every line of the quota that still has room for it.
    """
    lines = [line for quota in quotas for line in quota.lines.items()]
    rooms = [limit / amounts.of(line) for line, limit in lines if amounts.of(line)]
    return int(max([gpus / amounts.gpus, *rooms])) + SPARE
