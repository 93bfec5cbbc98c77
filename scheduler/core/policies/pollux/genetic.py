"""Pollux's own search: a genetic algorithm over replicas by gang and node (OSDI'21, section 4.2.1).

A population of allocations; each generation adds as many new ones by mutation, crossover and repair, and the
better half lives on. Mutation: with probability 0.1 a gang goes back to its present nodes. With probability
0.1 it loses each of its nodes with probability 0.1. On about one node with room, and on one of its own, its
number is raised to a random one. Crossover: the gangs before a random one are swapped between two
allocations. Repair: only the first gang over several nodes stays on each node; then replicas beyond a gang's
maximum are removed on random nodes, and those beyond a node's capacity from the last gangs. Gangs with a
number that they may not have get the next smaller one allowed, or nothing.

Deviations: fitness alone decides who lives on (the published code also keeps allocations that use GPUs well,
for clusters whose size can change); parents are chosen by tournaments of two; the present allocation, the
previous one and the one in which no gang moves are always in the first population.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.building_blocks.elastic.arrangement import Row
from scheduler.core.goodput.throughput import Floats
from scheduler.core.policies.pollux.problem import Counts, Problem

Flags = NDArray[np.bool_]

POPULATION = 100
GENERATIONS = 100


class Population:
    """Allocations of one problem, the best first, and the sums of their values."""

    def __init__(
        self, problem: Problem, seed: int, remembered: Sequence[Sequence[Row]] = (), size: int = POPULATION
    ) -> None:
        self.problem, self.size = problem, size
        self._rng = np.random.default_rng(seed)
        self._moved, self._kept = problem.values(restarted=True), problem.values(restarted=False)
        self._base = self._counts(problem.base)
        self._each = np.array([gang.replica_gpus for gang in problem.gangs], dtype=np.int64)
        self._room = np.array(problem.room, dtype=np.int64)
        self._pinned = np.array([gang.pinned for gang in problem.gangs], dtype=np.bool_)
        #: GPUs of each node, and in all, that pinned gangs leave.
        taken = (self._base[self._pinned] * self._each[self._pinned][:, None]).sum(axis=0)
        self._left, self._left_in_all = self._room - taken, problem.limit - int(taken.sum())
        allowed = np.ones(self._base.shape, dtype=np.bool_)
        for number, gang in enumerate(problem.gangs):
            if gang.nodes is not None:
                allowed[number] = False
                allowed[number, sorted(gang.nodes)] = True
        self._allowed = allowed
        self._single = np.array([gang.on_one_node for gang in problem.gangs], dtype=np.bool_)
        #: By gang and number: the largest size that is no larger.
        width = problem.speedups.shape[2]
        self._next_size = np.zeros((len(problem.gangs), width), dtype=np.int64)
        for number, gang in enumerate(problem.gangs):
            for size in gang.sizes:
                self._next_size[number, size:] = size
        self._most = self._next_size[:, -1] if width else np.zeros(0, dtype=np.int64)
        first = np.stack([self._base, *[self._counts(rows) for rows in remembered]])
        mutants = self._mutated(np.repeat(first, -(-size // len(first)), axis=0)[:size])
        self._states, self._values = self._best(
            np.concatenate([self._repaired(first), self._repaired(mutants)])
        )

    def evolve(self, generations: int = GENERATIONS) -> None:
        """Run this many generations."""
        for _ in range(generations):
            children = self._repaired(self._mutated(self._crossed()))
            self._states, self._values = self._best(np.concatenate([self._states, children]), self._values)

    @property
    def best(self) -> tuple[list[Row], float]:
        """The best allocation, and the sum of its values."""
        return self._rows(0), float(self._values[0])

    def remember(self, count: int) -> list[list[Row]]:
        """Return the best few."""
        return [self._rows(place) for place in range(min(count, len(self._states)))]

    def _counts(self, rows: Sequence[Row]) -> Counts:
        counts = np.zeros((len(self.problem.gangs), len(self.problem.room)), dtype=np.int16)
        for number, row in enumerate(rows):
            for node, replicas in row.items():
                counts[number, node] = replicas
        return counts

    def _rows(self, place: int) -> list[Row]:
        return [{int(node): int(row[node]) for node in np.flatnonzero(row)} for row in self._states[place]]

    def _best(self, states: Counts, known: Floats | None = None) -> tuple[Counts, Floats]:
        begin = 0 if known is None else len(known)
        values = self._evaluated(states[begin:])
        values = values if known is None else np.concatenate([known, values])
        flat = states.reshape(len(states), -1)
        # Duplicates are dropped: a population of equals has nothing to cross. Among equal values the first
        # stays first.
        order = np.argsort(-values, kind="stable")
        chosen, seen = [], set[bytes]()
        for place in order.tolist():
            key = flat[place].tobytes()
            if key not in seen:
                seen.add(key)
                chosen.append(place)
                if len(chosen) == self.size:
                    break
        return states[chosen], values[chosen]

    def _evaluated(self, states: Counts) -> Floats:
        spread = (np.count_nonzero(states, axis=2) > 1).astype(np.int64)
        replicas = states.sum(axis=2, dtype=np.int64)
        gangs = np.arange(replicas.shape[1])
        changed = (states != self._base).any(axis=2)
        values = np.where(changed, self._moved[spread, gangs, replicas], self._kept[spread, gangs, replicas])
        total: Floats = values.sum(axis=1)
        return total

    def _crossed(self) -> Counts:
        count = len(self._states)
        # The states are sorted, so that the smaller of two numbers wins the tournament.
        parents = self._rng.integers(count, size=(2, 2, self.size)).min(axis=1)
        cuts = self._rng.integers(len(self.problem.gangs), size=self.size)
        before = np.arange(len(self.problem.gangs))[None, :] < cuts[:, None]
        crossed: Counts = np.where(before[:, :, None], self._states[parents[0]], self._states[parents[1]])
        return crossed

    def _mutated(self, states: Counts) -> Counts:
        rng = self._rng
        back = rng.random(states.shape[:2], dtype=np.float32) < 0.1
        states = np.where(back[:, :, None], self._base, states)
        loses = rng.random(states.shape[:2], dtype=np.float32) < 0.1
        where = np.nonzero(loses)
        some = states[where]
        some[rng.random(some.shape, dtype=np.float32) < 0.1] = 0
        states[where] = some
        each = self._each[None, :, None]
        free = self._room - (states * each).sum(axis=1)
        roomy = (each <= free[:, None, :]) & self._allowed
        on = roomy & (states > 0)
        first = roomy / np.maximum(roomy.sum(axis=1, keepdims=True), 1)
        second = on / np.maximum(on.sum(axis=1, keepdims=True), 1)
        raised = np.nonzero(rng.random(states.shape, dtype=np.float32) < first + second - first * second)
        present = states[raised].astype(np.int64)
        most = np.maximum(self._room[raised[2]] // self._each[raised[1]], present)
        states[raised] = rng.integers(present, most + 1)
        return states

    def _repaired(self, states: Counts) -> Counts:
        states[:, self._pinned] = self._base[self._pinned]
        several = np.count_nonzero(states, axis=2) > 1
        if self._single.any():
            several = self._one_node(states, several)
        if self.problem.apart:
            spread = several[:, :, None] & (states > 0)
            pinned = self._pinned[None, :, None]
            before = np.cumsum(spread & ~pinned, axis=1, dtype=np.int16)
            before += (spread & pinned).sum(axis=1, keepdims=True, dtype=np.int16)
            states = np.where(spread & ~pinned & (before > 1), 0, states)
        states = self._capped(states)
        # Pinned gangs keep their nodes; the others share what that leaves, in their order.
        loose = np.where(self._pinned[:, None], 0, self._each[:, None])
        used = np.cumsum(states * loose, axis=1)
        if (used > self._left).any():
            kept = np.diff(np.minimum(used, self._left), axis=1, prepend=0)
            states = np.where(self._pinned[:, None], states, kept // self._each[:, None]).astype(np.int16)
        states = self._sized(states)
        total = np.cumsum((states * loose).sum(axis=2, dtype=np.int64), axis=1)
        states[(total > self._left_in_all) & ~self._pinned] = 0
        return states

    def _one_node(self, states: Counts, several: Flags) -> Flags:
        """Reduce gangs that must be on one node to what they have on their fullest node."""
        where = np.nonzero(several & self._single)
        some = states[where]
        only = np.zeros_like(some)
        rows, fullest = np.arange(len(some)), some.argmax(axis=1)
        only[rows, fullest] = some[rows, fullest]
        states[where] = only
        return several & ~self._single

    def _capped(self, states: Counts) -> Counts:
        """Take away replicas beyond the most that a gang may have, and nodes beyond the most, at random."""
        over = states.sum(axis=2, dtype=np.int64) > self._most
        over |= np.count_nonzero(states, axis=2) > self.problem.most_nodes
        over &= ~self._pinned
        where = np.nonzero(over)
        if len(where[0]):
            some = states[where]
            shuffled = np.argsort(self._rng.random(some.shape, dtype=np.float32), axis=1)
            there = np.take_along_axis(some, shuffled, axis=1)
            there = np.minimum(np.cumsum(there, axis=1), self._most[where[1]][:, None])
            there = np.diff(there, axis=1, prepend=0)
            there[np.cumsum(there > 0, axis=1) > self.problem.most_nodes] = 0
            np.put_along_axis(some, shuffled, there.astype(np.int16), axis=1)
            states[where] = some
        return states

    def _sized(self, states: Counts) -> Counts:
        """Give gangs the next smaller of their sizes: one replica at a time goes, from the fewest upwards."""
        replicas = states.sum(axis=2, dtype=np.int64)
        sizes = self._next_size[np.arange(len(self._most)), replicas]
        where = np.nonzero((replicas != sizes) & ~self._pinned)
        if len(where[0]):
            some = states[where]
            kept = np.minimum(np.cumsum(some, axis=1), sizes[where][:, None])
            states[where] = np.diff(kept, axis=1, prepend=0)
        return states
