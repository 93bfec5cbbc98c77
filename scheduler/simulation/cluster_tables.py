"""Clusters in the tables that were published with traces; the header shows which table it is.

- Philly: machineId, number of GPUs, single GPU mem (24GB), or machine_id, num_gpus[, gpu_mem_gb]: one row a
  machine; models are named by their memory;
- openb (Alibaba): sn, cpu_milli, memory_mib, gpu, model: one row a node;
- Tiresias: num_switch, num_node_p_switch, num_gpu_p_node, num_cpu_p_node, mem_p_node (GB): one row, and a
  rack for each switch;
- Lucid and Helios: a virtual cluster and its number of nodes a row (columns "" or vc, and num or node num);
- Helios: date, a column a virtual cluster, total: the GPUs on each day, of which the last is taken.

Machines without GPUs are left out where the table does not state their CPUs. GPUs without a stated model are
called "gpu".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping

from scheduler.core.model import wording
from scheduler.core.model.snapshot import VirtualCluster
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.file_kinds import not_a_table
from scheduler.simulation.inventory import ClusterSpec, Inventory, one_virtual_cluster
from scheduler.simulation.traces.fields import listed_columns

GPU = "gpu"
_MIB, _GB = 2**20, 10**9
#: The most digits of a plausible number.
_DIGITS = 12
Row = tuple[str, dict[str, str]]
_PHILLYS_OWN = ("machineId", "number of GPUs", "single GPU mem")
_GIGABYTES = re.compile(r"(\d{1,4})\s*GB", re.IGNORECASE)
#: What the first line of each table is, as far as it is needed.
_HEADERS = (
    '"machine_id,num_gpus,gpu_mem_gb"',
    f'"{",".join(_PHILLYS_OWN)}" (Philly)',
    '"sn,cpu_milli,memory_mib,gpu,model" (openb)',
    '"num_switch,num_node_p_switch,num_gpu_p_node" (Tiresias)',
    '"vc,num" (Lucid)',
    '"date,...,total" (Helios)',
)


def is_cluster_table(text: str) -> bool:
    """Return whether a file whose name does not show it is a machine list, such as Philly's own."""
    return set(_PHILLYS_OWN) <= set(_columns(text))


def _columns(text: str) -> tuple[str, ...]:
    first = next(csv.reader(text.splitlines()[:1], skipinitialspace=True), [])
    return tuple([column.strip() for column in first])


def read_cluster_table(name: str, text: str, *, gpus_per_node: int) -> ClusterSpec:
    """Read any of these tables. Raise ClusterError."""
    columns = _columns(text)
    if words := not_a_table(columns):
        raise ClusterError(f"{name}:1: {words}")
    reader = csv.DictReader(text.splitlines()[1:], columns, skipinitialspace=True)
    rows: list[Row] = []
    for row in reader:
        if None in row or None in row.values():
            raise ClusterError(
                f"{name}:{reader.line_num + 1}: does not have the {len(columns)} fields of the header"
            )
        rows.append((f"{name}:{reader.line_num + 1}", row))
    if not rows:
        raise ClusterError(f"{name}: has no rows")
    inventory = Inventory()
    virtual_clusters: list[VirtualCluster] = []
    if set(_PHILLYS_OWN) <= set(columns):
        without = _machines(rows, inventory, *_PHILLYS_OWN[:2], _own_philly_model)
    elif {"machine_id", "num_gpus"} <= set(columns):
        without = _machines(rows, inventory, "machine_id", "num_gpus", _philly_model)
    elif {"sn", "gpu", "model", "cpu_milli", "memory_mib"} <= set(columns):
        without = _machines(rows, inventory, "sn", "gpu", lambda row: row["model"])
    elif {"num_switch", "num_node_p_switch", "num_gpu_p_node"} <= set(columns):
        without = _switches(rows, inventory)
    elif columns and columns[0] in {"", "vc"} and columns[1:] in {("num",), ("node num",)}:
        sizes = {row[columns[0]]: _count(place, columns[1], row) * gpus_per_node for place, row in rows}
        without = _shares(sizes, inventory, virtual_clusters, gpus_per_node)
    elif columns and columns[0] == "date" and columns[-1] == "total":
        place, row = rows[-1]
        sizes = {vc: _count(place, vc, row) for vc in columns[1:-1]}
        without = _shares(sizes, inventory, virtual_clusters, gpus_per_node)
    else:
        raise ClusterError(
            f"{name}:1: the columns {listed_columns(columns)} match no known cluster table;"
            f" a valid header is {wording.either(_HEADERS)}. A YAML file can describe any cluster"
        )
    if not any([node.gpus for node in inventory.nodes]):
        raise ClusterError(f"{name}: has no machine with GPUs")
    left_out: tuple[str, ...] = ()
    if without:
        entries = "1 entry" if len(without) == 1 else f"{len(without):,} entries"
        were = "was" if len(without) == 1 else "were"
        left_out = (f"{entries} without GPUs {were} left out. The first: {without[0]}.",)
    return ClusterSpec(
        name=name,
        nodes=inventory.nodes,
        virtual_clusters=tuple(virtual_clusters) or one_virtual_cluster(inventory.nodes),
        left_out=left_out,
    )


