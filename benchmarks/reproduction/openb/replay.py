"""Tasks of the openb lists placed one after another, by six policies, as the authors' simulator does it.

Every policy gives a node that holds the task a score from 0 to 100, truncated; the first node of the seed's
order with the most gets it. A task that fits nowhere is dropped, none ever leaves. A task holds CPUs and
memory of its node too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.workload import (
    OpenbNode,
    OpenbTask,
    arrivals,
    read_rows,
    typical,
)
from scheduler.core.fitting.fragmentation import WHOLE, Ask, Cause, Fragmentation, Free
from scheduler.simulation.errors import InputError

#: What a vector of CPUs and GPUs is normed by: those of the largest node, in thousandths.
_MOST_CPUS, _MOST_GPUS = 128_000, 8 * WHOLE
#: Columns of the published rows: arrived load in percent of the GPUs, rounded.
LOADS = range(131)


@dataclass(slots=True)
class NodeState:
    """What is idle on a node, in thousandths of CPUs and GPUs and in MiB, and who is there."""

    model: str
    cpus: int
    memory: int
    shares: list[int]
    #: Tasks by what they hold: a part of a GPU, or so many.
    held: set[str] = field(default_factory=set)

    @property
    def idle(self) -> int:
        return sum(self.shares)

    def holds(self, task: OpenbTask) -> bool:
        """Whether the task can run here now."""
        ask = task.ask
        if ask.cpus > self.cpus or task.memory_mib > self.memory:
            return False
        if ask.gpus and ask.models and self.model not in ask.models:
            return False
        return sum([share >= ask.share for share in self.shares]) >= ask.gpus


#: The score of a task on a node that holds it.
Score = Callable[[NodeState, Ask], int]
#: The GPU of a node that a task takes a part of.
Choice = Callable[[NodeState, Ask], int]


@dataclass(frozen=True, slots=True)
class Curve:
    """What came of a run, after every arrival, in thousandths of a GPU."""

    gpus: int
    arrived: Sequence[int]
    allocated: Sequence[int]
    fragment: Sequence[float]
    placed: int

    def allocation(self) -> dict[int, float]:
        """Return by arrived load the allocated GPUs in percent, as the authors' tables have it."""
        whole = self.gpus * WHOLE
        means = self._by_load([round(used / whole * 100, 2) for used in self.allocated])
        return {load: float(np.round(mean, 2)) for load, mean in means.items()}

    def fragmentation(self) -> dict[int, float]:
        """Return by arrived load the fragments in percent of all GPUs, as the authors' tables have it."""
        means = self._by_load([round(amount, 2) for amount in self.fragment])
        return {load: float(np.round(100 * mean / WHOLE / self.gpus, 2)) for load, mean in means.items()}

    def _by_load(self, values: Sequence[float]) -> dict[int, float]:
        """Return means over the arrivals whose load rounds to each percent, or to those beside it."""
        loads = np.round(np.array(self.arrived) / self.gpus / 10)
        known = np.array(values)
        means: dict[int, float] = {}
        for load in LOADS:
            near = known[loads == load]
            near = near if len(near) else known[abs(loads - load) <= 1]
            if len(near):
                means[load] = float(near.mean())
        return means


def published(folder: Path, kind: str, workload: str, policy: str) -> dict[int, dict[int, float]]:
    """Return by seed the authors' curve of a kind, "allo" or "frag", by arrived load; raise InputError.

    Empty where they did not run the list.
    """
    path = folder / "published" / f"analysis_{kind}_discrete.csv.gz"
    run = f"openb_pod_list_{workload}", f"{POLICIES.index(policy) + 1:02}"
    return {
        int(row["seed"]): {load: float(row[str(load)]) for load in LOADS if row[str(load)]}
        for row in read_rows(path)
        if (row["workload"], row["sc_policy"][:2]) == run
    }


def best_fit(node: NodeState, ask: Ask) -> int:
    """The less is left of CPUs and GPUs, each by that of the largest node, the better."""
    left = (node.cpus - ask.cpus) / _MOST_CPUS * 0.5
    left += (node.idle - ask.gpus * ask.share) / _MOST_GPUS * 0.5
    return int((1.0 - left) * 100)


def dot_product(node: NodeState, ask: Ask) -> int:
    """The smaller the product of what is idle and what the task takes, the better."""
    product = node.cpus / _MOST_CPUS * (ask.cpus / _MOST_CPUS)
    product += node.idle / _MOST_GPUS * (ask.gpus * ask.share / _MOST_GPUS)
    return int(100 * (1 - product / 2))


def clustering(node: NodeState, ask: Ask) -> int:
    """Where only such tasks are, then among others such tasks, then alone, then among others; the fuller."""
    if not ask.gpus:
        return 0
    fuller = 25 * (_MOST_GPUS - node.idle) // _MOST_GPUS
    if tag(ask) in node.held:
        return fuller + (75 if len(node.held) == 1 else 50)
    return fuller + (0 if node.held else 25)


