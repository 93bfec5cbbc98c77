"""The Gantt chart of one policy: which job was on which GPU when, and which job replaced which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, PathPatch
from matplotlib.path import Path

from scheduler.core.model.snapshot import GpuId, JobId, NodeId
from scheduler.core.sim.result import Result, Stay
from scheduler.simulation.report.palette import INK, OTHER, PAPER, RULE, SERIES
from scheduler.simulation.report.quantities import time_unit
from scheduler.simulation.report.rendering import WIDE, Drawing, add_legend

#: The most GPUs that are drawn; with more, the chart shows some nodes for some time, and states that.
GPUS_DRAWN = 256
STAYS_DRAWN = 2_000
ARROWS_DRAWN = 150
NODES_NAMED = 32


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What the chart shows: GPUs by node, stays by start, and words on what it leaves out."""

    nodes: tuple[tuple[NodeId, tuple[GpuId, ...]], ...]
    stays: tuple[Stay, ...]
    began_at: float
    ended_at: float
    omissions: str


def nodes_of(stays: Sequence[Stay]) -> dict[GpuId, NodeId]:
    """Return the node of each used GPU: the one that every stay on this GPU has in common.

    If several nodes remain (only gangs over several nodes ever used the GPU), such a gang is assumed to have
    equally many GPUs on each node, with GPU ids in the order of the nodes' ids.
    """
    possible: dict[GpuId, set[NodeId]] = {}
    guess: dict[GpuId, NodeId] = {}
    for stay in stays:
        nodes = sorted(stay.nodes)
        for index, gpu in enumerate(sorted(stay.gpus)):
            if gpu in possible:
                possible[gpu].intersection_update(nodes)
            else:
                possible[gpu] = set(nodes)
                guess[gpu] = nodes[index * len(nodes) // len(stay.gpus)]
    return {
        gpu: guess[gpu] if guess[gpu] in nodes_left else min(nodes_left)
        for gpu, nodes_left in sorted(possible.items())
        if nodes_left
    }


def excerpt(result: Result, gpus_drawn: int = GPUS_DRAWN, stays_drawn: int = STAYS_DRAWN) -> Excerpt:
    """Return the first nodes and, of their stays, the consecutive ones with the most preemptions."""
    members: dict[NodeId, list[GpuId]] = defaultdict(list)
    for gpu, node in nodes_of(result.stays).items():
        members[node].append(gpu)
    used = sum(map(len, members.values()))
    chosen: list[tuple[NodeId, tuple[GpuId, ...]]] = []
    room = gpus_drawn
    for node in sorted(members):
        if chosen and len(members[node]) > room:
            break
        chosen.append((node, tuple(sorted(members[node])[:gpus_drawn])))
        room -= len(members[node])
    shown = {gpu for _, gpus in chosen for gpu in gpus}
    stays = sorted(
        [stay for stay in result.stays if not shown.isdisjoint(stay.gpus)],
        key=lambda stay: (stay.started_at, stay.job),
    )
    began_at, ended_at = result.began_at, result.ended_at
    omitted = []
    if len(shown) < used:
        omitted.append(f"{len(shown)} of {used:,} GPUs (the first {len(chosen)} of {len(members):,} nodes)")
    if len(stays) > stays_drawn:
        preempted = np.cumsum([0] + [stay.end == "preempted" for stay in stays])
        first = int(np.argmax(preempted[stays_drawn:] - preempted[:-stays_drawn]))
        total = len(stays)
        began_at, ended_at = stays[first].started_at, stays[first + stays_drawn - 1].started_at
        # Include stays that began before and still ran, while there is room.
        before = [stay for stay in stays[:first] if stay.ended_at > began_at]
        stays = sorted(
            (before + stays[first : first + stays_drawn])[:stays_drawn],
            key=lambda stay: (stay.started_at, stay.job),
        )
        ended_at = max(began_at, min(ended_at, stays[-1].started_at))
        omitted.append(f"{len(stays):,} of {total:,} stays, consecutive ones with the most preemptions")
    return Excerpt(
        nodes=tuple(chosen),
        stays=tuple(stays),
        began_at=began_at,
        ended_at=ended_at,
        omissions=f" Shown: {'; '.join(omitted)}." if omitted else "",
    )


def main_tenants(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the tenants with the most GPU-time over all runs, as many as there are colours.

    All charts of a report use them, so that a tenant has the same colour in each.
    """
    time: dict[str, float] = defaultdict(float)
    for result in results:
        for job in result.jobs:
            time[job.tenant] += job.gpu_seconds
    return tuple(sorted(time, key=lambda name: (-time[name], name))[: len(SERIES)])


def gantt_drawing(name: str, label: str, result: Result, tenants: Sequence[str]) -> Drawing | None:
    """Draw the placements of one policy, with these tenants in colour; None when nothing ever ran."""
    if not result.stays:
        return None
    shown = excerpt(result)
    rows = {gpu: row for row, gpu in enumerate(gpu for _, gpus in shown.nodes for gpu in gpus)}
    arrows, arrows_omitted = _arrows(shown, rows)

    def draw(figure: Figure) -> None:
        _draw(figure, shown, rows, tenants, {job.id: job.tenant for job in result.jobs}, arrows)

    return Drawing(
        name=name,
        title=f"Placements under {label}",
        caption="Each row is a GPU, each bar a job's stay on it, coloured by tenant; opportunistic stays"
        " are pale. A dot ends a stay that was preempted, an arrow leads to the job that took its"
        " place." + shown.omissions + arrows_omitted,
        draw=draw,
        width=WIDE,
        height=float(np.clip(1.0 + 0.06 * len(rows), 2.2, 9.0)),
        wide=True,
    )


def _runs(rows: Iterable[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each block of neighbouring rows."""
    ordered = sorted(rows)
    breaks = [0, *(at for at, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1), len(ordered)]
    return [(ordered[start], ordered[end - 1]) for start, end in pairwise(breaks)]


@dataclass(frozen=True, slots=True)
class _Arrow:
    """An arrow from where a stay was preempted to where its successor began: (time, row) twice."""

    tail: tuple[float, float]
    head: tuple[float, float] | None


def _arrows(shown: Excerpt, rows: dict[GpuId, int]) -> tuple[tuple[_Arrow, ...], str]:
    starts: dict[JobId, list[Stay]] = defaultdict(list)
    for stay in shown.stays:
        starts[stay.job].append(stay)

    def middle(stay: Stay, among: Collection[GpuId]) -> float:
        own = sorted(rows[gpu] for gpu in stay.gpus if gpu in rows)
        common = sorted(rows[gpu] for gpu in stay.gpus if gpu in rows and gpu in among) or own
        return float(common[len(common) // 2])

    alone, headed = [], []
    for stay in shown.stays:
        if stay.end != "preempted" or not shown.began_at <= stay.ended_at <= shown.ended_at:
            continue
        tail = (stay.ended_at, middle(stay, stay.gpus))
        alone.append(_Arrow(tail, None))
        for job in stay.preempted_by:
            successor = next((one for one in starts[job] if one.started_at >= stay.ended_at), None)
            if successor is not None and successor.started_at <= shown.ended_at:
                headed.append(_Arrow(tail, (successor.started_at, middle(successor, set(stay.gpus)))))
    drawn = headed
    omitted = ""
    if len(headed) > ARROWS_DRAWN:
        drawn = [headed[at] for at in np.linspace(0, len(headed) - 1, ARROWS_DRAWN).astype(int)]
        omitted = f" {ARROWS_DRAWN} of {len(headed):,} arrows are drawn, evenly chosen."
    return (*alone, *drawn), omitted


def _draw(
    figure: Figure,
    shown: Excerpt,
    rows: dict[GpuId, int],
    tenants: Sequence[str],
    tenant_of: dict[JobId, str],
    arrows: Sequence[_Arrow],
) -> None:
    unit = time_unit([shown.ended_at - shown.began_at], days=True)
    colour_of = dict(zip(tenants, SERIES, strict=False))
    axes = figure.subplots()
    axes.grid(False)
    # Each colour is one compound path, so that thousands of bars cost a few bytes each, not an element each.
    paths: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(list)
    for stay in shown.stays:
        corners = paths[colour_of.get(tenant_of[stay.job], OTHER), stay.guaranteed]
        left, right = (
            float(np.clip(at, shown.began_at, shown.ended_at)) / unit.seconds
            for at in (stay.started_at, stay.ended_at)
        )
        for first, last in _runs(rows[gpu] for gpu in stay.gpus if gpu in rows):
            low, high = first - 0.42, last + 0.42
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    for (colour, guaranteed), corners in sorted(paths.items()):
        path = Path(corners, codes * (len(corners) // 5))
        axes.add_patch(
            PathPatch(
                path, facecolor=colour, alpha=1.0 if guaranteed else 0.45, edgecolor=PAPER, linewidth=0.25
            )
        )
    if arrows:
        tails = np.array([arrow.tail for arrow in arrows])
        axes.plot(
            tails[:, 0] / unit.seconds,
            tails[:, 1],
            "o",
            color=INK,
            markersize=1.8,
            markeredgewidth=0,
            zorder=4,
        )
    for arrow in arrows:
        if arrow.head is not None:
            (x, y), (to_x, to_y) = arrow.tail, arrow.head
            axes.add_patch(
                FancyArrowPatch(
                    (x / unit.seconds, y), (to_x / unit.seconds, to_y), arrowstyle="-|>", mutation_scale=4,
                    linewidth=0.5, color=INK, shrinkA=0, shrinkB=0, zorder=3, connectionstyle="arc3,rad=0.15",
                )
            )  # fmt: skip
    _name_rows(figure, shown, unit.name)
    present = {tenant_of[stay.job] for stay in shown.stays}
    names = [name for name in tenants if name in present]
    if present - set(names):
        names.append("other tenants")
    handles: list[Patch | Line2D] = [Patch(facecolor=colour_of.get(name, OTHER)) for name in names]
    if arrows:
        handles.append(Line2D([], [], color=INK, marker="o", markersize=2.5, linewidth=0.5))
        names.append("preempted")
    add_legend(figure, handles, names)


def _name_rows(figure: Figure, shown: Excerpt, unit_name: str) -> None:
    """Name nodes beside the middle of their rows, every second or third when there are many."""
    axes = figure.axes[0]
    sizes = [len(gpus) for _, gpus in shown.nodes]
    edges = np.concatenate(([0], np.cumsum(sizes))) - 0.5
    for edge in edges[1:-1]:
        axes.axhline(edge, color=RULE, linewidth=0.5, zorder=0)
    step = -(-len(sizes) // NODES_NAMED)
    middles = ((edges[:-1] + edges[1:]) / 2)[::step]
    axes.set_yticks(middles, [f"node {node}" for node, _ in shown.nodes[::step]])
    axes.set_ylim(edges[-1], edges[0])
    unit = time_unit([shown.ended_at - shown.began_at], days=True)
    axes.set_xlim(shown.began_at / unit.seconds, max(shown.ended_at, shown.began_at + 1.0) / unit.seconds)
    axes.set_xlabel(f"Time ({unit_name})")
    axes.set_ylabel("GPUs by node")
    axes.tick_params(axis="y", length=0)
