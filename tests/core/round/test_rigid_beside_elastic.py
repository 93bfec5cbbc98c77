"""A gang of fixed size is never stopped or moved merely so that an elastic one beside it grows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.core.building_blocks import growing
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round import beyond_guarantees
from tests.builders import NOW, make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop

#: Gangs are old enough to grow after so many seconds, rounds are a second apart.
SETTLED_SECONDS = 4.0
ROUNDS = 90
WORLDS = 12
CLUSTERS = ("products", "research")


def made(dice: random.Random, number: int, guaranteed_gpus: dict[str, int], gpus: int) -> Job:
    """A job that is elastic every other time, guaranteed where its virtual cluster is guaranteed enough."""
    name = dice.choice(CLUSTERS)
    replicas, each = dice.choice(((1, 1), (1, 2), (2, 1), (1, 4), (2, 2)))
    elastic = None
    if dice.random() < 0.5:
        replicas, each = dice.choice((1, 2, 4)), 1
        elastic = (dice.randint(1, replicas), dice.randint(replicas, max(gpus, replicas)))
    fits = replicas * each <= guaranteed_gpus[name]
    return make_job(
        number,
        each,
        replicas=replicas,
        elastic=elastic,
        guaranteed=fits and dice.random() < 0.6,
        virtual_cluster=name,
        submitted_at=NOW + dice.randrange(ROUNDS // 2),
    )


def world(seed: int, policy: str, placer: str) -> tuple[Snapshot, list[Job], dict[int, float]]:
    """One to three nodes of four GPUs, two virtual clusters, jobs that come, and how long each runs."""
    dice = random.Random(seed)
    nodes = make_cluster(dice.choice((1, 2, 3)), gpus=4)
    gpus = 4 * len(nodes)
    research = dice.randint(1, gpus)
    guaranteed = {"research": research, "products": dice.randint(0, gpus - research)}
    parameters = {"epoch_seconds": 5.0} if policy in ("aryl", "slaq") else {}
    clusters = [
        make_virtual_cluster(
            name, {"V100": guaranteed[name]}, policy=policy, policy_parameters=parameters, placer=placer
        )
        for name in CLUSTERS
    ]
    jobs = [made(dice, number, guaranteed, gpus) for number in range(1, dice.randint(4, 9))]
    seconds = {job.id: dice.choice((15.0, 40.0, 80.0)) for job in jobs}
    facts = make_snapshot(nodes=nodes, virtual_clusters=clusters, round_seconds=1.0, spare_placer=placer)
    return facts, jobs, seconds


def plans(facts: Snapshot, jobs: list[Job], seconds: dict[int, float]) -> Iterator[tuple[Snapshot, Plan]]:
    loop = VirtualLoop(facts, seconds)
    for _ in range(ROUNDS):
        now = loop.snapshot.now
        come = (*loop.snapshot.jobs, *(job for job in jobs if job.submitted_at == now))
        loop.snapshot = replace(loop.snapshot, jobs=tuple(sorted(come, key=lambda job: job.id)))
        before = loop.snapshot
        yield before, loop.step()


def wronged(facts: Snapshot, plan: Plan) -> list[Action]:
    """Return what is done to rigid gangs that run though nobody who starts takes any of their GPUs."""
    rigid = {job.id for job in facts.jobs if job.elastic is None}
    held = {running.allocation: running for running in facts.running}
    starting = {gpu for action in plan.actions if action.kind is ActionKind.START for gpu in _gpus(action)}
    return [
        action
        for action in plan.actions
        if action.kind in (ActionKind.STOP, ActionKind.MOVE, ActionKind.RESIZE)
        and rigid.issuperset(action.jobs)
        and action.allocation in held
        and starting.isdisjoint(held[action.allocation].gpus)
    ]


def growths(facts: Snapshot, plan: Plan) -> int:
    """Return how many gangs grow while a rigid one runs."""
    rigid = {job.id for job in facts.jobs if job.elastic is None}
    sizes = {running.allocation: len(running.gpus) for running in facts.running}
    if not any(rigid.issuperset(running.jobs) for running in facts.running):
        return 0
    return sum(
        action.kind is ActionKind.RESIZE
        and action.allocation is not None
        and len(_gpus(action)) > sizes[action.allocation]
        for action in plan.actions
    )


def _gpus(action: Action) -> tuple[int, ...]:
    return action.placement.gpus if action.placement is not None else ()


@pytest.mark.parametrize(
    ("policy", "placer"),
    [
        ("fifo", "consolidate"),
        *(
            pytest.param(policy, placer, marks=pytest.mark.slow)
            for policy in ("fifo", "sjf", "priority", "aryl", "slaq")
            for placer in ("consolidate", "spread", "aryl")
            if (policy, placer) != ("fifo", "consolidate")
        ),
    ],
)
def test_nobody_rigid_is_stopped_so_that_another_grows(
    policy: str, placer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "SETTLED_SECONDS", SETTLED_SECONDS)
    monkeypatch.setattr(beyond_guarantees, "SETTLED_SECONDS", SETTLED_SECONDS)
    grown = 0
    for seed in range(WORLDS):
        for facts, plan in plans(*world(seed, policy, placer)):
            assert not plan.degraded
            assert wronged(facts, plan) == [], (seed, facts.now - NOW)
            grown += growths(facts, plan)
    assert grown >= WORLDS // 2, "hardly anybody grew"
