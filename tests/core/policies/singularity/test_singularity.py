"""Singularity on whole rounds: tiers, the order of victims, spare GPUs and moves, in numbers of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import FIXED_WORLD, Job, JobId, Node, Running, Snapshot, Task
from scheduler.core.policies.singularity.fractions import STRETCHES, Fractions
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.registry import make_policy
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.virtual_loop import VirtualLoop

TENANTS = ("first", "second", "third")


def world(
    jobs: Sequence[Job],
    running: Sequence[Running] = (),
    nodes: Sequence[Node] | None = None,
    parts: dict[int, float] | None = None,
    **fields: object,
) -> Snapshot:
    """One virtual cluster of 8 V100; `parts`: of the last hour that each job had what it demanded."""
    nodes = make_cluster(1) if nodes is None else nodes
    gpus = sum(len(node.gpus) for node in nodes)
    policy = {"premium": ["first"], "basic": ["third"]}
    clusters = [
        make_virtual_cluster(
            guaranteed={"V100": gpus}, tenants=TENANTS, policy="singularity", policy_parameters=policy
        )
    ]
    snapshot = make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=clusters, **fields)
    if parts is None:
        return snapshot
    known = {str(job): [1e9, [[3600.0, part]]] for job, part in parts.items()}
    memory = {"research": {"policy": "singularity", "at": NOW, "jobs": known}}
    return replace(snapshot, memory=memory)


def job(number: int, tenant: str, gpus: int = 1, **fields: object) -> Job:
    return make_job(number, 1, replicas=gpus, tenant=tenant, **fields)  # type: ignore[arg-type]


def holding(job: Job, *gpus: int, since: float = NOW - 3600) -> Running:
    return make_running(job, [[gpu] for gpu in gpus], since=since)


def told(plan: Plan) -> list[tuple[str, int, int]]:
    """What is done to each job, and the GPUs that it then has."""
    return sorted(
        (action.kind.value, action.jobs[0], len(action.placement.gpus) if action.placement else 0)
        for action in plan.actions
    )


ELASTIC = {"elastic": (1, 4)}


class TestVictims:
    """Eight GPUs: two of a standard job, four and two of basic ones; a premium job comes."""

    def claimed_by(self, gpus: int, **fields: object) -> list[tuple[str, int, int]]:
        standard = job(1, "second", 2, elastic=(1, 2))
        large = job(2, "third", 4, elastic=(1, 4))
        small = job(3, "third", 2)
        running = [holding(standard, 100, 101), holding(large, 102, 103, 104, 105), holding(small, 106, 107)]
        comes = job(4, "first", gpus, **fields)
        jobs = [standard, large, small, comes]
        return told(decide(world(jobs, running, parts={1: 0.9, 2: 0.8, 3: 0.9, 4: 0.0})))

    def test_basic_jobs_are_scaled_down_first(self) -> None:
        assert self.claimed_by(1) == [("resize", 2, 3), ("start", 4, 1)]
        assert self.claimed_by(3) == [("resize", 2, 1), ("start", 4, 3)]

    def test_then_they_are_preempted_who_had_most_first(self) -> None:
        # Job 3 had more of what it demanded, so that it goes; then job 2 need not be scaled down so far.
        assert self.claimed_by(4) == [("resize", 2, 2), ("start", 4, 4), ("stop", 3, 0)]
        assert self.claimed_by(6) == [("start", 4, 6), ("stop", 2, 0), ("stop", 3, 0)]

    def test_then_standard_ones_are_scaled_down_and_preempted(self) -> None:
        assert self.claimed_by(7) == [("resize", 1, 1), ("start", 4, 7), ("stop", 2, 0), ("stop", 3, 0)]
        assert [what for what, who, _ in self.claimed_by(8) if who == 1] == ["stop"]

    def test_premium_jobs_are_last_and_only_what_they_can_miss(self) -> None:
        premium, comes = job(1, "first", 8), job(2, "second", 1)
        running = [holding(premium, *range(100, 108))]
        assert told(decide(world([premium, comes], running, parts={1: 0.96, 2: 0.1}))) == []
        assert told(decide(world([premium, comes], running, parts={1: 1.0, 2: 0.1}))) == [
            ("start", 2, 1),
            ("stop", 1, 0),
        ]

    def test_equals_give_way_by_slack_but_not_who_has_just_started(self) -> None:
        jobs = [job(number, "second", 4) for number in (1, 2, 3)]
        parts = {1: 0.8, 2: 0.9, 3: 0.5}
        settled = [holding(jobs[0], 100, 101, 102, 103), holding(jobs[1], 104, 105, 106, 107)]
        assert told(decide(world(jobs, settled, parts=parts))) == [("start", 3, 4), ("stop", 2, 0)]
        young = [settled[0], holding(jobs[1], 104, 105, 106, 107, since=NOW - 100)]
        assert told(decide(world(jobs, young, parts=parts))) == [("start", 3, 4), ("stop", 1, 0)]

    def test_who_is_above_its_guarantee_takes_from_nobody(self) -> None:
        basic, standard = job(1, "third", 8), job(2, "second", 1)
        running = [holding(basic, *range(100, 108))]
        plan = decide(world([basic, standard], running, parts={1: 1.0, 2: 0.8}))
        assert told(plan) == []
        reasons = {reason.code: reason for reason in plan.reasons[standard.id]}
        assert reasons["tiers"].blocking == {"tier": "standard", "fraction": 0.8, "guaranteed": 0.7}
        assert "80% of the GPU time" in reasons["tiers"].message
        assert told(decide(world([basic, standard], running, parts={1: 1.0, 2: 0.72}))) == [
            ("start", 2, 1),
            ("stop", 1, 0),
        ]

    def test_a_fixed_world_is_scaled_down_to_what_divides_it(self) -> None:
        basic = job(1, "third", 6, elastic=(1, 6), elastic_mode=FIXED_WORLD)
        other, comes = job(2, "second", 2), job(3, "first", 1)
        running = [holding(basic, *range(100, 106)), holding(other, 106, 107)]
        plan = decide(world([basic, other, comes], running, parts={1: 1.0, 2: 1.0, 3: 0.0}))
        assert told(plan) == [("resize", 1, 3), ("start", 3, 1)]


class TestSpareGpus:
    def test_who_waits_has_them_first_by_tier(self) -> None:
        jobs = [job(1, "third", 4), job(2, "second", 4), job(3, "first", 4)]
        assert told(decide(world(jobs))) == [("start", 2, 4), ("start", 3, 4)]

    def test_then_jobs_grow_beyond_their_demand(self) -> None:
        grows, fills = job(1, "third", 2, elastic=(1, 6)), job(2, "first", 3)
        running = [holding(grows, 100, 101), holding(fills, 102, 103, 104)]
        assert told(decide(world([grows, fills], running))) == [("resize", 1, 5)]
        young = [holding(grows, 100, 101, since=NOW - 100), running[1]]
        assert told(decide(world([grows, fills], young))) == []

    def test_what_is_beyond_is_taken_back_for_anybody(self) -> None:
        grown, comes = job(1, "first", 2, elastic=(1, 8)), job(2, "third", 3)
        running = [holding(grown, *range(100, 108))]
        assert told(decide(world([grown, comes], running, parts={1: 0.96, 2: 0.9}))) == [
            ("resize", 1, 5),
            ("start", 2, 3),
        ]


class TestDefragmentation:
    """Two nodes of four, two GPUs of each idle."""

    def halves(self, comes: Job, since: float = NOW - 3600) -> Plan:
        small = [job(number, "third", 2) for number in (1, 2)]
        running = [holding(small[0], 100, 101, since=since), holding(small[1], 200, 201, since=since)]
        return decide(
            world([*small, comes], running, make_cluster(2, gpus=4), parts={1: 1.0, 2: 1.0, 3: 0.9})
        )

    def test_a_small_job_moves_for_a_gang_that_would_be_spread(self) -> None:
        plan = self.halves(job(3, "second", 4))
        assert told(plan) == [("move", 1, 2), ("start", 3, 4)]
        places = {action.jobs[0]: action.placement.gpus for action in plan.actions if action.placement}
        assert {gpu // 100 for gpu in places[JobId(3)]} == {1}
        assert {gpu // 100 for gpu in places[JobId(1)]} == {2}

    def test_not_one_that_was_moved_lately(self) -> None:
        assert told(self.halves(job(3, "second", 4), since=NOW - 200)) == [("start", 3, 4)]

    def test_nor_for_a_gang_that_is_near_anyway(self) -> None:
        assert told(self.halves(job(3, "second", 2))) == [("start", 3, 2)]


class TestFractions:
    def view(self, work: Job, now: float, running: Sequence[Running] = ()) -> View:
        engine = RoundEngine(world([work], running, now=now))
        return next(outcome.view for outcome in engine.outcomes() if outcome.view.jobs)

    def test_useful_is_what_it_had_up_to_its_own_size(self) -> None:
        work = job(1, "second", 2, elastic=(1, 4), submitted_at=NOW)
        one = Fractions(self.view(work, NOW, [holding(work, 100, since=NOW)]), {}, 3600.0)
        two = Fractions(self.view(work, NOW + 100, [holding(work, 100, since=NOW)]), one.remember(), 3600.0)
        assert two.of(work) == pytest.approx(0.5)
        stopped = replace(work, attained_service={"V100": 100.0})
        grown = [holding(work, 100, 101, 102, 103, since=NOW + 100)]
        three = Fractions(self.view(stopped, NOW + 200, grown), two.remember(), 3600.0)
        assert three.of(work) == pytest.approx(0.75)

    def test_what_is_older_than_the_window_is_forgotten(self) -> None:
        work = job(1, "second", submitted_at=NOW - 7200)
        waited = Fractions(self.view(work, NOW), {}, 3600.0)
        assert waited.of(work) == 0
        ran = [holding(work, 100, since=NOW)]
        half = Fractions(self.view(work, NOW + 1800, ran), waited.remember(), 3600.0)
        assert half.of(work) == pytest.approx(0.5)
        whole = Fractions(self.view(work, NOW + 3600, ran), half.remember(), 3600.0)
        assert whole.of(work) == pytest.approx(1.0)

    def test_memory_is_bounded_and_may_be_lost(self) -> None:
        work = job(1, "second", submitted_at=NOW)
        memory: dict[str, object] = {}
        for step in range(100):
            had = replace(work, attained_service={"V100": 10.0 * step * step / 100})
            fractions = Fractions(self.view(had, NOW + 10.0 * step), memory, 3600.0)
            memory = fractions.remember()
        (_, stretches) = memory["jobs"]["1"]  # type: ignore[index]
        assert len(stretches) <= STRETCHES
        assert fractions.of(work) == pytest.approx(740 / 990, abs=1e-5)
        lost = Fractions(self.view(had, NOW + 990.0), {}, 3600.0)
        assert lost.of(work) == pytest.approx(0.99, abs=0.01)


@pytest.mark.parametrize(("standard", "basic"), [(5, 0.0), (3, 0.9)])
def test_tiers_are_kept_under_overload(standard: int, basic: float) -> None:
    """Eight GPUs, four premium jobs of one, standard and three basic ones.

    Of five standard jobs four have room beside the premium ones: 3.8 and 3.5 GPUs are guaranteed, so they
    take turns. With three of them a basic job has what is left.
    """
    tenants = ["first"] * 4 + ["second"] * standard + ["third"] * 3
    jobs = [job(number, tenant, submitted_at=NOW) for number, tenant in enumerate(tenants)]
    loop = VirtualLoop(world(jobs, round_seconds=20.0), {each.id: 1e9 for each in jobs})
    received = [0.0] * len(jobs)
    # The last of three hours.
    for step in range(540):
        if step >= 360:
            for held in loop.snapshot.running:
                received[held.jobs[0]] += (held.phase == "held") * 20.0 / 3600.0
        loop.step()
    assert min(received[:4]) >= 0.95
    assert min(received[4:-3]) >= 0.7
    assert sum(received[-3:]) >= basic


def test_equals_share_what_does_not_suffice_for_their_guarantees() -> None:
    jobs = [job(number, "second", 4, submitted_at=NOW) for number in (1, 2, 3)]
    loop = VirtualLoop(world(jobs, round_seconds=20.0), dict.fromkeys((1, 2, 3), 1e9))
    received, stops = {1: 0, 2: 0, 3: 0}, 0
    for _ in range(540):
        for held in loop.snapshot.running:
            received[held.jobs[0]] += held.phase == "held"
        stops += sum(action.kind is ActionKind.STOP for action in loop.step().actions)
    assert min(received.values()) > 0.55 * 540
    # Whoever starts is left alone for five minutes.
    assert stops <= 540 * 20 / 300 * 2


def test_parameters_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UnknownPlugin, match="tenants are premium or basic, not both: first"):
        make_policy("singularity:premium=first|,basic=first|third")
    with pytest.raises(UnknownPlugin, match="standard_fraction"):
        make_policy("singularity:standard_fraction=0.99")


def test_two_that_could_both_be_larger_do_not_take_it_from_each_other() -> None:
    """Each has its own four GPUs of twelve and one of them four more: so it stays, as nothing is idle."""
    jobs = [job(number, "second", 4, elastic=(1, 12)) for number in (1, 2)]
    running = [
        holding(jobs[0], *range(100, 108), since=NOW - 9_000),
        holding(jobs[1], 200, 201, 202, 203, since=NOW - 9_000),
    ]
    nodes = [make_cluster(1)[0], make_cluster(1, gpus=4, first=2)[0]]
    assert told(decide(world(jobs, running, nodes, {1: 1.0, 2: 1.0}))) == []


def test_a_job_without_cpus_on_one_model_claims_another() -> None:
    nodes = [make_node(1, gpu_model="P100", cpus=8.0), make_node(2, gpu_model="V100", cpus=32.0)]
    large = make_job(1, tenant="second", tasks=(Task(replicas=1, gpus=8, cpus=20.0),))
    small = make_job(2, 1, tenant="second")
    guaranteed = {"P100": 8, "V100": 8}
    clusters = [make_virtual_cluster(guaranteed=guaranteed, tenants=TENANTS, policy="singularity")]
    plan = decide(make_snapshot(nodes=nodes, jobs=[large, small], virtual_clusters=clusters))
    models = {action.jobs[0]: action.placement.gpu_model for action in plan.actions if action.placement}
    assert models == {1: "V100", 2: "P100"}
