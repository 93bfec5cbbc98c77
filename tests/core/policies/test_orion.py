"""Orion: who is whose guest, and that no job of high priority suffers from one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.codec import dumps_snapshot, loads_snapshot
from scheduler.core.model.gpu_parts import SHARE_NEVER
from scheduler.core.model.interference import PairSpeeds
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, JobId, NodeId, Running, Snapshot, Task, Tenant
from scheduler.core.model.training import Profile
from scheduler.core.policies.orion import Bound, Orion
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate

COMPUTE = Profile(utilisation=0.9, memory_utilisation=0.2)
MEMORY = Profile(utilisation=0.7, memory_utilisation=0.8)
NEITHER = Profile(utilisation=0.3, memory_utilisation=0.1)


def host(number: int = 1, profile: Profile | None = COMPUTE, **fields: Any) -> Job:
    return make_job(number, profile=profile, **{"priority": 5, **fields})


def guest(number: int = 2, profile: Profile | None = MEMORY, **fields: Any) -> Job:
    return make_job(number, profile=profile, **fields)


def world(*jobs: Job, gpus: int = 1, running: tuple[Running, ...] = (), **parameters: Any) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": gpus}, policy="orion", policy_parameters=parameters)
    return make_snapshot(nodes=[make_node(1, gpus=gpus)], jobs=jobs, running=running, virtual_clusters=[vc])


def started(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.START)


def joined(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.JOIN)


def stopped(plan: Plan) -> list[tuple[int, ...]]:
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.STOP)


def beside(first: Job, second: Job, speeds: tuple[float, float]) -> Running:
    both = make_running(first, [100])
    return replace(
        both, jobs=(first.id, second.id), speeds=dict(zip((first.id, second.id), speeds, strict=True))
    )


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (COMPUTE, MEMORY, True),
        (MEMORY, COMPUTE, True),
        (COMPUTE, COMPUTE, False),
        (MEMORY, MEMORY, False),
        (COMPUTE, NEITHER, True),
        (NEITHER, NEITHER, True),
        (COMPUTE, None, False),
        (None, MEMORY, False),
    ],
)
def test_the_rule_of_the_paper_is_that_both_are_bound_by_different_things(
    one: Profile | None, other: Profile | None, share: bool
) -> None:
    assert started(decide(world(host(profile=one), guest(profile=other)))) == ([(1, 2)] if share else [(1,)])


def test_beside_guests_of_its_own_kind_alone_a_host_is_as_fast_as_alone() -> None:
    """They wait, so that nothing changes for it: what the paper's rule comes to."""
    stages = (0.1, 1.0, 0.0)
    jobs = [
        arrival(1, 0.0, 600.0, priority=1, profile=replace(COMPUTE, stages=stages)),
        *[arrival(number, 0.0, 600.0, profile=replace(COMPUTE, stages=stages)) for number in (2, 3)],
    ]
    assert ends(simulate(cluster(1, policy="orion"), jobs)) == {1: 600.0, 2: 1_200.0, 3: 1_800.0}


def test_one_host_a_gpu_and_opposite_guests_before_unknown_ones() -> None:
    jobs = [host(1), host(2), guest(3, NEITHER), guest(4, COMPUTE), guest(5), guest(6)]
    assert started(decide(world(*jobs, gpus=2))) == [(1, 5), (2, 6)]
    assert started(decide(world(*jobs, gpus=1))) == [(1, 5)]
    assert started(decide(world(*jobs, gpus=1, guests=2))) == [(1, 5, 6)]
    assert started(decide(world(*jobs, gpus=1, guests=0))) == [(1,)]


def test_jobs_of_best_effort_have_idle_gpus_alone_and_make_room_for_a_host() -> None:
    assert started(decide(world(guest(2), guest(3, COMPUTE)))) == [(2,)]
    plan = decide(world(host(), guest(2), running=(make_running(2, [100]),)))
    assert stopped(plan) == [(2,)]
    # Of best effort nobody takes GPUs from his equals, nor from a host.
    assert not decide(world(guest(2), guest(3), running=(make_running(2, [100]),))).actions
    assert not decide(world(host(), guest(2, COMPUTE), running=(make_running(1, [100]),))).actions


def test_a_guest_joins_a_host_that_runs_and_nobody_else() -> None:
    alone = make_running(1, [100])
    plan = decide(world(host(), guest(2, COMPUTE), guest(3), guest(4), running=(alone,)))
    (join,) = plan.actions
    assert (join.kind, join.jobs, join.allocation) == (ActionKind.JOIN, (3,), alone.allocation)
    assert join.placement is not None
    assert join.placement.replicas == alone.replicas
    assert sorted(plan.reasons) == [2, 4]
    # As many as there may be, of whom one is there already.
    both = replace(alone, jobs=(JobId(1), JobId(3)))
    more = world(host(), guest(3), guest(4), guest(5), running=(both,), guests=2)
    assert joined(decide(more)) == [(4,)]
    # Nobody who leaves, is about to, or has still to come is company.
    for other in ({"stopping": True}, {"leaving": (JobId(3),)}, {"phase": "planned"}, {"slice_seconds": 9.0}):
        held = replace(alone, **other)
        assert joined(decide(world(host(), guest(3), guest(4), running=(held,)))) == []


def test_who_joins_needs_processors_of_its_own_and_may_be_on_the_node() -> None:
    def asked(cpus: float, **fields: Any) -> list[tuple[int, ...]]:
        def tasks(job: Job) -> tuple[Task, ...]:
            return (replace(job.tasks[0], cpus=cpus),)

        jobs = [replace(job, tasks=tasks(job), **fields) for job in (host(), guest())]
        node = replace(make_node(1, gpus=1), cpus=8.0, memory_bytes=2**30)
        return joined(decide(replace(world(*jobs, running=(make_running(1, [100]),)), nodes=(node,))))

    assert asked(4.0) == [(2,)]
    assert asked(5.0) == []
    assert asked(4.0, avoid=(NodeId(1),)) == []
    assert asked(4.0, tags=("a",)) == []


