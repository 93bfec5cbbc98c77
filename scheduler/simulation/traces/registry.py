"""Every format of traces by name, and the one function that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.core.model import wording
from scheduler.simulation.errors import InputError
from scheduler.simulation.traces import (
    alibaba,
    chronus,
    gavel,
    helios,
    muri,
    native,
    philly,
    pollux,
    shockwave,
    slurm,
    tiresias,
)
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.reading import GPUS_PER_NODE, Reading, about_problems, make_workload
from scheduler.simulation.traces.source import Source


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: how to read it, and the node size of the cluster that its traces come from."""

    read: Callable[[Source], None]
    gpus_per_node: int = GPUS_PER_NODE


FORMATS: Mapping[str, Reader] = {
    "alibaba-gpu-v2023": Reader(alibaba.read),
    "allot": Reader(native.read),
    "chronus": Reader(chronus.read),
    "gavel": Reader(gavel.read),
    "helios": Reader(helios.read),
    "muri": Reader(muri.read),
    "philly": Reader(philly.read),
    "pollux": Reader(pollux.read, pollux.GPUS_PER_NODE),
    "shockwave": Reader(shockwave.read),
    "slurm": Reader(slurm.read),
    "tiresias": Reader(tiresias.read, 4),
}


def node_size(format: str) -> int:
    """Return the GPUs of a node where traces of this format come from; raise InputError if unknown."""
    if format not in FORMATS:
        raise InputError(f"there is no trace format {format!r}; choose {wording.either(sorted(FORMATS))}")
    return FORMATS[format].gpus_per_node


def read_trace(
    path: str | Path,
    format: str,
    *,
    strict: bool = False,
    limit: int | None = None,
    options: TraceOptions | None = None,
) -> Reading:
    """Read a trace file, packed when its name ends in .gz, into a workload.

    A wrong row is skipped and counted; with `strict` the first one raises TraceError. An unreadable file
    raises TraceError either way. `limit` keeps the first jobs to arrive.
    """
    gpus_per_node, reader = node_size(format), FORMATS[format]
    options = options or TraceOptions()
    source = Source(Path(path), options, strict=strict)
    # Read the text first, so that a missing file is reported before anything else that its format needs.
    source.text()
    reader.read(source)
    workload = make_workload(
        source.path.name,
        source.jobs,
        options,
        gpus_per_node=gpus_per_node,
        limit=limit,
        notes=(*source.sentences(), *about_problems(source.problems)),
        left_out=(*source.left_out(), *filter(None, [source.disorder()])),
    )
    return Reading(workload=workload, problems=tuple(source.problems))
