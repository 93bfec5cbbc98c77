"""CPUs and memory of replicas in our own format: one number for all tasks or one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler.core.model.snapshot import Task
from scheduler.simulation.traces import fields
from scheduler.simulation.traces.fields import BadField

GIB = 2**30
#: The most memory of one replica: a pebibyte.
MOST_GIB = 2**20


def least_gpus(given: Mapping[str, Any]) -> int:
    """Return the fewest GPUs of a replica: 0 where CPUs or memory are stated."""
    return 0 if {"cpus", "memory_gib"} & set(given) else 1


def amounts_of(given: Mapping[str, Any]) -> tuple[list[float], list[int]]:
    """Return the CPUs and the bytes of memory of each replica: one number for all tasks, or one for each."""
    cpus = [fields.seconds("cpus", each, "CPUs") for each in _listed(given.get("cpus", 0))]
    sizes = [fields.seconds("memory_gib", each, "GiB") for each in _listed(given.get("memory_gib", 0))]
    return cpus, [bytes_of("memory_gib", size) for size in sizes]


def bytes_of(field: str, gib: float) -> int:
    """Return the bytes of that many GiB of memory. Raises BadField for more than sums over jobs can hold."""
    if gib > MOST_GIB:
        raise BadField(field, f"{gib:g} GiB are implausibly much memory; at most {MOST_GIB:,} are allowed")
    return round(gib * GIB)


def use_of(given: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """Return the parts of its CPUs and memory that a job uses, by minute; empty where it states neither."""
    if not {"use_cpus", "use_memory"} & set(given):
        return ()
    parts: dict[str, list[float]] = {}
    for name in ("use_cpus", "use_memory"):
        parts[name] = [fields.number(name, each) for each in _listed(given.get(name, 1.0))]
        if wrong := [part for part in parts[name] if not 0 <= part <= 1]:
            raise BadField(name, f"{wrong[0]:g} is not a part of what it asks for, 0 to 1")
    cpus, memory = parts["use_cpus"], parts["use_memory"]
    if len(cpus) > 1 and len(memory) > 1 and len(cpus) != len(memory):
        raise BadField(
            "use_memory", f"has {len(memory)} minutes, and use_cpus {len(cpus)}: both need equally many"
        )
    minutes = max(len(cpus), len(memory))
    return tuple([(cpus[at % len(cpus)], memory[at % len(memory)]) for at in range(minutes)])


def _listed(value: Any) -> list[Any]:
    """Read 4|8, [4, 8] or 4."""
    if isinstance(value, str):
        return value.split("|")
    return value or [0] if isinstance(value, list) else [value]


def with_amounts(tasks: tuple[Task, ...], cpus: Sequence[float], memory: Sequence[int]) -> tuple[Task, ...]:
    for name, listed in (("cpus", cpus), ("memory_gib", memory)):
        if len(listed) not in (1, len(tasks)):
            raise BadField(name, f"has {len(listed)} numbers; it takes one, or one for each task")
    found = tuple(
        [
            replace(
                task,
                cpus=cpus[place if len(cpus) > 1 else 0],
                memory_bytes=memory[place if len(memory) > 1 else 0],
            )
            for place, task in enumerate(tasks)
        ]
    )
    if not all([task.gpus or task.cpus or task.memory_bytes for task in found]):
        raise BadField("gpus", "is 0 for replicas that take neither CPUs nor memory")
    return found


def by_task(amounts: Sequence[float]) -> float | str | None:
    """Return what each replica takes, listed by task where tasks differ."""
    if len(set(amounts)) == 1:
        return amounts[0] or None
    return "|".join(map(repr, amounts))
