"""Batches of long-running services under tag constraints: time and objective, together and one by one.

    python benchmarks/bench_medea.py [--services 5 10 50] [--nodes 400] [--seed 1] [--ways heuristic]

Nodes have 0 to 8 free GPUs, 20 to a rack. Each service has 1 to 4 containers of 1 or 2 GPUs, no two on one
node; every third prefers to have its neighbour in its rack. Processor time of the
program, of the heuristic, of the heuristic in the order of the batch, and of the program asked about one
service after the other. And of a whole round that starts these services as jobs, on idle nodes of eight GPUs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parent.parent))

from scheduler.core.fitting.long_running import Batch, Layout, Service, by_popularity, one_by_one, value
from scheduler.core.fitting.long_running_program import optimum
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_snapshot, make_virtual_cluster


def batch_of(services: int, nodes: int, seed: int) -> Batch:
    random = Random(seed)
    made = []
    for number in range(services):
        tags = frozenset({f"app{number}"})
        constraints = [TagConstraint(tag=f"app{number}", most=0)]
        if number % 3 == 0:
            near = f"app{number + 1}"
            constraints.append(TagConstraint(tag=near, scope="rack", least=1, weight=1.0))
        made.append(
            Service(
                tags=tags,
                containers=random.randint(1, 4),
                gpus=random.choice((1, 2)),
                constraints=tuple(constraints),
            )
        )
    return Batch(
        services=tuple(made),
        free=tuple(random.randint(0, 8) for _ in range(nodes)),
        groups={"node": tuple(range(nodes)), "rack": tuple(node // 20 for node in range(nodes))},
        threshold=2,
    )


def program_one_by_one(batch: Batch) -> Layout:
    """Place each service by the program, knowing nothing of those to come."""
    free, running, layout = list(batch.free), list(batch.running), {}
    for number, service in enumerate(batch.services):
        alone = replace(batch, services=(service,), free=tuple(free), running=tuple(running))
        for nodes in optimum(alone).values():
            layout[number] = nodes
            running.append((service, nodes))
            for node, count in nodes.items():
                free[node] -= count * service.gpus
    return layout


WAYS: dict[str, Callable[[Batch], Layout]] = {
    "heuristic": by_popularity,
    "in order": one_by_one,
    "one by one": program_one_by_one,
    "program": optimum,
}


def round_of(batch: Batch, placer: str) -> Snapshot:
    """Return the services as jobs that wait for nodes of eight idle GPUs each."""
    nodes = [
        make_node(number + 1, gpus=8, rack=f"rack-{rack:03}")
        for number, rack in enumerate(batch.groups["rack"])
    ]
    jobs = [
        make_job(
            number,
            service.gpus,
            replicas=service.containers,
            tags=tuple(sorted(service.tags)),
            constraints=service.constraints,
        )
        for number, service in enumerate(batch.services, 1)
    ]
    everything = make_virtual_cluster(guaranteed={"V100": 8 * len(nodes)}, placer=placer)
    return make_snapshot(nodes=nodes, jobs=jobs, virtual_clusters=[everything])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, nargs="+", default=[5, 10, 50])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--placers", nargs="+", default=["medea", "consolidate"])
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(describe_machine())
    for services in given.services:
        batch = batch_of(services, given.nodes, given.seed)
        for name in given.ways:
            began = time.process_time()
            layout = WAYS[name](batch)
            seconds = time.process_time() - began
            print(
                f"{services:3} services, {given.nodes} nodes, {name:10}: {seconds:7.2f} s,"
                f" {len(layout)} placed"
                f", objective {value(batch, layout):.2f}",
                flush=True,
            )
        for placer in given.placers:
            snapshot = round_of(batch, placer)
            began = time.process_time()
            plan = decide(snapshot)
            seconds = time.process_time() - began
            print(
                f"{services:3} services, {given.nodes} nodes, a round by {placer}: {seconds:7.2f} s,"
                f" {len(plan.actions)} started",
                flush=True,
            )


if __name__ == "__main__":
    main()
