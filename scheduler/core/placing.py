"""What placers have in common: who stays, who is dropped, and how a taste for nodes becomes a placement."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.capacity import Capacity, Chooser
from scheduler.core.plan import Grant
from scheduler.core.policy import Placed, View
from scheduler.core.settle import settle_all


def place_all(
    grants: Sequence[Grant], view: View, capacity: Capacity, chooser: Chooser | None = None
) -> Placed:
    """Settle the grants in their order: where their jobs are if they can stay there, else as `chooser` likes.

    The chooser has a say only where nobody is disturbed. When it finds nothing, and wherever others must
    make room, places are found as for every placer, so no taste makes a gang wait that could run.
    """
    granted = {grant.jobs for grant in grants}
    for running, holding in list(capacity.pending.items()):
        if running not in granted:
            capacity.drop(holding)
    capacity.chooser = chooser
    return Placed(placements=settle_all(grants, view.jobs, capacity))
