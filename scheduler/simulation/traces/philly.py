"""Philly (Microsoft, ATC'19): the published `cluster_job_log` JSON, and the CSVs derived from it.

The log is a list of jobs with their attempts. The GPUs are those of the first attempt, as in the published
notebook. The run time is the time during which an attempt ran; the notebook uses first start to last end,
which includes waiting in between. Where attempts overlap, the time counts once. An attempt without an end in
the log ran at most until the next one started, so that counts as its end, and a note says so. A job without
an attempt, or whose last attempt has no end, is a problem, because its run time is unknown.

The CSVs have the columns submit_time (or submit_s), vc, num_gpus and duration_s; Pollux's packaging of the
same jobs has timestamp, cluster, num_gpus and duration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.simulation.traces.fields import ABSENT, BadField, count, instant, named, seconds, status
from scheduler.simulation.traces.source import Source, TracedJob


def read(source: Source) -> None:
    """Read the log, or a table of either layout; the first character and the header show which."""
    text = source.text().lstrip()
    if text.startswith(("[", "{")):
        source.read(source.objects(), lambda job: _job(job, source))
    elif text.startswith("timestamp,"):
        _read_table(source, ("timestamp", "cluster", "num_gpus", "duration"))
    else:
        _read_table(source, ("submit_time", "vc", "num_gpus", "duration_s"))


def _read_table(source: Source, columns: tuple[str, str, str, str]) -> None:
    when, where, gpus, duration = columns

    def job(row: tuple[str, ...]) -> TracedJob:
        vc = named(where, row[1])
        return TracedJob(instant(when, row[0]), count(gpus, row[2]), seconds(duration, row[3]), vc, vc)

    source.read(source.rows(columns), job)


def _job(job: dict[str, Any], source: Source) -> TracedJob:
    submitted_at = _time("submitted_time", job.get("submitted_time"))
    if submitted_at is None:
        raise BadField("submitted_time", "is missing; it must be a time like 2017-10-07 01:11:39")
    vc = named("vc", job.get("vc", ""))
    attempts = job.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
        raise BadField("attempts", "must be a list of attempts")
    if not attempts:
        raise BadField("attempts", "is empty: the job never started, so its size and run time are not known")
    gpus = _gpus(attempts[0])
    stretches, lost = _stretches(attempts, submitted_at)
    if lost:
        source.assumed["attempts have no end in the log; they count until the next one started."] += lost
    return TracedJob(
        submitted_at,
        gpus,
        _covered_seconds(stretches),
        tenant=named("user", job.get("user", "")) if source.options.tenants == "user" else vc,
        virtual_cluster=vc,
        status=status("status", job.get("status", "")),
        user=str(job.get("user") or ""),
    )


def _stretches(
    attempts: Sequence[dict[str, Any]], submitted_at: float
) -> tuple[list[tuple[float, float]], int]:
    """Return the start and the end of each attempt, and how many ends are missing in the log."""
    last = len(attempts) - 1
    starts: list[float | None] = []
    for number, attempt in enumerate(attempts):
        started = _time(f"attempts[{number}].start_time", attempt.get("start_time"))
        if started is not None and started < submitted_at:
            raise BadField(f"attempts[{number}].start_time", "is before the submission")
        starts.append(started)
    stretches, lost = [], 0
    for number, (attempt, started) in enumerate(zip(attempts, starts, strict=True)):
        ended = _time(f"attempts[{number}].end_time", attempt.get("end_time"))
        if ended is None and number == last:
            raise BadField(
                f"attempts[{number}].end_time", "is missing: the job still ran when the log was taken"
            )
        if started is None:
            continue
        if ended is None:
            later = [start for start in starts[number + 1 :] if start is not None and start >= started]
            if not later:
                raise BadField(f"attempts[{number}].end_time", "is missing, and no later attempt shows it")
            ended, lost = min(later), lost + 1
        if ended < started:
            raise BadField(f"attempts[{number}].end_time", "is before the start")
        stretches.append((started, ended))
    return stretches, lost


def _covered_seconds(stretches: Iterable[tuple[float, float]]) -> float:
    """Return the total time that at least one of the stretches covers."""
    covered, until = 0.0, -math.inf
    for started, ended in sorted(stretches):
        covered += max(0.0, ended - max(started, until))
        until = max(until, ended)
    return covered


def _time(field: str, text: Any) -> float | None:
    is_absent = text is None or (isinstance(text, str) and text in ABSENT)
    return None if is_absent else instant(field, text)


def _gpus(attempt: dict[str, Any]) -> int:
    try:
        gpus = sum(len(node["gpus"]) for node in attempt["detail"])
    except (KeyError, TypeError):
        raise BadField("attempts[0].detail", "must be a list of nodes, each with ip and gpus") from None
    if gpus < 1:
        raise BadField("attempts[0].detail", "names no GPU; a job needs at least 1")
    return gpus
