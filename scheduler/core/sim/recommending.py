"""Advice in figures and sentences: each virtual cluster's present and recommended assignment, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.cells.chains import Layout
from scheduler.core.model import wording
from scheduler.core.sim.advice import Advice, AssignmentChoice, cells_by_path
from scheduler.core.sim.choosing import SLACK_PART, SLACK_SECONDS
from scheduler.core.sim.evaluation import Evaluation
from scheduler.core.sim.menus import Owned

DAY_SECONDS = 86_400.0
HOURS_A_DAY = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of an assignment. Delays are those of the private cluster; sharing only shortens them."""

    #: Type of cell -> number; pinned cells are left out here but counted in `gpus`.
    cells: Mapping[str, int]
    gpus: int
    delay_mean_seconds: float
    delay_p95_seconds: float
    utilisation: float
    #: None if none of its GPU models has a price.
    cost_per_day: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One virtual cluster."""

    virtual_cluster: str
    jobs: int
    today: Figures
    advised: Figures
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All virtual clusters together; the mean delay is over jobs, the utilisation over GPU-time."""

    gpus: int
    delay_mean_seconds: float
    utilisation: float
    cost_per_day: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One assignment that was tried."""

    cells: Mapping[str, int]
    gpus: int
    delay_mean_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Advice for people."""

    assumption: str
    rows: tuple[Row, ...]
    today: Totals
    advised: Totals
    #: By virtual cluster, those with the fewest GPUs first.
    curves: Mapping[str, tuple[CurvePoint, ...]]


def recommendation(advice: Advice, price_per_gpu_hour: Mapping[str, float]) -> Recommendation:
    """Return advice as figures and sentences."""
    rows = tuple([_row(one, advice.layout, price_per_gpu_hour) for one in advice.chosen])
    curves = {
        one.virtual_cluster: tuple(
            [
                CurvePoint(
                    cells=cells_by_path(advice.layout, tried.owned),
                    gpus=tried.total_gpus,
                    delay_mean_seconds=tried.delay_mean_seconds,
                )
                for tried in one.tried
            ]
        )
        for one in advice.chosen
    }
    return Recommendation(
        assumption=_assumption(advice),
        rows=rows,
        today=_totals([(row.jobs, row.today) for row in rows]),
        advised=_totals([(row.jobs, row.advised) for row in rows]),
        curves=curves,
    )


def _row(one: AssignmentChoice, layout: Layout, prices: Mapping[str, float]) -> Row:
    return Row(
        virtual_cluster=one.virtual_cluster,
        jobs=one.today.jobs,
        today=_figures(one.today, layout, prices),
        advised=_figures(one.advised, layout, prices),
        why=one.kept or _why(one, layout),
    )


def _figures(tried: Evaluation, layout: Layout, prices: Mapping[str, float]) -> Figures:
    has_price = any(model in prices for model in tried.gpus)
    cost = sum(gpus * prices.get(model, 0.0) for model, gpus in tried.gpus.items()) * HOURS_A_DAY
    return Figures(
        cells=cells_by_path(layout, tried.owned),
        gpus=tried.total_gpus,
        delay_mean_seconds=tried.delay_mean_seconds,
        delay_p95_seconds=tried.delay_p95_seconds,
        utilisation=tried.utilisation,
        cost_per_day=cost if has_price else None,
    )


def _totals(parts: Sequence[tuple[int, Figures]]) -> Totals:
    jobs, gpus = sum(jobs for jobs, _ in parts), sum(figures.gpus for _, figures in parts)
    costs = [figures.cost_per_day for _, figures in parts if figures.cost_per_day is not None]
    return Totals(
        gpus=gpus,
        delay_mean_seconds=sum(jobs * figures.delay_mean_seconds for jobs, figures in parts) / max(1, jobs),
        utilisation=sum(figures.gpus * figures.utilisation for _, figures in parts) / max(1, gpus),
        cost_per_day=sum(costs) if costs else None,
    )


def _why(one: AssignmentChoice, layout: Layout) -> str:
    today, advised = one.today, one.advised
    jobs = f"its {today.jobs:,} jobs" if today.jobs != 1 else "its one job"
    delay = _delay_of(advised)
    before = wording.duration(today.delay_mean_seconds)
    instead = (
        f"instead of {before}" if before != wording.duration(advised.delay_mean_seconds) else "as before"
    )
    if advised.owned == today.owned:
        return (
            f"What it has suits {jobs} best: {_delay_of(advised)} at {advised.utilisation:.0%} utilisation,"
            " within the limits of all."
        )
    gain = _never_words(today, advised)
    difference = advised.total_gpus - today.total_gpus
    if difference > 0:
        return f"{wording.gpus(difference)} more give {jobs} {delay} {instead}{gain}."
    if difference < 0:
        return (
            f"{wording.gpus(-difference)} fewer give {jobs} {delay} {instead}{gain}, at"
            f" {advised.utilisation:.0%} utilisation instead of {today.utilisation:.0%}."
        )
    cells = _cells_words(layout, advised.owned)
    return f"As many GPUs in another shape ({cells}) give {jobs} {delay} {instead}{gain}."


def _delay_of(tried: Evaluation) -> str:
    return f"a mean delay of {wording.duration(tried.delay_mean_seconds)}"


def _never_words(today: Evaluation, advised: Evaluation) -> str:
    if advised.never < today.never:
        return f"; {today.never - advised.never:,} of them fit into no cell that it has today"
    return ""


def _cells_words(layout: Layout, owned: Owned) -> str:
    return ", ".join(f"{number} {path}" for path, number in cells_by_path(layout, owned).items()) or "none"


def _assumption(advice: Advice) -> str:
    left_out = ""
    if advice.jobs_left_out:
        left_out = f" {advice.jobs_left_out:,} older ones were left out to keep the time bounded."
    return (
        f"Tried out with {advice.jobs:,} guaranteed jobs of"
        f" {wording.duration(advice.window_seconds)} in {advice.assignments:,} private clusters, as if they"
        f" ran as long as they did.{left_out} With cells, delays in the shared cluster are no longer than"
        " these while hardware works. Every job counts once, and none that can run today is shut out. Of all"
        f" assignments within {SLACK_PART:.0%} of the least sum of delays, or {SLACK_SECONDS:g} s a job, this"
        " is the cheapest."
    )
