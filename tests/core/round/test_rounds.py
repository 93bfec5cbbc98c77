"""An engine that is kept from round to round decides what a new one decides, whatever happens in between."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks.computing import Timekeeper, run_inline
from scheduler.core.building_blocks.policy import View
from scheduler.core.cells.chains import Layout
from scheduler.core.cells.world import World
from scheduler.core.model.codec import dumps_plan
from scheduler.core.model.plan import Decision, Plan
from scheduler.core.model.snapshot import JobId, Memory, Snapshot, TaskKind, Tenant
from scheduler.core.round import registry
from scheduler.core.round import rounds as rounds_module
from scheduler.core.round.decide import decide, decided_by
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.guarantees import binding
from scheduler.core.round.registry import POLICIES, make_policy
from scheduler.core.round.rounds import Rounds, first_difference
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds import snapshots
from tests.core.worlds_in_cells import divided, hardware_of, in_cells, owning
from tests.effort import examples

NEVER = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Brittle:
    """As another policy, except in some rounds: then it fails, when it has begun to ask its view."""

    policy: str = "fifo"

    def allocate(self, view: View, memory: Memory) -> Decision:
        decision = make_policy(self.policy).allocate(view, memory)
        if view.rng.random() < 0.2:
            raise ZeroDivisionError("a bug")
        return replace(decision, stands_until=None)


@pytest.fixture(autouse=True, scope="module")
def brittle() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "POLICIES", {**registry.POLICIES, "brittle": Brittle})
        yield


class Interrupted(BaseException):
    """As the watchdog of the live loop raises it in the middle of a view."""


class Life:
    """What happens to a cluster between two rounds besides what its plan does."""

    def __init__(self, seed: int, policies: tuple[str, ...]) -> None:
        self.dice, self.policies = random.Random(seed), policies

    def goes_on(self, loop: VirtualLoop) -> None:
        for _ in range(self.dice.choice((0, 0, 1, 1, 2))):
            happens = self.dice.choice(
                (self.a_job, self.a_job, self.a_job, self.jobs, self.tenant, self.node, self.cluster)
            )
            loop.snapshot = happens(loop.snapshot, loop)
        if self.dice.random() < 0.5:
            # As what comes back from a database.
            loop.snapshot = replace(loop.snapshot, memory=json.loads(json.dumps(loop.snapshot.memory)))

    def a_job(self, facts: Snapshot, loop: VirtualLoop) -> Snapshot:
        """Somebody changes a job."""
        if not facts.jobs:
            return facts
        place = self.dice.randrange(len(facts.jobs))
        news: dict[str, Any] = self.dice.choice(
            (
                {"held": not facts.jobs[place].held},
                {"cancelling": True},
                {"priority": self.dice.choice((0, 5, 9))},
                {"time_limit_seconds": self.dice.choice((None, 20.0, 100.0))},
                {"eligible_at": facts.now + 12},
                {"may_borrow_at": facts.now + 7, "short_runs": 1},
                {"preemption_cost_seconds": self.dice.choice((0.0, 30.0, 300.0))},
                {"attained_service": {"V100": 500.0}, "attempts": 1},
                {"waits_since": facts.now - 3},
                {"guaranteed": not facts.jobs[place].guaranteed},
            )
        )
        if "guaranteed" in news and any([facts.jobs[place].id in running.jobs for running in facts.running]):
            return facts
        jobs = list(facts.jobs)
        jobs[place] = replace(jobs[place], **news)
        return replace(facts, jobs=tuple(jobs))

    def jobs(self, facts: Snapshot, loop: VirtualLoop) -> Snapshot:
        """A job comes, or one that has no GPUs goes."""
        has = {job for running in facts.running for job in (*running.jobs, *running.leaving)}
        waiting = [job for job in facts.jobs if job.id not in has]
        if waiting and self.dice.random() < 0.3:
            gone = self.dice.choice(waiting)
            return replace(facts, jobs=tuple([job for job in facts.jobs if job.id != gone.id]))
        number = 1 + max(loop.remaining, default=100)
        loop.remaining[JobId(number)] = self.dice.choice((5.0, 30.0, 90.0))
        some = make_job(
            number,
            self.dice.choice((1, 1, 2, 4)),
            submitted_at=facts.now,
            guaranteed=self.dice.random() < 0.6,
            tenant="speech",
            virtual_cluster=self.dice.choice(("products", "research")),
            time_limit_seconds=self.dice.choice((None, 25.0)),
        )
        return replace(facts, jobs=(*facts.jobs, some))

    def tenant(self, facts: Snapshot, loop: VirtualLoop) -> Snapshot:
        """A budget is spent or renewed; now and then a quota is another one."""
        first, *others = facts.tenants
        news: dict[str, Any] = self.dice.choice(
            (
                {"budget_spent": True, "budget_renewed_at": self.dice.choice((None, facts.now + 11))},
                {"budget_spent": False, "budget_renewed_at": None},
                {"users": tuple([replace(user, budget_spent=True) for user in first.users])},
                {"quota": {"*": self.dice.choice((2, 20))}},
            )
        )
        return replace(facts, tenants=(replace(first, **news), *others))

    def node(self, facts: Snapshot, loop: VirtualLoop) -> Snapshot:
        if not facts.nodes:
            return facts
        place = self.dice.randrange(len(facts.nodes))
        nodes = list(facts.nodes)
        nodes[place] = replace(nodes[place], schedulable=not nodes[place].schedulable)
        return replace(facts, nodes=tuple(nodes))

    def cluster(self, facts: Snapshot, loop: VirtualLoop) -> Snapshot:
        """An operator changes a virtual cluster, its guarantee only where it is of counts."""
        first, *others = facts.virtual_clusters
        fewer = {model: count // 2 for model, count in first.guaranteed.items()}
        news: dict[str, Any] = self.dice.choice(
            (
                {"policy": self.dice.choice(self.policies), "policy_parameters": {}},
                {"default_time_limit_seconds": 60.0},
                {"longest_wait_seconds": 10.0},
                {"reclaim_min_run_seconds": 15.0},
                {"min_run_seconds": 15.0},
                {} if facts.cells is not None else {"guaranteed": fewer},
            )
        )
        return replace(facts, virtual_clusters=(replace(first, **news), *others))


def plays_as_anew(facts: Snapshot, policy: str, seed: int, *, drop: float = 0.2, rounds: int = 14) -> None:
    """Play rounds of a cluster's life; the kept engine must say in each what `decide()` says, to the bit."""
    served_by: dict[str, Any] = {"policy": policy}
    if seed % 3 == 0:
        served_by = {"policy": "brittle", "policy_parameters": {"policy": policy}}
    if seed % 2:
        served_by |= {"longest_wait_seconds": 20.0, "reclaim_min_run_seconds": 12.0}
    clusters = tuple([replace(vc, **served_by) for vc in facts.virtual_clusters])
    facts = replace(facts, virtual_clusters=clusters, spare_policy=policy)
    kept, dice = Rounds(compared_every=NEVER), random.Random(seed)

    def by(snapshot: Snapshot) -> Plan:
        names = [vc.name for vc in snapshot.virtual_clusters]
        overran = {dice.choice(names): "it took too long"} if dice.random() < 0.15 else {}
        if dice.random() < 0.15:
            view = dice.choice((*names, "spare"))
            try:
                kept.decide(snapshot, run_inline, overran, interrupting(view))
            except Interrupted:
                overran[view] = "it took too long"
        plan, right = kept.decide(snapshot, run_inline, overran), decide(snapshot, run_inline, overran)
        assert first_difference(plan, right) == kept.difference == ""
        assert dumps_plan(plan) == dumps_plan(right)
        return plan

    seconds: dict[int, float] = {job.id: 10.0 + 7 * (job.id % 5) for job in facts.jobs}
    loop, life = VirtualLoop(facts, seconds, drop=drop, by=by), Life(seed, ("fifo", policy))
    for _ in range(rounds):
        loop.step()
        life.goes_on(loop)


