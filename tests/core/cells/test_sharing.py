"""Sharing safety: a virtual cluster in a shared cluster fares as it would alone (HiveD, section 3)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.cell_specification import Specification
from tests.core.cells.hierarchies import Draw, group, opportunistic, racks, random_specification, try_schedule
from tests.core.cells.oracle import CellState, Group, Placement, Preempt, Wait


def private_cluster(specification: Specification, owner: str) -> Specification:
    """Return the virtual cluster's cells by themselves: as little hardware as holds them."""
    alone = replace(specification, virtual_clusters={owner: specification.virtual_clusters[owner]})
    for physical in specification.physical:
        rest = tuple(cell for cell in alone.physical if cell is not physical)
        if any(cell.type == physical.type for cell in rest):
            try:
                compiled(replace(alone, physical=rest))
            except SpecificationError:
                continue
            alone = replace(alone, physical=rest)
    return alone


class Tenant:
    """Sends groups to a state, deletes what must make room, and remembers what was answered."""

    def __init__(self, state: CellState) -> None:
        self.state = state
        self.running: dict[str, Group] = {}

    def ask(self, wanted: Group, *, reserve: bool) -> tuple[object, ...]:
        """Return whether the group got GPUs, which, and which guaranteed groups made room."""
        before = self.guaranteed()
        answer = try_schedule(self.state, wanted, reserve=reserve)
        while isinstance(answer, Preempt):
            # Without a reservation, what the victims leave can make another place the best.
            for victim in answer.victims:
                self.state.delete(victim)
                del self.running[victim]
            assert not reserve or isinstance(self.state.schedule(wanted), Placement)
            answer = self.state.schedule(wanted)
        if not isinstance(answer, Placement):
            return (answer and answer.code,)
        self.running[wanted.name] = wanted
        return ("accepted", self.virtual(wanted), before - self.guaranteed())

    def virtual(self, wanted: Group) -> object:
        described = {each["name"]: each for each in self.state.dump()["groups"]}
        return described[wanted.name]["virtual_cells"]

    def guaranteed(self) -> set[str]:
        return {name for name, placement in self.state.groups.items() if placement.guaranteed}

    def end(self, name: str) -> None:
        """A group ends, if it has not been stopped."""
        if self.running.pop(name, None) is not None:
            self.state.delete(name)


def compare_with_private(seed: int, steps: int, *, opportunism: float) -> Counter[str]:
    """Run a sequence in the shared cluster and each virtual cluster's part of it in its private one."""
    dice = random.Random(seed)
    specification = random_specification(dice)
    shared = Tenant(CellState(specification))
    alone = {
        owner: Tenant(CellState(private_cluster(specification, owner)))
        for owner in specification.virtual_clusters
    }
    # A group that lapses may or may not have to stop, which depends on others; only a reservation makes sure
    # that it makes no difference to where the next one goes.
    lazy = dice.random() < 0.5
    draw, seen, asked = Draw(dice, shared.state.layout, lazy=0.4 if lazy else 0.0), Counter[str](), []
    for _ in range(steps):
        if asked and dice.random() < 0.4:
            name, owner = asked.pop(dice.randrange(len(asked)))
            shared.end(name)
            alone[owner].end(name)
            continue
        wanted = draw.group()
        if wanted.opportunistic:
            if dice.random() < opportunism and isinstance(try_schedule(shared.state, wanted), Placement):
                shared.running[wanted.name] = wanted
            continue
        asked.append((wanted.name, wanted.virtual_cluster))
        others = shared.guaranteed() - set(alone[wanted.virtual_cluster].running)
        reserve = lazy or dice.random() < 0.5
        here = shared.ask(wanted, reserve=reserve)
        there = alone[wanted.virtual_cluster].ask(wanted, reserve=reserve)
        assert here == there, f"{wanted} in {specification.virtual_clusters}"
        assert others <= shared.guaranteed(), "I8: no guaranteed group of another virtual cluster is stopped"
        seen[str(here[0])] += 1
    return seen


def test_each_virtual_cluster_fares_as_if_it_were_alone() -> None:
    """Whether it is accepted, on which virtual cells, and who of its own makes room (A.3.1, A.3.3)."""
    seen = sum((compare_with_private(seed, 40, opportunism=1.0) for seed in range(30)), Counter[str]())
    assert seen["accepted"] > 150
    assert seen["cells_in_use"] > 10


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_each_virtual_cluster_fares_as_if_it_were_alone_in_many_more_clusters() -> None:
    for seed in range(60, 1_500):
        compare_with_private(seed, 60, opportunism=0.8)


