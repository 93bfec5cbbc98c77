"""Workloads that the simulator got wrong, or did not end, when people and a fuzzer used it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.snapshot import JobId, Memory, Task
from scheduler.core.round.registry import POLICIES, split_policy
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from tests.builders import make_cluster, make_node, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import NodeTurns, arrival, cluster, ends, simulate


def test_a_grown_gang_that_has_given_way_to_a_grant_is_not_taken_back_as_well() -> None:
    """Under `fair` a grant displaces a gang that had grown: that was a KeyError, and ended the round."""
    #: Virtual cluster, instant, replicas, GPUs of each, seconds, sizes.
    jobs: Sequence[tuple[str, float, int, int, float, tuple[int, int] | None]] = [
        ("one", 300.0, 4, 2, 7200.0, (2, 12)),
        ("one", 522.0, 4, 1, 1488.25, None),
        ("one", 554.0, 3, 1, 3738.66, None),
        ("two", 792.0, 8, 4, 3859.0, (20, 40)),
        ("two", 932.0, 8, 1, 2603.55, None),
        ("one", 1437.822, 3, 4, 2284.44, None),
        ("two", 1981.273, 1, 4, 4190.77, None),
        ("one", 2647.661, 4, 1, 3600.0, None),
        ("one", 2648.0, 1, 2, 90000.0, None),
    ]
    preemptive: dict[str, Any] = {"policy": "fair", "policy_parameters": {"preemptive": True}}
    facts = make_snapshot(
        now=0.0,
        round_seconds=0.0,
        nodes=[
            *[make_node(number) for number in range(1, 5)],
            *[make_node(number, gpu_model="P100") for number in range(5, 9)],
        ],
        virtual_clusters=[
            make_virtual_cluster("one", {"V100": 2, "P100": 18}, **preemptive),
            make_virtual_cluster("two", {"V100": 24, "P100": 14}, **preemptive),
        ],
    )
    arrivals = [
        arrival(
            number,
            at,
            seconds,
            tasks=(Task(replicas=replicas, gpus=gpus),),
            virtual_cluster=vc,
            elastic=sizes,
        )
        for number, (vc, at, replicas, gpus, seconds, sizes) in enumerate(jobs, start=1)
    ]
    engine = simulate(facts, arrivals)
    assert all(at > 0 for at in ends(engine).values())


def test_a_node_that_fails_takes_its_promises_with_it() -> None:
    """The promised job began on the failed node, where it could not be found any more."""
    script = [NodeTurns(at=110.0, healthy=False), NodeTurns(at=700.0, healthy=True)]
    arrivals = [arrival(1, 0.0, 5_000.0, gpus=4), arrival(2, 100.0, 500.0, gpus=4, priority=5)]
    rules = Rules(costs=Costs(checkpoint_seconds=30.0))
    engine = Engine(cluster(4, policy="priority"), arrivals, rules, script=script)
    assert engine.run() == ""
    assert [(stay.job, stay.started_at, stay.end) for stay in engine.stays] == [
        (1, 0.0, "preempted"),
        (2, 700.0, "finished"),
        (1, 1_200.0, "finished"),
    ]


def test_a_genetic_search_leaves_a_gang_whole_that_has_its_turn() -> None:
    """A job that came first was given one of the nodes of a gang that is pinned to them."""
    small = {"search": "genetic", "generations": 10, "population": 20}
    facts = cluster(16, nodes=make_cluster(2), policy="pollux", parameters=small)
    tasks = (Task(replicas=8, gpus=2),)
    engine = simulate(facts, [arrival(1, 0.0, 7_200.0), arrival(2, 10.0, 3_600.0, tasks=tasks)])
    assert all(at > 0 for at in ends(engine).values())


@pytest.mark.parametrize("limit", [1e12, 1e308])
def test_a_limit_beyond_all_dates_is_no_reason_to_fail(limit: float) -> None:
    """As a person's own facts may have it; trace readers and job specifications refuse it."""
    jobs = [arrival(number, 0.0, 60.0, gpus=8, time_limit_seconds=limit) for number in (1, 2, 3)]
    assert ends(simulate(cluster(8), jobs)) == {1: 60.0, 2: 120.0, 3: 180.0}


def test_a_time_limit_is_kept_at_its_instant_however_far_apart_rounds_are() -> None:
    jobs = [arrival(1, 0.0, 90.0, time_limit_seconds=61.0), arrival(2, 0.0, 50.0, time_limit_seconds=61.0)]
    engine = simulate(cluster(8, round_seconds=60.0), jobs)
    assert ends(engine) == {1: 61.0, 2: 50.0}
    assert [engine.progress[JobId(job)].outcome for job in (1, 2)] == ["failed", "succeeded"]
    assert {stay.job: stay.end for stay in engine.stays} == {1: "time_limit", 2: "finished"}


