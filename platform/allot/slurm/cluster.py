"""sinfo: nodes by state, each virtual cluster as a partition of the nodes whose GPUs it is guaranteed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allot.commands.options import connect
from allot.describe import in_maintenance
from allot.output import print_line
from allot.slurm import words
from allot.slurm.formats import percent_lines, percent_parts
from allot.slurm.options import Options

if TYPE_CHECKING:
    from allot.schema import Node, VirtualCluster

DEFAULT = "%9P %5a %10l %6D %6t %N"
BY_NODE = "%N %6D %9P %6t"
_COMPACT = {
    "allocated": "alloc",
    "mixed": "mix",
    "draining": "drng",
    "drained": "drain",
    "unknown": "unk",
}
_STATES = sorted({*_COMPACT, "down", "idle", "maint"})
#: Slurm knows these states, and no node here is in one.
_STATES_OF_SLURM = frozenset({
    "comp", "completing", "fail", "failing", "failg", "error", "future", "futr", "reserved", "resv",
    "planned", "plnd", "perfctrs", "npc", "power_down", "pow_dn", "power_up", "pow_up", "reboot",
    "no_respond", "blocked",
})  # fmt: skip
#: These name single nodes, or count them; all other fields distinguish nodes.
_OF_MANY = "DNn"


@dataclass(frozen=True)
class Row:
    """Nodes of a partition that are alike in all that is shown."""

    partition: VirtualCluster
    nodes: Sequence[Node]

    @property
    def one(self) -> Node:
        return self.nodes[0]


def state_of(node: Node) -> str:
    """Slurm's name for what a node does."""
    if node["state"] != "ready":
        return "down" if node["state"] == "lost" else "unknown"
    held = sum(gpu["state"] != "free" for gpu in node["gpus"])
    if in_maintenance(node):
        return "maint"
    if node["draining"] or node["cordoned"]:
        return "draining" if held else "drained"
    if not held:
        return "idle"
    return "allocated" if held == len(node["gpus"]) else "mixed"


def _states_named(text: str) -> set[str]:
    """The states of nodes that `idle,drain` means. Raises ValueError for another word."""
    return words.states_in(text, _STATES, _COMPACT, _STATES_OF_SLURM)


def reason_of(node: Node) -> str:
    window = node["maintenance"]
    if window and in_maintenance(node):
        return window["reason"]
    withdrawn = node["withdrawn"]
    return str(withdrawn.get("why") or "") if withdrawn else "none"


def gres_of(node: Node) -> str:
    return f"gpu:{node['gpu_model'] or 'none'}:{len(node['gpus'])}"


FIELDS: Mapping[str, tuple[str, Callable[[Row], object]]] = {
    "P": ("PARTITION", lambda row: row.partition["name"]),
    "R": ("PARTITION", lambda row: row.partition["name"]),
    "a": ("AVAIL", lambda row: "up"),
    "l": ("TIMELIMIT", lambda row: words.span(row.partition["default_time_limit_seconds"], padded=True)),
    "D": ("NODES", lambda row: len(row.nodes)),
    "t": ("STATE", lambda row: _COMPACT.get(state_of(row.one), state_of(row.one))),
    "T": ("STATE", lambda row: state_of(row.one)),
    "N": ("NODELIST", lambda row: words.hostlist(node["name"] for node in row.nodes)),
    "n": ("HOSTNAMES", lambda row: row.one["name"]),
    "c": ("CPUS", lambda row: round(row.one["cpus"])),
    "m": ("MEMORY", lambda row: round(row.one["memory_bytes"] / 2**20)),
    "G": ("GRES", lambda row: gres_of(row.one)),
    "f": ("AVAIL_FEATURES", lambda row: row.one["gpu_model"] or "(null)"),
    "E": ("REASON", lambda row: reason_of(row.one)),
}


def sinfo(arguments: list[str]) -> int:
    options = Options("sinfo")
    options.switch("-h", "--noheader")
    options.switch("-N", "--Node")
    options.switch("--json")
    options.ignored("-a", "--all", "-e", "--exact")
    options.value("-o", "--format")
    options.chosen("-p", "--partition", dest="partitions")
    options.chosen("-n", "--nodes", dest="nodes", of=words.hostnames)
    options.chosen("-t", "--states", dest="states", of=_states_named)
    given = options.parse(arguments)
    with connect() as client:
        nodes, partitions = client.nodes(), client.virtual_clusters()
    nodes = [
        node
        for node in nodes
        if (given.nodes is None or node["name"] in given.nodes)
        and (given.states is None or state_of(node) in given.states)
    ]
    partitions = [one for one in partitions if given.partitions is None or one["name"] in given.partitions]
    if given.json:
        sys.stdout.write(json.dumps(_as_json(nodes, partitions), indent=2) + "\n")
        return 0
    form = given.format or (BY_NODE if given.Node else DEFAULT)
    parts, _ = percent_parts(form, FIELDS, "sinfo")
    shown = [part.field for part in parts]
    rows: list[Row] = []
    for partition in partitions:
        rows += _rows(partition, _nodes_of(partition, nodes), shown, each=given.Node or "n" in shown)
    for line in percent_lines(rows, form, FIELDS, "sinfo", header=not given.noheader):
        print_line(line.rstrip())
    return 0


def _nodes_of(partition: VirtualCluster, nodes: Sequence[Node]) -> list[Node]:
    """Nodes on which it is guaranteed GPUs; all, where it is guaranteed none and borrows idle ones."""
    models = {model for model, gpus in partition["guaranteed"].items() if gpus}
    return [node for node in nodes if not models or node["gpu_model"] in models]


def _rows(partition: VirtualCluster, nodes: Sequence[Node], shown: Sequence[str], *, each: bool) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for node in nodes:
        alone = Row(partition, [node])
        key = tuple(FIELDS[field][1](alone) for field in shown if field not in _OF_MANY)
        groups.setdefault((key, node["name"] if each else ""), []).append(node)
    return [Row(partition, group) for group in groups.values()]


def _as_json(nodes: Sequence[Node], partitions: Sequence[VirtualCluster]) -> dict[str, Any]:
    return {
        "meta": {"plugin": {"type": "openapi/slurmctld", "name": "allot"}},
        "nodes": [
            {
                "name": node["name"],
                "state": [state_of(node).upper()],
                "partitions": [one["name"] for one in partitions if node in _nodes_of(one, [node])],
                "cpus": round(node["cpus"]),
                "real_memory": round(node["memory_bytes"] / 2**20),
                "gres": gres_of(node),
                "gres_used": f"gpu:{sum(gpu['state'] != 'free' for gpu in node['gpus'])}",
                "reason": reason_of(node),
            }
            for node in nodes
        ],
        "warnings": [],
        "errors": [],
    }
