"""A reader can follow a grant through `fitting`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.core.round.decide import decide
from tests.builders import make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.walks import Walk, walking

#: It was 51 before the core was folded a second time, and 63 when questions and the account had come apart.
MOST_RETURNS = 24


def test_one_grant_returns_to_few_files() -> None:
    """One gang that fits: its policy finds it a place, its placer another, and the view takes that."""
    walks: dict[str, Walk] = {}

    @contextmanager
    def walked(view: str) -> Iterator[None]:
        with walking("scheduler/core/fitting") as walks[view]:
            yield

    snapshot = make_snapshot(
        nodes=make_cluster(2),
        jobs=[make_job(1, 8)],
        virtual_clusters=[make_virtual_cluster("research", {"V100": 16})],
    )
    (start,) = decide(snapshot, timekeeper=walked).actions
    walk = walks[start.virtual_cluster]
    assert {"capacity", "searching", "packing", "holding"} <= {
        each.rpartition("/")[2].removesuffix(".py") for each in walk.stays
    }
    assert walk.returns <= MOST_RETURNS