def test_a_tenants_quota_holds_for_guests() -> None:
    facts = replace(
        world(host(), guest(), running=(make_running(1, [100]),)),
        tenants=(Tenant(name="vision", quota={"*": 1}), Tenant(name="speech")),
    )
    assert joined(decide(facts)) == []
    other = guest(3, tenant="speech")
    assert joined(decide(replace(facts, jobs=(*facts.jobs, other)))) == [(3,)]


def test_who_has_just_come_is_not_sent_away() -> None:
    jobs = host(application="resnet"), guest(application="bert")
    facts = world(*jobs, running=(replace(beside(*jobs, (0.5, 0.5)), joined={JobId(2): NOW - 10.0}),))
    young = replace(facts.virtual_clusters[0], min_run_seconds=60.0)
    assert stopped(decide(facts)) == [(2,)]
    assert stopped(decide(replace(facts, virtual_clusters=(young,)))) == []
    assert stopped(decide(replace(facts, preemptions_per_round=0))) == []


@pytest.mark.parametrize(("speed", "parts"), [(0.95, False), (0.9, False), (0.85, True)])
def test_a_host_that_is_measured_to_suffer_is_parted_from_its_guest_for_good(
    speed: float, parts: bool
) -> None:
    jobs = host(application="resnet"), guest(application="bert")
    plan = decide(world(*jobs, running=(beside(*jobs, (speed, 0.2)),)))
    assert stopped(plan) == ([(2,)] if parts else [])
    assert plan.memory.get("research", {}) == (
        {"policy": "orion", "harmful": [["resnet", "bert"]]} if parts else {}
    )
    # The host runs on; and others of the two applications are not tried, but with one another.
    again = replace(world(*jobs), memory=plan.memory)
    assert started(decide(loads_snapshot(dumps_snapshot(again)))) == ([(1,)] if parts else [(1, 2)])
    other = guest(3, application="gpt")
    assert started(decide(replace(world(*jobs, other), memory=plan.memory))) == (
        [(1, 3)] if parts else [(1, 2)]
    )


def test_guests_that_are_left_alone_suffer_from_nobody() -> None:
    jobs = guest(2), guest(3)
    assert not decide(world(*jobs, running=(beside(*jobs, (0.2, 0.2)),))).actions


def test_what_was_measured_of_the_host_overrules_profiles() -> None:
    jobs = host(profile=COMPUTE, application="a"), guest(profile=COMPUTE, application="b")
    pair = PairSpeeds(applications=("b", "a"), gpus=1, gpu_model="V100", speeds=(0.3, 0.95))
    assert started(decide(replace(world(*jobs), pair_speeds=(pair,)))) == [(1, 2)]
    opposite = jobs[0], replace(jobs[1], profile=MEMORY)
    slow = replace(pair, speeds=(0.99, 0.8))
    assert started(decide(replace(world(*opposite), pair_speeds=(slow,)))) == [(1,)]


@pytest.mark.parametrize(
    "odd",
    [
        guest(replicas=2),
        guest(elastic=(1, 1)),
        guest(gpu_models=("V100",)),
        host(2, MEMORY),
        guest(tasks=[replace(make_job(9).tasks[0], cpus=900.0)]),
    ],
    ids=["another size", "elastic", "another shape", "of high priority", "too many CPUs"],
)
def test_who_is_no_guest(odd: Job) -> None:
    node = replace(make_node(1, gpus=1), cpus=8.0, memory_bytes=2**30)
    assert started(decide(replace(world(host(), odd), nodes=(node,)))) == [(1,)]


def test_a_virtual_cluster_may_never_share() -> None:
    snapshot = world(host(), guest())
    never = replace(snapshot.virtual_clusters[0], sharing=SHARE_NEVER)
    assert started(decide(replace(snapshot, virtual_clusters=(never,)))) == [(1,)]


def test_what_a_job_is_bound_by() -> None:
    orion = Orion()
    profiles = (COMPUTE, MEMORY, NEITHER, Profile(), None)
    assert [orion.bound(each) for each in profiles] == [
        Bound.COMPUTE, Bound.MEMORY, Bound.UNKNOWN, None, None
    ]  # fmt: skip
    for wrong in ({"guests": -1}, {"most_slowdown": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Orion(**wrong)  # type: ignore[arg-type]


def test_in_the_simulator_a_suffering_host_goes_on_alone_and_everyone_ends() -> None:
    # By their stages each is at three quarters of its speed beside the other.
    jobs = [
        arrival(
            1, 0.0, 1_000.0, priority=1, application="a", profile=replace(COMPUTE, stages=(0.5, 0.1, 0.0))
        ),
        arrival(2, 0.0, 1_000.0, application="b", profile=replace(MEMORY, stages=(0.1, 0.5, 0.0))),
    ]
    engine = simulate(cluster(1, policy="orion", round_seconds=10.0), jobs)
    records = [engine.progress[JobId(number)].record() for number in (1, 2)]
    assert [record.preemptions for record in records] == [0, 1]
    # It is looked at after a minute, of which it lost a quarter.
    assert ends(engine)[1] == pytest.approx(1_000.0 + 60.0 * 0.237, abs=1.0)
    together = ends(simulate(cluster(1, policy="orion", parameters={"most_slowdown": 0.3}), jobs))
    assert max(together.values()) == pytest.approx(1_000.0 / 0.763, rel=1e-3)
