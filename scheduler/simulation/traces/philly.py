"""Philly (Microsoft, ATC'19): the published `cluster_job_log` JSON, and the CSVs derived from it.

The log is a list of jobs with their attempts. GPUs are those of the first attempt, as in the published
notebook. The run time is the sum of the attempts' (the notebook takes first start to last end, which counts
waiting in between). A job without an attempt, or whose last attempt has no end, is a problem: how long it
runs is not known.

The CSVs have the columns submit_time (or submit_s), vc, num_gpus and duration_s; Pollux's packaging of the
same jobs has timestamp, cluster, num_gpus and duration.
"""

from __future__ import annotations

from typing import Any

from scheduler.simulation.traces.fields import ABSENT, BadField, count, instant, named, seconds, status
from scheduler.simulation.traces.source import Source, TracedJob


def read(source: Source) -> None:
    """Read the log, or a table of either layout; the first character and the header tell."""
    text = source.text().lstrip()
    if text.startswith(("[", "{")):
        source.read(source.objects(), lambda job: _job(job, by_user=source.options.tenants == "user"))
    elif text.startswith("timestamp,"):
        _read_table(source, ("timestamp", "cluster", "num_gpus", "duration"))
    else:
        _read_table(source, ("submit_time", "vc", "num_gpus", "duration_s"))


def _read_table(source: Source, columns: tuple[str, str, str, str]) -> None:
    when, where, gpus, duration = columns

    def job(row: tuple[str, ...]) -> TracedJob:
        vc = row[1]
        if not vc:
            vc = named(where, vc)
        return TracedJob(instant(when, row[0]), count(gpus, row[2]), seconds(duration, row[3]), vc, vc)

    source.read(source.rows(columns), job)


def _job(job: dict[str, Any], *, by_user: bool) -> TracedJob:
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
    run_seconds = 0.0
    for number, attempt in enumerate(attempts):
        started = _time(f"attempts[{number}].start_time", attempt.get("start_time"))
        ended = _time(f"attempts[{number}].end_time", attempt.get("end_time"))
        if started is not None and started < submitted_at:
            raise BadField(f"attempts[{number}].start_time", "is before the submission")
        if ended is None and number == len(attempts) - 1:
            raise BadField(
                f"attempts[{number}].end_time", "is missing: the job still ran when the log was taken"
            )
        if started is None or ended is None:
            continue
        if ended < started:
            raise BadField(f"attempts[{number}].end_time", "is before the start")
        run_seconds += ended - started
    return TracedJob(
        submitted_at,
        gpus,
        run_seconds,
        tenant=named("user", job.get("user", "")) if by_user else vc,
        virtual_cluster=vc,
        status=status("status", job.get("status", "")),
        user=str(job.get("user") or ""),
    )


def _time(field: str, text: Any) -> float | None:
    return None if text is None or text in ABSENT else instant(field, text)


def _gpus(attempt: dict[str, Any]) -> int:
    try:
        gpus = sum(len(node["gpus"]) for node in attempt["detail"])
    except (KeyError, TypeError):
        raise BadField("attempts[0].detail", "must be a list of nodes, each with ip and gpus") from None
    if gpus < 1:
        raise BadField("attempts[0].detail", "names no GPU; a job needs at least 1")
    return gpus
