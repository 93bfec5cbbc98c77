"""A hand-written list of timed events, replayed round by round: stories, bug reports, worked examples.

The file is YAML (docs/simulator.md, "Scenarios"):

    cluster: v100=8:4
    policy: tiresias
    round_seconds: 60
    events:
      - {at: 0, submit: {name: first, gpus: 4, duration_seconds: 300}}
      - {at: 60, cancel: first}
      - {at: 90, node_down: v100-0001}
      - {at: 120, node_up: v100-0001}
      - {at: 150, quota: {tenant: everyone, gpus: {v100: 4}}}
      - {at: 180, virtual_cluster: {name: cluster, policy: fifo, guaranteed: {v100: 8}}}
      - {at: 200, finish: second}

Those of the market between virtual clusters are in `dealings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from scheduler.core import wording
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.workload import Workload
from scheduler.core.snapshot import JobId, Node, Snapshot, Tenant, VirtualCluster
from scheduler.simulation import dealings
from scheduler.simulation.clusters import load_cluster
from scheduler.simulation.errors import InputError
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.traces.fields import BadField, number, shown
from scheduler.simulation.traces.native import read_job
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.reading import make_workload
from scheduler.simulation.traces.source import TracedJob

_KINDS = ("submit", "finish", "cancel", "node_down", "node_up", "quota", "virtual_cluster", *dealings.KINDS)
_TOP = ("cluster", "policy", "placer", "round_seconds", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A scripted event: something done to the engine at an instant."""

    at: float
    words: str
    act: Callable[[Engine], None]

    def happen(self, engine: Engine) -> None:
        self.act(engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a scenario file says. Empty texts: left to the command line."""

    workload: Workload
    script: tuple[Happening, ...]
    #: The names of the jobs that have one, by id.
    names: Mapping[JobId, str]
    cluster: ClusterSpec
    policy: str = ""
    placer: str = ""
    round_seconds: float | None = None


def read_scenario(path: str | Path, cluster: str = "") -> Scenario:
    """Read a scenario file; raise InputError that names the event and the field at fault.

    `cluster` is a cluster to use instead of the file's own.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name}: is not YAML: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("events"), list):
        raise InputError(f"{path.name}: must be an object with a list of events")
    _refuse_unknown(path.name, content, _TOP)
    spec = cluster or str(content.get("cluster", ""))
    if not spec:
        raise InputError(f"{path.name}: names no cluster; give one there, or --cluster")
    return _Reader(path.name, content, load_cluster(spec)).scenario()


def _refuse_unknown(place: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise InputError(f"{place}: {shown(key)} is not known here; choose {wording.either(known)}")


class _Reader:
    """Turns the events of one file into a workload and a script."""

    def __init__(self, file: str, content: Mapping[str, Any], cluster: ClusterSpec) -> None:
        self._file, self._content, self._cluster = file, content, cluster
        self._jobs: list[tuple[TracedJob, str]] = []
        self._names: dict[str, int] = {}
        self._numbers: dict[str, JobId] = {}
        self._dealings = dealings.Dealings([vc.name for vc in cluster.virtual_clusters])

    def scenario(self) -> Scenario:
        events = [(place, event) for place, event in enumerate(self._content["events"], start=1)]
        for place, event in events:
            self._check(place, event)
            if "submit" in event:
                self._submit(place, event)
        # By submission, as the workload will number them.
        self._jobs.sort(key=lambda pair: pair[0].submitted_at)
        self._numbers = {name: JobId(number) for number, (_, name) in enumerate(self._jobs, 1) if name}
        options = TraceOptions(gpus_per_node=self._cluster.largest_node)
        workload = make_workload(self._file, [job for job, _ in self._jobs], options)
        # A workload counts from its first job; a scenario from its own zero.
        first = self._jobs[0][0].submitted_at if self._jobs else 0.0
        arrivals = tuple(
            replace(each, job=replace(each.job, submitted_at=each.job.submitted_at + first))
            for each in workload.arrivals
        )
        script = [self._happening(place, event) for place, event in events if "submit" not in event]
        rounds = self._content.get("round_seconds")
        return Scenario(
            workload=replace(workload, arrivals=arrivals),
            script=tuple(sorted(script, key=lambda event: event.at)),
            names={number: name for name, number in self._numbers.items()},
            cluster=self._cluster,
            policy=str(self._content.get("policy", "")),
            placer=str(self._content.get("placer", "")),
            round_seconds=None if rounds is None else self._number("round_seconds", rounds, self._file),
        )

    def _check(self, place: int, event: Any) -> None:
        where = f"{self._file}: event {place}"
        if not isinstance(event, dict) or "at" not in event:
            raise InputError(f"{where}: must be an object with `at` and one of {', '.join(_KINDS)}")
        kinds = [kind for kind in _KINDS if kind in event]
        if len(kinds) != 1 or len(event) != 2:
            raise InputError(f"{where}: must have `at` and exactly one of {', '.join(_KINDS)}")
        self._number("at", event["at"], where)

    def _number(self, field: str, value: Any, where: str) -> float:
        try:
            return number(field, value) if isinstance(value, int | float) else number(field, str(value))
        except BadField as bad:
            raise InputError(f"{where}: {bad}") from None

    def _submit(self, place: int, event: Mapping[str, Any]) -> None:
        where = f"{self._file}: event {place}: submit"
        given = event["submit"]
        if not isinstance(given, dict):
            raise InputError(
                f"{where}: {shown(given)} is not an object like {{gpus: 4, duration_seconds: 60}}"
            )
        name = str(given.get("name", ""))
        if name in self._names:
            raise InputError(f"{where}: name {shown(name)} is that of event {self._names[name]}")
        if name:
            self._names[name] = place
        fields = {key: value for key, value in given.items() if key != "name"}
        try:
            self._jobs.append((read_job({**fields, "submitted_at": event["at"]}), name))
        except BadField as bad:
            raise InputError(f"{where}: {bad}") from None

    def _happening(self, place: int, event: Mapping[str, Any]) -> Happening:
        where = f"{self._file}: event {place}"
        (kind,) = [key for key in event if key != "at"]
        value = event[kind]
        if kind in ("finish", "cancel"):
            job = self._job(where, value)
            act = (
                (lambda engine: engine.finish(job))
                if kind == "finish"
                else (lambda engine: engine.cancel(job))
            )
            return Happening(at=float(event["at"]), words=f"{kind} {value}", act=act)
        if kind in ("node_down", "node_up"):
            change = _NodeChange(where, str(value), comes=kind == "node_up")
            return Happening(at=float(event["at"]), words=f"{kind} {value}", act=change)
        if kind in dealings.KINDS:
            act = self._dealings.act(kind, where, value)
            return Happening(at=float(event["at"]), words=f"{kind} {_words(value)}", act=act)
        if not isinstance(value, dict):
            raise InputError(f"{where}: {kind}: {shown(value)} is not an object")
        alter = _quota(where, value) if kind == "quota" else _virtual_cluster(where, value)
        return Happening(
            at=float(event["at"]),
            words=f"{kind} {_words(value)}",
            act=lambda engine: engine.reconfigure(alter),
        )

    def _job(self, where: str, value: Any) -> JobId:
        if str(value) in self._numbers:
            return self._numbers[str(value)]
        if isinstance(value, int) and 0 < value <= len(self._jobs):
            return JobId(value)
        raise InputError(f"{where}: {shown(value)} is no job: give its name, or its number by submission")


def _words(value: Any) -> str:
    return (
        ", ".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, dict) else str(value)
    )


@dataclass(frozen=True, slots=True)
class _NodeChange:
    """A node fails or comes back. What ran on a node that fails is lost there."""

    where: str
    name: str
    comes: bool

    def __call__(self, engine: Engine) -> None:
        engine.reconfigure(self._set)

    def _set(self, facts: Snapshot) -> Snapshot:
        if self.name not in [node.name for node in facts.nodes]:
            names = wording.listed([node.name for node in facts.nodes][:5])
            raise InputError(f"{self.where}: there is no node {shown(self.name)}; there are {names}, ...")
        nodes = [self._turned(node) if node.name == self.name else node for node in facts.nodes]
        return replace(facts, nodes=tuple(nodes))

    def _turned(self, node: Node) -> Node:
        gpus = tuple(replace(gpu, healthy=self.comes) for gpu in node.gpus)
        return replace(node, schedulable=self.comes, gpus=gpus)


def _quota(where: str, value: Mapping[str, Any]) -> Callable[[Snapshot], Snapshot]:
    _refuse_unknown(f"{where}: quota", value, ("tenant", "gpus"))
    quota = _counts(f"{where}: quota: gpus", value.get("gpus"))
    name = str(value.get("tenant", ""))

    def change(facts: Snapshot) -> Snapshot:
        if name not in [tenant.name for tenant in facts.tenants]:
            raise InputError(f"{where}: quota: there is no tenant {shown(name)}")
        tenants = [Tenant(name=name, quota=quota) if each.name == name else each for each in facts.tenants]
        return replace(facts, tenants=tuple(tenants))

    return change


def _virtual_cluster(where: str, value: Mapping[str, Any]) -> Callable[[Snapshot], Snapshot]:
    known = ("name", "guaranteed", "policy", "placer")
    _refuse_unknown(f"{where}: virtual_cluster", value, known)
    name = str(value.get("name", ""))
    changes: dict[str, Any] = {key: str(value[key]) for key in ("policy", "placer") if key in value}
    if "policy" in changes:
        changes["policy_parameters"] = {}
    if "guaranteed" in value:
        changes["guaranteed"] = _counts(f"{where}: virtual_cluster: guaranteed", value["guaranteed"])

    def change(facts: Snapshot) -> Snapshot:
        if name not in [vc.name for vc in facts.virtual_clusters]:
            raise InputError(f"{where}: virtual_cluster: there is no virtual cluster {shown(name)}")

        def changed(vc: VirtualCluster) -> VirtualCluster:
            return replace(vc, **changes) if vc.name == name else vc

        return replace(facts, virtual_clusters=tuple(map(changed, facts.virtual_clusters)))

    return change


def _counts(where: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(gpus, int) and gpus >= 0 for gpus in value.values()):
        raise InputError(f"{where}: {shown(value)} is not an object of GPUs by model, like {{v100: 8}}")
    return {str(model): gpus for model, gpus in value.items()}
