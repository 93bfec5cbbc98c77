"""The fragmentation of a node, which is its unusable idle GPUs, and the placement that reduces it most.

Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 3 (the measure) and 4 (the descent), with the scores and ties of the
authors' simulator (hkust-adsl/kubernetes-scheduler-simulator), on which the published figures depend.

A task's *fragment* of a node is what it cannot use there: all that is idle when the task cannot run on the
node (too few CPUs, another model, too few GPUs with enough free) or needs no GPU; else the idle part of GPUs
that have too little free for it. The fragmentation of a node is the expected fragment of a task drawn from
the target workload. Shares of GPUs are in 1/1000, CPUs in any one unit; memory is ignored, as in the paper.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from scheduler.core.model.processors import canonical
from scheduler.core.model.snapshot import Task
from scheduler.core.model.task_kind import TaskKind

#: A whole GPU, in the unit of shares.
WHOLE = 1_000


class Ask(NamedTuple):
    """What a task takes of one node: `gpus` GPUs, and `share` of each of them."""

    gpus: int
    cpus: float = 0.0
    #: Less than WHOLE only for a task of one GPU.
    share: int = WHOLE
    #: Models it accepts; empty: any.
    models: frozenset[str] = frozenset()


def kinds_of(tasks: Iterable[Task], gpu_models: tuple[str, ...], jobs: float = 1.0) -> list[TaskKind]:
    """Return the kinds of replicas of `jobs` jobs that have these tasks and accept these models."""
    return [
        TaskKind(
            gpus=task.gpus,
            cpus=task.cpus,
            share=task.milligpus // task.gpus if task.gpus else 0,
            gpu_models=gpu_models,
            count=task.replicas * jobs,
        )
        for task in tasks
    ]


def asks_of(kinds: Iterable[TaskKind]) -> dict[Ask, float]:
    """Return the number of replicas of each kind."""
    counts: dict[Ask, float] = {}
    for kind in kinds:
        ask = Ask(kind.gpus, kind.cpus, kind.share, frozenset(kind.gpu_models))
        counts[ask] = counts.get(ask, 0.0) + kind.count
    return counts


class Free(NamedTuple):
    """What is idle on one node."""

    model: str
    cpus: float
    #: The idle share of each GPU.
    shares: tuple[int, ...]


class Cause(Enum):
    """Why a task cannot use a node's idle GPUs, in the order of the authors' simulator."""

    GPUS_AND_CPUS = "gpus_and_cpus"
    #: Too few GPUs with enough free; also GPUs with too little free beside others with enough.
    GPUS = "gpus"
    CPUS = "cpus"
    #: The task needs no GPU, whether or not its CPUs are free.
    NO_GPU = "no_gpu"
    NO_GPU_NO_CPUS = "no_gpu_no_cpus"
    MODEL = "model"

    # Hashed by identity: members are looked up often, and hashing their names is slow.
    __hash__ = object.__hash__


def _cause(free: Free, ask: Ask, able: int) -> Cause | None:
    """Return why the task cannot run on the node or uses no GPU; None if it runs there on GPUs.

    `able`: the number of GPUs with enough free for it.
    """
    short = ask.cpus > free.cpus
    if not ask.gpus:
        return Cause.NO_GPU_NO_CPUS if short else Cause.NO_GPU
    if ask.models and free.model not in ask.models:
        return Cause.MODEL
    if able >= ask.gpus:
        return Cause.CPUS if short else None
    return Cause.GPUS_AND_CPUS if short else Cause.GPUS


def runs_on(free: Free, ask: Ask) -> bool:
    """Whether the task can run on the node now."""
    if ask.cpus > free.cpus or (ask.gpus and ask.models and free.model not in ask.models):
        return False
    return sum([share >= ask.share for share in free.shares]) >= ask.gpus


def fragment(free: Free, ask: Ask) -> int:
    """Return what the task cannot use of the node's idle GPUs."""
    if not ask.gpus or not runs_on(free, ask):
        return sum(free.shares)
    return sum([share for share in free.shares if share < ask.share])


