"""Lucid's profiler: who runs there, for how long, and what becomes of whom afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, JobId, Running, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.policies.lucid.policy import Lucid
from scheduler.core.round.decide import decide
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.workload import Arrival
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate

LIGHT = Profile(utilisation=0.1, memory_utilisation=0.05)
NOW = 10_000.0


def world(
    *jobs: Job,
    gpus: int = 8,
    running: tuple[Running, ...] = (),
    profiling: tuple[int, ...] = (),
    memory: dict[str, Any] | None = None,
    **parameters: object,
) -> Snapshot:
    """One node; two of its GPUs are the profiler's unless `parameters` say otherwise."""
    vc = make_virtual_cluster(
        guaranteed={"V100": gpus}, policy="lucid", policy_parameters={"profiler_gpus": 2, **parameters}
    )
    known = {"policy": "lucid", "profiling": list(profiling), "at": NOW, **(memory or {})}
    return make_snapshot(
        now=NOW,
        nodes=[make_node(1, gpus=gpus)],
        jobs=jobs,
        running=running,
        virtual_clusters=[vc],
        memory={vc.name: known},
    )


def job(number: int, gpus: int = 1, **fields: Any) -> Job:
    return make_job(number, gpus, **{"estimate_seconds": 1_000.0 + number, "submitted_at": NOW, **fields})


def old(number: int, gpus: int = 1, **fields: Any) -> Job:
    """One that has been profiled."""
    return job(number, gpus, attempts=1, **fields)


def on(job: Job, first: int, since: float = NOW - 1_000.0) -> Running:
    return replace(make_running(job, range(100 + first, 100 + first + job.gpus)), since=since)


def started(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.START)


def stopped(plan: Plan) -> list[tuple[int, ...]]:
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.STOP)


def in_profiler(snapshot: Snapshot, plan: Plan) -> list[int]:
    return list(plan.memory[snapshot.virtual_clusters[0].name]["profiling"])


def codes(plan: Plan, number: int) -> list[str]:
    return [reason.code for reason in plan.reasons[JobId(number)]]


def test_fewest_gpus_go_first_and_nobody_passes_the_first_that_does_not_fit() -> None:
    snapshot = world(job(1, 2), job(2), job(3, 2), job(4, priority=-1))
    plan = decide(snapshot)
    # Job 1 waits for two GPUs and lets nobody pass; the other six GPUs are not for the new.
    assert started(plan) == [(2,)]
    assert in_profiler(snapshot, plan) == [2]
    assert codes(plan, 1) == codes(plan, 4) == ["waits_for_profiler"]
    assert plan.reasons[JobId(1)][0].message == (
        "It is to be profiled first, for 200 s at most; jobs with fewer GPUs, or that came earlier,"
        " have the 2 V100 for that."
    )
    assert plan.wake_at == NOW + 200


@pytest.mark.parametrize(
    "other",
    [
        job(1, 3),
        old(1),
        job(1, elastic=(1, 1)),
        replace(job(1), profile=LIGHT),
    ],
    ids=["larger than the profiler", "profiled before", "elastic", "its like were measured"],
)
def test_others_skip_the_profiler(other: Job) -> None:
    snapshot = world(other, profiles_all=False)
    plan = decide(snapshot)
    assert started(plan) == [(1,)]
    assert in_profiler(snapshot, plan) == []


def test_by_default_those_are_profiled_too_whose_like_were_measured() -> None:
    snapshot = world(replace(job(1), profile=LIGHT))
    assert in_profiler(snapshot, decide(snapshot)) == [1]


def test_the_others_leave_the_profilers_gpus_alone() -> None:
    jobs = [old(1, 5), old(2), old(3)]
    plan = decide(world(*jobs, job(4)))
    assert started(plan) == [(1,), (2,), (4,)] or started(plan) == [(2,), (3,), (4,)]
    plan = decide(world(jobs[0], old(5, 2), running=(on(jobs[0], 0),)))
    assert started(plan) == []
    assert codes(plan, 5) == ["kept_for_profiling", "less_service_first"]
    assert started(decide(world(jobs[0], old(5, 1), running=(on(jobs[0], 0),)))) == [(5,)]