def _count(place: str, column: str, row: Mapping[str, str]) -> int:
    text = row[column]
    if not text.isdecimal() or len(text) > _DIGITS:
        raise ClusterError(f"{place}: {column}: {text!r} is not a whole number of at least 0")
    return int(text)


def _philly_model(row: Mapping[str, str]) -> str:
    return f"{GPU}-{row['gpu_mem_gb']}gb" if row.get("gpu_mem_gb") else GPU


def _own_philly_model(row: Mapping[str, str]) -> str:
    memory = _GIGABYTES.fullmatch(row[_PHILLYS_OWN[2]].strip())
    return f"{GPU}-{memory[1]}gb" if memory else GPU


def _machines(
    rows: list[Row], inventory: Inventory, name: str, gpus: str, model: Callable[[Mapping[str, str]], str]
) -> list[str]:
    """Add the machines; return those without GPUs."""
    without: list[str] = []
    for place, row in rows:
        if row[name] in inventory:
            raise ClusterError(f"{place}: {name}: {row[name]!r} is the name of an earlier machine")
        if not (count := _count(place, gpus, row)) and "cpu_milli" not in row:
            without.append(f"{row[name]} ({place})")
            continue
        inventory.add(
            row[name],
            model(row) or GPU if count else "",
            count,
            cpus=_count(place, "cpu_milli", row) / 1000 if "cpu_milli" in row else 0.0,
            memory_bytes=_count(place, "memory_mib", row) * _MIB if "memory_mib" in row else 0,
        )
    return without


def _switches(rows: list[Row], inventory: Inventory) -> list[str]:
    place, row = rows[0]
    if len(rows) > 1:
        raise ClusterError(f"{rows[1][0]}: a Tiresias cluster has one row")
    counts = {
        column: _count(place, column, row) for column in ("num_switch", "num_node_p_switch", "num_gpu_p_node")
    }
    if not all(counts.values()):
        raise ClusterError(f"{place}: switches, nodes and GPUs must be at least 1")
    for switch in range(1, counts["num_switch"] + 1):
        for node in range(1, counts["num_node_p_switch"] + 1):
            inventory.add(
                f"node-{switch}-{node}",
                GPU,
                counts["num_gpu_p_node"],
                rack=f"rack-{switch}",
                cpus=float(_count(place, "num_cpu_p_node", row)) if "num_cpu_p_node" in row else 0.0,
                memory_bytes=_count(place, "mem_p_node", row) * _GB if "mem_p_node" in row else 0,
            )
    return []


def _shares(
    gpus: Mapping[str, int], inventory: Inventory, virtual_clusters: list[VirtualCluster], per_node: int
) -> list[str]:
    """Give every virtual cluster nodes of its own; the last is smaller when GPUs do not fill it.

    Return the virtual clusters without GPUs.
    """
    without: list[str] = []
    for vc, total in gpus.items():
        if not total:
            without.append(vc)
            continue
        for number, first in enumerate(range(0, total, per_node), 1):
            inventory.add(f"{vc}-{number:04d}", GPU, min(per_node, total - first))
        virtual_clusters.append(VirtualCluster(name=vc, guaranteed={GPU: total}))
    return without
