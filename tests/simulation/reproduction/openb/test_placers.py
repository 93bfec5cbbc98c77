"""The placers of the product put published tasks on the same nodes as the published simulator replayed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.replay import Replay
from benchmarks.reproduction.openb.workload import (
    OpenbNode,
    OpenbTask,
    arrivals,
    read_nodes,
    read_tasks,
    typical,
)
from scheduler.core.building_blocks.node_scores import Kinds, Norms, Scorer
from scheduler.core.building_blocks.placing import chooser_by
from scheduler.core.building_blocks.scoring import PartsByScore, WholeGpus
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.claims import Claims
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import demand_of
from scheduler.core.fitting.fragmentation import WHOLE
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.snapshot import Gpu, GpuId, Job, JobId, Node, NodeId, Task
from scheduler.core.placers.best_fit import Tightness
from scheduler.core.placers.clustering import Likeness
from scheduler.core.placers.dot_product import Product
from scheduler.core.placers.fgd import Descent
from scheduler.core.placers.packing import Tiers
from tests.effort import first_every_day

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "openb"


def job(number: int, task: OpenbTask) -> Job:
    ask = task.ask
    part = None if ask.share == WHOLE else GpuPart(request=ask.share, limit=WHOLE)
    tasks = (Task(replicas=1, gpus=ask.gpus, cpus=ask.cpus, memory_bytes=task.memory_mib, part=part),)
    return Job(
        id=JobId(number),
        tenant="tenant",
        virtual_cluster="research",
        submitted_at=0.0,
        gpu_models=tuple(sorted(ask.models)),
        tasks=tasks,
    )


def cluster_of(nodes: list[OpenbNode]) -> Cluster:
    made = [
        Node(
            id=NodeId(number),
            name=node.name,
            gpu_model=node.model,
            cpus=node.cpu_milli,
            memory_bytes=node.memory_mib,
            gpus=tuple(Gpu(id=GpuId(100 * number + index), index=index) for index in range(node.gpus)),
        )
        for number, node in enumerate(nodes)
    ]
    return Cluster(made, ("node",))


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/openb is not here")
@pytest.mark.parametrize("workload", ["default", pytest.param("gpuspec33", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "policy", first_every_day(["fgd", "best_fit", "dot_product", "clustering", "packing"], 2)
)
def test_tasks_go_where_the_published_rules_put_them(policy: str, workload: str) -> None:
    # Every twelfth node, filled beyond saturation; tasks without GPUs are no jobs here.
    tasks = [task for task in read_tasks(DATA, workload) if task.ask.gpus][::12]
    nodes = sorted(read_nodes(DATA)[::12], key=lambda node: (node.model, node.name))
    dice = GoRandom(42)
    arriving, _ = arrivals(tasks, nodes, dice)
    theirs = Replay(nodes, typical(tasks), policy, dice)
    cluster = cluster_of(nodes)
    claims = Claims(cluster)
    capacity = Capacity(cluster, claims.layers(), claims.evictable)
    jobs = [job(number, task) for number, task in enumerate(tasks)]
    norms = Norms(128_000, 8 * WHOLE)
    scorers: Mapping[str, Scorer] = {
        "fgd": Descent((), (), jobs),
        "best_fit": Tightness(norms),
        "dot_product": Product(norms),
        "clustering": Likeness(norms),
        "packing": Tiers(),
    }
    kinds = Kinds((), {}, cluster) if policy == "clustering" else None
    capacity.chooser = chooser_by(WholeGpus(scorers[policy], kinds))
    capacity.part_chooser = PartsByScore(scorers[policy], kinds)
    names = [node.name for node in nodes]
    placed = 0
    for number, task in enumerate(arriving):
        wanted = theirs.place(task)
        one = job(number, task)
        fit = capacity.find(demand_of(one, cluster, one.gpus))
        if fit is not None:
            capacity.take(fit)
        ours = (
            None if fit is None else cluster.fleets[fit.holding.model].nodes[fit.holding.parts[0].node].name
        )
        assert ours == (None if wanted is None else names[wanted]), f"task {number}: {task}"
        placed += fit is not None
    assert 0.5 * len(arriving) < placed < len(arriving)