def interrupting(view: str) -> Timekeeper:
    @contextmanager
    def turn(name: str) -> Iterator[None]:
        yield
        if name == view:
            raise Interrupted

    return turn


seeds = st.integers(0, 2**16)


@settings(max_examples=examples(200), derandomize=True)
@given(snapshots(), st.sampled_from(sorted(POLICIES)), seeds)
def test_what_happens_to_a_cluster_is_taken_in(facts: Snapshot, policy: str, seed: int) -> None:
    plays_as_anew(facts, policy, seed)


@settings(max_examples=examples(120), derandomize=True)
@given(divided(), st.sampled_from(sorted(POLICIES)), seeds)
def test_what_happens_to_a_cluster_in_cells_is_taken_in(facts: Snapshot, policy: str, seed: int) -> None:
    plays_as_anew(facts, policy, seed)


@settings(max_examples=examples(300), derandomize=True)
@given(st.one_of(snapshots(), divided()), st.sampled_from(sorted(POLICIES)), seeds)
def test_time_alone_makes_the_plan_that_a_new_engine_makes(facts: Snapshot, policy: str, seed: int) -> None:
    """Nothing happens but that time passes, by more or less than a round; most plans stand for a while."""
    dice, kept = random.Random(seed), Rounds(compared_every=NEVER)
    clusters = tuple([replace(vc, policy=policy if seed % 2 else "fifo") for vc in facts.virtual_clusters])
    # These would let no plan stand.
    jobs = tuple([job for job in facts.jobs if job.elastic is None and not job.is_without_gpus])
    left = {job.id for job in jobs}
    running = tuple([held for held in facts.running if left.issuperset(held.jobs)])
    facts = replace(facts, jobs=jobs, running=running, virtual_clusters=clusters)
    loop = VirtualLoop(facts, {job.id: 1_000.0 for job in facts.jobs}, drop=0.5)
    for _ in range(3):
        loop.step()
    facts = loop.snapshot
    for _ in range(20):
        assert first_difference(kept.decide(facts), decide(facts)) == kept.difference == ""
        seconds = dice.choice((0.0, 0.5, 2.0, 5.0, 40.0, 1_000.0))
        facts = replace(facts, round_number=facts.round_number + 1, now=facts.now + seconds)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[RoundEngine]:
    """Note each engine that rounds make, and each round that one decides."""
    decided = []

    def noting(engine: RoundEngine, snapshot: Snapshot) -> tuple[Plan, float]:
        decided.append(engine)
        return decided_by(engine, snapshot)

    monkeypatch.setattr(rounds_module, "decided_by", noting)
    return decided


