"""Rounds on a cluster that is divided by cells. decide() checks its own plan, so its PlanError counts too."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.plan import ActionKind, Plan
from scheduler.core.registry import PLACERS, POLICIES
from scheduler.core.round import decide
from scheduler.core.snapshot import Snapshot
from tests.builders import NOW, make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.core.test_properties import decides_as_anew, under
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import divided, hardware_of, in_cells, owning, sound

thorough = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@thorough
@given(divided(), st.sampled_from(sorted(POLICIES)), st.sampled_from(sorted(PLACERS)))
def test_a_plan_keeps_what_is_owed_under_every_policy_and_placer(
    snapshot: Snapshot, policy: str, placer: str
) -> None:
    snapshot = under(policy, snapshot)
    clusters = tuple(replace(vc, placer=placer) for vc in snapshot.virtual_clusters)
    assert not decide(replace(snapshot, virtual_clusters=clusters, spare_placer=placer)).degraded


@thorough
@given(divided(), st.sampled_from(sorted(POLICIES)), st.sampled_from((0.0, 0.4)))
def test_a_session_that_is_told_what_happened_decides_as_anew(
    snapshot: Snapshot, policy: str, drop: float
) -> None:
    decides_as_anew(under(policy, snapshot), drop)


def started(plan: Plan, vc: str) -> set[int]:
    """The guaranteed jobs of a virtual cluster that a plan starts."""
    return {
        job
        for action in plan.actions
        if action.kind is ActionKind.START and action.guaranteed and action.virtual_cluster == vc
        for job in action.jobs
    }


def alone(snapshot: Snapshot, vc: str) -> Snapshot:
    """The same instant if nobody else had ever been there."""
    jobs = {job.id: job for job in snapshot.jobs if job.virtual_cluster == vc and job.guaranteed}
    memory = snapshot.memory.get("cells", {})
    return replace(
        snapshot,
        jobs=tuple(jobs.values()),
        running=tuple(one for one in snapshot.running if one.jobs[0] in jobs),
        memory={
            vc: snapshot.memory.get(vc, {}),
            "cells": {name: {vc: each[vc]} for name, each in memory.items() if vc in each},
        },
    )


@thorough
@given(sound(), st.sampled_from(sorted(POLICIES)))
def test_whatever_a_virtual_cluster_could_start_alone_it_starts_here(snapshot: Snapshot, policy: str) -> None:
    """Sharing safety (HiveD, section 3.2), round by round, beside others and opportunistic jobs."""
    loop = VirtualLoop(
        under(policy, snapshot), {job.id: 10.0 + 13 * (job.id % 4) for job in snapshot.jobs}, drop=0.0
    )
    for _ in range(15):
        before = loop.snapshot
        plan = loop.step()
        for vc in ("products", "research"):
            assert started(plan, vc) == started(decide(alone(before, vc)), vc)


def first_starts(snapshot: Snapshot, seconds: dict[int, float]) -> dict[int, float]:
    """Run the jobs of a snapshot; return when each started, in seconds from the beginning."""
    loop = VirtualLoop(snapshot, seconds)
    loop.run(rounds=200)
    return {job: at - snapshot.now for job, at in loop.started.items()}


def test_counts_promise_no_shapes_and_cells_do() -> None:
    """Two tenants come with one-GPU jobs in turns; then one wants a whole node, as it would have alone."""
    nodes = make_cluster(2)
    small = [
        make_job(
            number,
            virtual_cluster=("research", "products")[(number - 1) // 4 % 2],
            eligible_at=NOW + (number - 1) // 4 * 5,
        )
        for number in range(1, 17)
    ]
    large = make_job(17, 8, virtual_cluster="products", eligible_at=NOW + 60)
    seconds = {job.id: 500.0 if job.virtual_cluster == "research" else 40.0 for job in small} | {17: 100.0}
    counts = make_snapshot(
        nodes=nodes,
        jobs=[*small, large],
        virtual_clusters=[
            make_virtual_cluster("products", {"V100": 8}),
            make_virtual_cluster("research", {"V100": 8}),
        ],
    )
    cells = in_cells(
        counts, owning(hardware_of(nodes), {"products": {"V100-8-NODE": 1}, "research": {"V100-8-NODE": 1}})
    )
    assert first_starts(counts, seconds)[17] >= 500
    assert first_starts(cells, seconds)[17] <= 60 + counts.round_seconds