def frequent(counts: Mapping[Ask, float], covering: float = 0.95) -> dict[Ask, float]:
    """Return the most frequent kinds of tasks that together are the part `covering` of all, with their
    frequencies.

    Among equally frequent kinds the larger comes first, by CPUs, share, GPUs and models in this order, as in
    the authors' simulator: the kinds that make the cut change a curve by up to half a point.
    """
    total, covered = sum(counts.values()), 0.0
    chosen: dict[Ask, float] = {}
    order = sorted(
        counts, key=lambda ask: (counts[ask], ask.cpus, ask.share, ask.gpus, sorted(ask.models)), reverse=True
    )
    for ask in order:
        if covered >= covering * total:
            break
        chosen[ask] = counts[ask]
        covered += counts[ask]
    # In two steps, as in their simulator: the last bit matters.
    return {ask: count / total / (covered / total) for ask, count in chosen.items()}


def score(descent: float) -> int:
    """Return the authors' score of a placement, 0 to 100, the higher the better.

    It is truncated, so ties are common, and they go to the earliest node: packing equal tasks into the same
    nodes is part of why the method works.
    """
    return int(100 / (1 + math.exp(-descent / WHOLE)))


class Fragmentation:
    """The measure under one target workload: kinds of tasks with their frequencies, which sum to 1."""

    def __init__(self, workload: Mapping[Ask, float] | Sequence[tuple[Ask, float]]) -> None:
        self._workload = tuple(workload.items() if isinstance(workload, Mapping) else workload)
        # Nodes whose CPUs suffice for the same kinds of tasks are alike, so thousands of states become few.
        self._steps = sorted({ask.cpus for ask, _ in self._workload})
        self._known: dict[tuple[str, int, tuple[int, ...]], float] = {}

    def of(self, free: Free) -> float:
        """Return the expected fragment of the node, between 0 and all that is idle there."""
        key = (free.model, bisect_right(self._steps, free.cpus), tuple(sorted(free.shares)))
        if key not in self._known:
            # Summed by cause first: scores are truncated, so the last bit of a sum may decide.
            self._known[key] = sum(self.causes(free).values())
        return self._known[key]

    def causes(self, free: Free) -> dict[Cause, float]:
        """Return the parts of the expected fragment by cause."""
        amounts = dict.fromkeys(Cause, 0.0)
        shares = sorted(free.shares)
        #: The sums of the smallest 0, 1, 2, ... shares.
        below = [0, *accumulate(shares)]
        for ask, often in self._workload:
            too_small = bisect_left(shares, ask.share)
            cause = _cause(free, ask, len(shares) - too_small)
            amounts[cause or Cause.GPUS] += often * (below[-1] if cause else below[too_small])
        return amounts

    def best(self, free: Free, ask: Ask, among: Collection[int] | None = None) -> tuple[int, Free] | None:
        """Return the score of the task on this node and what it leaves idle; None when it cannot run there.

        A task with a part gets the GPU with the best score, `among` those given; other tasks get the first
        idle GPUs.
        """
        if not runs_on(free, ask):
            return None
        before = self.of(free)
        best: tuple[int, Free] | None = None
        for after in _ways(free, ask, among):
            points = score(before - self.of(after))
            if best is None or points > best[0]:
                best = points, after
        return best


def _ways(free: Free, ask: Ask, among: Collection[int] | None) -> list[Free]:
    """Return what the task may leave idle on the node, without equal outcomes."""
    cpus, shares = canonical(free.cpus - ask.cpus), free.shares
    if ask.gpus == 1 and ask.share < WHOLE:
        able = [gpu for gpu, share in enumerate(shares) if share >= ask.share]
        first = {shares[gpu]: gpu for gpu in reversed(able) if among is None or gpu in among}
        return [
            Free(free.model, cpus, (*shares[:gpu], shares[gpu] - ask.share, *shares[gpu + 1 :]))
            for gpu in sorted(first.values())
        ]
    left, needed = list(shares), ask.gpus
    for gpu, share in enumerate(shares):
        if needed and share >= ask.share:
            left[gpu] -= ask.share
            needed -= 1
    return [Free(free.model, cpus, tuple(left))]
