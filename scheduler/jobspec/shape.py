"""What a round needs of a specification: the form of `Job.shape`, written and read only here.

It is small, and thousands of jobs share a few. A job also has its whole normal form (`spec`), which people
see and nodes run, and columns for what queries look for (decision 0039).

A field is declared in `Shape` alone: its name, which is also the key under which it is stored, what a shape
without that key means, how its value is stored, and whether the job of the core has it unchanged.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, astuple, dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

from scheduler.core.model import snapshot as core
from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart, SharingLabels
from scheduler.core.model.tag_constraints import TagConstraint

#: (amount, speed) of a curve, as they are stored.
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How a value is stored in JSON, and read. None is stored as null."""

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value
    #: Stored even where the job leaves the field out; else the key is left out too.
    always: bool = False
    #: The job of the core has it under the same name.
    fact: bool = False


def _stored(**form: Any) -> dict[str, _Form]:
    return {"form": _Form(**form)}


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


def _task_rows(tasks: Sequence[core.Task]) -> list[list[Any]]:
    return [task_row(task) for task in tasks]


def _tasks(rows: Sequence[Sequence[Any]]) -> tuple[core.Task, ...]:
    return tuple(_task(*row) for row in rows)


def _topology_row(topology: core.Topology) -> list[Any]:
    return [topology.level, topology.required]


def _topology(row: Sequence[Any]) -> core.Topology:
    level, required = row
    return core.Topology(level=level, required=required)


def _rates(throughput: Mapping[str, float]) -> dict[str, float]:
    return {model: float(rate) for model, rate in throughput.items()}


def _names(nodes: core.Candidates) -> dict[str, list[str]]:
    return {"only": list(nodes.only), "avoid": list(nodes.avoid)}


def _candidates(nodes: Mapping[str, list[str]]) -> core.Candidates:
    return core.Candidates(only=tuple(nodes["only"]), avoid=tuple(nodes["avoid"]))


def _labels_row(sharing: SharingLabels) -> list[str]:
    return [sharing.affinity, sharing.anti_affinity, sharing.exclusion]


def _labels(row: Sequence[str]) -> SharingLabels:
    affinity, anti_affinity, exclusion = row
    return SharingLabels(affinity=affinity, anti_affinity=anti_affinity, exclusion=exclusion)


def _constraint_rows(constraints: Sequence[TagConstraint]) -> list[list[Any]]:
    return [list(astuple(each)) for each in constraints]


def _constraints(rows: Sequence[Sequence[Any]]) -> tuple[TagConstraint, ...]:
    return tuple(
        TagConstraint(
            tag=tag, scope=scope, least=least, most=most, weight=None if weight is None else float(weight)
        )
        for tag, scope, least, most, weight in rows
    )


def _data_row(data: DataSet) -> list[Any]:
    return [data.name, data.size_bytes, data.bandwidth]


