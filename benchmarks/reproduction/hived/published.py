"""Build the published core with our driver, and let it schedule and delete gangs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reproduction.hived.workload import Fill
from scheduler.core.model.cell_specification import Specification

DRIVER = Path(__file__).with_name("driver.go")
PACKAGE = Path("src/github.com/microsoft/hivedscheduler")
BUILD_SECONDS, RUN_SECONDS = 900, 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fill: processor seconds of the core's calls, of reading annotations in them, and of passing on."""

    schedule: float
    add: float
    delete: float
    reading: float
    passing: float
    gpus: int
    waiting: int


def build(published: Path, folder: Path) -> Path:
    """Return the driver's program, built in a copy of the published repository."""
    copy = folder / PACKAGE
    for part in ("pkg", "vendor"):
        shutil.copytree(published / part, copy / part)
    (copy / "pkg" / "driver").mkdir()
    shutil.copy(DRIVER, copy / "pkg" / "driver" / "main.go")
    program = folder / "driver"
    # The repository is older than Go's modules: its dependencies are in its folder `vendor`.
    environment = os.environ | {"GOPATH": str(folder), "GO111MODULE": "off", "GOFLAGS": ""}
    command = ["go", "build", "-o", str(program), "./pkg/driver"]
    subprocess.run(command, cwd=copy, env=environment, check=True, timeout=BUILD_SECONDS)
    return program


def configuration(specification: Specification) -> dict[str, object]:
    """Return a specification in HiveD's form; all hardware is of one topmost type."""
    above = {each.of: each.name for each in specification.types}

    def full_name(name: str) -> str:
        return f"{full_name(above[name])}.{name}" if name in above else name

    return {
        "physicalCluster": {
            "cellTypes": {
                each.name: {"childCellType": each.of, "childCellNumber": each.count, "isNodeLevel": each.node}
                for each in specification.types
            },
            "physicalCells": [
                {
                    "cellType": each.type,
                    "cellAddress": each.name,
                    "cellChildren": [{"cellAddress": node} for node in each.nodes],
                }
                for each in specification.physical
            ],
        },
        "virtualClusters": {
            owner: {
                "virtualCells": [
                    {"cellType": full_name(of), "cellNumber": count} for of, count in owned.cells.items()
                ]
            }
            for owner, owned in specification.virtual_clusters.items()
        },
    }


def run(
    program: Path, specification: Specification, fills: Sequence[Fill], profile: Path | None = None
) -> list[Outcome]:
    """Return the outcome of each fill but the first, which warms up."""
    configured, work = program.with_name("hived.yaml"), program.with_name("fills.json")
    # JSON is YAML.
    configured.write_text(json.dumps(configuration(specification)))
    nodes = [node for cell in specification.physical for node in cell.nodes]
    work.write_text(json.dumps({"nodes": nodes, "fills": [asdict(fill) for fill in fills]}))
    command = [str(program), str(configured), str(work), *([] if profile is None else [str(profile)])]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_SECONDS)
    return [Outcome(**json.loads(line)) for line in printed.stdout.splitlines()]
