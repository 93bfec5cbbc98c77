"""What a round needs of a specification: the form of `Job.shape`, written and read here alone.

It is small, and thousands of jobs share a few. Beside it a job has its whole normal form (`spec`), which
people see and nodes run, and as columns what queries look for (decision 0039).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache
from typing import Any, NamedTuple

from scheduler.core.model import snapshot as core
from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart, SharingLabels
from scheduler.core.model.tag_constraints import TagConstraint

#: (amount, speed) of a curve, as they are stored.
Points = Sequence[tuple[float, float]]


class Shape(NamedTuple):
    """What a round needs of a specification (the form of `Job.shape`)."""

    tasks: tuple[core.Task, ...]
    topology: core.Topology | None
    #: Size of the gang, and the least and most GPUs of an elastic one.
    gpus: int
    elastic: tuple[int, int] | None
    #: What stays the same when it is resized.
    elastic_mode: str
    throughput: Mapping[str, float]
    estimate_seconds: float | None
    application: str
    search: str
    skew: float | None
    nodes: core.Candidates | None
    pinned_cell: str
    on_reclaim: str
    sharing: SharingLabels | None
    deadline_seconds: float | None
    needs_containers: bool
    tags: tuple[str, ...] = ()
    constraints: tuple[TagConstraint, ...] = ()
    #: It waits for earlier jobs of its name and user.
    singleton: bool = False
    #: Numbers of the node's ports at which it insists to listen.
    ports: tuple[int, ...] = ()
    #: Of a trial run, whatever the job's own; None: no other.
    limit_seconds: float | None = None
    #: Of a trial run: the job's own shape, as it is stored; else empty.
    after_trial: str = ""

    def amount(self, gpus: int) -> float:
        """Return what the gang has of so many GPUs, of which parts count as such."""
        if all([task.part is None for task in self.tasks]):
            return gpus
        return sum([task.replicas * task.milligpus for task in self.tasks]) / WHOLE_GPU

    def facts(self) -> dict[str, Any]:
        """Return what a job of the core has of it unchanged, by the core's names."""
        return {
            "tasks": self.tasks,
            "topology": self.topology,
            "elastic": self.elastic,
            "elastic_mode": self.elastic_mode,
            "nodes": self.nodes,
            "pinned_cell": self.pinned_cell,
            "on_reclaim": self.on_reclaim,
            "application": self.application,
            "search": self.search,
            "skew": self.skew,
            "sharing": self.sharing,
            "tags": self.tags,
            "constraints": self.constraints,
        }

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored; what only a trial has is left out, and what few jobs say."""
        shape: dict[str, Any] = {
            "tasks": [task_row(task) for task in self.tasks],
            "topology": [self.topology.level, self.topology.required] if self.topology else None,
            "min_gpus": self.elastic[0] if self.elastic else None,
            "throughput": dict(self.throughput),
            "needs_containers": self.needs_containers,
            "estimate_seconds": self.estimate_seconds,
            "application": self.application,
            "search": self.search,
            "skew": self.skew,
            "nodes": {"only": list(self.nodes.only), "avoid": list(self.nodes.avoid)} if self.nodes else None,
            "pinned_cell": self.pinned_cell,
            "on_reclaim": self.on_reclaim,
            "deadline_seconds": self.deadline_seconds,
        }
        if self.elastic is not None and self.elastic[1] != self.gpus:
            shape["max_gpus"] = self.elastic[1]
        if self.elastic_mode != core.RESIZABLE:
            shape["elastic_mode"] = self.elastic_mode
        if self.sharing is not None:
            shape["sharing"] = [self.sharing.affinity, self.sharing.anti_affinity, self.sharing.exclusion]
        if self.tags:
            shape["tags"] = list(self.tags)
        if self.constraints:
            shape["constraints"] = [list(astuple(each)) for each in self.constraints]
        if self.singleton:
            shape["singleton"] = True
        if self.ports:
            shape["ports"] = list(self.ports)
        return shape

    def limited(self, seconds: float | None) -> float | None:
        """Return a time limit, or the trial's where that is shorter."""
        if seconds is None or self.limit_seconds is None:
            return self.limit_seconds if seconds is None else seconds
        return min(seconds, self.limit_seconds)

    def deadline_at(self, submitted_at: float) -> float | None:
        return None if self.deadline_seconds is None else submitted_at + self.deadline_seconds