def calm(**fields: Any) -> Snapshot:
    """Eight GPUs, on four of which a job runs for an hour; another one waits for all of them."""
    runs, waits = make_job(1, 4, time_limit_seconds=3_600.0), make_job(2, 8)
    values: dict[str, Any] = {
        "nodes": make_cluster(1),
        "jobs": [runs, waits],
        "running": [make_running(runs, range(100, 104), since=NOW)],
        "virtual_clusters": [make_virtual_cluster("research", {"V100": 8})],
    }
    return make_snapshot(**{**values, **fields})


def later(facts: Snapshot, seconds: float = 5.0, **fields: Any) -> Snapshot:
    return replace(facts, round_number=facts.round_number + 1, now=facts.now + seconds, **fields)


def test_while_nothing_happens_nothing_is_decided_until_the_next_instant_that_matters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=NEVER)
    first = calm()
    plan = rounds.decide(first)
    assert [reason.code for reason in plan.reasons[JobId(2)]] == ["vc_guarantee_in_use", "first_in_line"]
    second = later(first)
    assert rounds.decide(second) == replace(plan, round_number=second.round_number) == decide(second)
    assert len(decided) == 1
    # A round before its time limit the head could be said to start at another instant.
    third = later(second, 3_592.0)
    assert rounds.decide(third) == decide(third)
    assert decided == [decided[0]] * 2


@pytest.mark.parametrize(
    "news",
    [
        {"jobs": (make_job(1, 4, time_limit_seconds=3_600.0), make_job(2, 8, priority=1))},
        {"running": ()},
        {"tenants": (Tenant(name="vision", budget_spent=True),)},
        {"memory": {"research": {"seen": 1}}},
        {"workload": (TaskKind(gpus=1),)},
    ],
    ids=lambda news: next(iter(news)),
)
def test_what_an_engine_can_take_in_is_decided_by_the_same_one(
    monkeypatch: pytest.MonkeyPatch, news: dict[str, Any]
) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=NEVER)
    first = calm(tenants=[Tenant(name="vision")])
    rounds.decide(first)
    second = later(first, **news)
    assert rounds.decide(second) == decide(second)
    assert decided == [decided[0]] * 2


