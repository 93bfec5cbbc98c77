"""The main figures of several policies side by side, for the page's first table and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler.core.model import wording
from scheduler.simulation.report.distribution import Distribution
from scheduler.simulation.report.measures import Measures
from scheduler.simulation.report.quantities import Unit, labels, number, percent, relative, time_unit

Kind = Literal["time", "number", "share", "count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of merit: its name, its value in seconds, hours or as a fraction, and which way is better."""

    name: str
    kind: Kind
    value: Callable[[Measures], float | None]
    better: Literal["less", "more"] | None = "less"

    @property
    def family(self) -> str:
        """The family of the figure; figures of one family have the same unit."""
        return self.name.partition(",")[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy's value, as text, and how it compares."""

    text: str
    relative: str
    best: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of merit over all policies, its unit in the name."""

    name: str
    cells: tuple[Cell, ...]


def _part(
    distribution: Callable[[Measures], Distribution | None], part: str
) -> Callable[[Measures], float | None]:
    def value(measures: Measures) -> float | None:
        found = distribution(measures)
        return None if found is None else float(getattr(found, part))

    return value


def _spread(
    name: str, kind: Kind, distribution: Callable[[Measures], Distribution | None], *parts: str
) -> tuple[Figure, ...]:
    return tuple([Figure(f"{name}, {part}", kind, _part(distribution, part)) for part in parts])


def _of_cluster(part: str) -> Callable[[Measures], float | None]:
    return lambda one: None if one.cluster_use is None else float(getattr(one.cluster_use, part))


def _better_off_alone(one: Measures) -> float | None:
    found = [share.better_off_alone for share in one.fairness.tenants]
    return sum([bool(each) for each in found]) if any(each is not None for each in found) else None


def _not_ended(one: Measures) -> float:
    return one.jobs.running + one.jobs.waiting + one.jobs.never


FIGURES: tuple[Figure, ...] = (
    *_spread("JCT", "time", lambda one: one.completion_seconds, "mean", "median", "p90", "p99", "max"),
    *_spread("Queueing delay", "time", lambda one: one.queueing_seconds, "mean", "median", "p90", "p99"),
    *_spread("Slowdown", "number", lambda one: one.slowdown, "mean", "p99"),
    *_spread("Finish-time fairness ρ", "number", lambda one: one.fairness.rho, "mean", "max"),
    Figure("Jobs with ρ > 1", "share", lambda one: one.fairness.rho_above_one),
    # Equal use is no merit where tenants asked for unequal amounts.
    Figure("Jain index of GPU-time", "number", lambda one: one.fairness.jain_gpu_time, None),
    Figure("Jain index of parts received", "number", lambda one: one.fairness.jain_of_parts, "more"),
    Figure("Tenants better off alone", "count", _better_off_alone),
    Figure("Makespan", "time", lambda one: one.makespan_seconds),
    Figure("Node-hours in service", "number", lambda one: one.node_hours),
    Figure("Utilisation", "share", _of_cluster("utilisation"), "more"),
    Figure("Fragmentation of idle GPUs", "share", _of_cluster("fragmentation")),
    Figure("Cluster lost to fragmentation", "share", _of_cluster("stranded")),
    Figure("Preemptions", "count", lambda one: one.interruptions.preemptions, None),
    Figure("Migrations", "count", lambda one: one.interruptions.migrations, None),
    Figure("Overhead (GPU-hours)", "number", lambda one: one.interruptions.overhead_gpu_hours),
    Figure("Work lost (GPU-hours)", "number", lambda one: one.interruptions.lost_gpu_hours),
    Figure("Jobs ended", "count", lambda one: one.jobs.ended, None),
    Figure("Jobs not ended", "count", _not_ended, None),
)


def comparable(measures: Sequence[Measures]) -> bool:
    """Return whether all runs reached their end and ended equally many jobs; if not, no value is best."""
    return len({one.jobs.ended for one in measures}) <= 1 and not any(one.cut_short for one in measures)


def compare(measures: Sequence[Measures], figures: Sequence[Figure] = FIGURES) -> tuple[Row, ...]:
    """Return the figures as rows; the changes are relative to the first policy."""
    fair = comparable(measures)
    rows = []
    for figure in figures:
        values = [figure.value(one) for one in measures]
        family = [other for other in figures if other.kind == "time" and other.family == figure.family]
        unit = time_unit(other.value(one) for other in family for one in measures)
        name, texts = _texts(figure, values, unit)
        known = [value for value in values if value is not None]
        best = None
        if fair and figure.better and len(set(known)) > 1:
            best = min(known) if figure.better == "less" else max(known)
        rows.append(
            Row(
                name,
                tuple(
                    [
                        Cell(
                            text,
                            relative(value, values[0]) if index and fair else "",
                            best is not None and value == best,
                        )
                        for index, (text, value) in enumerate(zip(texts, values, strict=True))
                    ]
                ),
            )
        )
    return tuple(rows)


def _texts(figure: Figure, values: Sequence[float | None], unit: Unit) -> tuple[str, list[str]]:
    match figure.kind:
        case "time":
            return f"{figure.name} ({unit.symbol})", [
                number(None if value is None else value / unit.seconds) for value in values
            ]
        case "share":
            return figure.name, [percent(value) for value in values]
        case "count":
            return figure.name, ["–" if value is None else f"{value:,.0f}" for value in values]
        case "number":
            return figure.name, [number(value) for value in values]


def summary_table(measures: Sequence[Measures]) -> str:
    """Return the main figures as a plain text table, one column per policy; a star marks the best value."""
    header = ["", *labels(measures)]
    lines = [
        [row.name, *(f"{cell.text} *" if cell.best else f"{cell.text}  " for cell in row.cells)]
        for row in compare(measures)
    ]
    header = [header[0], *(f"{name}  " for name in header[1:])]
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]).rstrip()

    table = [line(header), "  ".join("─" * width for width in widths), *(line(cells) for cells in lines)]
    if not comparable(measures):
        table.append("No value is marked best: a run was cut short, or the policies ended different jobs.")
    table += [
        f"{name}: cut short, {one.cut_short}"
        for name, one in zip(labels(measures), measures, strict=True)
        if one.cut_short
    ]
    table += [
        f"{name}: slowdown and ρ leave out {wording.counted(one.jobs.without_work, 'job')} without work"
        for name, one in zip(labels(measures), measures, strict=True)
        if one.jobs.without_work
    ]
    return "\n".join(table) + "\n"