class CountsOnly:
    """What cells are compared with: quotas in numbers of GPUs, and the node where least is left over."""

    def __init__(self, layout: Layout) -> None:
        self.quota = {owner: Counter(layout.guaranteed(owner)) for owner in layout.owned}
        self.free: dict[str, dict[str, int]] = {}
        for leaf, (chain, _) in layout.where.items():
            nodes = self.free.setdefault(chain.gpu_model, {})
            nodes[leaf.node] = nodes.get(leaf.node, 0) + 1
        self.where: dict[str, tuple[Group, str, list[tuple[str, int]]]] = {}

    def schedule(self, wanted: Group) -> bool:
        model = wanted.gpu_model or next(iter(self.free))
        if self.quota[wanted.virtual_cluster][model] < wanted.gpus:
            return False
        free, found = dict(self.free[model]), []
        for gpus in sorted((gpus for pods, gpus in wanted.members for _ in range(pods)), reverse=True):
            fitting = [(left, node) for node, left in free.items() if left >= gpus]
            if not fitting:
                return False
            free[min(fitting)[1]] -= gpus
            found.append((min(fitting)[1], gpus))
        self.free[model] = free
        self.quota[wanted.virtual_cluster][model] -= wanted.gpus
        self.where[wanted.name] = wanted, model, found
        return True

    def delete(self, name: str) -> None:
        wanted, model, found = self.where.pop(name)
        self.quota[wanted.virtual_cluster][model] += wanted.gpus
        for node, gpus in found:
            self.free[model][node] += gpus


def fragmenting() -> tuple[Mapping[str, object], ...]:
    """Two virtual clusters with half of the nodes each: one runs small groups, one wants whole nodes."""
    return ({"cells": {"V100-RACK": 2}}, {"cells": {"V100-RACK": 2}})


def anomalies(seed: int, *, cells: bool) -> int:
    """Return how often a whole node was refused that the virtual cluster would have had alone."""
    small, large = fragmenting()
    specification = racks(small=small, large=large)
    layout, dice = compiled(specification), random.Random(seed)
    shared = CellState(specification) if cells else CountsOnly(layout)
    alone = CellState(
        replace(specification, virtual_clusters={"large": specification.virtual_clusters["large"]})
    )
    found, running, whole = 0, [], []
    for number in range(200):
        if dice.random() < 0.75:
            wanted = group(f"s{number}", "small", (1, dice.choice((1, 1, 2, 4))), gpu_model="V100")
            if accepted(shared.schedule(wanted)):
                running.append(wanted.name)
        elif len(whole) < 4 and dice.random() < 0.5:
            wanted = group(f"l{number}", "large", (1, 8), gpu_model="V100")
            assert accepted(alone.schedule(wanted))
            if accepted(shared.schedule(wanted)):
                whole.append(wanted.name)
            else:
                alone.delete(wanted.name)
                found += 1
        for names in (running, whole):
            if names and dice.random() < 0.35:
                name = names.pop(dice.randrange(len(names)))
                shared.delete(name)
                if names is whole:
                    alone.delete(name)
    return found


def accepted(answer: object) -> bool:
    return answer is True or isinstance(answer, Placement)


def test_counts_of_gpus_let_a_virtual_cluster_wait_that_would_not_alone() -> None:
    """The negative control (A.3.2): the same quotas in GPUs, and fragmentation by others."""
    assert sum(anomalies(seed, cells=False) for seed in range(10)) > 0
    assert sum(anomalies(seed, cells=True) for seed in range(10)) == 0


def test_opportunistic_groups_make_nobody_wait() -> None:
    """With every idle GPU lent out, a virtual cluster still gets all that it owns (A.3.3)."""
    state = CellState(racks(vision={"cells": {"V100-RACK": 1, "V100-SWITCH": 3}}, speech={}))
    for number in range(4 * 16):
        assert isinstance(
            state.schedule(opportunistic(f"o{number}", "speech", (1, 1), gpu_model="V100")), Placement
        )
    assert isinstance(state.schedule(opportunistic("more", "speech", (1, 1), gpu_model="V100")), Wait)
    for name, members in {"rack": (2, 8), "a": (1, 2), "b": (1, 2), "c": (1, 2)}.items():
        wanted = group(name, "vision", members)
        answer = state.schedule(wanted)
        assert isinstance(answer, Preempt)
        assert len(answer.victims) == wanted.gpus, "no more than its own number"
        for victim in answer.victims:
            state.delete(victim)
        assert isinstance(state.schedule(wanted), Placement)
        state.check()
