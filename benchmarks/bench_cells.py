"""Time the cells: groups scheduled and deleted per second on a cluster that is nine tenths full.

    python benchmarks/bench_cells.py [--gpus 1000 10000 100000] [--clusters 1 20 200] [--pairs 2000]

The hardware is nodes of 8 GPUs (pairs, sockets) in racks of 16 nodes. The virtual clusters own nine tenths
of it: racks where their share is large enough, nodes, and four pairs each. They are filled with guaranteed
groups until 90 % of what they own is used. Then a *pair* is one schedule() that gets GPUs, and the delete()
of as many groups, the oldest first, as it takes to keep the load.

*lent out* is the same while opportunistic groups hold all that is idle: whatever a guaranteed group takes is
taken from them, and what it leaves is lent out again; their calls are counted in the time, not as pairs.

The rival in the same run is first-fit by counts of GPUs per node, with no topology, no guarantee and no
virtual clusters: the least that a scheduler must do to know where a group runs.

Times are of one core's processor time, so that neighbours on the machine do not count. Memory is what
tracemalloc finds when the state is full.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from machine import describe_machine

from scheduler.core.cells import (
    OPPORTUNISTIC,
    CellState,
    CellType,
    Group,
    PhysicalCell,
    Placement,
    Preempt,
    Specification,
    VirtualCells,
)

NODES_A_RACK = 16
#: (pods, GPUs of each, weight): mostly small groups, a few gangs over several nodes.
SHAPES = ((1, 1, 60), (1, 2, 12), (1, 4, 12), (1, 8, 10), (2, 8, 4), (4, 4, 2))
LOAD = 0.9


def make_specification(gpus: int, clusters: int) -> Specification:
    types = (
        CellType(name="PAIR", of="GPU", count=2),
        CellType(name="SOCKET", of="PAIR", count=2),
        CellType(name="NODE", of="SOCKET", count=2, node=True),
        CellType(name="RACK", of="NODE", count=NODES_A_RACK),
    )
    racks = -(-gpus // (8 * NODES_A_RACK))
    physical = tuple(
        PhysicalCell(
            type="RACK",
            name=f"rack-{rack:04d}",
            nodes=tuple(f"node-{rack:04d}-{node:02d}" for node in range(NODES_A_RACK)),
        )
        for rack in range(racks)
    )
    nodes = racks * NODES_A_RACK * 9 // 10 // clusters
    owned = {
        "RACK": nodes // 2 // NODES_A_RACK,
        "NODE": nodes - nodes // 2 // NODES_A_RACK * NODES_A_RACK - 1,
        "PAIR": 4,
    }
    return Specification(
        types=types,
        physical=physical,
        virtual_clusters={f"vc-{number:03d}": VirtualCells(cells=owned) for number in range(clusters)},
    )


class Load:
    """Draws groups, and keeps virtual clusters as full as they were."""

    def __init__(self, state: CellState, seed: int) -> None:
        self.state, self.dice = state, random.Random(seed)
        self.number = self.waits = self.victims = 0
        self.lending = False
        owners = list(state.layout.owned)
        self.running: dict[str, deque[Group]] = {owner: deque() for owner in owners}
        self.used = dict.fromkeys(owners, 0)
        self.owners = owners
        self.capacity = {owner: sum(state.layout.guaranteed(owner).values()) for owner in owners}

    def draw(self, owner: str, priority: int = 10) -> Group:
        ((pods, gpus, _),) = self.dice.choices(SHAPES, [weight for *_, weight in SHAPES])
        self.number += 1
        return Group(
            name=f"g{self.number}", virtual_cluster=owner, priority=priority, members=((pods, gpus),)
        )

    def start(self, owner: str) -> bool:
        group = self.draw(owner)
        answer = self.state.schedule(group)
        if isinstance(answer, Preempt):
            for victim in answer.victims:
                self.state.delete(victim)
                self.victims += 1
            answer = self.state.schedule(group)
        if not isinstance(answer, Placement):
            self.waits += 1
            return False
        self.running[owner].append(group)
        self.used[owner] += group.gpus
        return True

    def end(self, owner: str) -> None:
        group = self.running[owner].popleft()
        self.state.delete(group.name)
        self.used[owner] -= group.gpus
        if self.lending:
            self.lend(sizes=(1,) * group.gpus if group.gpus < 8 else (8,) * (group.gpus // 8))

    def fill(self) -> None:
        for owner in self.owners:
            waits = 0
            while self.used[owner] < LOAD * self.capacity[owner] and waits < 20:
                waits += not self.start(owner)

    def lend(self, sizes: Iterable[int]) -> None:
        """Let opportunistic groups of these sizes have idle GPUs."""
        for size in sizes:
            self.number += 1
            group = Group(
                name=f"o{self.number}",
                virtual_cluster=self.owners[0],
                priority=OPPORTUNISTIC,
                members=((1, size),),
            )
            while isinstance(self.state.schedule(group), Placement):
                self.number += 1
                group = replace(group, name=f"o{self.number}")

    def pairs(self, count: int) -> None:
        """Let so many groups start, and others end so that the load stays."""
        for _ in range(count):
            owner = self.dice.choice(self.owners)
            while self.running[owner] and self.used[owner] >= LOAD * self.capacity[owner]:
                self.end(owner)
            while not self.start(owner):
                self.end(owner)


class FirstFit:
    """Counts of GPUs per node, and the first nodes that have enough."""

    def __init__(self, gpus: int) -> None:
        self.free = [8] * (gpus // 8)
        self.where: dict[str, list[tuple[int, int]]] = {}

    def schedule(self, group: Group) -> bool:
        found: list[tuple[int, int]] = []
        for pods, gpus in group.members:
            for node, free in enumerate(self.free):
                while free >= gpus and len(found) < pods:
                    found.append((node, gpus))
                    free -= gpus
                if len(found) == pods:
                    break
            else:
                return False
        for node, gpus in found:
            self.free[node] -= gpus
        self.where[group.name] = found
        return True

    def delete(self, name: str) -> None:
        for node, gpus in self.where.pop(name):
            self.free[node] += gpus


def first_fit_pairs(gpus: int, count: int, seed: int) -> float:
    """Return the processor seconds of a pair under first-fit at the same load."""
    dice, rival, running, used = random.Random(seed), FirstFit(gpus), deque[Group](), 0
    shapes = dice.choices(SHAPES, [weight for *_, weight in SHAPES], k=gpus + 2 * count)
    groups = iter(
        Group(name=f"g{number}", virtual_cluster="", priority=0, members=((pods, size),))
        for number, (pods, size, _) in enumerate(shapes)
    )
    while used < LOAD * gpus:
        group = next(groups)
        if rival.schedule(group):
            running.append(group)
            used += group.gpus
    wanted = [next(groups) for _ in range(count)]
    start = time.process_time()
    for group in wanted:
        while used >= LOAD * gpus or not rival.schedule(group):
            ended = running.popleft()
            rival.delete(ended.name)
            used -= ended.gpus
        running.append(group)
        used += group.gpus
    return (time.process_time() - start) / count


def rates(work: Callable[[int], None], count: int, runs: int) -> list[float]:
    """Return pairs per second of each run."""
    found = []
    for _ in range(runs):
        gc.collect()
        start = time.process_time()
        work(count)
        found.append(count / (time.process_time() - start))
    return found


def memory(specification: Specification, seed: int) -> tuple[int, int]:
    """Return the bytes of a state with no groups, and of one that is full."""
    gc.collect()
    tracemalloc.start()
    state = CellState(specification)
    empty, _ = tracemalloc.get_traced_memory()
    load = Load(state, seed)
    load.fill()
    full, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return empty, full


def report(gpus: int, clusters: int, options: argparse.Namespace) -> None:
    specification = make_specification(gpus, clusters)
    load = Load(CellState(specification), options.seed)
    load.fill()
    use = sum(load.used.values()) / sum(load.capacity.values())
    load.waits = 0
    found = rates(load.pairs, options.pairs, options.runs)
    median, waits = statistics.median(found), load.waits
    rival = 1 / first_fit_pairs(gpus, options.pairs, options.seed)
    load.lending = True
    load.lend((8, 4, 2, 1))
    lent = rates(load.pairs, options.pairs // 4, 1)[0]
    print(
        f"{gpus:>7} GPUs {clusters:>4} VCs, {use:.0%} used: median {median:>6.0f} pairs/s"
        f"  raw {' '.join(f'{rate:.0f}' for rate in found)}; {waits} waited"
        f"\n{'':26}first-fit {rival:.0f}/s, {rival / median:.0f} times as many;"
        f" lent out {lent:.0f}/s with {load.victims} victims",
        flush=True,
    )
    if options.memory:
        empty, full = memory(specification, options.seed)
        print(f"{'':26}state {empty / 2**20:.1f} MiB, full {full / 2**20:.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--clusters", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    print(describe_machine())
    print(f"{options.pairs} pairs a run, {options.runs} runs, seed {options.seed}")
    for gpus in options.gpus:
        for clusters in options.clusters:
            if gpus // clusters >= 40:
                report(gpus, clusters, options)


if __name__ == "__main__":
    main()
