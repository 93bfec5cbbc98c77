"""The figures that compare policies. The Gantt chart of one policy is in `gantt`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from scheduler.simulation.report.distribution import Distribution
from scheduler.simulation.report.measures import Group, Measures
from scheduler.simulation.report.palette import INK, OTHER, PAPER, QUIET, line_style, series_colour
from scheduler.simulation.report.quantities import labels, time_unit
from scheduler.simulation.report.rendering import WIDE, Drawing, add_legend
from scheduler.simulation.report.timeline import Series

INTERVALS_DRAWN = 170
PERCENT = FuncFormatter(lambda value, _: f"{100 * value:g} %")
PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")


def comparison_drawings(measures: Sequence[Measures]) -> list[Drawing]:
    """Return the figures for which these runs have the numbers, in the order of the page."""
    drawings = []
    if any(one.completion_seconds for one in measures):
        drawings += [
            _completion(measures),
            _queueing(measures),
            _queueing_by_size(measures),
            _fairness(measures),
        ]
    if any(one.cluster_use for one in measures):
        drawings.append(_waiting(measures))
    if any(one.by_status for one in measures):
        drawings.append(_status_hours(measures))
    if any(one.cluster_use for one in measures):
        drawings.append(_use(measures))
    return drawings


def _legend(figure: Figure, axes: Axes, more: Sequence[tuple[Artist, str]] = ()) -> None:
    """Put one legend above everything, where it covers nothing."""
    handles, names = axes.get_legend_handles_labels()
    handles, names = [*handles, *(handle for handle, _ in more)], [*names, *(name for _, name in more)]
    add_legend(figure, handles, names)


def _logarithmic(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(PLAIN)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _cdf(
    axes: Axes, measures: Sequence[Measures], of: Callable[[Measures], Distribution | None], divisor: float
) -> None:
    """Draw the curves as steps, on a logarithmic axis when they span more than two decades."""
    lowest, highest = np.inf, 0.0
    for index, (name, one) in enumerate(zip(labels(measures), measures, strict=True)):
        found = of(one)
        if found is None or found.cdf is None:
            continue
        values = np.array(found.cdf.values) / divisor
        lowest = min(lowest, float(values[values > 0].min(initial=np.inf)))
        highest = max(highest, float(values[-1]))
        axes.step(
            np.concatenate((values[:1], values)),
            (0.0, *found.cdf.fractions),
            where="post",
            color=series_colour(index),
            linestyle=line_style(index),
            label=name,
        )
    if highest > 100 * lowest:
        _logarithmic(axes)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.set_ylabel("Share of jobs")
    axes.grid(True, axis="x")


def _completion(measures: Sequence[Measures]) -> Drawing:
    return _times_cdf(
        measures,
        lambda one: one.completion_seconds,
        name="jct-cdf",
        title="Job completion time",
        caption="Cumulative distribution of job completion time (from submission to end) over the jobs that"
        " ended.",
    )


def _queueing(measures: Sequence[Measures]) -> Drawing:
    return _times_cdf(
        measures,
        lambda one: one.queueing_seconds,
        name="queueing-cdf",
        title="Queueing delay",
        caption="Cumulative distribution of the queueing delay (from submission to first start) over the jobs"
        " that started. On a logarithmic axis a curve enters at the share of jobs that did not wait.",
    )


def _times_cdf(
    measures: Sequence[Measures],
    times: Callable[[Measures], Distribution | None],
    *,
    name: str,
    title: str,
    caption: str,
) -> Drawing:
    """Draw how times of jobs are distributed, in the unit that suits the longest."""
    unit = time_unit([found.max for one in measures if (found := times(one))])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _cdf(axes, measures, times, unit.seconds)
        axes.set_xlabel(f"{title} ({unit.name})")
        _legend(figure, axes)

    return Drawing(name=name, title=title, caption=caption, draw=draw)


def _queueing_by_size(measures: Sequence[Measures]) -> Drawing:
    sizes = list(dict.fromkeys(group.name for one in measures for group in one.by_gang_size))
    groups = [{group.name: group for group in one.by_gang_size} for one in measures]

    def delay(group: Group | None, part: str) -> float:
        if group is None or group.queueing_seconds is None:
            return 0.0
        return float(getattr(group.queueing_seconds, part))

    unit = time_unit([delay(one.get(size), "mean") for one in groups for size in sizes])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.8 / len(measures)
        for index, (name, one) in enumerate(zip(labels(measures), groups, strict=True)):
            at = np.arange(len(sizes)) + (index - (len(measures) - 1) / 2) * width
            means = [delay(one.get(size), "mean") / unit.seconds for size in sizes]
            medians = [delay(one.get(size), "median") / unit.seconds for size in sizes]
            axes.bar(at, means, 0.92 * width, color=series_colour(index), label=name)
            axes.hlines(medians, at - 0.46 * width, at + 0.46 * width, color=INK, linewidth=1.2)
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set_xlabel("Gang size")
        axes.set_ylabel(f"Queueing delay ({unit.name})")
        _legend(figure, axes)

    return Drawing(
        name="queueing-by-size",
        title="Queueing delay by gang size",
        caption="Mean queueing delay (from submission to first start) of the jobs that started; ticks are"
        " medians.",
        draw=draw,
    )


def _fairness(measures: Sequence[Measures]) -> Drawing:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _cdf(axes, measures, lambda one: one.fairness.rho, 1.0)
        axes.axvline(1.0, color=QUIET, linewidth=0.8)
        axes.set_xlabel("Finish-time fairness ρ (at most 1: no worse than an equal share)")
        _legend(figure, axes)

    return Drawing(
        name="fairness-cdf",
        title="Finish-time fairness",
        caption="Cumulative distribution of ρ = JCT / (run time alone · max(1, gang size · mean jobs in the"
        " system / GPUs of the cluster)). Right of the line a job ended later than on its equal share.",
        draw=draw,
    )


def _over_time(
    axes: Axes, measures: Sequence[Measures], of: Callable[[Series], tuple[float, ...]], divisor: float
) -> None:
    for index, (name, one) in enumerate(zip(labels(measures), measures, strict=True)):
        if one.cluster_use is None:
            continue
        series = one.cluster_use.series
        values = np.array(of(series))
        # Draw fewer intervals than the series has, because lines that cross in every pixel show nothing.
        width = -(-len(values) // INTERVALS_DRAWN)
        first = np.arange(0, len(values), width)
        values = np.add.reduceat(values, first) / np.diff(np.append(first, len(values)))
        edges = (series.began_at + np.append(first, len(of(series))) * series.step_seconds) / divisor
        axes.stairs(
            values, edges, baseline=None, color=series_colour(index), linestyle=line_style(index), label=name,
            linewidth=1.0,
        )  # fmt: skip
    axes.margins(x=0)


def _use(measures: Sequence[Measures]) -> Drawing:
    unit = time_unit([one.span_seconds for one in measures], days=True)

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        _over_time(above, measures, lambda series: series.utilisation, unit.seconds)
        _over_time(below, measures, lambda series: series.fragmentation, unit.seconds)
        for axes, name in ((above, "Utilisation"), (below, "Fragmentation")):
            axes.set_ylim(0, 1.03)
            axes.yaxis.set_major_formatter(PERCENT)
            axes.set_ylabel(name)
        below.set_xlabel(f"Time ({unit.name})")
        _legend(figure, above)

    return Drawing(
        name="utilisation",
        title="Utilisation and fragmentation",
        caption="Above: GPUs held, of those usable. Below: part of the idle GPUs that the largest replica"
        " that waits cannot use. Means over equal intervals, weighted by time.",
        draw=draw,
        width=WIDE,
        height=3.4,
        wide=True,
    )


def _waiting(measures: Sequence[Measures]) -> Drawing:
    unit = time_unit([one.span_seconds for one in measures], days=True)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _over_time(axes, measures, lambda series: series.waiting_jobs, unit.seconds)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_xlabel(f"Time ({unit.name})")
        axes.set_ylabel("Jobs waiting")
        _legend(figure, axes)

    return Drawing(
        name="waiting-jobs",
        title="Waiting jobs",
        caption="Jobs that wait for GPUs, preempted ones included. Means over equal intervals,"
        " weighted by time.",
        draw=draw,
    )


def _status_hours(measures: Sequence[Measures]) -> Drawing:
    statuses = list(dict.fromkeys(row.status for one in measures for row in one.by_status))
    tables = [{row.status: row for row in one.by_status} for one in measures]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.8 / len(measures)
        for index, (name, table) in enumerate(zip(labels(measures), tables, strict=True)):
            at = np.arange(len(statuses)) + (index - (len(measures) - 1) / 2) * width
            rows = [table.get(status) for status in statuses]
            parts = np.array(
                [
                    [row.useful_gpu_hours, row.overhead_gpu_hours, row.lost_gpu_hours] if row else [0.0] * 3
                    for row in rows
                ]
            ).T
            levels = np.vstack((np.zeros(len(statuses)), np.cumsum(parts, axis=0)))
            colour = series_colour(index)
            for (low, high), hatch in zip(pairwise(levels), (None, "/////", "xxxxx"), strict=True):
                axes.bar(
                    at, high - low, 0.92 * width, bottom=low, color=colour, hatch=hatch, edgecolor=PAPER,
                    label=name if hatch is None else None,
                )  # fmt: skip
        kinds = [
            (Patch(facecolor=OTHER, edgecolor=PAPER, hatch=hatch), kind)
            for kind, hatch in (("overhead", "/////"), ("lost", "xxxxx"))
        ]
        axes.set_xticks(range(len(statuses)), statuses)
        axes.set_xlabel("Final status of the job")
        axes.set_ylabel("GPU-hours")
        axes.yaxis.set_major_formatter(PLAIN)
        _legend(figure, axes, kinds)

    return Drawing(
        name="gpu-hours",
        title="GPU-hours by final status",
        caption="GPU-hours held by all jobs, by how the job ended: useful (plain), overhead of starting,"
        " restoring and writing checkpoints, and work lost.",
        draw=draw,
    )
