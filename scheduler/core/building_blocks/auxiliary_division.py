"""The division of nodes' CPUs and memory among gangs whose GPUs are placed already.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022,
section 4: GPUs alone decide which jobs run, and no job is slower than with its proportional share, the
fraction of its node's GPUs that it has. Deviations: placers choose the nodes here; the published mechanisms
choose them themselves (`auxiliary_shares`). `greedy` first gives each job the share that it is owed; the
published one skips a job that does not fit. When `tune` has cut jobs, what is left goes to them, in their
order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

from scheduler.core.model.auxiliary import GREEDY, PROPORTIONAL, TUNE, AuxiliaryShare
from scheduler.core.model.snapshot import Job, Task

#: CPUs, and bytes of memory.
Amounts = tuple[float, float]
#: (GPU model, number of the node in its fleet).
Node = tuple[str, int]
_ROUNDING = 1e-6
#: CPUs are given in steps of one in this many.
PARTS_OF_A_CPU = 1_000


class Part(NamedTuple):
    """Replicas of a gang on one node. Amounts are for each of them."""

    node: Node
    replicas: int
    #: The CPUs and memory in proportion to its GPUs.
    proportional: Amounts
    #: This many gangs run there one at a time, each with the CPUs of all.
    turns: int = 1

    def of_node(self, amounts: Amounts) -> Amounts:
        """Return what all the replicas take of their node with this amount each."""
        return amounts[0] * self.replicas / self.turns, amounts[1] * self.replicas


class Claim(NamedTuple):
    """Replicas of one task of a gang that leave CPUs or memory to the platform; an amount that the job states
    counts as 0.
    """

    parts: tuple[Part, ...]
    #: The amounts at which a replica is fastest; infinite where unknown, so that it gets its proportional
    #: share.
    best: Amounts


#: What each replica of a claim has, by the claim's parts.
Given = list[Amounts]
#: A mechanism: it returns what each claim gets, in the order of the policy, from what is free on each node.
Division = Callable[[Mapping[Node, Amounts], Sequence[Claim]], list[Given]]


def proportional(free: Mapping[Node, Amounts], claims: Sequence[Claim]) -> list[Given]:
    """Give each claim CPUs and memory in proportion to its GPUs."""
    return _lower_bounds(free, claims, list(map(_fair, claims)))


def greedy(free: Mapping[Node, Amounts], claims: Sequence[Claim]) -> list[Given]:
    """Give each claim the share that it is owed, then more as far as it helps, in order."""
    lower_bounds = _lower_bounds(free, claims, _owed(claims))
    room = _Room(free)
    given = [room.give(claim, least) for claim, least in zip(claims, lower_bounds, strict=True)]
    for claim, its in zip(claims, given, strict=True):
        room.raise_to_best(claim, its)
    return given


def tune(free: Mapping[Node, Amounts], claims: Sequence[Claim]) -> list[Given]:
    """Give each claim in turn its best amounts while there is room, else what it is owed, cutting others to
    what they are owed: those on the fewest nodes first, then those with most CPUs. What is left then goes to
    the claims in their order.
    """
    lower_bounds = _lower_bounds(free, claims, _owed(claims))
    best = [
        [_best_of(claim, lower_bound) for lower_bound in its]
        for claim, its in zip(claims, lower_bounds, strict=True)
    ]
    given: list[Given] = []
    room = _Room(free)
    on_node: dict[Node, list[int]] = {}
    for number, (claim, most, least) in enumerate(zip(claims, best, lower_bounds, strict=True)):
        if all(map(room.has, claim.parts, most)):
            given.append(room.give(claim, most))
        else:
            for part, amounts in zip(claim.parts, least, strict=True):
                _cut_others(room, part, amounts, claims, given, lower_bounds, on_node.get(part.node, ()))
            given.append(room.give(claim, least))
        for part in claim.parts:
            on_node.setdefault(part.node, []).append(number)
    for claim, its, most in zip(claims, given, best, strict=True):
        if its != most:
            room.raise_to_best(claim, its)
    return given


#: By the name that an operator chooses.
DIVISIONS: Mapping[str, Division] = {PROPORTIONAL: proportional, GREEDY: greedy, TUNE: tune}


def best_of(task: Task) -> Amounts:
    """Return the least amounts at which a replica is fastest: 0 for an amount that its job states, infinite
    where unknown. CPUs are rounded up to thousandths.
    """
    if task.auto is None:
        return 0.0, 0.0
    cpus, memory = task.auto.sensitivity.best()
    if cpus is not None:
        cpus = ceil(cpus * PARTS_OF_A_CPU - _ROUNDING) / PARTS_OF_A_CPU
    return (
        (inf if cpus is None else cpus) if task.auto.cpus else 0.0,
        (inf if memory is None else memory) if task.auto.memory else 0.0,
    )


def tasks_of(job: Job, replicas: int) -> list[tuple[int, Task]]:
    """Return by rank the task of each replica, and its number in the specification.

    An elastic gang, which has one task, may have fewer or more replicas than its specification.
    """
    tasks = [each for each in enumerate(job.tasks) for _ in range(each[1].replicas)]
    return tasks + tasks[-1:] * (replicas - len(tasks))


def speed_with(job: Job, share: AuxiliaryShare) -> float:
    """Return the speed of a gang with this share, relative to its proportional share: that of its slowest
    replica.
    """
    speeds = []
    tasks = tasks_of(job, len(share.replicas))
    for (_, task), has, fair in zip(tasks, share.replicas, share.proportional, strict=False):
        known = task.auto and task.auto.sensitivity
        if known and (reference := known.speed(*_unlimited(fair))):
            speeds.append(known.speed(*_unlimited(has)) / reference)
    return min(speeds, default=1.0)


def _unlimited(amounts: tuple[float, int]) -> Amounts:
    return amounts[0] or inf, amounts[1] or inf


def _best_of(claim: Claim, lower_bound: Amounts) -> Amounts:
    """Return the most that a replica can use; where that is unknown, what it is owed."""
    cpus, memory = claim.best
    return (
        lower_bound[0] if cpus == inf else max(cpus, lower_bound[0]),
        lower_bound[1] if memory == inf else max(memory, lower_bound[1]),
    )


def _owed(claims: Iterable[Claim]) -> list[Given]:
    """Return each claim's proportional share, or its best amounts where these are less."""
    return [
        [(min(claim.best[0], cpus), min(claim.best[1], memory)) for cpus, memory in _fair(claim)]
        for claim in claims
    ]


