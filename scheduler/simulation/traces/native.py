"""Our own format, described in docs/traces.md: a table with a header, or one JSON object per line.

Reading what `write_native` wrote gives the same arrivals, number for number.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.snapshot import (
    DOWNGRADE,
    PREEMPT,
    RESIZABLE,
    Candidates,
    Task,
)
from scheduler.core.model.training import Profile
from scheduler.core.perf.convergence import LossCurve
from scheduler.core.perf.profiles import first_known
from scheduler.core.sim.workload import Arrival, Workload
from scheduler.simulation.errors import InputError
from scheduler.simulation.file_kinds import json_fault
from scheduler.simulation.traces import data_sets, elasticity, fields, parts, processors
from scheduler.simulation.traces.fields import BadField, shown
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.pollux import with_profile
from scheduler.simulation.traces.reading import make_workload
from scheduler.simulation.traces.source import ANY_TENANT, ANY_VIRTUAL_CLUSTER, Source, TracedJob

FIELDS = (
    "id",
    "submitted_at",
    "tenant",
    "virtual_cluster",
    "gpus",
    "replicas",
    "gpus_per_replica",
    "tasks",
    "cpus",
    "memory_gib",
    "use_cpus",
    "use_memory",
    "gpu_models",
    "duration_seconds",
    "application",
    "priority",
    "guaranteed",
    "time_limit_seconds",
    "estimate_seconds",
    "status",
    "skew",
    "throughput",
    "user",
    "search",
    "pinned_cell",
    "reservation",
    "nodes_only",
    "nodes_avoid",
    "on_reclaim",
    "min_gpus",
    "max_gpus",
    "elastic_mode",
    "batch_size",
    "loss",
    "profile",
    "data",
)
_REQUIRED = ("submitted_at", "duration_seconds")
#: The seconds of an iteration by stage, and what devices report.
_PROFILE = ("storage", "gpu", "network", "utilisation", "memory_utilisation", "memory_bytes", "amp")
#: Fields that a written trace always has, so that its header is the same whatever the jobs.
_WRITTEN = tuple(name for name in FIELDS if name not in ("gpus", "batch_size", "loss"))


@dataclass(slots=True)
class _EarlierJobs:
    """The properties of earlier jobs of a file with which later ones must agree."""

    ids: set[str] = field(default_factory=set)
    #: Whether submissions are dates; None before the first.
    dated: bool | None = None


def read(source: Source) -> None:
    """Read a table, or JSON lines when the first character is {."""
    seen = _EarlierJobs()
    profiles, size = source.options.profiles, source.options.gpus_per_node
    # Once any job states its expected duration, that of a job that states none is unknown.
    text = source.text().lstrip()
    if text.startswith("{"):
        source.read(
            source.lines(),
            lambda line: _job(
                _object(line),
                seen,
                estimated='"estimate_seconds"' in text,
                profiles=profiles,
                gpus_per_node=size,
            ),
        )
        return
    names = source.header()
    for name in names:
        if name not in FIELDS:
            raise source.unusable(f"{shown(name)} is not a field of this format{_near(name)}", 1)
    if names and not {"gpus", "tasks"} & set(names) and not {"replicas", "gpus_per_replica"} <= set(names):
        raise source.unusable(
            "the header has neither gpus nor replicas and gpus_per_replica, nor tasks", 1, "gpus"
        )
    required = _REQUIRED[:1] if "batch_size" in names and profiles else _REQUIRED
    optional = [name for name in FIELDS if name not in required]
    order = (*required, *optional)
    estimated = "estimate_seconds" in names

    def from_row(row: tuple[str, ...]) -> TracedJob:
        given = {name: value for name, value in zip(order, row, strict=True) if value != ""}
        return _job(given, seen, estimated=estimated, profiles=profiles, gpus_per_node=size)

    source.read(source.rows(required, optional), from_row)


def read_job(
    given: Mapping[str, Any], profiles: Path | None = None, gpus_per_node: int | None = None
) -> TracedJob:
    """Return the job that these fields describe; raise BadField for the first wrong field."""
    _check_names(given)
    # An estimate that is null is unknown; the options decide one that is left out.
    estimated, job = "estimate_seconds" in given, fields.stated(given)
    return _job(job, _EarlierJobs(), estimated=estimated, profiles=profiles, gpus_per_node=gpus_per_node)


def _object(line: str) -> dict[str, Any]:
    try:
        job = json.loads(line, object_pairs_hook=fields.once)
    except (ValueError, RecursionError) as error:
        words, _ = json_fault(error)
        raise BadField("", f"is not JSON: {words}; the line may be cut off") from None
    if not isinstance(job, dict):
        raise BadField("", "is not a JSON object")
    _check_names(job)
    return fields.stated(job)


def _check_names(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in FIELDS:
            raise BadField(name, f"is not a field of this format{_near(name)}")


def _near(name: str) -> str:
    near = get_close_matches(name, FIELDS, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _job(
    given: Mapping[str, Any],
    seen: _EarlierJobs,
    *,
    estimated: bool,
    profiles: Path | None = None,
    gpus_per_node: int | None = None,
) -> TracedJob:
    for name in _REQUIRED:
        if name not in given and not (name == "duration_seconds" and profiles and "batch_size" in given):
            raise BadField(name, "is missing")
    if (key := str(given.get("id", ""))) and key in seen.ids:
        raise BadField("id", f"{shown(key)} is the id of an earlier job")
    tasks, cpus, memory = _tasks(given), *processors.amounts_of(given)
    if tasks is not None:
        tasks = processors.with_amounts(tasks, cpus, memory)
        gpus = sum(task.replicas * task.gpus for task in tasks)
    else:
        gpus = fields.count("gpus", given["gpus"], least=processors.least_gpus(given))
        processors.with_amounts((Task(replicas=1, gpus=gpus),), cpus, memory)
    estimate = given.get("estimate_seconds")
    limit = given.get("time_limit_seconds")
    job = TracedJob(
        _submitted_at(given["submitted_at"], seen),
        gpus,
        fields.seconds("duration_seconds", given.get("duration_seconds", 0)),
        tenant=fields.named("tenant", given.get("tenant", ANY_TENANT)),
        virtual_cluster=fields.named("virtual_cluster", given.get("virtual_cluster", ANY_VIRTUAL_CLUSTER)),
        application=str(given.get("application", "")),
        status=fields.status("status", given.get("status", "passed")),
        gpu_models=_names("gpu_models", given.get("gpu_models", ""), "GPU models, the preferred first"),
        priority=fields.whole("priority", given.get("priority", 0)),
        guaranteed=fields.truth("guaranteed", given.get("guaranteed", True)),
        time_limit_seconds=None if limit is None else fields.positive("time_limit_seconds", limit, "seconds"),
        estimate_seconds=None if estimate is None else fields.seconds("estimate_seconds", estimate),
        own_estimate=estimated,
        tasks=tasks,
        cpus=cpus[0],
        memory_bytes=memory[0],
        use=processors.use_of(given),
        skew=_skew(given.get("skew")),
        throughput=_throughput(given.get("throughput", "")),
        user=str(given.get("user", "")),
        search=str(given.get("search", "")),
        pinned_cell=str(given.get("pinned_cell", "")),
        reservation=str(given.get("reservation", "")),
        nodes=_candidates(given),
        on_reclaim=_on_reclaim(given.get("on_reclaim", "")),
        elastic_mode=elasticity.mode_of(given.get("elastic_mode", RESIZABLE)),
        loss=None if given.get("loss") is None else loss_curve(str(given["loss"])),
        profile=_profile(given.get("profile", "")),
        data=data_sets.told(given.get("data", "")),
    )
    job = job._replace(elastic=elasticity.bounds_of(given, job, tasks, gpus_per_node))
    has_parts = any(task.part is not None for task in tasks or ())
    if has_parts and job.elastic is not None:
        raise BadField("min_gpus", "a job with parts of GPUs has a fixed number of replicas")
    if profiles and "batch_size" in given:
        if has_parts:
            raise BadField("batch_size", "a job with parts of GPUs does not progress by a profile")
        job = with_profile(job, profiles, fields.count("batch_size", given["batch_size"], "samples"))
    seen.ids.add(key)
    seen.dated = _is_dated(given["submitted_at"])
    return job


def loss_curve(text: str) -> LossCurve:
    """Read sublinear:a=0,b=0.01,c=1,d=0.1 (1 / (a k² + b k + c) + d) or superlinear:mu=0.99,b=0,c=0.1
    (mu^(k-b) + c), k being seconds of work (SLAQ, SoCC'17, section 3.2); raise BadField."""
    family, _, rest = text.partition(":")
    names = {"sublinear": ("a", "b", "c", "d"), "superlinear": ("mu", "b", "c")}.get(family)
    pairs = fields.pairs("loss", rest, ",")
    if names is None or set(pairs) != set(names):
        raise BadField(
            "loss", f"{shown(text)} is neither sublinear:a=A,b=B,c=C,d=D nor superlinear:mu=M,b=B,c=C"
        )
    values = {name: fields.number("loss", value) for name, value in pairs.items()}
    if family == "sublinear":
        if min(values["a"], values["b"]) < 0 or values["a"] + values["b"] <= 0 or values["c"] <= 0:
            raise BadField(
                "loss", f"{shown(text)} does not fall: a or b must be above 0, neither below, c above"
            )
        inverse = values["c"], values["b"], values["a"]
        return LossCurve(family="polynomial", limit=values["d"], unit=1.0, coefficients=inverse)
    if not 0 < values["mu"] < 1:
        raise BadField("loss", f"{shown(text)} does not fall: mu must be between 0 and 1")
    slope = math.log(values["mu"])
    return LossCurve(
        family="exponential", limit=values["c"], unit=1.0, coefficients=(-values["b"] * slope, slope)
    )


def _is_dated(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 9 and value[4] == value[7] == "-"


def _submitted_at(value: Any, seen: _EarlierJobs) -> float:
    dated = _is_dated(value)
    at = fields.instant("submitted_at", value) if dated else fields.number("submitted_at", value)
    if seen.dated not in {None, dated}:
        kinds = ("seconds", "a date") if dated else ("a date", "seconds")
        raise BadField("submitted_at", f"{shown(value)} is {kinds[1]}, but an earlier job's is {kinds[0]}")
    return at


def _tasks(given: Mapping[str, Any]) -> tuple[Task, ...] | None:
    """Return the gang that is given task by task; None when only its size is given."""
    if "tasks" in given:
        return _several_tasks(given)
    if "replicas" not in given and "gpus_per_replica" not in given:
        if "gpus" not in given:
            raise BadField("gpus", "is missing; give gpus, or replicas and gpus_per_replica, or tasks")
        own = parts.replica("gpus", given["gpus"], least=processors.least_gpus(given))
        return None if own.part is None else (own,)
    for name in ("replicas", "gpus_per_replica"):
        if name not in given:
            raise BadField(name, "is missing; replicas and gpus_per_replica belong together")
    task = parts.replica(
        "gpus_per_replica",
        given["gpus_per_replica"],
        fields.count("replicas", given["replicas"], "replicas"),
        least=processors.least_gpus(given),
    )
    _check_total(given, (task,), "replicas x gpus_per_replica")
    return (task,)


def _several_tasks(given: Mapping[str, Any]) -> tuple[Task, ...]:
    """Read 1x4|2x1 or [[1, 4], [2, 1]]: the replicas of each task, and the GPUs of each replica."""
    for name in ("replicas", "gpus_per_replica"):
        if name in given:
            raise BadField(name, "is of a gang of one task; leave it out beside tasks")
    value = given["tasks"]
    pairs = [part.split("x") for part in value.split("|")] if isinstance(value, str) else value
    if (
        not isinstance(pairs, list)
        or not pairs
        or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    ):
        raise BadField("tasks", f"{shown(value)} is not a list like 1x4|2x1: replicas x GPUs of each")
    tasks = tuple(
        parts.replica(
            "tasks", gpus, fields.count("tasks", replicas, "replicas"), least=processors.least_gpus(given)
        )
        for replicas, gpus in pairs
    )
    _check_total(given, tasks, "the sum of tasks")
    return tasks


def _check_total(given: Mapping[str, Any], tasks: Sequence[Task], what: str) -> None:
    total = parts.amount(tasks)
    if "gpus" in given and fields.seconds("gpus", given["gpus"], "GPUs") != total:
        raise BadField("gpus", f"{shown(given['gpus'])} is not {what}, which is {total}")


def _on_reclaim(value: Any) -> str:
    if value in ("", PREEMPT, DOWNGRADE):
        return str(value)
    raise BadField("on_reclaim", f"{shown(value)} is neither {PREEMPT} nor {DOWNGRADE}")


def _candidates(given: Mapping[str, Any]) -> Candidates | None:
    only, avoid = (
        _names(name, given.get(name, ""), "names of nodes") for name in ("nodes_only", "nodes_avoid")
    )
    return Candidates(only=only, avoid=avoid) if only or avoid else None


def _names(name: str, value: Any, of: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(each.strip() for each in value.split("|") if each.strip())
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return tuple(value)
    raise BadField(name, f"{shown(value)} is not a list of {of}")


def _skew(value: Any) -> float | None:
    if value is None:
        return None
    skew = fields.number("skew", value)
    if not 0 < skew <= 1:
        raise BadField("skew", f"{shown(value)} is not a part of the model, above 0 and at most 1")
    return skew


def _throughput(value: Any) -> Mapping[str, float]:
    """Read {"v100": 12.5} or v100=12.5|p100=8."""
    if isinstance(value, str):
        value = fields.pairs("throughput", value)
    if not isinstance(value, dict) or "" in value:
        raise BadField("throughput", f"{shown(value)} is not a list like v100=12.5|p100=8")
    return {name: fields.positive("throughput", rate, "samples a second") for name, rate in value.items()}


def _profile(value: Any) -> Profile | None:
    """Read {"gpu": 0.2, ...} or storage=0.4|gpu=0.2|network=0.1|utilisation=0.35."""
    if isinstance(value, str):
        value = fields.pairs("profile", value)
    if not isinstance(value, dict) or not set(value) <= set(_PROFILE):
        raise BadField("profile", f"{shown(value)} is not a list like gpu=0.2 of {wording.either(_PROFILE)}")
    told = {name: fields.number("profile", given) for name, given in value.items()}
    if any(figure < 0 for figure in told.values()):
        raise BadField("profile", f"{shown(value)} has a figure below 0")
    if any(told.get(name, 0) > 1 for name in ("utilisation", "memory_utilisation")):
        raise BadField("profile", f"{shown(value)}: utilisation and memory_utilisation are at most 1")
    if told.get("amp", 0) not in (0, 1):
        raise BadField("profile", f"{shown(value)}: amp is 0 or 1")
    stages = [told[name] for name in ("storage", "gpu", "network") if name in told]
    if stages and not (len(stages) == 3 and sum(stages) > 0):
        raise BadField("profile", "storage, gpu and network are given together, and not all of them are 0")
    return first_known(
        [
            Profile(
                utilisation=told.get("utilisation"),
                memory_utilisation=told.get("memory_utilisation"),
                memory_bytes=processors.bytes_of("profile", told["memory_bytes"] / processors.GIB)
                if "memory_bytes" in told
                else None,
                amp=bool(told["amp"]) if "amp" in told else None,
                stages=(stages[0], stages[1], stages[2]) if stages else None,
            )
        ]
    )


def _profile_record(profile: Profile | None) -> dict[str, Any] | None:
    if profile is None:
        return None
    record = {name: getattr(profile, name) for name in _PROFILE[3:]}
    record["amp"] = None if profile.amp is None else int(profile.amp)
    record |= dict(zip(_PROFILE[:3], profile.stages or (), strict=False))
    return {name: value for name, value in record.items() if value is not None}


def write_native(workload: Workload, path: str | Path) -> None:
    """Write a workload: JSON lines when the name ends in .jsonl, else a table; packed when it ends in .gz.

    Raises InputError for a job that the format cannot express (a topology), or that progresses by a profile
    or along a loss curve.
    """
    path = Path(path)
    out = StringIO(newline="")
    records = [_record(arrival) for arrival in workload.arrivals]
    _check(workload, records)
    if ".jsonl" in path.suffixes:
        # Write null for an unknown estimate, because the options would decide a missing one.
        out.writelines(
            json.dumps(
                {
                    name: value
                    for name, value in record.items()
                    if value is not None or name == "estimate_seconds"
                }
            )
            + "\n"
            for record in records
        )
    else:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_WRITTEN)
        writer.writerows([_cell(record.get(name)) for name in _WRITTEN] for record in records)
    data = out.getvalue().encode()
    # The archive has no time, so that the same workload gives the same bytes.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _record(arrival: Arrival) -> dict[str, Any]:
    job, truth = arrival.job, arrival.truth
    only = job.tasks[0] if len(job.tasks) == 1 else None
    return {
        "id": job.id,
        "submitted_at": job.submitted_at,
        "tenant": job.tenant,
        "virtual_cluster": job.virtual_cluster,
        "replicas": only and only.replicas,
        "gpus_per_replica": only and parts.amount([replace(only, replicas=1)]),
        "tasks": None
        if only
        else "|".join(f"{task.replicas}x{parts.amount([replace(task, replicas=1)])}" for task in job.tasks),
        "cpus": processors.by_task([task.cpus for task in job.tasks]),
        "memory_gib": processors.by_task([task.memory_bytes / processors.GIB for task in job.tasks]),
        "use_cpus": "|".join([repr(cpus) for cpus, _ in truth.use]) or None,
        "use_memory": "|".join([repr(memory) for _, memory in truth.use]) or None,
        "gpu_models": list(job.gpu_models) or None,
        "duration_seconds": truth.work_seconds,
        "application": job.application or None,
        "priority": job.priority,
        "guaranteed": job.guaranteed,
        "time_limit_seconds": job.time_limit_seconds,
        "estimate_seconds": job.estimate_seconds,
        "status": truth.status,
        "skew": job.skew,
        "throughput": dict(job.throughput) or None,
        "user": job.user or None,
        "search": job.search or None,
        "pinned_cell": job.pinned_cell or None,
        "reservation": job.reservation or None,
        "nodes_only": (list(job.nodes.only) or None) if job.nodes else None,
        "nodes_avoid": (list(job.nodes.avoid) or None) if job.nodes else None,
        "on_reclaim": job.on_reclaim or None,
        "min_gpus": job.elastic and job.elastic[0],
        "max_gpus": job.elastic and job.elastic[1],
        "elastic_mode": job.elastic_mode if job.elastic else None,
        "profile": _profile_record(job.profile),
        "data": data_sets.written(job.data),
    }


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case list():
            return "|".join(value)
        case dict():
            return "|".join(f"{name}={rate!r}" for name, rate in value.items())
    return str(value)


def _check(workload: Workload, records: list[dict[str, Any]]) -> None:
    """Raise InputError for the first job that would not be read back unchanged."""
    seen = _EarlierJobs()
    traced = [_job(fields.stated(record), seen, estimated=True) for record in records]
    for was, back in zip(workload.arrivals, make_workload("", traced, TraceOptions()).arrivals, strict=True):
        if was != back:
            raise InputError(f"job {was.job.id} has more than the native trace format can express: {was.job}")
