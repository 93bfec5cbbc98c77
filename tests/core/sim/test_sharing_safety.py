"""Sharing safety (HiveD, theorem 1): with cells nobody waits longer than privately; with counts some do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.cells.compiling import compiled
from scheduler.core.model.cell_specification import Specification, VirtualCells
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot, Topology
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.delays import Comparison
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival
from scheduler.simulation.private import PrivateClusters
from tests.builders import make_cluster, make_snapshot, make_virtual_cluster
from tests.core.sim.test_private import racks
from tests.core.sim.worlds import arrival
from tests.effort import first_every_day

#: Virtual cluster -> its cells, and the gangs (replicas, GPUs of each) that its jobs are.
OWNERS = {
    "alpha": ({"NODE": 3}, ((1, 1), (1, 2), (1, 4), (1, 8))),
    "beta": ({"NODE": 2, "SWITCH": 3, "V100": 2}, ((1, 1), (1, 2), (1, 8), (2, 4))),
    "gamma": ({"RACK": 1}, ((1, 1), (1, 4), (1, 8), (2, 8))),
}
NEAR = Topology(level="node", required=True)


def cluster(cells: bool) -> Snapshot:
    """Eight nodes of eight, all of them owned."""
    owned = {name: VirtualCells(cells=kinds) for name, (kinds, _) in OWNERS.items()}
    specification: Specification = racks(4, **owned)
    layout = compiled(specification)
    clusters = [make_virtual_cluster(name, layout.guaranteed(name)) for name in OWNERS]
    return make_snapshot(
        now=0.0,
        round_seconds=60.0,
        nodes=make_cluster(8),
        virtual_clusters=clusters,
        cells=specification if cells else None,
    )


def workload(seed: int, opportunistic: float) -> list[Arrival]:
    """More than the cluster can take; of the jobs, that part is opportunistic, and most have time limits."""
    dice = random.Random(seed)
    arrivals, at = [], 0.0
    for number in range(1, 201):
        at += dice.expovariate(1 / 60)
        name = dice.choice(tuple(OWNERS))
        replicas, gpus = dice.choice(OWNERS[name][1])
        work = dice.expovariate(1 / 1_500) + 10
        limit = dice.choice((None, work, work, 1.5 * work))
        arrivals.append(
            arrival(
                number,
                at,
                work,
                gpus,
                time_limit_seconds=limit,
                replicas=replicas,
                virtual_cluster=name,
                guaranteed=dice.random() >= opportunistic,
                topology=NEAR if replicas * gpus == 8 and replicas > 1 else None,
            )
        )
    return arrivals


def compared(facts: Snapshot, arrivals: list[Arrival]) -> tuple[Comparison, ...]:
    privately = PrivateClusters(facts, arrivals, Rules())
    engine = Engine(facts, arrivals, on_round=privately.recording(None))
    assert engine.run() == ""
    return privately.compare(engine)


@pytest.mark.parametrize("seeded", first_every_day([(1, 0.3), (0, 0.0), (2, 0.3), (3, 0.5)]))
def test_with_cells_every_job_waits_as_long_as_in_the_private_cluster(seeded: tuple[int, float]) -> None:
    for one in compared(cluster(cells=True), workload(*seeded)):
        assert one.jobs > 20
        assert one.anomalies == ()
        assert one.real == one.private


def test_no_job_is_backfilled_because_others_caused_a_round() -> None:
    """Job 3 ends at 100 s and job 4 at 110 s: both before the round at 120 s, but job 5 needs the first only.

    Beside job 5 nothing is left for job 7, which would delay job 6 by an hour. Whether beta's job lets a
    round happen at 60 s is no matter.
    """
    shapes = ((8, 7_200.0), (8, 7_200.0), (4, 100.0), (2, 110.0), (6, 100.0), (8, 100.0), (2, 3_600.0))
    alpha = [
        arrival(number, 0.0, seconds, gpus, virtual_cluster="alpha", time_limit_seconds=seconds)
        for number, (gpus, seconds) in enumerate(shapes, start=1)
    ]
    beta = arrival(8, 30.0, 10.0, virtual_cluster="beta")
    for one in compared(cluster(cells=True), [*alpha, beta]):
        assert one.anomalies == ()
        assert one.real == one.private


def test_with_counts_hard_affinity_makes_some_wait_longer() -> None:
    """The negative control: the same jobs and the same numbers of GPUs."""
    late = [
        anomaly
        for seed in range(2)
        for one in compared(cluster(cells=False), workload(seed, 0.0))
        for anomaly in one.anomalies
    ]
    assert sum(anomaly.delay.hard_affinity for anomaly in late) > 10


@pytest.mark.parametrize("placer", first_every_day(["fgd", "spread"]))
def test_it_holds_with_placers_of_another_taste(placer: str) -> None:
    facts = cluster(cells=True)
    chosen = tuple([replace(vc, placer=placer) for vc in facts.virtual_clusters])
    for one in compared(replace(facts, virtual_clusters=chosen), workload(1, 0.3)):
        assert one.anomalies == ()


@pytest.mark.slow
def test_with_a_pinned_cell_too_which_only_those_have_who_name_it() -> None:
    facts = cluster(cells=True)
    assert facts.cells is not None
    (chain,) = compiled(facts.cells).chains.values()
    place = chain.address(chain.node_level, chain.count(chain.node_level) - 1)
    owners = {
        **facts.cells.virtual_clusters,
        "alpha": VirtualCells(cells={"NODE": 2}, pinned={"demo": place}),
    }
    facts = replace(facts, cells=replace(facts.cells, virtual_clusters=owners))
    arrivals = [
        replace(each, job=replace(each.job, pinned_cell="demo"))
        if each.job.virtual_cluster == "alpha" and each.job.guaranteed and each.job.id % 3 == 0
        else each
        for each in workload(1, 0.3)
    ]
    alpha = next(one for one in compared(facts, arrivals) if one.virtual_cluster == "alpha")
    assert alpha.jobs > 20
    assert alpha.anomalies == ()
    assert alpha.real == alpha.private
    names = {arrival.job.id: arrival.job.pinned_cell for arrival in arrivals}
    leaves = chain.gpus_of(chain.node_level, chain.count(chain.node_level) - 1)
    nodes = {gpu.id: node.name for node in facts.nodes for gpu in node.gpus}
    seen = set()

    def look(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        for action in plan.actions:
            if action.placement is not None and action.guaranteed:
                there = {nodes[gpu] == leaves[0].node for gpu in action.placement.gpus}
                seen.update((names[action.jobs[0]], each) for each in there)

    assert Engine(facts, arrivals, on_round=look).run() == ""
    assert seen == {("demo", True), ("", False)}
