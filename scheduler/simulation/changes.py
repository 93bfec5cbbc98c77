"""Events of a scenario that change nodes, tenants or virtual clusters.

- {at: 90, node_down: v100-0001}
- {at: 120, node_up: v100-0001}
- {at: 120, drain: {node: v100-0001, until: 600}}
- {at: 150, quota: {tenant: everyone, gpus: {v100: 4}, cpus: 64, memory: 512GiB}}
- {at: 150, budget: {tenant: everyone, gpu_hours: 2, renewed_at: [3600, 7200]}}
- {at: 150, reserve: {name: paper, tenant: everyone, nodes: [v100-0001], starts_at: 3600, ends_at: 7200}}
- {at: 180, virtual_cluster: {name: cluster, policy: fifo, guaranteed: {v100: 8}}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from scheduler.core.fitting.quotas import ALL_MODELS
from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.limits import Budget
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import Node, Snapshot, Tenant
from scheduler.core.round.registry import make_placer, make_policy, split_placer, split_policy
from scheduler.jobspec.fields import bytes_of
from scheduler.simulation.errors import InputError
from scheduler.simulation.inventory import count_gpus
from scheduler.simulation.traces.fields import BadField, seconds, shown, within_a_century

KINDS = ("node_down", "node_up", "drain", "reserve", "quota", "budget", "virtual_cluster")

Change = Callable[[Snapshot], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedChange:
    """A change of the facts at an instant, and the place of its event in the file."""

    at: float
    where: str
    change: Change


def check_changes(facts: Snapshot, timed: Iterable[TimedChange]) -> None:
    """Raise InputError for the first change that will be impossible; `timed` is in order of time.

    Otherwise a story of a month would end with the error in its last hour. What virtual clusters are
    guaranteed is checked after all changes of an instant, because one may get what another one loses.
    """
    for _, group in groupby(timed, key=lambda each: each.at):
        where = ""
        for each in group:
            before = [vc.guaranteed for vc in facts.virtual_clusters]
            facts = each.change(facts)
            if before != [vc.guaranteed for vc in facts.virtual_clusters]:
                where = each.where
        if where:
            _check_guarantees(f"{where}: virtual_cluster: guaranteed", facts)


def _check_guarantees(where: str, facts: Snapshot) -> None:
    available = count_gpus(facts.nodes)
    for model in sorted({model for vc in facts.virtual_clusters for model in vc.guaranteed}):
        guaranteed = sum([vc.guaranteed.get(model, 0) for vc in facts.virtual_clusters])
        if model not in available and guaranteed:
            raise InputError(
                f"{where}: there is no {model}; the nodes have {wording.either(list(available))}"
            )
        if guaranteed > available.get(model, 0):
            raise InputError(
                f"{where}: {guaranteed} {model} are guaranteed in all; there are {available[model]}"
            )


def change_of(kind: str, where: str, value: Any) -> Change:
    """Return the change that an event makes to the facts; raise InputError that names the wrong field."""
    if kind in ("node_down", "node_up"):
        return _node(where, str(value), comes=kind == "node_up")
    if not isinstance(value, dict):
        raise InputError(f"{where}: {kind}: {shown(value)} is not an object")
    return _READERS[kind](f"{where}: {kind}", value)


def refuse_unknown(place: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise InputError for the first unknown field."""
    for key in given:
        if key not in known:
            raise InputError(f"{place}: {shown(key)} is not known here; choose {wording.either(known)}")


def _node(where: str, name: str, *, comes: bool) -> Change:
    """Return the change by which a node comes back, or fails and loses its jobs; a drain of it ends."""

    def turned(node: Node) -> Node:
        gpus = tuple(replace(gpu, healthy=comes) for gpu in node.gpus)
        return replace(node, schedulable=comes, closes_at=None, gpus=gpus)

    return lambda facts: _with_node(where, facts, name, turned)


def _drain(where: str, value: Mapping[str, Any]) -> Change:
    refuse_unknown(where, value, ("node", "until"))
    until = _seconds(where, "until", value.get("until"))

    def closing(node: Node) -> Node:
        return replace(node, closes_at=until)

    return lambda facts: _with_node(where, facts, str(value.get("node", "")), closing)


def _reserve(where: str, value: Mapping[str, Any]) -> Change:
    """Reserve nodes for the jobs of a tenant that name the reservation."""
    texts = ("name", "tenant", "user", "virtual_cluster")
    refuse_unknown(where, value, (*texts, "nodes", "starts_at", "ends_at"))
    given = {key: str(value.get(key, "")) for key in texts}
    names = value.get("nodes")
    if not isinstance(names, list) or not names or not given["name"]:
        raise InputError(f"{where}: must have a name, and nodes as a list of names")
    starts_at, ends_at = (_seconds(where, key, value.get(key)) for key in ("starts_at", "ends_at"))
    if ends_at <= starts_at:
        raise InputError(f"{where}: ends_at: {ends_at:g} is not after starts_at, {starts_at:g}")
    made = Reservation(nodes=tuple(map(str, names)), starts_at=starts_at, ends_at=ends_at, **given)

    def change(facts: Snapshot) -> Snapshot:
        for name in made.nodes:
            _with_node(where, facts, name, lambda node: node)
        if given["tenant"] not in [tenant.name for tenant in facts.tenants]:
            raise InputError(f"{where}: there is no tenant {shown(given['tenant'])}")
        return replace(facts, reservations=(*facts.reservations, made))

    return change


