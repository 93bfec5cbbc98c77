"""What holds for every cluster, however broken. decide() checks its own plan, so its PlanError counts too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks.fill import fill
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.demand import sizes_of
from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_plan, loads_snapshot
from scheduler.core.model.plan import ActionKind, Decision, Grant, Plan, Tier
from scheduler.core.model.snapshot import Memory, Snapshot
from scheduler.core.round import registry
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.run_view import ViewOutcome
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds import snapshots
from tests.effort import examples

policies = st.sampled_from(("fifo", "contrary"))
repeatable = settings(max_examples=examples(80), derandomize=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrary:
    """The newest job first, whoever has to stop for it: as preemptive as a policy can be."""

    def allocate(self, view: View, memory: Memory) -> Decision:
        newest_first = sorted(view.jobs.values(), key=lambda job: -job.id)
        order = [Grant(jobs=(job.id,), gpus=size) for job in newest_first for size in sizes_of(job)]
        return Decision(grants=fill(order, view))


@pytest.fixture(autouse=True, scope="module")
def contrary() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "POLICIES", {**registry.POLICIES, "contrary": Contrary})
        yield


def under(policy: str, snapshot: Snapshot) -> Snapshot:
    """The same facts, every view served by that policy."""
    clusters = tuple(replace(vc, policy=policy) for vc in snapshot.virtual_clusters)
    return replace(snapshot, virtual_clusters=clusters, spare_policy=policy)


def outcomes(snapshot: Snapshot) -> Iterator[ViewOutcome]:
    """Serve the views as a round does."""
    yield from RoundEngine(snapshot).outcomes()


def starts(plan: Plan) -> set[int]:
    return {job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs}


@repeatable
@given(snapshots(), policies)
def test_a_plan_is_legal_and_no_view_fails(snapshot: Snapshot, policy: str) -> None:
    assert not decide(under(policy, snapshot)).degraded


@repeatable
@given(snapshots(), policies)
def test_what_a_policy_believes_to_fit_is_placed(snapshot: Snapshot, policy: str) -> None:
    for outcome in outcomes(under(policy, snapshot)):
        assert len(outcome.placements) == len(outcome.decision.grants)


@repeatable
@given(snapshots())
def test_who_waits_is_told_why_the_most_decisive_reason_first(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    tiers = list(Tier)
    placed = {job for action in plan.actions if action.placement for job in action.jobs}
    undisturbed = {job for running in snapshot.running for job in running.jobs} - {
        job for action in plan.actions if action.kind is not ActionKind.REGRADE for job in action.jobs
    }
    for job in snapshot.jobs:
        reasons = plan.reasons.get(job.id, ())
        assert reasons or job.id in placed or job.id in undisturbed
        assert [reason.tier for reason in reasons] == sorted(
            (reason.tier for reason in reasons), key=tiers.index
        )
        for reason in reasons:
            assert reason.message.endswith("."), reason
            assert (
                reason.needed is None
                or reason.available is None
                or reason.code != "no_idle_gpus"
                or (reason.available < reason.needed)
            )


@repeatable
@given(snapshots())
def test_snapshots_and_plans_survive_being_stored(snapshot: Snapshot) -> None:
    stored = dumps_snapshot(snapshot)
    plan = decide(snapshot)
    assert loads_snapshot(stored) == snapshot
    assert dumps_snapshot(loads_snapshot(stored)) == stored
    assert loads_plan(dumps_plan(plan)) == plan
    assert dumps_plan(decide(loads_snapshot(stored))) == dumps_plan(plan)


@repeatable
@given(snapshots())
def test_nobody_is_stopped_for_nothing(snapshot: Snapshot) -> None:
    """Under fifo only a guaranteed job that newly takes some of its GPUs stops an opportunistic one."""
    plan = decide(snapshot)
    running = {allocated.allocation: allocated for allocated in snapshot.running}
    taken = {
        gpu
        for action in plan.actions
        if action.guaranteed and action.placement
        for gpu in action.placement.gpus
    }
    for action in plan.actions:
        if action.kind in (ActionKind.STOP, ActionKind.MOVE) and action.cause == "preempted":
            assert action.allocation is not None
            if "no longer available" in action.message:
                assert running[action.allocation].phase == "planned"
                continue
            if "is reserved for" in action.message:
                assert any(each.is_in_force(snapshot.now) for each in snapshot.reservations)
                continue
            assert not action.guaranteed
            assert action.preempted_by
            assert taken.intersection(running[action.allocation].gpus)


def keeps_its_base(snapshot: Snapshot, plan: Plan) -> None:
    """An elastic gang's part of a guarantee is taken by its own virtual cluster only, whoever else comes."""
    jobs = {job.id: job for job in snapshot.jobs}
    held = {one.allocation: one for one in snapshot.running if one.guaranteed and one.opportunistic_gpus}
    for action in plan.actions:
        before = held.get(action.allocation) if action.allocation is not None else None
        if before is None or action.kind is ActionKind.REGRADE:
            continue
        left = len(action.placement.gpus) - action.opportunistic_gpus if action.placement is not None else 0
        if left < len(before.base.gpus):
            assert {jobs[job].virtual_cluster for job in action.preempted_by} <= {action.virtual_cluster}


