"""Jobs that join others on their GPUs and leave them: who is there runs on, and nothing gets lost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_plan, loads_snapshot
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.round.decide import decide
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival
from tests.builders import make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.test_conservation import Checked, assert_every_job_ended
from tests.core.sim.worlds import arrival, cluster, rules, simulate
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import hardware_of, in_cells, owning
from tests.effort import examples

#: By stages of 0.1 + 0.5 s beside 0.5 + 0.1 s each is at about three quarters of its speed.
COMPUTE = Profile(utilisation=0.9, memory_utilisation=0.2, stages=(0.5, 0.1, 0.0))
MEMORY = Profile(utilisation=0.2, memory_utilisation=0.8, stages=(0.1, 0.5, 0.0))
LIGHT = Profile(utilisation=0.1, memory_utilisation=0.05, stages=(0.3, 0.3, 0.0))
SHARING: dict[str, dict[str, Any]] = {
    "lucid": {},
    "orion": {"guests": 2},
    "iadeep": {},
    "muri": {"interval_seconds": 60.0},
}


def one_after_the_other(costs: Costs | None = None, **of_guest: Any) -> Engine:
    """A host of 1,000 seconds, and a guest of 100 that comes after 200."""
    jobs = [
        arrival(1, 0.0, 1_000.0, priority=1, profile=COMPUTE),
        arrival(2, 200.0, 100.0, profile=MEMORY, **of_guest),
    ]
    facts = cluster(1, policy="orion", parameters={"most_slowdown": 0.5})
    return simulate(facts, jobs, costs=costs or Costs())


def test_a_guest_joins_a_host_that_runs_on_at_another_speed_and_alone_afterwards() -> None:
    engine = one_after_the_other()
    host, guest = sorted(engine.stays, key=lambda stay: stay.job)
    assert (host.started_at, guest.started_at) == (0.0, 200.0)
    assert (host.end, guest.end, guest.shared_with) == ("finished", "finished", (1,))
    beside = guest.ended_at - 200.0
    assert beside == pytest.approx(100.0 / 0.763, rel=1e-2)
    assert host.ended_at == pytest.approx(1_000.0 + beside * (1 - 100.0 / beside))
    record = engine.progress[JobId(1)].record()
    assert (record.attempts, record.overhead_gpu_seconds) == (1, 0.0)
    # Each has what it had since it came.
    assert record.gpu_seconds == host.ended_at
    assert engine.progress[JobId(2)].record().gpu_seconds == pytest.approx(beside)


def test_the_time_of_a_guest_counts_from_when_it_came_and_its_host_runs_on() -> None:
    engine = one_after_the_other(Costs(checkpoint_seconds=10.0), time_limit_seconds=100.0)
    host, guest = sorted(engine.stays, key=lambda stay: stay.job)
    assert (guest.end, guest.ended_at) == ("time_limit", 300.0)
    assert engine.progress[JobId(1)].record().attempts == 1
    assert host.ended_at == pytest.approx(1_000.0 + 100.0 * (1 - 0.763), rel=1e-2)


def test_who_has_to_leave_writes_its_checkpoint_while_the_host_runs_on() -> None:
    jobs = [
        arrival(1, 0.0, 1_000.0, priority=1, application="a", profile=COMPUTE),
        arrival(2, 200.0, 100.0, application="b", profile=MEMORY),
    ]
    facts = cluster(1, policy="orion", round_seconds=10.0)
    engine = simulate(facts, jobs, costs=Costs(checkpoint_seconds=15.0))
    host, *of_guest = sorted(engine.stays, key=lambda stay: (stay.job, stay.started_at))
    assert (host.end, engine.progress[JobId(1)].record().attempts) == ("finished", 1)
    # It was looked at after a minute, and starts again when the host has ended.
    assert [(stay.started_at, stay.end) for stay in of_guest] == [
        (200.0, "preempted"), (pytest.approx(host.ended_at, abs=10.0), "finished")
    ]  # fmt: skip
    assert of_guest[0].ended_at == 260.0 + 15.0
    assert host.ended_at == pytest.approx(1_000.0 + 60.0 * (1 - 0.763), abs=0.1)


@st.composite
def crowds(draw: st.DrawFn) -> list[Arrival]:
    """Jobs that ask for the same, most of which share, in bursts."""
    return [
        arrival(
            number,
            float(draw(st.sampled_from((0, 0, 30, 90)))),
            float(draw(st.sampled_from((10, 60, 61.5, 240)))),
            draw(st.sampled_from((1, 1, 2))),
            profile=draw(st.sampled_from((COMPUTE, MEMORY, LIGHT, LIGHT, None))),
            priority=draw(st.sampled_from((0, 0, 1))),
            guaranteed=draw(st.sampled_from((True, True, False))),
            application=draw(st.sampled_from(("a", "b"))),
            time_limit_seconds=draw(st.sampled_from((None, None, 120.0))),
        )
        for number in range(1, draw(st.integers(3, 10)) + 1)
    ]


def crowded(policy: str, *, cells: bool) -> Snapshot:
    vc = make_virtual_cluster(
        guaranteed={"V100": 4}, policy=policy, policy_parameters=SHARING[policy], min_run_seconds=20.0
    )
    facts = make_snapshot(
        now=0.0,
        round_seconds=10.0,
        nodes=make_cluster(2, gpus=2),
        virtual_clusters=[vc],
        spare_policy=policy,
        spare_policy_parameters=SHARING[policy],
    )
    owned = {"research": {"V100-2-NODE": 1}}
    return in_cells(facts, owning(hardware_of(facts.nodes), owned)) if cells else facts


@pytest.mark.parametrize("policy", SHARING)
@settings(max_examples=examples(40), derandomize=True, deadline=None)
@given(arrivals=crowds(), world=rules, cells=st.booleans())
def test_every_job_ends_each_second_counts_once_and_each_round_is_what_decide_says(
    policy: str, arrivals: list[Arrival], world: Rules, cells: bool
) -> None:
    engine = Checked(crowded(policy, cells=cells), arrivals, world)
    assert engine.run(until=lambda engine: engine.now > 100_000) == ""
    assert not engine.degraded
    assert_every_job_ended(engine)
    held: dict[int, float] = defaultdict(float)
    for stay in engine.stays:
        held[stay.job] += (stay.ended_at - stay.started_at) * len(stay.gpus)
    for progress in engine.progress.values():
        record = progress.record()
        assert record.gpu_seconds == pytest.approx(held[record.id])


@pytest.mark.parametrize("policy", SHARING)
def test_all_end_though_actions_get_lost(policy: str) -> None:
    """Joins and partings among them: what was not done is decided again."""
    profiles = (COMPUTE, MEMORY, LIGHT)
    jobs = [
        make_job(number, profile=profiles[number % 3], priority=number % 2, application="abc"[number % 3])
        for number in range(1, 25)
    ]
    facts = replace(crowded(policy, cells=False), jobs=tuple(jobs), now=1_700_000_000.0)
    kinds = set()
    loop = VirtualLoop(facts, {job.id: 20.0 + 7.0 * job.id for job in jobs}, drop=0.3)
    for _ in range(400):
        if not loop.snapshot.jobs:
            break
        plan = loop.step()
        kinds |= {action.kind for action in plan.actions}
        assert not plan.degraded
        assert loads_plan(dumps_plan(plan)) == plan
        assert loads_snapshot(dumps_snapshot(loop.snapshot)) == loop.snapshot
    assert not loop.snapshot.jobs
    assert ActionKind.JOIN in kinds


def partings(plan: Plan) -> list[tuple[tuple[int, ...], str]]:
    return [(action.jobs, action.cause) for action in plan.actions if action.kind is ActionKind.STOP]


def pair(*jobs: Job, **fields: Any) -> Snapshot:
    """These share a GPU under a policy of which nothing is asked."""
    both = replace(make_running(jobs[0], [100]), jobs=tuple(job.id for job in jobs), **fields)
    vc = make_virtual_cluster(guaranteed={"V100": 1})
    return make_snapshot(nodes=make_cluster(1, gpus=1), jobs=jobs, running=[both], virtual_clusters=[vc])


def test_of_two_only_the_one_stops_whose_time_is_up_or_that_is_cancelled() -> None:
    """Under every policy, whether it lets jobs join or not."""
    assert not decide(pair(make_job(1), make_job(2))).actions
    plan = decide(pair(make_job(1, time_limit_seconds=60.0), make_job(2)))
    assert partings(plan) == [((1,), "time_limit")]
    assert partings(decide(pair(make_job(1), make_job(2, cancelling=True)))) == [((2,), "cancelled")]
    # Both end: it is their allocation that does.
    plan = decide(pair(make_job(1, time_limit_seconds=60.0), make_job(2, cancelling=True)))
    assert [jobs for jobs, _ in partings(plan)] == [(1, 2)]
    late = {JobId(2): 1_700_000_000.0 - 30.0}
    limited = [make_job(number, time_limit_seconds=60.0) for number in (1, 2)]
    assert partings(decide(pair(*limited, joined=late))) == [((1,), "time_limit")]
    # Who is leaving is waited for, and nobody else is given its GPU meanwhile.
    leaving = replace(pair(make_job(1), make_job(2)).running[0], jobs=(JobId(1),), leaving=(JobId(2),))
    waits = decide(replace(pair(make_job(1), make_job(2), make_job(3)), running=(leaving,)))
    assert not waits.actions
    assert waits.reasons[JobId(2)][0].code == "stopping"
    assert waits.reasons[JobId(3)]