def _with_node(where: str, facts: Snapshot, name: str, changed: Callable[[Node], Node]) -> Snapshot:
    if name not in [node.name for node in facts.nodes]:
        names = wording.listed([node.name for node in facts.nodes][:5])
        raise InputError(f"{where}: there is no node {shown(name)}; there are {names}, ...")
    nodes = [changed(node) if node.name == name else node for node in facts.nodes]
    return replace(facts, nodes=tuple(nodes))


def _quota(where: str, value: Mapping[str, Any]) -> Change:
    """Replace the whole quota."""
    refuse_unknown(where, value, ("tenant", "gpus", "cpus", "memory"))
    quota = counts_of(f"{where}: gpus", value.get("gpus", {}))
    cpus = _amount(where, "cpus", value["cpus"], "CPUs") if "cpus" in value else None
    memory = _memory(where, value["memory"]) if "memory" in value else None
    limited = _with_tenant(
        where,
        value,
        lambda tenant: replace(tenant, quota=quota, quota_cpus=cpus, quota_memory_bytes=memory),
    )

    def change(facts: Snapshot) -> Snapshot:
        available = count_gpus(facts.nodes)
        for model in quota:
            if model != ALL_MODELS and model not in available:
                there = wording.either(list(available))
                raise InputError(f"{where}: gpus: there is no {model}; the nodes have {there}")
        return limited(facts)

    return change


def _memory(where: str, value: Any) -> int:
    size = bytes_of(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if size is None:
        raise InputError(f"{where}: memory: {shown(value)} is not a size such as 512GiB")
    return size


def _budget(where: str, value: Mapping[str, Any]) -> Change:
    """Give a tenant a budget with no use so far."""
    refuse_unknown(where, value, ("tenant", "gpu_hours", "cost", "renewed_at"))
    if ("gpu_hours" in value) == ("cost" in value):
        raise InputError(f"{where}: must have either gpu_hours or cost")
    unit = "cost" if "cost" in value else "gpu_hours"
    amount = _amount(where, unit, value[unit], "cost units" if unit == "cost" else "GPU-hours")
    renewals = value.get("renewed_at", [])
    if not isinstance(renewals, list):
        raise InputError(f"{where}: renewed_at: {shown(renewals)} is not a list of instants")
    instants = sorted(_seconds(where, "renewed_at", each) for each in renewals)
    budget = Budget(amount=amount, left=amount, by_price=unit == "cost", renewals=tuple(instants))

    def unspent(tenant: Tenant) -> Tenant:
        return replace(tenant, budget=budget, budget_spent=False, budget_renewed_at=None)

    return _with_tenant(where, value, unspent)


def _with_tenant(where: str, value: Mapping[str, Any], changed: Callable[[Tenant], Tenant]) -> Change:
    name = str(value.get("tenant", ""))

    def change(facts: Snapshot) -> Snapshot:
        if name not in [tenant.name for tenant in facts.tenants]:
            raise InputError(f"{where}: there is no tenant {shown(name)}")
        tenants = [changed(each) if each.name == name else each for each in facts.tenants]
        return replace(facts, tenants=tuple(tenants))

    return change


def _virtual_cluster(where: str, value: Mapping[str, Any]) -> Change:
    refuse_unknown(where, value, ("name", "guaranteed", "policy", "placer"))
    name = str(value.get("name", ""))
    changes: dict[str, Any] = {}
    for key, make, split in (
        ("policy", make_policy, split_policy),
        ("placer", make_placer, split_placer),
    ):
        if key in value:
            try:
                make(str(value[key]))
                changes[key], changes[f"{key}_parameters"] = split(str(value[key]))
            except UnknownPlugin as error:
                raise InputError(f"{where}: {key}: {error}") from None
    if "guaranteed" in value:
        changes["guaranteed"] = counts_of(f"{where}: guaranteed", value["guaranteed"])

    def change(facts: Snapshot) -> Snapshot:
        if name not in [vc.name for vc in facts.virtual_clusters]:
            raise InputError(f"{where}: there is no virtual cluster {shown(name)}")
        clusters = [replace(vc, **changes) if vc.name == name else vc for vc in facts.virtual_clusters]
        return replace(facts, virtual_clusters=tuple(clusters))

    return change


_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], Change]] = {
    "drain": _drain,
    "reserve": _reserve,
    "quota": _quota,
    "budget": _budget,
    "virtual_cluster": _virtual_cluster,
}


def _amount(where: str, field: str, value: Any, unit: str) -> float:
    """Return a number of at least 0."""
    if value is None:
        raise InputError(f"{where}: {field}: is missing")
    try:
        return seconds(field, value, unit)
    except BadField as bad:
        raise InputError(f"{where}: {bad}") from None


def _seconds(where: str, field: str, value: Any) -> float:
    """Return a number of seconds of at least 0."""
    try:
        return within_a_century(field, _amount(where, field, value, "seconds"))
    except BadField as bad:
        raise InputError(f"{where}: {bad}") from None


def counts_of(where: str, value: Any) -> dict[str, int]:
    """Return numbers of GPUs by model, or of cells by type; raise InputError for anything else."""
    # Python takes true for a 1.
    if not isinstance(value, dict) or not all(type(count) is int and count >= 0 for count in value.values()):
        raise InputError(f"{where}: {shown(value)} is not an object of whole numbers, like {{v100: 8}}")
    return {str(name): count for name, count in value.items()}
