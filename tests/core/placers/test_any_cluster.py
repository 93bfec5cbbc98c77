"""Every placer on clusters with everything that can be the matter with one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import PLACERS
from tests.core import worlds
from tests.effort import examples


@pytest.mark.parametrize("placer", sorted(set(PLACERS) - {"consolidate"}))
def test_every_plan_is_legal(placer: str) -> None:
    @settings(max_examples=examples(40), derandomize=True)
    @given(worlds.snapshots())
    def check(snapshot: Snapshot) -> None:
        virtual_clusters = tuple(replace(vc, placer=placer) for vc in snapshot.virtual_clusters)
        # decide() raises PlanError for a plan that is not.
        plan = decide(replace(snapshot, virtual_clusters=virtual_clusters, spare_placer=placer))
        assert not plan.degraded

    check()
