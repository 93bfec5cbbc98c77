"""For how long an attempt has held GPUs that do nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.jobspec.parts import IDLE_BELOW_PERCENT
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.metrics import Resolution
from scheduler.telemetry.metrics.selectors.buckets import GPU_MEASURES, count_mean_least_most
from scheduler.telemetry.metrics.selectors.reading import KEPT, Row, gpus_of, part_rows
from scheduler.wiring.clock import database_now

#: Readings further apart than this do not show what happened between them.
GAP = timedelta(seconds=90)
_UTILISATION = GPU_MEASURES.index("utilisation_percent")
#: Nearly every job is busy, and its newest readings say so: the rest is read of those that are not.
_LOOKS = (
    (timedelta(minutes=2), Resolution.READING),
    (KEPT[Resolution.READING], Resolution.READING),
    (KEPT[Resolution.MINUTE], Resolution.MINUTE),
)


def idle_gpu_seconds(
    attempt: Attempt, *, below_percent: float = IDLE_BELOW_PERCENT, now: datetime | None = None
) -> float | None:
    """Return for how long every GPU of a running attempt has been less busy than `below_percent`, until now.

    None when that is not known: no node reports readings, some GPU reports nothing, or the GPUs are simulated
    and it could not be seen what their job's processes do. Only time seen without a gap counts, at most two
    days of it.
    """
    now = now or database_now()
    known = [
        _idle_seconds(part, below_percent=below_percent, begun=attempt.starting_at or now, now=now)
        for part in attempt.parts.all()
    ]
    seconds = [part_seconds for part_seconds in known if part_seconds is not None]
    return min(seconds) if known and len(seconds) == len(known) else None


def _idle_seconds(part: AttemptPart, *, below_percent: float, begun: datetime, now: datetime) -> float | None:
    seconds = None
    for look_back, resolution in _LOOKS:
        since = max(begun, now - look_back)
        rows = part_rows(part, since=since, until=now + GAP, resolution=resolution)
        if not rows or now - rows[-1].until > GAP:
            return None
        stretch = _idle_stretch(rows, gpus_of(part), below_percent=below_percent)
        if stretch is None:
            return None
        seconds = max((now - stretch[0].at).total_seconds(), 0.0) if stretch else 0.0
        if len(stretch) < len(rows) or since == begun:
            break
    return seconds


def _idle_stretch(rows: list[Row], gpus: set[str], *, below_percent: float) -> list[Row] | None:
    """Return the idle rows at the end of `rows`, the oldest first; None when the newest row says nothing."""
    first = len(rows)
    while first > 0:
        row = rows[first - 1]
        busiest = _busiest_percent(row, gpus)
        if busiest is None and first == len(rows):
            return None
        is_after_a_gap = first < len(rows) and rows[first].at - row.until > GAP
        if busiest is None or busiest >= below_percent or is_after_a_gap:
            break
        first -= 1
    return rows[first:]


def _busiest_percent(row: Row, gpus: set[str]) -> float | None:
    """Return the highest utilisation of any of the GPUs in the row; None when one of them is silent."""
    figures_by_gpu = [
        count_mean_least_most(row.values["gpus"].get(gpu, [None])[_UTILISATION]) for gpu in gpus
    ]
    highest = [figures[3] for figures in figures_by_gpu if figures is not None]
    return max(highest) if highest and len(highest) == len(gpus) else None