def test_a_time_limit_is_kept_of_a_job_that_others_slow_down() -> None:
    """Alone it would end within its limit; then another gang meets it on both nodes."""
    facts = cluster(6, nodes=make_cluster(2, gpus=3), round_seconds=60.0)
    jobs = [
        arrival(1, 0.0, 100.0, tasks=(Task(replicas=2, gpus=2),), time_limit_seconds=110.0),
        arrival(2, 30.0, 1_000.0, tasks=(Task(replicas=2, gpus=1),)),
    ]
    engine = simulate(facts, jobs, interference=0.5)
    assert ends(engine)[1] == 110.0


def test_a_time_limit_may_be_left_to_rounds_as_in_the_live_loop() -> None:
    jobs = [arrival(1, 0.0, 90.0, time_limit_seconds=61.0), arrival(2, 0.0, 200.0, time_limit_seconds=61.0)]
    assert ends(simulate(cluster(8, round_seconds=60.0), jobs, limits_by_rounds=True)) == {1: 90.0, 2: 120.0}


#: Whatever may be said of time, each has its turn.
EVERY_POLICY = [*POLICIES, "fair:preemptive=true"]


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_a_run_ends_where_a_job_can_never_run_again(text: str) -> None:
    """Policies asked for another round for ever, though only an event could change anything."""
    policy, parameters = split_policy(text)
    facts = cluster(8, policy=policy, parameters=parameters)
    engine = Engine(facts, [arrival(1, 0.0, 90_000.0)], script=[NodeTurns(at=10.0, healthy=False)])
    assert "1 job waits for ever" in engine.run(lambda engine: engine.rounds > 100)


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_a_run_goes_on_where_what_failed_comes_back(text: str) -> None:
    policy, parameters = split_policy(text)
    script = [NodeTurns(at=10.0, healthy=False), NodeTurns(at=900_000.0, healthy=True)]
    facts = cluster(8, policy=policy, parameters=parameters)
    engine = Engine(facts, [arrival(1, 0.0, 5_000.0)], script=script)
    assert engine.run(lambda engine: engine.rounds > 1_000) == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hesitant:
    """Starts one job so long after it came, and wants to be asked every hour until then."""

    seconds: float

    def allocate(self, view: View, memory: Memory) -> Decision:
        (job,) = view.jobs.values()
        if job.id in view.running or view.now < job.submitted_at + self.seconds:
            return Decision(grants=(), keep_running=True, wake_at=view.now + 3_600.0)
        return Decision(grants=(Grant(jobs=(job.id,), gpus=job.gpus),))


@pytest.mark.parametrize(("days", "starts"), [(6.0, True), (400.0, False)])
def test_a_policy_that_never_starts_what_fits_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch, days: float, starts: bool
) -> None:
    monkeypatch.setitem(POLICIES, "hesitant", Hesitant)
    facts = cluster(8, policy="hesitant", parameters={"seconds": days * 86_400.0})
    engine = Engine(facts, [arrival(1, 0.0, 60.0)])
    said = engine.run(lambda engine: engine.rounds > 1_000)
    assert said == ("" if starts else "nothing more can happen, and 1 job waits for ever")


@pytest.mark.parametrize("placer", ["spread", "consolidate", "fgd"])
def test_a_guarantee_claims_the_gpus_of_one_gang_and_leaves_the_others_alone(placer: str) -> None:
    """Ten gangs have a GPU of each of ten nodes: to clear one node stopped one and moved nine."""
    facts = cluster(100, nodes=make_cluster(10, gpus=10), placer=placer, spare_placer="spread")
    tasks = (Task(replicas=10, gpus=1),)
    guests = [arrival(number, 0.0, 1_000.0, tasks=tasks, guaranteed=False) for number in range(1, 11)]
    engine = simulate(facts, [*guests, arrival(11, 10.0, 100.0, tasks=tasks)])
    assert [stay.end for stay in engine.stays if stay.end != "finished"] == ["preempted"]
    assert ends(engine)[11] == 110.0


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_without_moves_a_claimed_job_gives_way_and_starts_anew(text: str) -> None:
    policy, parameters = split_policy(text)
    facts = cluster(
        4,
        nodes=make_cluster(2, gpus=2),
        policy=policy,
        parameters=parameters,
        placer="spread",
        spare_policy=policy,
        spare_policy_parameters=parameters,
        spare_placer="spread",
    )
    guests = [arrival(number, 0.0, 1_000.0, guaranteed=False) for number in (1, 2)]
    engine = simulate(facts, [*guests, arrival(3, 10.0, 100.0, gpus=2)], moves=False)
    assert "moved" not in {stay.end for stay in engine.stays}
    assert all(at > 0 for at in ends(engine).values())
