"""Cluster files: racks with nodes, virtual clusters, tenants. docs/clusters.md describes every field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.node_peaks import OVERCOMMIT_NEVER, OVERCOMMIT_PREDICTED, USUAL_MARGIN
from scheduler.core.model.snapshot import Member, Node, Tenant, VirtualCluster
from scheduler.core.round.registry import make_placer, make_policy, split_placer, split_policy
from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.jobspec.fields import bytes_of, seconds_of
from scheduler.simulation.division import declared_cells
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.inventory import (
    MOST_GPUS,
    ONLY_RACK,
    Bounds,
    ClusterSpec,
    Inventory,
    count_gpus,
    one_virtual_cluster,
)
from scheduler.simulation.traces.fields import LARGEST_FLOAT, MOST_SECONDS, one_line, shown
from scheduler.simulation.yaml_files import only_document

_MOST = 1_000_000


class _Entry:
    """A mapping of the file with its place, such as "cluster.yaml: racks[0].nodes[1]"."""

    def __init__(self, place: str, value: Any, known: Sequence[str]) -> None:
        self.place = place
        if not isinstance(value, dict):
            raise ClusterError(
                f"{place}: must have fields ({wording.listed(known, 20)}); it is {shown(value)}"
            )
        self.value: dict[Any, Any] = value
        for name in value:
            if name not in known:
                raise ClusterError(
                    f"{place}: {one_line(name)}: is not a field here; there are {wording.listed(known, 20)}"
                )

    def wrong(self, field: str, message: str) -> ClusterError:
        return ClusterError(f"{self.place}: {field}: {message}")

    def name(self, field: str, default: str | None = None) -> str:
        value = self.value.get(field, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(field, "must be a name" if value is None else f"{value!r} is not a name")
        return value

    def count(self, field: str, default: int | None = None) -> int:
        value = self.value.get(field, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
            raise self.wrong(field, f"{value!r} is not a whole number of at least 1")
        return value

    def amounts(self, field: str) -> dict[str, int]:
        """Return whole numbers by name; empty when the field is missing."""
        value = self.value.get(field, {})
        if not isinstance(value, dict):
            raise self.wrong(field, f"{value!r} is not like {{V100: 8}}")
        for key, amount in value.items():
            if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= LARGEST_FLOAT:
                raise self.wrong(f"{field}.{key}", f"{amount!r} is not a whole number of at least 0")
        return {str(key): amount for key, amount in value.items()}

    def entries(self, field: str, known: Sequence[str]) -> list[_Entry]:
        value = self.value.get(field) or []
        if not isinstance(value, list):
            raise self.wrong(field, "must be a list")
        return [_Entry(f"{self.place}: {field}[{n}]", item, known) for n, item in enumerate(value)]


def read_cluster_yaml(name: str, text: str) -> ClusterSpec:
    """Read the text of a cluster file. Raise InputError."""
    root = _Entry(name, only_document(name, text), _CLUSTER)
    inventory = Inventory()
    for number, rack in enumerate(root.entries("racks", ("name", "count", "nodes")), 1):
        count = rack.count("count", 1)
        title = rack.name("name", f"rack-{number}")
        for copy in range(1, count + 1):
            _add_nodes(inventory, rack, title if count == 1 else f"{title}-{copy}")
    _add_nodes(inventory, root, ONLY_RACK)
    if not inventory.nodes:
        raise ClusterError(f"{name}: nodes: there are none; give nodes, or racks with nodes")
    tenants = tuple(_tenant(entry) for entry in root.entries("tenants", _TENANT))
    gpus = count_gpus(inventory.nodes)
    virtual_clusters = tuple(
        _virtual_cluster(entry, gpus, in_cells="cells" in root.value)
        for entry in root.entries("virtual_clusters", _VIRTUAL_CLUSTER)
    )
    _check_names(name, "virtual_clusters", [vc.name for vc in virtual_clusters])
    _check_names(name, "tenants", [tenant.name for tenant in tenants])
    for model, available in gpus.items():
        guaranteed = sum(vc.guaranteed.get(model, 0) for vc in virtual_clusters)
        if guaranteed > available:
            raise ClusterError(
                f"{name}: virtual_clusters: {guaranteed} {model} are guaranteed in all; there are {available}"
            )
    cluster = ClusterSpec(
        name=root.name("name", name),
        nodes=inventory.nodes,
        virtual_clusters=virtual_clusters or one_virtual_cluster(inventory.nodes),
        tenants=tenants,
        prices=_prices(root, gpus),
        bounds=_bounds(root),
        pools=_serving_pools(root, inventory.nodes),
    )
    cells = root.value.get("cells")
    if cells is None:
        return cluster
    if not isinstance(cells, dict):
        raise root.wrong("cells", "must have types, physical and virtual_clusters")
    return declared_cells(cluster, cells)


def _serving_pools(root: _Entry, nodes: Sequence[Node]) -> tuple[ServingPool, ...]:
    pools = []
    for entry in root.entries("serving_pools", ("name", "nodes_needed", "return")):
        try:
            curve = curve_of(entry.value["nodes_needed"]) if "nodes_needed" in entry.value else None
        except ValueError as error:
            raise entry.wrong("nodes_needed", str(error)) from None
        seconds = _seconds(entry, "return", ServingPool(name="").return_seconds)
        pools.append(ServingPool(name=entry.name("name"), return_seconds=seconds, curve=curve))
    names = [pool.name for pool in pools]
    _check_names(root.place, "serving_pools", names)
    for node in nodes:
        if node.loan is not None and node.loan.pool not in names:
            raise root.wrong(
                "serving_pools", f"node {node.name} is of {node.loan.pool}, which is not among them"
            )
    return tuple(pools)


def _prices(root: _Entry, gpus: Mapping[str, int]) -> dict[str, float]:
    prices = root.value.get("prices", {})
    if not isinstance(prices, dict):
        raise root.wrong("prices", f"{prices!r} is not like {{V100: 2.48}}")
    for model, price in prices.items():
        if model not in gpus:
            raise root.wrong("prices", f"there is no {model}; the nodes have {wording.either(sorted(gpus))}")
        if not isinstance(price, int | float) or isinstance(price, bool) or not 0 < price <= LARGEST_FLOAT:
            raise root.wrong(f"prices.{model}", f"{price!r} is not a price above 0 for a GPU-hour")
    return {model: float(price) for model, price in prices.items()}


_CLUSTER = (
    "name",
    "racks",
    "nodes",
    "prices",
    "preemptions",
    "virtual_clusters",
    "cells",
    "tenants",
    "serving_pools",
)
_NODE = (
    "name",
    "count",
    "gpu_model",
    "gpus",
    "cpus",
    "memory",
    "storage_bandwidth",
    "cache",
    "sockets",
    "switches",
    "serving_pool",
)
_TENANT = ("name", "quota", "quota_cpus", "quota_memory")
_VIRTUAL_CLUSTER = (
    "name",
    "guaranteed",
    "members",
    "policy",
    "policy_parameters",
    "placer",
    "default_time_limit",
    "min_run",
    "reclaim_min_run",
    "longest_wait",
    "overcommit",
    "overcommit_margin",
)


def _add_nodes(inventory: Inventory, group: _Entry, rack: str) -> None:
    for entry in group.entries("nodes", _NODE):
        is_without = entry.value.get("gpus") == 0
        if is_without and "gpu_model" in entry.value:
            raise entry.wrong(
                "gpus", "0 GPUs have no gpu_model; give a number of at least 1, or leave it out"
            )
        if is_without and "cpus" not in entry.value:
            raise entry.wrong("cpus", "must be given, since the node has no GPUs")
        model = "" if is_without else entry.name("gpu_model")
        count, gpus = entry.count("count", 1), 0 if is_without else entry.count("gpus")
        if count * gpus > MOST_GPUS:
            raise entry.wrong(
                "count", f"{count * gpus:,} GPUs are more than a cluster may have, {MOST_GPUS:,}"
            )
        sockets = entry.count("sockets", 1)
        switches = entry.count("switches", sockets)
        if switches % sockets or gpus % switches:
            raise entry.wrong(
                "switches",
                f"{gpus} GPUs cannot be divided evenly among {sockets} sockets and {switches} switches",
            )
        prefix = entry.name("name", f"{rack}-{model or 'cpu'}")
        for _ in range(count):
            name = prefix if count == 1 and "name" in entry.value else _next_name(inventory, prefix)
            if name in inventory:
                raise entry.wrong("name", f"{name} is the name of an earlier node")
            inventory.add(
                name,
                model,
                gpus,
                rack=rack,
                cpus=_cpus(entry),
                memory_bytes=_memory_bytes(entry),
                storage_bandwidth=float(_memory_bytes(entry, "storage_bandwidth")),
                cache_bytes=_memory_bytes(entry, "cache"),
                sockets=sockets,
                switches=switches,
                serving_pool=entry.name("serving_pool") if "serving_pool" in entry.value else "",
            )


def _next_name(inventory: Inventory, prefix: str) -> str:
    number = len(inventory.nodes) + 1
    return f"{prefix}-{number:04d}"


def _cpus(entry: _Entry, field: str = "cpus", absent: str = "not counted") -> float:
    value = entry.value.get(field, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST_FLOAT:
        raise entry.wrong(field, f"{value!r} is not a number of at least 0 (0: {absent})")
    return float(value)


def _memory_bytes(entry: _Entry, field: str = "memory") -> int:
    value = entry.value.get(field, 0)
    size = bytes_of(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if size is None:
        raise entry.wrong(field, f"{value!r} is not a size such as 512GiB")
    return size


def _tenant(entry: _Entry) -> Tenant:
    cpus, memory = "quota_cpus", "quota_memory"
    return Tenant(
        name=entry.name("name"),
        quota=entry.amounts("quota"),
        quota_cpus=_cpus(entry, cpus, "none at all") if cpus in entry.value else None,
        quota_memory_bytes=_memory_bytes(entry, memory) if memory in entry.value else None,
    )


def _virtual_cluster(entry: _Entry, gpus: Mapping[str, int], *, in_cells: bool) -> VirtualCluster:
    guaranteed = entry.amounts("guaranteed")
    if "guaranteed" not in entry.value and not in_cells:
        raise entry.wrong("guaranteed", "is missing; it must be like {V100: 8}")
    for model in guaranteed:
        if model not in gpus:
            raise entry.wrong(
                "guaranteed", f"there is no {model}; the nodes have {wording.either(sorted(gpus))}"
            )
    parameters = entry.value.get("policy_parameters", {})
    if not isinstance(parameters, dict):
        raise entry.wrong("policy_parameters", f"{parameters!r} is not like {{parameter: value}}")
    policy, placer = entry.name("policy", "fifo"), entry.name("placer", "consolidate")
    try:
        make_policy(policy, parameters)
        policy, stated = split_policy(policy)
    except UnknownPlugin as error:
        raise entry.wrong("policy", str(error)) from None
    try:
        make_placer(placer)
        placer, placing = split_placer(placer)
    except UnknownPlugin as error:
        raise entry.wrong("placer", str(error)) from None
    limit = entry.value.get("default_time_limit", 86_400)
    limit_seconds = seconds_of(str(limit)) if isinstance(limit, int | str) else None
    if not limit_seconds:
        raise entry.wrong("default_time_limit", f"{limit!r} is not a duration such as 12h or 90m")
    if limit_seconds > MOST_SECONDS:
        raise entry.wrong("default_time_limit", f"{limit!r} is more than 100 years; give less")
    return VirtualCluster(
        name=entry.name("name"),
        guaranteed=guaranteed,
        members=_members(entry),
        policy=policy,
        policy_parameters={**stated, **parameters},
        placer=placer,
        placer_parameters=placing,
        default_time_limit_seconds=limit_seconds,
        min_run_seconds=_seconds(entry, "min_run"),
        reclaim_min_run_seconds=_seconds(entry, "reclaim_min_run"),
        longest_wait_seconds=_seconds(entry, "longest_wait"),
        overcommit=_overcommit(entry),
        overcommit_margin=_margin(entry),
    )


def _overcommit(entry: _Entry) -> str:
    value = entry.value.get("overcommit", OVERCOMMIT_NEVER)
    if value not in (OVERCOMMIT_NEVER, OVERCOMMIT_PREDICTED):
        words = wording.either([OVERCOMMIT_NEVER, OVERCOMMIT_PREDICTED])
        raise entry.wrong("overcommit", f"{value!r} is not {words}")
    return str(value)


def _margin(entry: _Entry) -> float:
    value = entry.value.get("overcommit_margin", USUAL_MARGIN)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 0.9:
        raise entry.wrong("overcommit_margin", f"{value!r} is not a part of a node from 0 to 0.9")
    return float(value)


def _seconds(entry: _Entry, field: str, default: float = 0.0) -> float:
    value = entry.value.get(field, default)
    if value == 0:
        return 0.0
    seconds = seconds_of(str(value)) if isinstance(value, int | float | str) else None
    if seconds is None:
        raise entry.wrong(field, f"{value!r} is not a duration such as 90s or 5m, or 0")
    return seconds


def _bounds(root: _Entry) -> Bounds:
    value = root.value.get("preemptions")
    if value is None:
        return Bounds()
    entry = _Entry(f"{root.place}: preemptions", value, ("per_round", "backoff", "most_backoff"))
    most = entry.value.get("per_round")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= _MOST):
        raise entry.wrong("per_round", f"{most!r} is not a whole number of at least 0")
    return Bounds(
        preemptions_per_round=most,
        backoff_seconds=_seconds(entry, "backoff", Bounds().backoff_seconds),
        most_backoff_seconds=_seconds(entry, "most_backoff", Bounds().most_backoff_seconds),
    )


def _members(entry: _Entry) -> tuple[Member, ...]:
    value = entry.value.get("members") or {}
    if isinstance(value, list):
        value = dict.fromkeys(value, 1)
    if not isinstance(value, dict):
        raise entry.wrong("members", "must be a list of tenants, or tenants with their weights")
    for tenant, weight in value.items():
        if not isinstance(tenant, str):
            raise entry.wrong("members", f"{tenant!r} is not a name")
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight <= LARGEST_FLOAT:
            raise entry.wrong(f"members.{tenant}", f"{weight!r} is not a weight above 0")
    return tuple(Member(tenant=tenant, weight=float(weight)) for tenant, weight in value.items())


def _check_names(file: str, field: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ClusterError(f"{file}: {field}: the name {name} is given twice")