@pytest.mark.parametrize(
    "news",
    [
        {"nodes": make_cluster(2)},
        {"virtual_clusters": (make_virtual_cluster("research", {"V100": 4}),)},
        {"tenants": (Tenant(name="vision", quota={"*": 4}),)},
        {"prices": {"V100": 2.0}},
        {"preemptions_per_round": 1},
        {"spare_policy": "srtf"},
        {"now": NOW - 1},
    ],
    ids=lambda news: next(iter(news)),
)
def test_whatever_else_differs_makes_a_new_engine(
    monkeypatch: pytest.MonkeyPatch, news: dict[str, Any]
) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=NEVER)
    first = calm(tenants=[Tenant(name="vision")])
    rounds.decide(first)
    second = replace(later(first), **news)
    assert rounds.decide(second) == decide(second)
    assert len({id(engine) for engine in decided}) == len(decided) == 2


def test_cells_stay_bound_where_their_memory_comes_from_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every world is one of which all running jobs were bound to cells again."""
    worlds: list[World] = []

    def noting(layout: Layout) -> World:
        worlds.append(World(layout))
        return worlds[-1]

    monkeypatch.setattr(binding, "World", noting)
    nodes, jobs = make_cluster(2), [make_job(number, 4, tenant="speech") for number in range(1, 7)]
    clusters = [make_virtual_cluster("research", tenants=("speech",))]
    counts = make_snapshot(nodes=nodes, jobs=jobs, virtual_clusters=clusters)
    cells = in_cells(counts, owning(hardware_of(nodes), {"research": {"V100-8-NODE": 2}}))
    kept = Rounds(compared_every=NEVER)
    loop = VirtualLoop(cells, {job.id: 10.0 * job.id for job in jobs}, by=kept.decide)
    while loop.snapshot.jobs:
        plan = loop.step()
        loop.snapshot = replace(loop.snapshot, memory=json.loads(json.dumps(plan.memory)))
    assert len(loop.started) == 6
    assert len(worlds) == 1
    # A memory that is not its own is of other bindings.
    kept.decide(replace(later(cells), memory={"cells": {"twins": {}, "bound": {}}}))
    assert len(worlds) == 2


def test_an_interrupted_round_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=NEVER)
    first = calm()
    rounds.decide(first)
    second = later(first, jobs=first.jobs[1:], running=())
    with pytest.raises(Interrupted):
        rounds.decide(second, run_inline, None, interrupting("research"))
    third = later(first)
    assert rounds.decide(third) == decide(third)
    assert len({id(engine) for engine in decided}) == 2


def test_an_engine_that_is_wrong_is_found_out_told_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=2)
    first = calm()
    rounds.decide(first)
    kept = decided[0]
    # As if it had missed that job 2 is on hold.
    monkeypatch.setattr(kept.facts, "put_job", lambda job: None)
    held = tuple([replace(job, held=job.id == 2) for job in first.jobs])
    assert rounds.decide(later(first, jobs=held)) != decide(later(first, jobs=held))
    assert rounds.difference == ""
    third = later(later(first), jobs=held)
    assert rounds.decide(third) == decide(third)
    assert rounds.difference.startswith("reasons of 2, number 1: (Reason(code='vc_guarantee")
    assert "instead of (Reason(code='held'" in rounds.difference
    fourth = later(third)
    assert rounds.decide(fourth) == decide(fourth)
    assert rounds.difference == ""
    assert kept not in decided[2:]


def test_an_engine_that_breaks_is_told_and_replaced_in_the_same_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided, rounds = counted(monkeypatch), Rounds(compared_every=NEVER)
    first = calm()
    rounds.decide(first)
    broken: dict[str, Any] = {}
    monkeypatch.setattr(decided[0], "outcomes", lambda: broken["an index that is not whole"])
    second = later(first, running=())
    assert rounds.decide(second) == decide(second)
    assert rounds.difference == "it raised KeyError('an index that is not whole')"


def test_what_policies_computed_is_not_computed_again_to_compare() -> None:
    """Neither is there time for it, nor would a computation that takes too long tell of the engine."""
    asked: list[str] = []

    def compute(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        asked.append(function.__name__)
        return function(*arguments, **keywords)

    first = calm(virtual_clusters=[make_virtual_cluster("research", {"V100": 8}, policy="gavel")])
    first = replace(first, jobs=tuple([replace(job, throughput={"V100": 1.0}) for job in first.jobs]))
    rounds = Rounds(compared_every=1)
    rounds.decide(first, compute)
    of_one = len(asked)
    assert of_one > 0
    plan = rounds.decide(later(first, 3_000.0), compute)
    assert rounds.difference == ""
    assert plan == decide(later(first, 3_000.0))
    assert len(asked) <= 2 * of_one
