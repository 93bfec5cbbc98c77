"""The use of GPUs as answers, files and reports show it: the same figures, rounded alike."""

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.jobs.budgets.selectors import Used
from scheduler.wiring.exports import Columns, Kind

#: The columns of a row, after those that it is grouped by.
FIGURES = {
    "jobs": Kind.INTEGER,
    "gpu_hours": Kind.DECIMAL,
    "guaranteed_gpu_hours": Kind.DECIMAL,
    "opportunistic_gpu_hours": Kind.DECIMAL,
    "wasted_gpu_hours": Kind.DECIMAL,
    "cost": Kind.DECIMAL,
    "currency": Kind.TEXT,
    "entitled_gpu_hours": Kind.DECIMAL,
}


def columns(by: Iterable[str]) -> Columns:
    """Return the columns of the files of usage that is grouped by these."""
    return {**{name: Kind.DAY if name == "day" else Kind.TEXT for name in by}, **FIGURES}


def shown(used: Used, currency: str | None) -> Mapping[str, Any]:
    """Return a total. `currency`: that of its cost; None: cost units."""
    return {
        **used.key,
        "jobs": used.jobs,
        "gpu_hours": _rounded(used.gpu_hours),
        "guaranteed_gpu_hours": _rounded(used.guaranteed_gpu_hours),
        "opportunistic_gpu_hours": _rounded(used.gpu_hours - used.guaranteed_gpu_hours),
        "wasted_gpu_hours": _rounded(used.wasted_gpu_hours),
        "cost": _rounded(used.cost),
        "currency": currency,
    }


def shown_row(used: Used, currency: str | None) -> Mapping[str, Any]:
    """Return a row: what a total has, and what was guaranteed."""
    entitled = used.entitled_gpu_hours
    return {**shown(used, currency), "entitled_gpu_hours": None if entitled is None else _rounded(entitled)}


def _rounded(value: Any) -> float:
    return round(float(value), 6)
