"""A gang that waited for longer than an operator's bound has a turn, whatever the policy prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_snapshot
from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.long_waits import LONG_WAITS
from scheduler.core.round.registry import POLICIES
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.counting import calls_in
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds import snapshots
from tests.effort import examples

MINUTE = 60.0
BOUND, LONGEST = 10 * MINUTE, 5 * MINUTE
#: A round to see it, one until who ends has left.
ROUNDS = 3 * MINUTE
GANG = JobId(1)


class Stream(VirtualLoop):
    """A gang as large as the cluster, and each minute a small job of five: more than four GPUs can serve."""

    def __init__(self, policy: str, bound: float, *, guaranteed: bool = True, **of_gang: Any) -> None:
        vc = make_virtual_cluster(
            guaranteed={"V100": 4 * guaranteed}, policy=policy, longest_wait_seconds=bound
        )
        self.guaranteed = guaranteed
        gang = make_job(1, 2, replicas=2, submitted_at=NOW, guaranteed=guaranteed, **of_gang)
        first = [self.small(number, at=NOW - 1.0) for number in range(2, 6)]
        super().__init__(
            make_snapshot(
                nodes=make_cluster(2, gpus=2),
                jobs=[gang, *first],
                running=[
                    make_running(job, [[gpu]], since=NOW - 1.0, guaranteed=guaranteed)
                    for job, gpu in zip(first, (100, 101, 200, 201), strict=True)
                ],
                virtual_clusters=[vc],
                round_seconds=MINUTE,
                spare_policy=policy,
            ),
            {1: 1e9, **{job.id: place * MINUTE + MINUTE for place, job in enumerate(first)}},
        )
        self.next = 6

    def small(self, number: int, at: float) -> Job:
        return make_job(
            number, 1, submitted_at=at, estimate_seconds=LONGEST, priority=0, guaranteed=self.guaranteed
        )

    def arrive(self) -> None:
        for _ in range(2):
            job = self.small(self.next, at=self.snapshot.now)
            self.snapshot = replace(self.snapshot, jobs=(*self.snapshot.jobs, job))
            self.remaining[job.id] = LONGEST
            self.next += 1

    def until_the_gang_starts(self, seconds: float) -> float | None:
        """Return for how long the gang waited; None where it did so to the end."""
        while self.snapshot.now < NOW + seconds:
            self.arrive()
            self.step()
            assert not self.last_plan.degraded
            if GANG in self.started:
                return self.started[GANG] - NOW
        return None


@pytest.mark.parametrize("policy", POLICIES)
def test_under_a_stream_of_small_jobs_a_gang_as_large_as_the_cluster_starts(policy: str) -> None:
    waited = Stream(policy, BOUND).until_the_gang_starts(2 * (BOUND + LONGEST))
    assert waited is not None
    assert waited <= BOUND + LONGEST + ROUNDS


STARVE = ["drf", "fair", "las", "srtf", "sjf", "qssf", "lucid", "allox", "optimus", "slaq"]


@pytest.mark.parametrize("policy", STARVE)
def test_without_a_bound_it_waits_for_as_long_as_the_stream_lasts(policy: str) -> None:
    assert Stream(policy, 0.0).until_the_gang_starts(2 * (BOUND + LONGEST)) is None


@pytest.mark.parametrize("policy", ["las", "srtf", "muri", "singularity"])
def test_a_policy_that_preempts_leaves_it_what_it_has_for_as_long_as_the_bound(policy: str) -> None:
    stream, rounds = Stream(policy, BOUND), list[bool]()
    stream.until_the_gang_starts(2 * (BOUND + LONGEST))
    for _ in range(20):
        stream.arrive()
        stream.step()
        held = [each for each in stream.snapshot.running if each.phase == "held" and not each.stopping]
        rounds.append(any([GANG in each.jobs for each in held]))
    # It takes a round more to have been stopped; then those have their turn that wait for long by now.
    assert BOUND / MINUTE - 2 <= rounds.index(False) <= BOUND / MINUTE


def test_opportunistic_jobs_take_turns_on_what_is_spare() -> None:
    waited = Stream("srtf", BOUND, guaranteed=False).until_the_gang_starts(2 * (BOUND + LONGEST))
    assert waited is not None
    assert waited <= BOUND + LONGEST + ROUNDS


WHOLE = make_job(1, 2, replicas=2, submitted_at=NOW - 7_200)
SMALL = make_job(9, 1, submitted_at=NOW - 60)


def waits(
    *jobs: Job, running: Mapping[int, Mapping[str, Any]], bound: float = 3_600.0, **fields: Any
) -> Snapshot:
    """Return the facts in which WHOLE has waited for two hours, and others have GPUs 100 and so on."""
    held = [make_job(200 + gpu, 1, **of_job) for gpu, of_job in running.items()]
    vc = make_virtual_cluster(guaranteed={"V100": 4}, policy="sjf", longest_wait_seconds=bound)
    return make_snapshot(
        **{
            "nodes": make_cluster(2, gpus=2),
            "jobs": [WHOLE, *jobs, *held],
            "running": [make_running(job, [[job.id - 200]], since=NOW - 600 + job.id) for job in held],
            "virtual_clusters": [vc],
            **fields,
        }
    )


def started(plan: Plan) -> list[int]:
    return sorted([job for action in plan.actions if action.placement for job in action.jobs])


def said(plan: Plan, job: int, code: str) -> Reason:
    return next(reason for reason in plan.reasons[JobId(job)] if reason.code == code)


def test_it_and_those_held_back_for_it_are_told_when_its_turn_comes() -> None:
    plan = decide(waits(SMALL, running={100: {"time_limit_seconds": 1_200.0}}))
    assert started(plan) == []
    first = said(plan, 1, "longest_wait")
    assert first.message == (
        "It has waited for 120 min, longer than the 60 min after which GPUs are reserved in virtual cluster"
        " research: 4 V100 are reserved for it, and it starts when job 300 has ended, by 22:28:20 UTC on"
        " 14 November at the latest."
    )
    ends = NOW - 600 + 300 + 1_200.0
    assert first.blocking == {"jobs": [300], "starts_by": ends}
    behind = said(plan, 9, "behind_longest_wait")
    assert behind.message == (
        "4 V100 are reserved for job 1, which has waited for 120 min; it starts when job 300 has ended, by"
        " 22:28:20 UTC on 14 November at the latest."
    )
    assert behind.blocking == {"jobs": [1], "starts_by": ends}
    assert plan.queues["research"][0] == 1


def test_where_a_job_has_no_time_limit_no_instant_is_named() -> None:
    plan = decide(waits(SMALL, running={100: {}}))
    assert said(plan, 1, "longest_wait").message.endswith("it starts when job 300 has ended.")
    assert "starts_by" not in said(plan, 9, "behind_longest_wait").blocking


def test_nobody_is_held_back_who_is_not_in_its_way() -> None:
    on_one_node = replace(WHOLE, tasks=make_job(1, 2).tasks)
    facts = waits(SMALL, running={100: {}, 200: {}})
    plan = decide(replace(facts, jobs=(on_one_node, *facts.jobs[1:])))
    # It gets the node where the older of the two jobs is.
    assert started(plan) == [9]
    assert plan.actions[0].placement is not None
    assert plan.actions[0].placement.gpus == (201,)
    assert said(plan, 1, "longest_wait").blocking["jobs"] == [300]


def test_a_gang_that_would_not_fit_if_all_of_its_view_ended_holds_nobody_back() -> None:
    others = make_job(50, 1, virtual_cluster="products", tenant="speech")
    facts = waits(SMALL, running={})
    vc = make_virtual_cluster("products", {"V100": 1}, tenants=("speech",))
    facts = replace(
        facts,
        jobs=(*facts.jobs, others),
        running=(make_running(others, [[100]]),),
        virtual_clusters=(vc, *facts.virtual_clusters),
    )
    plan = decide(facts)
    assert started(plan) == [9]


def test_who_waits_with_a_higher_priority_is_not_held_back() -> None:
    urgent = replace(SMALL, priority=5)
    assert started(decide(waits(urgent, running={100: {}}))) == [9]
    assert started(decide(waits(SMALL, running={100: {}}))) == []


def test_an_opportunistic_job_may_use_what_is_reserved_and_gives_way() -> None:
    spare = make_job(9, 1, guaranteed=False)
    facts = waits(spare, running={100: {}})
    assert started(decide(facts)) == [9]
    facts = replace(facts, jobs=(WHOLE, spare), running=(make_running(spare, [[100]], guaranteed=False),))
    assert started(decide(facts)) == [1]


def test_a_wait_begins_when_the_job_could_have_been_started() -> None:
    late = replace(WHOLE, waits_since=NOW - 60)
    facts = waits(SMALL, running={100: {}})
    assert started(decide(replace(facts, jobs=(late, *facts.jobs[1:])))) == [9]


def test_a_round_that_was_stored_before_there_was_a_bound_is_decided_as_it_was() -> None:
    facts = waits(SMALL, running={100: {}}, bound=0.0)
    stored = dumps_snapshot(facts).replace(b'"longest_wait_seconds":0.0,', b"")
    again = loads_snapshot(stored)
    assert started(decide(again)) == [9]
    assert dumps_plan(decide(again)) == dumps_plan(decide(facts))


def test_while_nobody_waited_too_long_all_is_decided_as_without_a_bound() -> None:
    with_bound = decide(waits(SMALL, running={100: {}}, bound=8_000.0))
    without = decide(waits(SMALL, running={100: {}}, bound=0.0))
    assert with_bound.wake_at == WHOLE.submitted_at + 8_000.0
    assert dumps_plan(replace(with_bound, wake_at=without.wake_at)) == dumps_plan(without)
    assert LONG_WAITS not in with_bound.memory


def test_what_is_reserved_counts_the_gpus_that_come_back_wherever_they_are() -> None:
    """Two of three guaranteed GPUs are in use: a gang of two waits for one, for a place elsewhere."""
    held = [make_job(number, 1) for number in (2, 3)]
    facts = make_snapshot(
        nodes=make_cluster(1, gpus=4),
        jobs=[make_job(1, 2, submitted_at=NOW - 2 * BOUND), *held],
        running=[make_running(job, [[gpu]]) for job, gpu in zip(held, (100, 102), strict=True)],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 3}, longest_wait_seconds=BOUND)],
    )
    plan = decide(facts)
    assert not plan.degraded
    assert "longest_wait" in {reason.code for reason in plan.reasons[JobId(1)]}
    assert not plan.actions


def test_what_is_reserved_counts_no_gpu_twice_of_which_others_of_the_view_have_parts() -> None:
    """Of two guaranteed GPUs one is open: a gang of two halves starts on the rest of it, and on another."""
    guest, gang = make_part(2, 0.2), make_part(1, 0.5, replicas=2, submitted_at=NOW - 2 * BOUND)
    facts = make_snapshot(
        nodes=make_cluster(1, gpus=4),
        jobs=[gang, guest],
        running=[make_running(guest, [[100]])],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 2}, longest_wait_seconds=BOUND)],
    )
    plan = decide(facts)
    assert not plan.degraded
    assert [action.jobs for action in plan.actions] == [(1,)]


@settings(max_examples=examples(200), derandomize=True)
@given(snapshots(), st.sampled_from(sorted(POLICIES)), st.booleans())
def test_whatever_there_is_the_plan_is_legal(facts: Snapshot, policy: str, is_in_turn: bool) -> None:
    """Cells, parts, tags, quotas, gangs that stop: `decide` proves the plan."""
    clusters = [replace(vc, policy=policy, longest_wait_seconds=100.0) for vc in facts.virtual_clusters]
    served = {"served": [job.id for job in facts.jobs[:2]]} if is_in_turn else {}
    facts = replace(facts, virtual_clusters=tuple(clusters), spare_policy=policy, memory={LONG_WAITS: served})
    assert not decide(facts).degraded


def test_jobs_that_run_cost_nothing_while_nobody_waited_too_long() -> None:
    def calls(bound: float) -> int:
        held = [make_job(number, 1) for number in range(2, 130)]
        running = [
            make_running(job, [[100 * (place // 8 + 1) + place % 8]]) for place, job in enumerate(held)
        ]
        vc = make_virtual_cluster(guaranteed={"V100": 132}, policy="sjf", longest_wait_seconds=bound)
        facts = make_snapshot(
            nodes=make_cluster(17), jobs=[WHOLE, *held], running=running, virtual_clusters=[vc]
        )
        engine = RoundEngine(facts)
        engine.outcomes()
        return calls_in(engine.outcomes)

    # It is asked when the next job is due.
    assert calls(8_000.0) <= calls(0.0) + 10
