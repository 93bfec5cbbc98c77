"""Rounds on a cluster that is divided by cells. decide() checks its own plan, so its PlanError counts too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks import growing
from scheduler.core.cells.health import settle
from scheduler.core.model.cell_specification import VirtualCells
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot, Task
from scheduler.core.round import beyond_guarantees
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.registry import PLACERS, POLICIES
from tests.builders import NOW, make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.core.cells.oracle import OPPORTUNISTIC, CellState, Group, Pod, Wait
from tests.core.cells.oracle.invariants import check_cells
from tests.core.test_properties import decides_as_anew, keeps_its_base, under
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import divided, hardware_of, in_cells, owning, sound
from tests.effort import examples

repeatable = settings(max_examples=examples(80), derandomize=True)


@repeatable
@given(divided(), st.sampled_from(sorted(POLICIES)), st.sampled_from(sorted(PLACERS)))
def test_a_plan_keeps_what_is_owed_under_every_policy_and_placer(
    snapshot: Snapshot, policy: str, placer: str
) -> None:
    snapshot = under(policy, snapshot)
    clusters = tuple(replace(vc, placer=placer) for vc in snapshot.virtual_clusters)
    assert not decide(replace(snapshot, virtual_clusters=clusters, spare_placer=placer)).degraded


@repeatable
@given(divided(), st.sampled_from(sorted(POLICIES)), st.sampled_from((0.0, 0.4)))
def test_a_round_engine_that_is_told_what_happened_decides_as_anew(
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


@repeatable
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


@settings(repeatable, max_examples=examples(40))
@given(sound(elastic=True), st.sampled_from(("fifo", "srtf", "pollux", "aryl")))
def test_growth_beyond_cells_takes_nothing_that_anybody_is_owed(snapshot: Snapshot, policy: str) -> None:
    """Whatever a virtual cluster could start alone it starts, and what a gang has in cells it keeps."""
    loop = VirtualLoop(under(policy, snapshot), {job.id: 60.0 for job in snapshot.jobs})
    with pytest.MonkeyPatch.context() as patch:
        for module in (beyond_guarantees, growing):
            patch.setattr(module, "SETTLED_SECONDS", 0.0)
        for _ in range(15):
            before = loop.snapshot
            plan = loop.step()
            assert not plan.degraded
            keeps_its_base(before, plan)
            for vc in ("products", "research"):
                assert started(plan, vc) == started(decide(alone(before, vc)), vc)


@repeatable
@given(divided(), st.sampled_from(sorted(POLICIES)))
def test_the_cells_of_rounds_are_as_sound_as_those_of_the_face(snapshot: Snapshot, policy: str) -> None:
    """What is checked after every step of the random stories of `CellState`, after a round's bindings."""
    engine = RoundEngine(under(policy, snapshot))
    engine.outcomes()
    if engine.binding is not None:
        for hardware in engine.binding.world.hardware.values():
            settle(engine.binding.world, hardware)
        check_cells(engine.binding.world)


def as_group(job: Job, *, guaranteed: bool) -> Group:
    return Group(
        name=str(job.id),
        virtual_cluster=job.virtual_cluster,
        priority=job.priority if guaranteed else OPPORTUNISTIC,
        members=tuple((task.replicas, task.gpus) for task in job.tasks),
    )


@repeatable
@given(sound(), st.integers(0, 2))
def test_whoever_a_round_starts_the_face_would_place_too(snapshot: Snapshot, broken: int) -> None:
    """Both begin with what runs; what a round places has a place for the face, and is guaranteed there."""
    failing = tuple(replace(node, schedulable=n >= broken) for n, node in enumerate(snapshot.nodes))
    snapshot = replace(snapshot, nodes=failing)
    loop = VirtualLoop(
        under("fifo", snapshot), {job.id: 10.0 + 13 * (job.id % 4) for job in snapshot.jobs}, drop=0.0
    )
    where = {gpu.id: (node.name, gpu.index) for node in snapshot.nodes for gpu in node.gpus}
    assert snapshot.cells is not None
    owners = {vc.name: VirtualCells() for vc in snapshot.virtual_clusters} | snapshot.cells.virtual_clusters
    cells = replace(snapshot.cells, virtual_clusters=owners)

    def pods(replicas: Sequence[Sequence[int]]) -> list[Pod]:
        places = [[where[gpu] for gpu in replica] for replica in replicas]  # type: ignore[index]
        return [Pod(place[0][0], tuple(index for _, index in place)) for place in places]

    for _ in range(12):
        before = loop.snapshot
        jobs = {job.id: job for job in before.jobs}
        plan = loop.step()
        state = CellState(cells)
        for node in failing[:broken]:
            state.set_node_health(node.name, False)
        moved = {action.allocation for action in plan.actions}
        kept = [each for each in before.running if not each.stopping and each.allocation not in moved]
        for each in sorted(kept, key=lambda each: not each.guaranteed):
            group = as_group(jobs[each.jobs[0]], guaranteed=each.guaranteed)
            assert state.adopt(group, pods(each.replicas)).guaranteed is each.guaranteed
            state.check()
        for action in plan.actions:
            if action.placement is not None and action.guaranteed:
                group = as_group(jobs[action.jobs[0]], guaranteed=True)
                assert not isinstance(state.schedule(group, dry_run=True), Wait)
                assert state.adopt(group, pods(action.placement.replicas)).guaranteed
                state.check()


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


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_gang_of_which_some_replicas_have_no_gpus_goes_where_gpus_are_counted(policy: str) -> None:
    v100, p100 = make_cluster(1, gpus=4), make_cluster(1, gpus=4, gpu_model="P100", first=2)
    cells = owning(hardware_of(v100), {"research": {"V100-4-NODE": 1}})
    vc = make_virtual_cluster(guaranteed={"V100": 4, "P100": 4}, policy=policy)
    tasks = (Task(replicas=1, gpus=1), Task(replicas=1, gpus=0, cpus=1.0))
    # Whatever likes fast GPUs likes those in cells.
    job = replace(make_job(1), tasks=tasks, throughput={"V100": 9.0, "P100": 1.0})
    snapshot = make_snapshot(nodes=(*v100, *p100), jobs=[job], virtual_clusters=[vc])
    plan = decide(in_cells(snapshot, cells))
    assert not plan.degraded
    assert {action.placement.gpu_model for action in plan.actions if action.placement} == {"P100"}
