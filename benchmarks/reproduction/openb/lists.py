"""Lists of nodes and tasks as `manage.py simulate` reads them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reproduction.openb.workload import OpenbNode, OpenbTask
from scheduler.core.fitting.fragmentation import WHOLE

#: Longer than there are arrivals: nobody leaves.
FOR_EVER = 10_000_000


def write_nodes(path: Path, nodes: Sequence[OpenbNode]) -> Path:
    """Write nodes in an order, which decides ties."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
        out.writerows((node.name, node.cpu_milli, node.memory_mib, node.gpus, node.model) for node in nodes)
    return path


def write_tasks(
    path: Path, tasks: Sequence[OpenbTask], *, apart_seconds: int = 1, until: int = FOR_EVER
) -> Path:
    """Write tasks that arrive one after another in their order, or all at once.

    Those that are placed when they arrive leave together, `until` seconds after the first one came.
    """
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            (
                *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
                *("creation_time", "deletion_time", "scheduled_time"),
            )
        )
        for number, task in enumerate(tasks):
            ask, at = task.ask, number * apart_seconds
            takes = ask.cpus, task.memory_mib, ask.gpus, ask.share, task.models
            out.writerow((f"task-{number}", *takes, "LS", "Running", at, until, at))
    return path


def placer_with(placer: str, tasks: Sequence[OpenbTask]) -> str:
    """Return the placer as the command line has it: ties as listed, and for fgd the tasks that there are."""
    if placer != "fgd":
        return f"{placer}:ties=listed"
    counts = Counter((task.ask.gpus * task.ask.share / WHOLE, task.ask.cpus, task.models) for task in tasks)
    kinds = [
        f"{gpus:g}:{cpus / 1000:g}:{count}" + (f":{models.replace('|', '/')}" if models else "")
        for (gpus, cpus, models), count in counts.items()
    ]
    return f"fgd:ties=listed,workload={'|'.join(kinds)}"