def test_the_profiler_shrinks_for_the_largest_gang() -> None:
    assert started(decide(world(old(1, 8)))) == [(1,)]
    # One of seven leaves one GPU for the profiler: two GPUs are too many for it.
    snapshot = world(old(1, 7), job(2, 2), job(3))
    plan = decide(snapshot)
    assert started(plan) == [(1,), (3,)] or started(plan) == [(2,), (3,)]
    assert in_profiler(snapshot, plan) == [3]


def test_the_profiler_shrinks_for_an_elastic_gang_that_is_larger_than_the_view() -> None:
    """It needs its fewest GPUs, and takes what the profiler leaves."""
    gang = make_job(1, 1, replicas=4, elastic=(1, 4), submitted_at=NOW)
    assert started(decide(world(gang, gpus=1))) == [(1,)]
    snapshot = world(gang, job(2), job(3), gpus=3, profiler_gpus=4)
    plan = decide(snapshot)
    assert started(plan) == [(1,), (2,), (3,)]
    assert in_profiler(snapshot, plan) == [2, 3]


def test_a_model_whose_nodes_are_too_small_is_no_place_for_a_gang() -> None:
    """Eight V100 would do by their number; a replica of eight fits on the A100 node alone."""
    vc = make_virtual_cluster(
        guaranteed={"A100": 8, "V100": 8}, policy="lucid", policy_parameters={"profiler_gpus": 2}
    )
    nodes = [make_node(1, gpus=8, gpu_model="A100"), make_node(2, gpus=4), make_node(3, gpus=4)]
    assert started(decide(make_snapshot(nodes=nodes, jobs=[old(1, 8)], virtual_clusters=[vc]))) == [(1,)]


def test_whose_time_is_up_goes_on_where_it_is_if_its_turn_has_come() -> None:
    young, over = job(1, attempts=1), job(2, attempts=1)
    running = (on(young, 0, NOW - 199), on(over, 1, NOW - 200))
    snapshot = world(young, over, running=running, profiling=(1, 2))
    plan = decide(snapshot)
    assert (started(plan), stopped(plan)) == ([], [])
    assert in_profiler(snapshot, plan) == [1]
    assert plan.wake_at == NOW + 1


def test_whose_time_is_up_makes_room_for_the_next_if_the_others_are_full() -> None:
    over, full = job(1, attempts=1), old(2, 6)
    running = (on(over, 0, NOW - 200), on(full, 2))
    snapshot = world(over, full, job(3, 2), running=running, profiling=(1,))
    plan = decide(snapshot)
    assert (started(plan), stopped(plan)) == ([(3,)], [(1,)])
    assert codes(plan, 1) == ["vc_guarantee_in_use", "preempted", "profiled", "less_service_first"]
    # A stop that got lost is said again.
    assert in_profiler(snapshot, plan) == [1, 3]


def test_whose_time_is_up_waits_behind_who_needs_less() -> None:
    over, small = job(1, attempts=1, estimate_seconds=9_000.0), old(2, estimate_seconds=5.0)
    full = old(3, 5)
    snapshot = world(over, small, full, running=(on(over, 0, NOW - 300), on(full, 2)), profiling=(1,))
    plan = decide(snapshot)
    assert (started(plan), stopped(plan)) == ([(2,)], [(1,)])
    # Nobody took its GPU: it is told why it stopped, once.
    assert codes(plan, 1) == ["profiled", "less_service_first"]
    (stop,) = [action for action in plan.actions if action.kind is ActionKind.STOP]
    assert stop.message == "It was profiled for 200 s, and waits with the others now."


def test_who_may_not_be_stopped_yet_stays_in_the_profiler() -> None:
    over, full = job(1, attempts=1), old(2, 6)
    running = (on(over, 0, NOW - 300), on(full, 2))
    snapshot = world(over, full, job(3, 2), running=running, profiling=(1,))
    vc = replace(snapshot.virtual_clusters[0], min_run_seconds=600.0)
    snapshot = replace(snapshot, virtual_clusters=(vc,))
    plan = decide(snapshot)
    assert (started(plan), stopped(plan)) == ([], [])
    assert in_profiler(snapshot, plan) == [1]
    assert codes(plan, 3)[-1] == "waits_for_profiler"


