"""Numbers for people: one unit for a whole row or axis, three significant digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.simulation.report.measures import Measures


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time."""

    name: str
    symbol: str
    seconds: float


SECONDS = Unit("seconds", "s", 1.0)
MINUTES = Unit("minutes", "min", 60.0)
HOURS = Unit("hours", "h", 3600.0)
DAYS = Unit("days", "d", 86_400.0)


def time_unit(seconds: Iterable[float | None], *, days: bool = False) -> Unit:
    """Return the unit that suits the longest of these times; days only if requested."""
    longest = max((value for value in seconds if value is not None), default=0.0)
    if days and longest >= 4 * DAYS.seconds:
        return DAYS
    return next((unit for unit in (HOURS, MINUTES) if longest >= 3 * unit.seconds), SECONDS)


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with about `digits` significant digits; a dash for None."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1) or float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) < 10**-4:
        return f"{value:.1e}"
    for decimals in range(1, 8):
        if abs(value) >= 10.0 ** (digits - 1 - decimals):
            break
    return f"{value:.{decimals}f}"


def percent(value: float | None) -> str:
    """Return a fraction in per cent."""
    return "–" if value is None else f"{100 * value:.1f} %"


def relative(value: float | None, first: float | None) -> str:
    """Return how much a value differs from that of the first policy; empty where that is meaningless."""
    if value is None or first is None or first <= 0 or value < 0:
        return ""
    ratio = value / first
    if ratio >= 10:
        return f"×{number(ratio)}"
    change = round(100 * (ratio - 1))
    return "±0 %" if change == 0 else f"{change:+d} %".replace("-", "−")


def labels(measures: Sequence[Measures]) -> tuple[str, ...]:
    """Return a name for each run: its policy, with division, placer and seed where they distinguish runs."""
    for parts in (
        ("policy",),
        ("policy", "nodes"),
        ("policy", "division"),
        ("policy", "placer"),
        ("policy", "placer", "seed"),
        ("policy", "nodes", "seed"),
        ("policy", "division", "placer", "seed"),
    ):
        names = [
            " · ".join(f"seed {one.seed}" if part == "seed" else str(getattr(one, part)) for part in parts)
            for one in measures
        ]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple([f"{name} ({index})" for index, name in enumerate(names, start=1)])
