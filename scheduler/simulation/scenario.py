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

Events that change nodes, tenants and virtual clusters are in `changes`, those of the market in
`market_mutations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.snapshot import JobId, NodeId
from scheduler.core.round.registry import make_placer, make_policy
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Autoscaling
from scheduler.core.sim.workload import Workload
from scheduler.simulation import changes, market_mutations
from scheduler.simulation.autoscaling import read_autoscaling
from scheduler.simulation.changes import refuse_unknown
from scheduler.simulation.clusters import load_cluster
from scheduler.simulation.errors import InputError
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.traces.fields import BadField, count, number, shown, stated, within_a_century
from scheduler.simulation.traces.native import read_job
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.reading import make_workload
from scheduler.simulation.traces.source import TracedJob, check_bounds
from scheduler.simulation.yaml_files import only_document

_NODE_LOANS = ("node_loan", "node_return")
_KINDS = ("submit", "finish", "cancel", *changes.KINDS, *_NODE_LOANS, *market_mutations.KINDS)
_TOP = ("cluster", "policy", "placer", "round_seconds", "profiles", "autoscaling", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioEvent:
    """A scripted event: something that is done to the engine at an instant."""

    at: float
    words: str
    act: Callable[[Engine], None]
    #: Its change of nodes, tenants or virtual clusters, if it is one.
    change: changes.TimedChange | None = None

    def happen(self, engine: Engine) -> None:
        self.act(engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The content of a scenario file. The command line decides what an empty text leaves open."""

    workload: Workload
    script: tuple[ScenarioEvent, ...]
    #: The names of jobs that have one, by id.
    names: Mapping[JobId, str]
    cluster: ClusterSpec
    policy: str = ""
    placer: str = ""
    round_seconds: float | None = None
    autoscaling: Autoscaling | None = None


def read_scenario(path: str | Path, cluster: str = "") -> Scenario:
    """Read a scenario file; raise InputError that names the event and the wrong field.

    `cluster` is a cluster to use instead of the file's own.
    """
    path = Path(path)
    try:
        content = only_document(path.name, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: is not YAML: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("events"), list):
        raise InputError(f"{path.name}: must be an object with a list of events")
    refuse_unknown(path.name, content, _TOP)
    content = stated(content)
    spec = cluster or str(content.get("cluster", ""))
    if not spec:
        raise InputError(f"{path.name}: names no cluster; give one there, or --cluster")
    # The folder may be beside the file or anywhere else; it is not copied.
    named = str(content.get("profiles", ""))
    profiles = (path.parent / named) if named else None
    if profiles is not None and not profiles.is_dir():
        raise InputError(f"{path.name}: profiles: there is no folder {named}")
    return _Reader(path.name, content, load_cluster(spec), profiles).scenario()


class _Reader:
    """Turns the events of one file into a workload and a script."""

    def __init__(
        self, file: str, content: Mapping[str, Any], cluster: ClusterSpec, profiles: Path | None
    ) -> None:
        self._file, self._content, self._cluster, self._profiles = file, content, cluster, profiles
        self._jobs: list[tuple[TracedJob, str]] = []
        self._names: dict[str, int] = {}
        self._numbers: dict[str, JobId] = {}
        self._mutations = market_mutations.MarketMutations(
            [vc.name for vc in cluster.virtual_clusters], cluster.gpus_by_model
        )

    def scenario(self) -> Scenario:
        events = [(place, _stated(event)) for place, event in enumerate(self._content["events"], start=1)]
        for place, event in events:
            self._check(place, event)
            if "submit" in event:
                self._submit(place, event)
        # Sort by submission, because the workload numbers jobs in that order.
        self._jobs.sort(key=lambda pair: pair[0].submitted_at)
        self._numbers = {name: JobId(number) for number, (_, name) in enumerate(self._jobs, 1) if name}
        options = TraceOptions(
            gpus_per_node=self._cluster.largest_node, largest_gpus=self._cluster.largest_gang
        )
        workload = make_workload(self._file, [job for job, _ in self._jobs], options)
        # Times of a workload count from its first job, those of a scenario from its own zero.
        first = self._jobs[0][0].submitted_at if self._jobs else 0.0
        arrivals = tuple(
            replace(each, job=replace(each.job, submitted_at=each.job.submitted_at + first))
            for each in workload.arrivals
        )
        script = [each for place, event in events for each in self._script_events(place, event)]
        self._check_plugins()
        rounds, scaling = self._content.get("round_seconds"), self._content.get("autoscaling")
        return Scenario(
            workload=replace(workload, arrivals=arrivals),
            script=tuple(sorted(script, key=lambda event: event.at)),
            names={number: name for name, number in self._numbers.items()},
            cluster=self._cluster,
            policy=str(self._content.get("policy", "")),
            placer=str(self._content.get("placer", "")),
            round_seconds=None if rounds is None else self._number("round_seconds", rounds, self._file),
            autoscaling=None if scaling is None else read_autoscaling(f"{self._file}: autoscaling", scaling),
        )

    def _check_plugins(self) -> None:
        for kind, make in (("policy", make_policy), ("placer", make_placer)):
            if text := str(self._content.get(kind, "")):
                try:
                    make(text)
                except UnknownPlugin as error:
                    raise InputError(f"{self._file}: {kind}: {error}") from None

    def _check(self, place: int, event: Any) -> None:
        where = f"{self._file}: event {place}"
        if not isinstance(event, dict) or "at" not in event:
            raise InputError(f"{where}: must be an object with `at` and one of {', '.join(_KINDS)}")
        kinds = [kind for kind in _KINDS if kind in event]
        if len(kinds) != 1 or len(event) != 2:
            raise InputError(f"{where}: must have `at` and exactly one of {', '.join(_KINDS)}")
        if self._number("at", event["at"], where) < 0:
            raise InputError(f"{where}: at: {event['at']} is before the beginning; it must be at least 0")

    def _number(self, field: str, value: Any, where: str) -> float:
        try:
            return within_a_century(
                field, number(field, value if isinstance(value, int | float) else str(value))
            )
        except BadField as bad:
            raise InputError(f"{where}: {bad}") from None

    def _submit(self, place: int, event: Mapping[str, Any]) -> None:
        where = f"{self._file}: event {place}: submit"
        given = event["submit"]
        if not isinstance(given, dict):
            raise InputError(
                f"{where}: {shown(given)} is not an object like {{gpus: 4, duration_seconds: 60}}"
            )
        name = str(stated(given).get("name", ""))
        if name in self._names:
            raise InputError(f"{where}: name {shown(name)} is that of event {self._names[name]}")
        if name:
            self._names[name] = place
        fields = {key: value for key, value in given.items() if key != "name"}
        try:
            job = read_job(
                {**fields, "submitted_at": event["at"]}, self._profiles, self._cluster.largest_node
            )
            check_bounds(job)
            self._jobs.append((job, name))
        except BadField as bad:
            raise InputError(f"{where}: {bad}") from None

    def _script_events(self, place: int, event: Mapping[str, Any]) -> Iterator[ScenarioEvent]:
        where = f"{self._file}: event {place}"
        (kind,) = [key for key in event if key != "at"]
        at, value = float(event["at"]), event[kind]
        words = f"{kind} {_words(value)}"
        if kind in ("finish", "cancel"):
            job = self._job(where, value)
            act = (
                (lambda engine: engine.finish(job))
                if kind == "finish"
                else (lambda engine: engine.cancel(job))
            )
            yield ScenarioEvent(at=at, words=words, act=act)
        elif kind in _NODE_LOANS:
            yield ScenarioEvent(at=at, words=words, act=self._node_loan(kind, where, value))
        elif kind in market_mutations.KINDS:
            yield ScenarioEvent(at=at, words=words, act=self._mutations.act(kind, where, value))
        elif kind in changes.KINDS:
            change = changes.change_of(kind, where, value)
            yield ScenarioEvent(
                at=at,
                words=words,
                act=lambda engine: engine.reconfigure(change),
                change=changes.TimedChange(at=at, where=where, change=change),
            )

    def _node_loan(self, kind: str, where: str, value: Any) -> Callable[[Engine], None]:
        """Return the action of {node_loan: NAME}, or of {node_return: {node, by}}.

        {node_return: {serving_pool, nodes, by}} asks the cheapest nodes back.
        """
        if kind == "node_loan":
            lent = [self._pool_node(where, value)]
            return lambda engine: engine.node_loans.lend(lent)
        if not isinstance(value, dict) or ("node" in value) == ("serving_pool" in value):
            raise InputError(f"{where}: node_return: must have either a node or a serving_pool, and by")
        refuse_unknown(where, value, ("node", "by") if "node" in value else ("serving_pool", "nodes", "by"))
        by = self._number("by", value.get("by", ""), where)
        if "node" in value:
            back = [self._pool_node(where, value["node"])]
            return lambda engine: engine.node_loans.ask_back(back, by)
        pool = str(value["serving_pool"])
        try:
            nodes = count("nodes", value.get("nodes", 1), "nodes")
        except BadField as bad:
            raise InputError(f"{where}: node_return: {bad}") from None
        if pool not in [each.name for each in self._cluster.pools]:
            raise InputError(f"{where}: there is no serving pool {shown(pool)}")
        return lambda engine: engine.node_loans.ask_back(engine.node_loans.choose(pool, nodes), by)

    def _pool_node(self, where: str, name: Any) -> NodeId:
        for node in self._cluster.nodes:
            if node.name == name and node.loan is not None:
                return node.id
        raise InputError(f"{where}: {shown(name)} is not a node of a serving pool")

    def _job(self, where: str, value: Any) -> JobId:
        if str(value) in self._numbers:
            return self._numbers[str(value)]
        if type(value) is int and 0 < value <= len(self._jobs):
            return JobId(value)
        raise InputError(f"{where}: {shown(value)} is not a job: give its name, or its number by submission")


def _stated(event: Any) -> Any:
    """Return an event without what is null; a job keeps its nulls, which `read_job` reads."""
    if not isinstance(event, dict):
        return event
    return {
        key: stated(value) if isinstance(value, dict) and key != "submit" else value
        for key, value in stated(event).items()
    }


def _words(value: Any) -> str:
    return (
        ", ".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, dict) else str(value)
    )
