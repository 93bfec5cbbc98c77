"""Clusters as users write them: a short SPEC on the command line, or a file (docs/clusters.md).

A SPEC is one or more `model=GPUs`, separated by commas: `v100=36,p100=36,k80=36:4`. A number after the last
colon is the GPUs per node for all models; with a colon at each model, each has its own:
`v100=36:4,p100=32:8`. Without a colon a node has 8 GPUs. When the GPUs of a model are not a multiple of that,
its last node is smaller.
"""

from __future__ import annotations

import re
from pathlib import Path

from scheduler.simulation.cluster_tables import is_cluster_table, read_cluster_table
from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.file_kinds import decoded
from scheduler.simulation.inventory import MOST_GPUS, ClusterSpec, Inventory, one_virtual_cluster

GPUS_PER_NODE = 8
_ITEM = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=([0-9]{1,12})(?::([0-9]{1,12}))?")
_RIGHT = "a SPEC is like v100=36,p100=36,k80=36:4 (GPUs of each model and, after the colon, GPUs of a node)"


def load_cluster(text: str) -> ClusterSpec:
    """Read what `--cluster` names, a file or else a SPEC. Raise ClusterError."""
    if Path(text).is_file():
        return read_cluster(text)
    if "=" not in text:
        raise ClusterError(f"--cluster {text}: there is no such file, and {_RIGHT}")
    return parse_cluster(text)


def read_cluster(path: str | Path, *, gpus_per_node: int = GPUS_PER_NODE) -> ClusterSpec:
    """Read a cluster file: YAML (or JSON), or one of the public tables. Raise ClusterError.

    `gpus_per_node` is for tables that only count nodes or GPUs.
    """
    path = Path(path)
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise ClusterError(f"{path.name}: cannot be read: {error}") from None
    except ValueError as error:
        raise ClusterError(f"{path.name}: {error}") from None
    if path.suffix == ".csv" or is_cluster_table(text):
        return read_cluster_table(path.name, text, gpus_per_node=gpus_per_node)
    return read_cluster_yaml(path.name, text)


def parse_cluster(text: str) -> ClusterSpec:
    """Read a SPEC; one virtual cluster owns everything. Raise ClusterError."""
    items = [item.strip() for item in text.split(",")]
    parsed: list[tuple[str, int, str | None]] = []
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ClusterError(f"cluster {text!r}: {item!r} is not model=GPUs; {_RIGHT}")
        parsed.append((match[1], int(match[2]), match[3]))
    stated = [per_node for _, _, per_node in parsed if per_node]
    if len(stated) not in {0, len(parsed)} and not (len(stated) == 1 and parsed[-1][2]):
        raise ClusterError(
            f"cluster {text!r}: give the GPUs of a node once, after the last model, for all models,"
            " or after each model"
        )
    inventory = Inventory()
    notes = []
    for model, gpus, per_node in parsed:
        size = int(per_node or (stated[0] if stated else GPUS_PER_NODE))
        if not 1 <= gpus <= MOST_GPUS or size < 1:
            raise ClusterError(
                f"cluster {text!r}: {model}: GPUs must be from 1 to {MOST_GPUS:,}, on nodes of at least 1"
            )
        if f"{model}-0001" in inventory:
            raise ClusterError(f"cluster {text!r}: {model} is named twice; give all its GPUs at once")
        for number, first in enumerate(range(0, gpus, size), 1):
            inventory.add(f"{model}-{number:04d}", model, min(size, gpus - first))
        if gpus % size and gpus > size:
            notes.append(f"The last {model} node has {gpus % size} GPUs, the others {size}.")
    return ClusterSpec(
        name=text,
        nodes=inventory.nodes,
        virtual_clusters=one_virtual_cluster(inventory.nodes),
        notes=tuple(notes),
    )
