"""Our own search: the best numbers of replicas, then nodes for them, then improvement of a few at a time.

If nodes are ignored, the numbers of replicas that are best together follow exactly. Gangs choose one after
the other, and the best choice is remembered for each number of GPUs that the earlier gangs use together (a
multiple-choice knapsack). The resulting sum of values bounds that of any allocation. Then gangs that keep
their number keep their nodes, and the others get nodes, the largest first. A gang without room for all its
replicas takes the best number that fits. Last, a few nodes at a time are emptied, and the gangs on them and
some that wait are placed again at random: one with another number of replicas than before, the others with
what is best then. A change that is not better is undone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.building_blocks.elastic.arrangement import NOWHERE, Arrangement, Row
from scheduler.core.building_blocks.elastic.knapsack import best_choices
from scheduler.core.goodput.throughput import Floats, Ints
from scheduler.core.policies.pollux.problem import Problem

#: How often some nodes are emptied and filled again, and the most times in a row without success.
IMPROVEMENTS, IN_VAIN = 300, 30
#: So near to the bound, relatively, nothing is left to improve.
_NEAR = 1e-3
#: How many nodes at a time, at most, and how many of those that wait join in.
_NODES, _WAITING = 3, 4
#: A change must gain more than this; less is rounding.
_NOTHING = 1e-9
_NOBODY: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Allocation:
    """The nodes of each gang, the sum of their values, and the most that any allocation could have."""

    rows: list[Row]
    value: float
    bound: float


def search(problem: Problem, seed: int, improvements: int = IMPROVEMENTS) -> Allocation:
    """Return an allocation that is at least as good as the present one, where that is still possible."""
    task = _Task(problem)
    everyone = [number for number, gang in enumerate(problem.gangs) if not gang.pinned]
    sizes, bound = task.best_sizes(everyone, task.arrangement.left)
    task.lay_out(everyone, sizes)
    task.fill_up(everyone)
    bound += task.pinned_value
    task.improve(everyone, random.Random(seed), improvements, bound)
    rows, value = task.arrangement.rows, task.total()
    stay = Arrangement(problem.room, problem.gangs, limit=problem.limit, apart=problem.apart)
    for number in everyone:
        if not stay.fits(number, problem.gangs[number].base):
            break
        stay.put(number, problem.gangs[number].base)
    else:
        if problem.value_of(stay.rows) >= value - _NOTHING * abs(value):
            rows, value = stay.rows, problem.value_of(stay.rows)
    return Allocation(rows, value, max(bound, value))


class _Task:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.arrangement = Arrangement(problem.room, problem.gangs, limit=problem.limit, apart=problem.apart)
        self.moved, self.kept = problem.values(restarted=True), problem.values(restarted=False)
        self.largest_node = max(problem.room, default=0)
        self.sizes: list[Ints] = [np.array((0, *gang.sizes), dtype=np.int64) for gang in problem.gangs]
        #: By gang: the value where it is.
        self.at_base = [
            float(self.kept[int(len(gang.base) > 1), number, sum(gang.base.values())])
            for number, gang in enumerate(problem.gangs)
        ]
        self.now = [
            self.at_base[number] if gang.pinned else self.worth(number, NOWHERE)
            for number, gang in enumerate(problem.gangs)
        ]
        self.pinned_value = sum([self.now[n] for n, gang in enumerate(problem.gangs) if gang.pinned])
        self.options = [self._options(number) for number in range(len(problem.gangs))]

    def total(self) -> float:
        return float(sum(self.now))

    def worth(self, number: int, row: Row) -> float:
        """Return the value of a gang on some nodes."""
        if row == self.problem.gangs[number].base:
            return self.at_base[number]
        return float(self.moved[int(len(row) > 1), number, sum(row.values())])

    def _options(self, number: int) -> tuple[Ints, Floats]:
        """Return the sizes of a gang in GPUs, and the most that each can be worth."""
        gang, sizes = self.problem.gangs[number], self.sizes[number]
        near, far = self.moved[0, number, sizes], self.moved[1, number, sizes]
        fits = sizes * gang.replica_gpus <= self.largest_node
        best = np.where(fits, near if gang.on_one_node else np.maximum(near, far), far)
        if gang.on_one_node:
            best = np.where(fits, best, -np.inf)
        base = sum(gang.base.values())
        best = np.where(sizes == base, np.maximum(best, self.at_base[number]), best)
        return sizes * gang.replica_gpus, best

    def best_sizes(
        self, gangs: Sequence[int], gpus: int, other_than: Mapping[int, int] = _NOBODY
    ) -> tuple[dict[int, int], float]:
        """Return the replicas of each gang that are best together, and their worth, given `gpus` GPUs on
        nodes without bounds. A gang in `other_than` must have another number than the one there.
        """
        options = [
            (each, np.where(self.sizes[number] == other_than.get(number, -1), -np.inf, worth))
            for number in gangs
            for each, worth in [self.options[number]]
        ]
        places, worth = best_choices(options, gpus)
        sizes = {number: int(self.sizes[number][place]) for number, place in zip(gangs, places, strict=True)}
        return sizes, worth

    def lay_out(self, gangs: Sequence[int], sizes: dict[int, int], rng: random.Random | None = None) -> None:
        """Assign nodes to gangs that have none: first those that keep their size, in place, then the others,
        the largest first. With `rng` the others come in random order, and half the time no gang keeps its
        place.
        """
        every = self.problem.gangs
        others = []
        may_stay = rng is None or rng.random() < 0.5
        for number in gangs:
            base = every[number].base
            keeps = may_stay and bool(base) and sum(base.values()) == sizes[number]
            if keeps and self.arrangement.fits(number, base):
                self._put(number, base)
            elif sizes[number]:
                others.append(number)
        if rng is None:
            others.sort(key=lambda number: -sizes[number] * every[number].replica_gpus)
        else:
            rng.shuffle(others)
        for number in others:
            self._reseat(number, sizes[number])

    def fill_up(self, gangs: Sequence[int]) -> None:
        """Give each gang in turn its best allocation of what is left."""
        for number in gangs:
            if self.arrangement.left <= 0:
                return
            self._reseat(number, None)

    def improve(self, gangs: Sequence[int], rng: random.Random, times: int, bound: float) -> None:
        """Empty and fill a few nodes at a time, and keep what is better, until no try succeeds."""
        arrangement, movable = self.arrangement, set(gangs)
        nodes = range(len(self.problem.room))
        if not nodes:
            return
        on_node: list[set[int]] = [set() for _ in nodes]
        for number, row in enumerate(arrangement.rows):
            for node in row:
                on_node[node].add(number)
        in_vain = 0
        for _ in range(times):
            if in_vain == IN_VAIN or bound - self.total() <= _NEAR * abs(bound):
                return
            in_vain += 1
            some = rng.sample(nodes, min(len(nodes), rng.randint(1, _NODES)))
            inside = sorted(movable.intersection(*[set().union(*[on_node[node] for node in some])]))
            waiting = [number for number in gangs if not arrangement.rows[number]]
            inside += rng.sample(waiting, min(len(waiting), _WAITING))
            if not inside:
                continue
            before = {number: arrangement.rows[number] for number in inside}
            value = sum([self.now[number] for number in inside])
            had = sum([sum(row.values()) * self.problem.gangs[n].replica_gpus for n, row in before.items()])
            idle = sum([arrangement.room[node] for node in some])
            for number in inside:
                self._put(number, NOWHERE)
            # The best numbers together may not fit on nodes, so one gang gets another number now and then.
            odd = rng.choice(inside) if rng.random() < 0.5 else -1
            other_than = {odd: sum(before[odd].values())} if odd >= 0 else _NOBODY
            sizes, _ = self.best_sizes(inside, min(had + idle, arrangement.left), other_than)
            self.lay_out(inside, sizes, rng)
            rng.shuffle(inside)
            self.fill_up(inside)
            if sum([self.now[number] for number in inside]) <= value + _NOTHING * abs(value):
                for number in inside:
                    self._put(number, NOWHERE)
                for number, row in before.items():
                    self._put(number, row)
                continue
            in_vain = 0
            for number, row in before.items():
                for node in row:
                    on_node[node].discard(number)
                for node in arrangement.rows[number]:
                    on_node[node].add(number)

    def _put(self, number: int, row: Row) -> None:
        self.arrangement.put(number, row)
        self.now[number] = self.worth(number, row)

    def _reseat(self, number: int, most: int | None) -> None:
        """Give a gang the best nodes available to it now, for at most `most` replicas."""
        arrangement, gang = self.arrangement, self.problem.gangs[number]
        before = arrangement.rows[number]
        was = self.now[number]
        arrangement.remove(number)
        sizes = self.sizes[number]
        if most is not None:
            sizes = sizes[sizes <= most]
        near, far = arrangement.most_on_one_node(number), arrangement.most_over_nodes(number)
        best = np.where(
            sizes <= near,
            self.moved[0, number, sizes],
            np.where(sizes <= far, self.moved[1, number, sizes], -np.inf),
        )
        best[0] = self.worth(number, NOWHERE)
        place = int(best.argmax())
        row = arrangement.find(number, int(sizes[place])) if sizes[place] else NOWHERE
        if row is not None and len(row) > self.problem.most_nodes:
            row = None
        choices = [(was, before)]
        if row is not None:
            choices.append((self.worth(number, row), row))
        may_return = bool(gang.base) and (most is None or sum(gang.base.values()) <= most)
        if may_return and gang.base not in (before, row) and arrangement.fits(number, gang.base):
            choices.append((self.at_base[number], gang.base))
        value, row = max(choices, key=lambda choice: choice[0])
        arrangement.put(number, row)
        self.now[number] = value