def packing(node: NodeState, ask: Ask) -> int:
    """On GPUs in use, the fuller; then beside GPUs in use; then on idle nodes, those with few GPUs."""
    if not ask.gpus:
        return 0
    idle = node.shares.count(WHOLE)
    if idle == len(node.shares):
        return max(33 - idle, idle)
    taken = sorted([share for share in node.shares if share >= ask.share])[: ask.gpus]
    whole = taken.count(WHOLE)
    if whole:
        return max(50 - whole, 33)
    return max(100 - sum([share * 100 // WHOLE for share in taken]) // 10, 50)


def tag(ask: Ask) -> str:
    """What clustering keeps together."""
    return "part" if ask.share < WHOLE else f"{ask.gpus}"


def fullest(node: NodeState, ask: Ask) -> int:
    """Return the GPU with the least free that suffices, the first of several."""
    return min(
        (gpu for gpu, share in enumerate(node.shares) if share >= ask.share),
        key=lambda gpu: node.shares[gpu],
    )


SCORES: Mapping[str, Score] = {
    "best_fit": best_fit,
    "dot_product": dot_product,
    "clustering": clustering,
    "packing": packing,
}
POLICIES = ("random", "dot_product", "clustering", "packing", "best_fit", "fgd")


class Replay:
    """A cluster that is filled by one policy: nodes in the order that decides ties, all of them idle.

    `workload` is what fragments are counted by. Raises InputError for a policy that is none.
    """

    def __init__(
        self, nodes: Sequence[OpenbNode], workload: Sequence[tuple[Ask, float]], policy: str, dice: GoRandom
    ) -> None:
        if policy not in POLICIES:
            raise InputError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
        self.nodes = [
            NodeState(node.model, node.cpu_milli, node.memory_mib, [WHOLE] * node.gpus) for node in nodes
        ]
        self._dice = dice
        self._measure = Fragmentation(workload)
        self._policy = policy
        self._fragments = [self._measure.of(_free(node)) for node in self.nodes]
        #: The fragmentation of the cluster, in thousandths of a GPU.
        self.fragment = sum(self._fragments)
        #: By class of task: its scores on all nodes, and up to which change they are right.
        self._scores: dict[OpenbTask, tuple[np.ndarray[tuple[int], np.dtype[np.int16]], int]] = {}
        self._changes: list[int] = []
        if policy == "fgd":
            self._score: Score = lambda node, ask: self._descent(node, ask)[0]
            self._choice: Choice = lambda node, ask: self._descent(node, ask)[1]
        elif policy == "random":
            self._score, self._choice = lambda node, ask: 0, self._any_gpu
        else:
            self._score, self._choice = SCORES[policy], fullest

    def place(self, task: OpenbTask) -> int | None:
        """Place a task; return the position of its node, or None if it fits nowhere."""
        at = self._node_for(task)
        if at is not None:
            self._take(task, self.nodes[at])
            self._changes.append(at)
            now = self._measure.of(_free(self.nodes[at]))
            self.fragment += now - self._fragments[at]
            self._fragments[at] = now
        return at

    def run(self, arriving: Sequence[OpenbTask]) -> Curve:
        """Place the tasks in their order."""
        arrived, allocated, lost = list[int](), list[int](), list[float]()
        requested = held = placed = 0
        for task in arriving:
            requested += task.gpu_milli
            if self.place(task) is not None:
                held += task.gpu_milli
                placed += 1
            arrived.append(requested)
            allocated.append(held)
            lost.append(self.fragment)
        return Curve(sum([len(node.shares) for node in self.nodes]), arrived, allocated, lost, placed)

    def causes(self) -> dict[Cause, float]:
        """Return what fragments the cluster as it is, in thousandths of a GPU."""
        amounts = dict.fromkeys(Cause, 0.0)
        for node in self.nodes:
            for cause, amount in self._measure.causes(_free(node)).items():
                amounts[cause] += amount
        return amounts

    def _node_for(self, task: OpenbTask) -> int | None:
        scores, seen = self._scores.get(task, (None, 0))
        stale = range(len(self.nodes)) if scores is None else set(self._changes[seen:])
        if scores is None:
            scores = np.full(len(self.nodes), -1, dtype=np.int16)
        for at in stale:
            node = self.nodes[at]
            scores[at] = self._score(node, task.ask) if node.holds(task) else -1
        self._scores[task] = scores, len(self._changes)
        if self._policy == "random":
            able = np.flatnonzero(scores >= 0)
            # Where one node only is able, theirs draws no number.
            return int(able[self._dice.below(len(able)) if len(able) > 1 else 0]) if len(able) else None
        best = int(scores.argmax())
        return best if scores[best] >= 0 else None

    def _take(self, task: OpenbTask, node: NodeState) -> None:
        ask = task.ask
        if ask.gpus == 1 and ask.share < WHOLE:
            chosen = [self._choice(node, ask)]
        else:
            chosen = [gpu for gpu, share in enumerate(node.shares) if share >= ask.share][: ask.gpus]
        for gpu in chosen:
            node.shares[gpu] -= ask.share
        node.cpus -= int(ask.cpus)
        node.memory -= task.memory_mib
        if ask.gpus:
            node.held.add(tag(ask))

    def _descent(self, node: NodeState, ask: Ask) -> tuple[int, int]:
        """Return the score of the best GPU and which it is, for a part of one; else the score and 0."""
        free = _free(node)
        found = self._measure.best(free, ask)
        assert found is not None, "only nodes that hold the task are scored"
        points, after = found
        changed = [gpu for gpu, share in enumerate(after.shares) if share != free.shares[gpu]]
        return points, changed[0] if changed else 0

    def _any_gpu(self, node: NodeState, ask: Ask) -> int:
        chosen, able = 0, 0
        for gpu, share in enumerate(node.shares):
            if share >= ask.share:
                able += 1
                chosen = gpu if self._dice.below(able) == 0 else chosen
        return chosen


def replay(nodes: Sequence[OpenbNode], tasks: Sequence[OpenbTask], policy: str, seed: int) -> Curve:
    """Run a policy on a list of tasks as the authors did with this seed; raise InputError."""
    dice = GoRandom(seed)
    arriving, ordered = arrivals(tasks, nodes, dice)
    return Replay(ordered, typical(tasks), policy, dice).run(arriving)


def _free(node: NodeState) -> Free:
    return Free(node.model, node.cpus, tuple(node.shares))
