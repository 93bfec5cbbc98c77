"""Most policies are an order of preference: `fill` trims it to what fits, whole gangs only."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.settle import settle_all
from scheduler.core.model.plan import Grant


def fill(order: Sequence[Grant], view: View) -> tuple[Grant, ...]:
    """Return the grants that fit into the view's capacity, taking them in order.

    A grant may be followed by its own fallbacks (the same job with other sizes or models); the first one
    that fits is taken.
    """
    fitting = settle_all(order, view.jobs, view.capacity.fork())
    return tuple([order[position] for position in fitting])
