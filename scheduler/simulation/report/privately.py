"""Delays compared with those in private clusters, as numbers, as text and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.sim.delays import Anomaly, Comparison
from scheduler.core.sim.result import Result
from scheduler.simulation.report.quantities import number, time_unit
from scheduler.simulation.report.tables import Row, Table, cells

#: The most anomalies that are listed, the worst ones; all are counted.
LISTED = 200
#: How many of these are on the page.
SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LateJob:
    """A job that waited longer here than in the private cluster, and the cause."""

    job: int
    tenant: str
    gpus: int
    submitted_at: float
    real_seconds: float
    private_seconds: float
    extra_seconds: float
    hard_affinity: bool
    cause: str
    message: str
    round: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstPrivate:
    """Guaranteed jobs of a virtual cluster, here and in its private cluster (see `core.sim.anomalies`)."""

    virtual_cluster: str
    jobs: int
    #: Jobs left out because the private cluster could never run them.
    never: int
    tolerance_seconds: float
    real_mean_seconds: float
    private_mean_seconds: float
    real_p95_seconds: float
    private_p95_seconds: float
    #: The whole wait, including waits after preemptions.
    real_waiting_mean_seconds: float
    private_waiting_mean_seconds: float
    #: The jobs that waited longer here by more than the tolerance, and those among them with hard affinity.
    anomalies: int
    hard_affinity: int
    extra_seconds: float
    #: Anomalies by cause.
    causes: Mapping[str, int]
    worst: tuple[LateJob, ...]


def against_private(result: Result) -> tuple[AgainstPrivate, ...]:
    """Return the comparison of each virtual cluster in a result; empty when it was not requested."""
    return tuple(map(_measured, result.private))


def _measured(one: Comparison) -> AgainstPrivate:
    return AgainstPrivate(
        virtual_cluster=one.virtual_cluster,
        jobs=one.jobs,
        never=one.never,
        tolerance_seconds=one.tolerance_seconds,
        real_mean_seconds=one.real.mean,
        private_mean_seconds=one.private.mean,
        real_p95_seconds=one.real.p95,
        private_p95_seconds=one.private.p95,
        real_waiting_mean_seconds=one.real.waiting_mean,
        private_waiting_mean_seconds=one.private.waiting_mean,
        anomalies=len(one.anomalies),
        hard_affinity=one.hard_affinity_count,
        extra_seconds=one.total_extra_seconds,
        causes=dict(sorted(Counter(str(anomaly.evidence.cause) for anomaly in one.anomalies).items())),
        worst=tuple(map(_late_job, one.anomalies[:LISTED])),
    )


def _late_job(anomaly: Anomaly) -> LateJob:
    delay, evidence = anomaly.delay, anomaly.evidence
    return LateJob(
        job=delay.job,
        tenant=delay.tenant,
        gpus=delay.gpus,
        submitted_at=delay.submitted_at,
        real_seconds=delay.real_seconds,
        private_seconds=delay.private_seconds,
        extra_seconds=delay.extra_seconds,
        hard_affinity=delay.hard_affinity,
        cause=str(evidence.cause),
        message=evidence.message,
        round=evidence.round_number,
    )


_HEADER = (
    "Virtual cluster",
    "Policy",
    "Jobs",
    "Delay here",
    "privately",
    "p95 here",
    "privately",
    "Longer here",
    "with hard affinity",
    "Causes",
)


def _rows(labelled: Sequence[tuple[str, Sequence[AgainstPrivate]]]) -> tuple[list[list[str]], str]:
    """Return the rows of the table, by virtual cluster, and the symbol of their time unit."""
    found = [(label, one) for label, many in labelled for one in many]
    unit = time_unit(
        seconds for _, one in found for seconds in (one.real_p95_seconds, one.private_p95_seconds)
    )
    rows = []
    for label, one in sorted(found, key=lambda pair: pair[1].virtual_cluster):
        times = (
            one.real_mean_seconds,
            one.private_mean_seconds,
            one.real_p95_seconds,
            one.private_p95_seconds,
        )
        causes = ", ".join(
            f"{cause} {count:,}" for cause, count in sorted(one.causes.items(), key=lambda each: -each[1])
        )
        rows.append(
            [
                one.virtual_cluster,
                label,
                f"{one.jobs:,}",
                *(number(seconds / unit.seconds) for seconds in times),
                f"{one.anomalies:,}",
                f"{one.hard_affinity:,}",
                causes or "–",
            ]
        )
    return rows, unit.symbol


def private_text(labelled: Sequence[tuple[str, Sequence[AgainstPrivate]]]) -> str:
    """Return the table as plain text; empty when there are no figures."""
    rows, symbol = _rows(labelled)
    if not rows:
        return ""
    lines = [list(_HEADER), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    texts = [
        "  ".join(
            text.ljust(width) if column in (0, 1, len(_HEADER) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    title = f"Queueing delays ({symbol}) here and in each virtual cluster's private cluster"
    return "\n".join([title, *texts]) + "\n"


def private_tables(labelled: Sequence[tuple[str, Sequence[AgainstPrivate]]]) -> list[Table]:
    """Return the table, and that of the worst anomalies if there are any; empty when there are no figures."""
    rows, symbol = _rows(labelled)
    if not rows:
        return []
    caption = f"Queueing delays ({symbol}) here and privately, and the jobs that waited longer here"
    shown = [Row(name, cells(texts)) for name, *texts in rows]
    return [Table("private", caption, _HEADER, shown), *_worst(labelled)]


def _worst(labelled: Sequence[tuple[str, Sequence[AgainstPrivate]]]) -> list[Table]:
    late = [(label, vc.virtual_cluster, job) for label, many in labelled for vc in many for job in vc.worst]
    if not late:
        return []
    late.sort(key=lambda each: -each[2].extra_seconds)
    unit = time_unit(job.real_seconds for _, _, job in late)
    rows = [
        Row(
            f"job {job.job}",
            cells(
                [
                    vc,
                    label,
                    str(job.gpus),
                    *(number(seconds / unit.seconds) for seconds in (job.real_seconds, job.private_seconds)),
                    "yes" if job.hard_affinity else "no",
                    job.cause,
                    job.message or "–",
                ]
            ),
        )
        for label, vc, job in late[:SHOWN]
    ]
    header = [
        "Job",
        "Virtual cluster",
        "Policy",
        "GPUs",
        f"Delay here ({unit.symbol})",
        f"privately ({unit.symbol})",
        "Hard affinity",
        "Cause",
        "Reason shown then",
    ]
    return [
        Table(
            "private-worst",
            f"The {len(rows)} jobs that waited longest beyond their private wait",
            header,
            rows,
        )
    ]