def _fair(claim: Claim) -> list[Amounts]:
    return [part.proportional for part in claim.parts]


def _lower_bounds(
    free: Mapping[Node, Amounts], claims: Sequence[Claim], desired: Sequence[Given]
) -> list[Given]:
    """Return the desired amounts, scaled by one factor on each node where they exceed what is free."""
    sums: dict[Node, list[float]] = {}
    for claim, its in zip(claims, desired, strict=True):
        for part, amounts in zip(claim.parts, its, strict=True):
            cpus, memory = part.of_node(amounts)
            total = sums.setdefault(part.node, [0.0, 0.0])
            total[0] += cpus
            total[1] += memory
    factors = {
        node: (_factor(free[node][0], cpus), _factor(free[node][1], memory))
        for node, (cpus, memory) in sums.items()
        if cpus > free[node][0] or memory > free[node][1]
    }
    if not factors:
        return list(desired)
    return [
        [
            (amounts[0] * factor[0], amounts[1] * factor[1])
            for part, amounts in zip(claim.parts, its, strict=True)
            for factor in (factors.get(part.node, (1.0, 1.0)),)
        ]
        for claim, its in zip(claims, desired, strict=True)
    ]


def _factor(have: float, want: float) -> float:
    return min(1.0, max(have, 0.0) / want) if want else 1.0


def _cut_others(
    room: _Room,
    part: Part,
    desired: Amounts,
    claims: Sequence[Claim],
    given: list[Given],
    lower_bounds: Sequence[Given],
    holders: Collection[int],
) -> None:
    """Cut claims on a node to what they are owed, on all their nodes, until there is room."""

    def most_first(number: int) -> tuple[int, float, float]:
        cpus, memory = max(given[number])
        return len(claims[number].parts), -cpus, -memory

    for number in sorted(holders, key=most_first):
        if room.has(part, desired):
            return
        if given[number] != lower_bounds[number]:
            room.change(claims[number], given[number], lower_bounds[number])


class _Room:
    """What is left of each node."""

    def __init__(self, free: Mapping[Node, Amounts]) -> None:
        self._left = {node: list(amounts) for node, amounts in free.items()}

    def has(self, part: Part, amounts: Amounts) -> bool:
        """Whether replicas can have these amounts of their node."""
        left, (cpus, memory) = self._left[part.node], part.of_node(amounts)
        enough_cpus = cpus <= left[0] + _ROUNDING * max(cpus, 1.0)
        return enough_cpus and memory <= left[1] + _ROUNDING * max(memory, 1.0)

    def give(self, claim: Claim, amounts: Given) -> Given:
        """Give a claim these amounts of its nodes, and return a copy of them."""
        for part, each in zip(claim.parts, amounts, strict=True):
            left, (cpus, memory) = self._left[part.node], part.of_node(each)
            left[0] -= cpus
            left[1] -= memory
        return amounts.copy()

    def change(self, claim: Claim, given: Given, to: Given) -> None:
        """Give a claim other amounts instead of those that it has."""
        for part, has, more in zip(claim.parts, given, to, strict=True):
            left, held, taken = self._left[part.node], part.of_node(has), part.of_node(more)
            left[0] += held[0] - taken[0]
            left[1] += held[1] - taken[1]
        given[:] = to

    def raise_to_best(self, claim: Claim, given: Given) -> None:
        """Raise a claim towards its best amounts as far as its nodes have room, by the same part on all: a
        gang is as fast as its slowest replica.
        """
        for axis in (0, 1):
            best = claim.best[axis]
            if best == inf:
                continue
            ways: list[float] = []
            for part, amounts in zip(claim.parts, given, strict=True):
                lacking = part.of_node((best - amounts[axis],) * 2)[axis]
                if lacking > 0:
                    ways.append(max(self._left[part.node][axis], 0.0) / lacking)
            way = min(1.0, *ways) if ways else 0.0
            if not way:
                continue
            raised: Given = []
            for amounts in given:
                more = [*amounts]
                more[axis] += max(best - amounts[axis], 0.0) * way
                raised.append((more[0], more[1]))
            self.change(claim, given, raised)
