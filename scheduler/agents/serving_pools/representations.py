"""Serving pools as whole objects of the API."""

from collections.abc import Iterable

from django.db.models import Count, Q

from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.models.nodes import LoanState, ServingPool
from scheduler.wiring.clock import database_now
from scheduler.wiring.representation import Representation

_STATES = [state for state in LoanState if state.value]


def serving_pools(ids: Iterable[int]) -> list[Representation]:
    """Return the pools, with how many of their nodes are where and how many they need now."""
    ids = list(ids)
    counts = {state.value: Count("nodes", filter=Q(nodes__loan_state=state)) for state in _STATES}
    by_id = ServingPool.objects.annotate(**counts).in_bulk(ids)
    now = database_now().timestamp()
    return [_pool(by_id[each], now) for each in ids if each in by_id]


def _pool(pool: ServingPool, now: float) -> Representation:
    needed = pool.nodes_needed
    return {
        "name": pool.name,
        "return_seconds": pool.return_seconds,
        "nodes_needed": needed,
        "needed_now": None if needed is None else curve_of(needed).needed_at(now),
        **{state.value: getattr(pool, state.value) for state in _STATES},
    }
