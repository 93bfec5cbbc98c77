"""Write a report: a page, its numbers as JSON, and its figures for a paper. Equal input gives equal bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from scheduler.core.model.snapshot import NodeId
from scheduler.core.sim.result import JobRecord, Result, Stay
from scheduler.simulation.report.measure import measure
from scheduler.simulation.report.measures import Measures
from scheduler.simulation.report.privately import against_private
from scheduler.simulation.report.quantities import labels

#: The version of report.json; it changes when a field changes its meaning or disappears.
SCHEMA = 1
JOB_COLUMNS = tuple(field.name for field in fields(JobRecord))
STAY_COLUMNS = ("job", "started_at", "ended_at", "end", "gpu_model", "nodes", "part")


def write_report(
    results: Sequence[Result],
    folder: Path,
    *,
    command: str = "",
    problems: Sequence[str] = (),
    window: tuple[int, int] | None = None,
    jobs: bool = False,
) -> Path:
    """Write report.html, report.json and figures/*.svg and *.png into the folder; return the page's path.

    `results` are runs of the same workload on the same cluster; the first is the one to compare with.
    `command` produced them, `problems` state what was left out of the input, and `window` is that of
    `measure`. With `jobs` the JSON has every job's record and stays. Raises ValueError for runs that cannot
    be compared, and OSError.
    """
    # Loading matplotlib takes a second, which users who only want the numbers should not pay.
    from scheduler.simulation.report.figures import comparison_drawings
    from scheduler.simulation.report.gantt import gantt_drawing, main_tenants
    from scheduler.simulation.report.page import page
    from scheduler.simulation.report.rendering import png_file, svg_file

    measures = _measure_all(results, window)
    drawings = comparison_drawings(measures)
    tenants = main_tenants(results)
    for index, (label, result) in enumerate(zip(labels(measures), results, strict=True), start=1):
        drawing = gantt_drawing(f"gantt-{index}-{_file_name(result.policy)}", label, result, tenants)
        if drawing is not None:
            drawings.append(drawing)
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        (figures / f"{drawing.name}.svg").write_bytes(svg_file(drawing))
        (figures / f"{drawing.name}.png").write_bytes(png_file(drawing))
    (folder / "report.json").write_bytes(_json(results, measures, command, problems, jobs))
    report = folder / "report.html"
    text = page(
        measures, drawings, command=command, problems=problems, private=tuple(map(against_private, results))
    )
    report.write_text(text, encoding="utf-8")
    return report


def write_json(
    results: Sequence[Result],
    path: Path,
    *,
    command: str = "",
    problems: Sequence[str] = (),
    window: tuple[int, int] | None = None,
    jobs: bool = False,
) -> None:
    """Write only the numbers, as docs/simulator-report.md describes them; arguments as in `write_report`."""
    path.write_bytes(_json(results, _measure_all(results, window), command, problems, jobs))


def _measure_all(results: Sequence[Result], window: tuple[int, int] | None) -> list[Measures]:
    if not results:
        raise ValueError("a report needs at least one result")
    for result in results[1:]:
        for name in ("workload", "cluster"):
            ours, first = getattr(result, name), getattr(results[0], name)
            if ours != first:
                raise ValueError(f"results of one report must have one {name}, not {first!r} and {ours!r}")
    return [measure(result, window) for result in results]


def _json(
    results: Sequence[Result], measures: Sequence[Measures], command: str, problems: Sequence[str], jobs: bool
) -> bytes:
    policies = []
    for label, one, result in zip(labels(measures), measures, results, strict=True):
        policy: dict[str, Any] = {"label": label, **msgspec.to_builtins(one)}
        if result.private:
            policy["private"] = msgspec.to_builtins(against_private(result))
        if jobs:
            policy["job_records"] = {
                column: [getattr(job, column) for job in result.jobs] for column in JOB_COLUMNS
            }
            stays = [_stay(stay, result.node_names) for stay in result.stays]
            policy["stays"] = {column: [stay[column] for stay in stays] for column in STAY_COLUMNS}
        policies.append(policy)
    report = {"schema": SCHEMA, "command": command, "problems": list(problems), "policies": policies}
    return msgspec.json.encode(report) + b"\n"


def _stay(stay: Stay, names: Mapping[NodeId, str]) -> Mapping[str, object]:
    nodes = [names.get(node, str(node)) for node in stay.nodes]
    return {column: getattr(stay, column) for column in STAY_COLUMNS} | {"nodes": nodes}


def _file_name(policy: str) -> str:
    """Return the part of a policy's text that is safe in a file name and in an element's id."""
    return re.sub(r"[^a-z0-9]+", "-", policy.lower()).strip("-")[:40] or "policy"