def task_row(task: core.Task) -> list[Any]:
    """Return a task as it is stored: one with parts of GPUs has (request, limit, memory) after that, and one
    that leaves CPUs or memory to the platform (cpus, memory, speeds by CPUs, speeds by memory) at the end."""
    row: list[Any] = [task.replicas, task.gpus, task.cpus, task.memory_bytes]
    if task.part is not None:
        row.append([task.part.request, task.part.limit, task.part.memory_bytes])
    if task.auto is not None:
        curves = [list(map(list, curve)) for curve in astuple(task.auto.sensitivity)]
        row += [None] * (task.part is None) + [[task.auto.cpus, task.auto.memory, *curves]]
    return row


def _task(
    replicas: int,
    gpus: int,
    cpus: float,
    memory_bytes: int,
    part: tuple[int, int, int] | None = None,
    auto: tuple[bool, bool, Points, Points] | None = None,
) -> core.Task:
    # JSON knows one kind of number; a stored snapshot must read back as exactly what it was.
    return core.Task(
        replicas=replicas,
        gpus=gpus,
        cpus=float(cpus),
        memory_bytes=int(memory_bytes),
        part=part and GpuPart(request=part[0], limit=part[1], memory_bytes=part[2]),
        auto=auto
        and Auto(
            cpus=auto[0],
            memory=auto[1],
            sensitivity=Sensitivity(by_cpus=_curve(auto[2]), by_memory=_curve(auto[3])),
        ),
    )


def _curve(points: Points) -> tuple[tuple[float, float], ...]:
    return tuple([(float(amount), float(speed)) for amount, speed in points])


def stored_shape(column: Mapping[str, Any]) -> Shape:
    """Return the shape of a job that was read with its column."""
    return shape_of(json.dumps(column))


# Thousands of jobs share a few shapes: each is built once.
@lru_cache(maxsize=4_096)
def shape_of(text: str) -> Shape:
    """Return a stored shape. What was stored before a field could be stated lacks it."""
    shape = json.loads(text)
    topology = shape.get("topology")
    tasks = tuple(_task(*row) for row in shape["tasks"])
    gpus = sum(task.replicas * task.gpus for task in tasks)
    sharing = shape.get("sharing")
    return Shape(
        tasks=tasks,
        topology=core.Topology(level=topology[0], required=topology[1]) if topology else None,
        gpus=gpus,
        elastic=(shape["min_gpus"], shape.get("max_gpus", gpus)) if shape.get("min_gpus") else None,
        elastic_mode=shape.get("elastic_mode", core.RESIZABLE),
        throughput={model: float(rate) for model, rate in (shape.get("throughput") or {}).items()},
        estimate_seconds=_number(shape.get("estimate_seconds")),
        application=shape.get("application") or "",
        search=shape.get("search") or "",
        skew=_number(shape.get("skew")),
        nodes=_candidates(shape.get("nodes")),
        pinned_cell=shape.get("pinned_cell") or "",
        on_reclaim=shape.get("on_reclaim") or "",
        sharing=sharing
        and SharingLabels(affinity=sharing[0], anti_affinity=sharing[1], exclusion=sharing[2]),
        deadline_seconds=_number(shape.get("deadline_seconds")),
        needs_containers=bool(shape.get("needs_containers")),
        tags=tuple(shape.get("tags", ())),
        constraints=tuple(_constraint(*each) for each in shape.get("constraints", ())),
        singleton=bool(shape.get("singleton")),
        ports=tuple(shape.get("ports", ())),
        limit_seconds=_number(shape.get("limit_seconds")),
        after_trial=json.dumps(shape["after_trial"]) if "after_trial" in shape else "",
    )


def _candidates(nodes: Mapping[str, list[str]] | None) -> core.Candidates | None:
    return core.Candidates(only=tuple(nodes["only"]), avoid=tuple(nodes["avoid"])) if nodes else None


def _constraint(tag: str, scope: str, least: int, most: int | None, weight: float | None) -> TagConstraint:
    return TagConstraint(tag=tag, scope=scope, least=least, most=most, weight=_number(weight))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
