"""Nodes and tasks of the openb lists, and the order in which a seed has them."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.reproduction.openb.go_random import GoRandom
from scheduler.core.fitting.fragmentation import WHOLE, Ask
from scheduler.simulation.errors import InputError

#: Tasks are added until they ask for so much of the GPUs that there are.
LOAD = 1.3
_COVERING = 0.95
#: Numbers that other goroutines of the authors' scheduler draw while it starts, before nodes are ordered.
_DRAWS_OF_OTHERS = 10


class OpenbNode(NamedTuple):
    name: str
    model: str
    cpu_milli: int
    memory_mib: int
    gpus: int


class OpenbTask(NamedTuple):
    """What a task takes; tasks that are equal are of one class."""

    ask: Ask
    memory_mib: int
    #: Models as the list has them, separated by "|": two classes may differ in this alone.
    models: str

    @property
    def gpu_milli(self) -> int:
        return self.ask.gpus * self.ask.share


def read_nodes(folder: Path) -> list[OpenbNode]:
    """Return the nodes with GPUs, by name; raise InputError."""
    path = folder / "openb_node_list_gpu_node.csv"
    try:
        nodes = [
            OpenbNode(row["sn"], row["model"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]))
            for row in read_rows(path)
        ]
    except (KeyError, ValueError) as error:
        raise InputError(f"{path.name} is no list of openb nodes: {error}") from None
    return sorted(nodes)


def read_tasks(folder: Path, workload: str) -> list[OpenbTask]:
    """Return the tasks of a list, such as "default" or "gpushare40", by name; raise InputError."""
    path = folder / f"openb_pod_list_{workload}.csv"
    if not path.exists():
        path = folder / f"{path.name}.gz"
    try:
        rows = sorted(read_rows(path), key=lambda row: row["name"])
        return [_task(row) for row in rows]
    except (KeyError, ValueError) as error:
        raise InputError(f"{path.name} is no list of openb tasks: {error}") from None


def arrivals(
    tasks: Sequence[OpenbTask], nodes: Sequence[OpenbNode], dice: GoRandom
) -> tuple[list[OpenbTask], list[OpenbNode]]:
    """Return tasks and nodes as a run has them: tasks in an order, copies of some behind, nodes in an order.

    The generator is left as the authors' scheduler finds it.
    """
    dice.int63()
    arriving = list(tasks)
    dice.shuffle(arriving)
    requested = sum([task.gpu_milli for task in arriving])
    most = LOAD * sum([node.gpus for node in nodes]) * WHOLE
    if requested > most:
        while requested > most:
            requested -= arriving.pop(dice.below(len(arriving))).gpu_milli
    else:
        while requested < most:
            # Counted by one GPU of the next task and by all of those before, as theirs.
            task = tasks[dice.below(len(tasks))]
            if requested + task.ask.share > most:
                break
            arriving.append(task)
            requested += task.gpu_milli
    for _ in range(_DRAWS_OF_OTHERS):
        dice.int63()
    order = dice.permutation(len(nodes))
    return arriving, [node for _, node in sorted(zip(order, nodes, strict=True))]


def typical(tasks: Sequence[OpenbTask]) -> list[tuple[Ask, float]]:
    """Return the classes that cover 95 % of the tasks, with their frequencies among themselves.

    Classes differ by CPUs, share, GPUs and models as written, not by memory. Of those that are as frequent
    the larger comes first.
    """
    counts = Counter((task.ask.cpus, task.ask.share, task.ask.gpus, task.models) for task in tasks)
    asks = {(task.ask.cpus, task.ask.share, task.ask.gpus, task.models): task.ask for task in tasks}
    total, covered = len(tasks), 0
    chosen = []
    for kind in sorted(counts, key=lambda kind: (counts[kind], kind), reverse=True):
        if covered >= _COVERING * total:
            break
        chosen.append(kind)
        covered += counts[kind]
    return [(asks[kind], counts[kind] / total / (covered / total)) for kind in chosen]


def _task(row: Mapping[str, str]) -> OpenbTask:
    gpus = int(row["num_gpu"])
    # Some lists have no such column.
    models = (row.get("gpu_spec") or "") if gpus else ""
    return OpenbTask(
        Ask(
            gpus=gpus,
            cpus=int(row["cpu_milli"]),
            share=min(int(row["gpu_milli"]), WHOLE) if gpus else 0,
            models=frozenset(filter(None, models.split("|"))),
        ),
        int(row["memory_mib"]),
        models,
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, compressed or not; raise InputError."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = list(csv.DictReader(text.splitlines()))
    if not rows:
        raise InputError(f"{path.name} has no rows")
    return rows