def _data(row: Sequence[Any]) -> DataSet:
    name, size_bytes, bandwidth = row
    return DataSet(name=name, size_bytes=size_bytes, bandwidth=float(bandwidth))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a round needs of a specification (the form of `Job.shape`)."""

    tasks: tuple[core.Task, ...] = field(
        metadata=_stored(write=_task_rows, read=_tasks, always=True, fact=True)
    )
    #: Size of the gang: the sum over its tasks.
    gpus: int
    #: The least and most GPUs of an elastic gang, stored as `min_gpus` (null: not elastic) and `max_gpus`,
    #: which is left out where it is the size of the gang.
    elastic: tuple[int, int] | None = None
    #: What stays the same when it is resized.
    elastic_mode: str = field(default=core.RESIZABLE, metadata=_stored(fact=True))
    topology: core.Topology | None = field(
        default=None,
        metadata=_stored(write=_topology_row, read=_topology, always=True, fact=True),
    )
    throughput: Mapping[str, float] = field(
        default_factory=dict, metadata=_stored(write=dict, read=_rates, always=True)
    )
    estimate_seconds: float | None = field(default=None, metadata=_stored(read=float, always=True))
    application: str = field(default="", metadata=_stored(always=True, fact=True))
    search: str = field(default="", metadata=_stored(always=True, fact=True))
    skew: float | None = field(default=None, metadata=_stored(read=float, always=True, fact=True))
    nodes: core.Candidates | None = field(
        default=None, metadata=_stored(write=_names, read=_candidates, always=True, fact=True)
    )
    pinned_cell: str = field(default="", metadata=_stored(always=True, fact=True))
    reservation: str = field(default="", metadata=_stored(fact=True))
    on_reclaim: str = field(default="", metadata=_stored(always=True, fact=True))
    sharing: SharingLabels | None = field(
        default=None, metadata=_stored(write=_labels_row, read=_labels, fact=True)
    )
    deadline_seconds: float | None = field(default=None, metadata=_stored(read=float, always=True))
    needs_containers: bool = field(default=False, metadata=_stored(always=True))
    tags: tuple[str, ...] = field(default=(), metadata=_stored(write=list, read=tuple, fact=True))
    constraints: tuple[TagConstraint, ...] = field(
        default=(), metadata=_stored(write=_constraint_rows, read=_constraints, fact=True)
    )
    data: DataSet | None = field(default=None, metadata=_stored(write=_data_row, read=_data, fact=True))
    #: It waits for earlier jobs of its name and user.
    singleton: bool = field(default=False, metadata=_stored())
    #: Fixed numbers of the ports at which it listens on its node.
    ports: tuple[int, ...] = field(default=(), metadata=_stored(write=list, read=tuple))
    #: The time limit of a trial run; the shorter of it and the job's own holds. None: no trial.
    limit_seconds: float | None = field(default=None, metadata=_stored(read=float))
    #: For a trial run, the job's own shape, as it is stored; else empty.
    after_trial: str = field(default="", metadata=_stored(write=json.loads, read=json.dumps))

    def facts(self) -> Mapping[str, Any]:
        """Return the fields that a job of the core has unchanged, by the core's names."""
        return self._facts

    # Thousands of jobs share a shape.
    @cached_property
    def _facts(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in _FACTS}

    def to_json(self) -> dict[str, Any]:
        """Return it as stored, without most fields that have the value of a missing key."""
        shape: dict[str, Any] = {"min_gpus": self.elastic[0] if self.elastic else None}
        if self.elastic is not None and self.elastic[1] != self.gpus:
            shape["max_gpus"] = self.elastic[1]
        for name, (form, missing) in _FORMS.items():
            value = getattr(self, name)
            if form.always or value != missing:
                shape[name] = None if value is None else form.write(value)
        return shape

    def amount(self, gpus: int) -> float:
        """Return how much `gpus` GPUs of the gang count for; parts count as parts."""
        if all([task.part is None for task in self.tasks]):
            return gpus
        return sum([task.replicas * task.milligpus for task in self.tasks]) / WHOLE_GPU

    def limited(self, seconds: float | None) -> float | None:
        """Return a time limit, or the trial's where that is shorter."""
        if seconds is None or self.limit_seconds is None:
            return self.limit_seconds if seconds is None else seconds
        return min(seconds, self.limit_seconds)

    def deadline_at(self, submitted_at: float) -> float | None:
        return None if self.deadline_seconds is None else submitted_at + self.deadline_seconds


def _missing(each: Field[Any]) -> Any:
    """Return the value of the field for a shape that lacks it."""
    return each.default if each.default_factory is MISSING else each.default_factory()


_FORMS: Mapping[str, tuple[_Form, Any]] = {
    each.name: (each.metadata["form"], _missing(each)) for each in fields(Shape) if "form" in each.metadata
}
_FACTS = ("elastic", *(name for name, (form, _) in _FORMS.items() if form.fact))


def stored_shape(column: Mapping[str, Any]) -> Shape:
    """Return the shape of a job that was read with its column."""
    return shape_of(json.dumps(column))


def with_cpu_curve(column: Mapping[str, Any], curve: Points) -> dict[str, Any]:
    """Return a stored shape with this curve for its first task, which leaves its CPUs to the platform."""
    first, *others = column["tasks"]
    *row, (cpus, memory, _, by_memory) = first
    return {**column, "tasks": [[*row, [cpus, memory, list(map(list, curve)), by_memory]], *others]}


def with_reservation(column: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a stored shape with another reservation, or none; in a trial's, the job's own is changed too."""
    others = {key: value for key, value in column.items() if key != "reservation"}
    if "after_trial" in others:
        others["after_trial"] = with_reservation(others["after_trial"], name)
    return others | ({"reservation": name} if name else {})


# Thousands of jobs share a few shapes: each is built once.
@lru_cache(maxsize=4_096)
def shape_of(text: str) -> Shape:
    """Return a stored shape. One that was stored before a field existed lacks the field."""
    stored = json.loads(text)
    values = {
        name: missing if stored.get(name) is None else form.read(stored[name])
        for name, (form, missing) in _FORMS.items()
    }
    gpus = sum(task.replicas * task.gpus for task in values["tasks"])
    elastic = (stored["min_gpus"], stored.get("max_gpus", gpus)) if stored.get("min_gpus") else None
    return Shape(gpus=gpus, elastic=elastic, **values)