@repeatable
@given(snapshots())
def test_what_is_beyond_a_guarantee_may_be_taken_and_the_rest_not(snapshot: Snapshot) -> None:
    keeps_its_base(snapshot, decide(snapshot))


@repeatable
@given(snapshots())
def test_no_job_starts_that_was_not_free_to(snapshot: Snapshot) -> None:
    barred = {job.id for job in snapshot.jobs if job.held or job.cancelling or job.eligible_at > snapshot.now}
    barred |= {job for allocated in snapshot.running for job in allocated.jobs}
    assert not starts(decide(snapshot)) & barred


@repeatable
@given(snapshots())
def test_opportunistic_jobs_never_keep_a_guaranteed_one_from_starting(snapshot: Snapshot) -> None:
    """It starts beside them exactly if it would start without them.

    Of two that wait, the first may take idle GPUs rather than evict, and so leave the second one scattered
    ones: counts do not promise shapes. So only one waits here.
    """
    busy = {job for allocated in snapshot.running for job in allocated.jobs}
    waiting = [job.id for job in snapshot.jobs if job.guaranteed and job.id not in busy][1:]
    together = replace(
        snapshot, tenants=(), jobs=tuple(job for job in snapshot.jobs if job.id not in waiting)
    )
    alone = replace(
        together,
        jobs=tuple(job for job in together.jobs if job.guaranteed),
        running=tuple(one.base for one in snapshot.running if one.guaranteed),
    )
    guaranteed = {job.id for job in alone.jobs}
    assert starts(decide(alone)) == starts(decide(together)) & guaranteed


@settings(repeatable, max_examples=examples(40))
@given(snapshots(), policies)
def test_whatever_can_run_runs_to_its_end(snapshot: Snapshot, policy: str) -> None:
    """Once everything is repaired and released, whatever is left is what can never run."""
    repaired = replace(
        snapshot,
        nodes=tuple(
            replace(node, schedulable=True, gpus=tuple(replace(gpu, healthy=True) for gpu in node.gpus))
            for node in snapshot.nodes
        ),
        jobs=tuple(replace(job, held=False, cancelling=False, eligible_at=0.0) for job in snapshot.jobs),
        reservations=(),
    )
    loop = VirtualLoop(under(policy, repaired), {job.id: 10.0 for job in snapshot.jobs})
    loop.run(rounds=40)
    waiting = {job.id for job in loop.snapshot.jobs}
    reasons = loop.last_plan.reasons
    stuck = {job: reasons[job] for job in waiting if reasons[job][0].tier is not Tier.NEVER}
    assert not stuck


def tell(engine: RoundEngine, before: Snapshot, after: Snapshot) -> None:
    """Put into the session's facts what happened between two snapshots."""
    engine.facts.turn_to(after.round_number, after.now, after.memory)
    known, remain = {job.id: job for job in before.jobs}, {job.id for job in after.jobs}
    held, holds = {r.allocation: r for r in before.running}, {r.allocation for r in after.running}
    for allocation in sorted(held.keys() - holds):
        engine.facts.drop_running(allocation)
    for number in sorted(known.keys() - remain):
        engine.facts.drop_job(number)
    for job in after.jobs:
        if known.get(job.id) != job:
            engine.facts.put_job(job)
    for running in after.running:
        if held.get(running.allocation) != running:
            engine.facts.put_running(running)


@repeatable
@given(snapshots(), policies, st.sampled_from((0.0, 0.4)))
def test_a_round_engine_that_is_told_what_happened_decides_as_anew(
    snapshot: Snapshot, policy: str, drop: float
) -> None:
    decides_as_anew(under(policy, snapshot), drop)


def decides_as_anew(snapshot: Snapshot, drop: float) -> None:
    """Play rounds in which some actions get lost; a session must say in each what decide() says."""
    loop = VirtualLoop(snapshot, {job.id: 10.0 + 7 * (job.id % 5) for job in snapshot.jobs}, drop=drop)
    engine = RoundEngine(loop.snapshot)
    for _ in range(12):
        before = loop.snapshot
        plan = loop.step()
        told = engine.plan(engine.outcomes())
        assert (told.actions, told.memory, told.degraded) == (plan.actions, plan.memory, plan.degraded)
        # Its own memory, as the simulator hands it back: nothing needs to be read from it again.
        tell(engine, before, replace(loop.snapshot, memory=told.memory))
