"""Clusters of the simulator that are divided by cells: by their file, or by `--cells`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.command import main
from scheduler.simulation.division import divided_by_cells
from scheduler.simulation.errors import ClusterError

HARDWARE = """\
racks:
  - {name: rack, count: 2, nodes: [{count: 2, gpu_model: V100, gpus: 8, sockets: 2, switches: 4}]}
nodes:
  - {name: old, gpu_model: K80, gpus: 4}
virtual_clusters:
  - {name: products}
  - {name: research, guaranteed: {K80: 4}}
"""


def cells(text: str) -> str:
    return f"{HARDWARE}cells:\n  virtual_clusters:\n{text}"


def test_the_nodes_of_a_file_are_the_hardware_of_its_cells() -> None:
    cluster = read_cluster_yaml(
        "lab.yaml",
        cells("    products: {cells: {V100-RACK: 1}}\n    research: {cells: {V100-SWITCH: 3, K80: 2}}\n"),
    )
    assert cluster.cells is not None
    kinds = {kind.name: (kind.of, kind.count) for kind in cluster.cells.types}
    assert kinds["V100-RACK"] == ("V100-NODE", 2)
    assert kinds["V100-SOCKET"] == ("V100-SWITCH", 2)
    assert {vc.name: vc.guaranteed for vc in cluster.virtual_clusters} == {
        "products": {"V100": 16},
        "research": {"K80": 2, "V100": 6},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("    products: {cells: {V100-RACK: 3}}\n", "3 V100-RACK are 1 too many"),
        ("    products: {cells: {V100-ROW: 3}}\n", "no cells of type V100-ROW"),
        (
            "    strangers: {cells: {V100: 3}}\n",
            "there is no virtual cluster of this name (one of: products, research)",
        ),
        ("    products: {cells: {V100: few}}\n", "'few' is not a whole number"),
    ],
)
def test_what_is_wrong_with_cells_is_named(text: str, message: str) -> None:
    with pytest.raises(ClusterError) as error:
        read_cluster_yaml("lab.yaml", cells(text))
    assert str(error.value).startswith("lab.yaml: cells: ")
    assert message in str(error.value)


def test_hardware_that_is_declared_must_be_there() -> None:
    declared = HARDWARE + (
        "cells:\n  types: {N: {of: V100, count: 8, node: true}}\n  physical: [{type: N, nodes: [ghost]}]\n"
    )
    with pytest.raises(ClusterError, match="there is no V100 0 on a node ghost"):
        read_cluster_yaml("lab.yaml", declared)


def test_every_guarantee_becomes_the_largest_cells_it_fills() -> None:
    text = HARDWARE.replace("{name: products}", "{name: products, guaranteed: {V100: 21}}")
    cluster = divided_by_cells(read_cluster_yaml("lab.yaml", text))
    assert cluster.cells is not None
    assert cluster.cells.virtual_clusters["products"].cells == {"V100-NODE": 2, "V100-SOCKET": 1, "V100": 1}
    assert cluster.notes[-1].startswith("Guarantees are divided by cells: products 2 V100-NODE")


CLUSTER = """\
nodes:
  - {name: n, count: 2, gpu_model: V100, gpus: 8}
virtual_clusters:
  - {name: products, guaranteed: {V100: 8}}
  - {name: research, guaranteed: {V100: 8}}
"""
#: By counts both nodes have small jobs of products on them when research wants a whole one.
TRACE = """\
submitted_at,gpus,duration_seconds,virtual_cluster
0,2,600,products
0,2,600,products
0,4,30,research
0,4,30,research
10,2,600,products
10,2,600,products
60,8,100,research
"""


def test_counts_and_cells_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lab.yaml").write_text(CLUSTER)
    (tmp_path / "jobs.csv").write_text(TRACE)
    arguments = ("--trace", tmp_path / "jobs.csv", "--cluster", tmp_path / "lab.yaml", "--round-seconds", "5")
    more = ("--sweep", "cells=no,yes", "--private", "--jobs", "--json", tmp_path / "out.json", "--quiet")
    assert main([str(argument) for argument in (*arguments, *more)]) == 0
    by_counts, in_cells = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert (by_counts["division"], in_cells["division"]) == ("counts", "cells")
    assert by_counts["job_records"]["first_started_at"][6] >= 600
    assert in_cells["job_records"]["first_started_at"][6] == 60
    longer = {run["division"]: sum(vc["anomalies"] for vc in run["private"]) for run in (by_counts, in_cells)}
    assert longer == {"counts": 1, "cells": 0}
    assert "fifo · counts" in capsys.readouterr().out