def test_when_what_is_remembered_is_lost_everyone_runs_on() -> None:
    over, full = job(1, attempts=1), old(2, 6)
    snapshot = world(over, full, job(3), running=(on(over, 0, NOW - 300), on(full, 2)))
    plan = decide(snapshot)
    assert (started(plan), stopped(plan)) == ([(3,)], [])


def test_nobody_shares_gpus_with_one_that_is_profiled() -> None:
    """Though all are light: what is measured beside others says nothing."""
    jobs = [replace(job(number), profile=LIGHT) for number in range(1, 6)]
    assert started(decide(world(*jobs, gpus=4))) == [(1,), (2,)]
    ready = [replace(each, attempts=1) for each in jobs]
    assert started(decide(world(*ready, gpus=4))) == [(1, 3), (2, 4)]


def test_it_borrows_gpus_while_more_than_ten_wait() -> None:
    def sizes(waiting: int, **memory: Any) -> int:
        return len(
            started(decide(world(*map(job, range(1, waiting + 1)), gpus=16, lent_gpus=4, memory=memory)))
        )

    assert sizes(12) == 2
    assert sizes(13) == 6
    # It keeps them while five wait, and while more than ten GPUs are expected in ten minutes.
    assert sizes(5, lent=True) == 5
    assert sizes(4, lent=True) == 2
    assert sizes(4, lent=True, came=[[NOW // 600, 61]]) == 4
    assert sizes(4, lent=True, came=[[NOW // 600 - 6, 61]]) == 2


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"profiler_gpus": -1}, "profiler_gpus is -1; it must be at least 0 GPUs"),
        ({"lent_gpus": -2}, "lent_gpus is -2; it must be at least 0 GPUs"),
        ({"profiling_seconds": 80.0}, "profiling_seconds is 80; it must be at least 180:"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Lucid(**parameters)


def withheld(number: int, at: float, seconds: float, profile: Profile, **fields: Any) -> Arrival:
    """One whose profile nobody knows before it has run."""
    come = arrival(number, at, seconds, **fields)
    return replace(come, truth=replace(come.truth, profile=profile))


def test_in_the_simulator_jobs_share_when_they_were_profiled() -> None:
    """The worked example, on two GPUs of which one is the profiler's.

    Jobs 1 to 3 come at once. Job 1 is profiled until 200 and goes on where it is; job 2 until 400, when the
    GPU of the others is taken, and waits; job 3, done after 60 s, ends in the profiler at 460. Then job 2
    joins job 1. Nobody measured the two, so each is half as fast: job 1 does its other 540 s until 1,540, and
    job 2 then has 260 s left.
    """
    parameters = {"profiler_gpus": 1, "lent_gpus": 0}
    jobs = [
        withheld(1, 0.0, 1_000.0, LIGHT),
        withheld(2, 0.0, 1_000.0, LIGHT),
        withheld(3, 0.0, 60.0, LIGHT),
    ]
    facts = cluster(2, policy="lucid", parameters=parameters)
    assert ends(simulate(facts, jobs)) == {1: 1_540.0, 2: 1_800.0, 3: 460.0}


def test_in_the_simulator_a_profile_is_known_after_the_first_minute_that_counts() -> None:
    heavy = replace(LIGHT, utilisation=0.9)
    jobs = [
        withheld(1, 10.0, 1_000.0, LIGHT, application="bert", user="ada"),
        withheld(2, 20.0, 1_000.0, heavy, application="bert", user="bob"),
        withheld(3, 20.0, 1_000.0, heavy, application="gpt"),
    ]
    facts = cluster(2, policy="lucid", parameters={"profiler_gpus": 1})
    known: dict[float, list[Profile | None]] = {}

    def note(engine: Engine, outcomes: object, plan: Plan) -> None:
        present = engine.round_engine.facts.jobs
        known[engine.now] = [present[JobId(n)].profile if n in present else None for n in (1, 2, 3)]

    Engine(facts, jobs, on_round=note).run()
    # Job 1 runs from 10 on: its first minute that counts is from 120 to 180.
    assert known[20.0] == [None, None, None]
    assert known[180.0] == [LIGHT, LIGHT, None]
