"""Sharing anomalies: jobs that waited longer here than in a private cluster of their virtual cluster.

HiveD (OSDI'20, sections 2.2 and 5.1) compares queueing delays in a shared cluster with those of the same jobs
in a private one. Here the guaranteed jobs of one virtual cluster are compared, because opportunistic jobs
have no guarantee. The delay is the time from submission to the first start, or to the end of observation.

Under first-in-first-out without priorities, cells make the list of anomalies empty: each decision of the
virtual cluster is one that its private cluster would make (HiveD, theorem 1). Policies that count time
already served, or a tenant's quota that other virtual clusters use too, may order jobs differently in the two
clusters; the anomalies listed for these are a measurement.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from scheduler.core.building_blocks.computing import Timekeeper, untimed
from scheduler.core.model.plan import Reason
from scheduler.core.model.reason_kinds import Cause
from scheduler.core.model.reasons import REASONS
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.sim.delays import Anomaly, Comparison, Delay, Evidence, Point, Spread
from scheduler.core.sim.engine import Engine, ScriptedEvent
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth

MOST_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWait:
    """A job's waiting in one of the two clusters. Instants are those of the facts."""

    started_at: float | None
    ended_at: float | None
    #: The whole wait, including later waits after preemptions, as far as observed.
    seconds: float


def private_run(
    alone: Snapshot,
    virtual_cluster: str,
    arrivals: Iterable[Arrival],
    *,
    truths: Mapping[JobId, Truth] | None = None,
    rules: Rules | None = None,
    script: Sequence[ScriptedEvent] = (),
    until: float | None = None,
    timekeeper: Timekeeper = untimed,
) -> Engine:
    """Let the jobs of a virtual cluster run in its private cluster, up to an instant or to their end.

    `alone` is the facts of its private cluster at the beginning (`private_cluster`). Only its guaranteed jobs
    in `arrivals` count.
    """
    own = [
        arrival
        for arrival in arrivals
        if arrival.job.guaranteed and arrival.job.virtual_cluster == virtual_cluster
    ]
    engine = Engine(alone, own, rules, truths=truths, script=script, timekeeper=timekeeper)
    engine.run((lambda engine: engine.now >= until) if until is not None else (lambda engine: False))
    return engine


def waits_in(engine: Engine, until: float) -> dict[JobId, JobWait]:
    """Return the wait of each job that has arrived and can run at all, as seen at an instant."""
    waits = {}
    for job, progress in engine.progress.items():
        if job in engine.never:
            continue
        account = progress.record(max(engine.now, until))
        last = until if account.ended_at is None else min(account.ended_at, until)
        waits[job] = JobWait(
            started_at=_by(until, account.first_started_at),
            ended_at=_by(until, account.ended_at),
            seconds=max(0.0, last - account.submitted_at - account.held_seconds),
        )
    return waits


def compare(
    virtual_cluster: str,
    jobs: Iterable[Job],
    real: Mapping[JobId, JobWait],
    private: Mapping[JobId, JobWait],
    *,
    until: float,
    tolerance_seconds: float,
) -> Comparison:
    """Compare the delays of these jobs, which are all of the virtual cluster, as known at an instant.

    Jobs that still waited then, or gave up waiting, count with the wait so far. A job missing in `private`
    could never run there.
    """
    delays, never = [], 0
    for job in jobs:
        if job.id not in real:
            continue
        if job.id not in private:
            never += 1
            continue
        delays.append(_delay(job, real[job.id], private[job.id], until))
    late = sorted(
        (delay for delay in delays if delay.extra_seconds > tolerance_seconds + 1e-6),
        key=lambda delay: (-delay.extra_seconds, delay.job),
    )
    return Comparison(
        virtual_cluster=virtual_cluster,
        jobs=len(delays),
        tolerance_seconds=tolerance_seconds,
        real=_spread([(delay.real_seconds, delay.real_waiting_seconds) for delay in delays]),
        private=_spread([(delay.private_seconds, delay.private_waiting_seconds) for delay in delays]),
        anomalies=tuple([Anomaly(delay=delay) for delay in late]),
        series=_series(delays),
        never=never,
    )


def with_evidence(comparison: Comparison, evidence: Mapping[JobId, Evidence]) -> Comparison:
    """Return the comparison with the causes that were found."""
    return replace(
        comparison,
        anomalies=tuple(
            [
                replace(anomaly, evidence=evidence.get(anomaly.delay.job, anomaly.evidence))
                for anomaly in comparison.anomalies
            ]
        ),
    )


def evidence_of(reasons: Sequence[Reason], round_number: int) -> Evidence:
    """Return the evidence in a job's reasons, the most decisive first."""
    if not reasons:
        return Evidence(round_number=round_number)
    return Evidence(cause=cause_of(reasons[0].code), message=reasons[0].message, round_number=round_number)


def cause_of(code: str) -> Cause:
    """Return the cause that a decisive reason indicates, by its code."""
    return REASONS[code].cause if code in REASONS else Cause.OTHER


def has_hard_affinity(job: Job) -> bool:
    """Return whether the job needs GPUs that are near to each other."""
    must_be_near = job.topology is not None and job.topology.required
    return must_be_near or any(task.gpus > 1 for task in job.tasks)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least that part of the values does not exceed; 0 for no values."""
    return sorted(values)[max(0, ceil(part * len(values)) - 1)] if values else 0.0


def _by(until: float, instant: float | None) -> float | None:
    return None if instant is None or instant > until else instant


def _delay(job: Job, real: JobWait, private: JobWait, until: float) -> Delay:
    def first_wait(waited: JobWait) -> float:
        seen = until if waited.ended_at is None else waited.ended_at
        return max(0.0, (seen if waited.started_at is None else waited.started_at) - job.submitted_at)

    return Delay(
        job=job.id,
        tenant=job.tenant,
        gpus=job.gpus,
        submitted_at=job.submitted_at,
        real_seconds=first_wait(real),
        private_seconds=first_wait(private),
        real_waiting_seconds=real.seconds,
        private_waiting_seconds=private.seconds,
        hard_affinity=has_hard_affinity(job),
    )


def _spread(pairs: Sequence[tuple[float, float]]) -> Spread:
    if not pairs:
        return Spread(mean=0.0, p95=0.0, waiting_mean=0.0)
    delays = [delay for delay, _ in pairs]
    return Spread(
        mean=sum(delays) / len(pairs),
        p95=percentile(delays, 0.95),
        waiting_mean=sum(waiting for _, waiting in pairs) / len(pairs),
    )


def _series(delays: Sequence[Delay]) -> tuple[Point, ...]:
    """Return mean delays over the time of submission, in equal bins."""
    if not delays:
        return ()
    first, last = min(each.submitted_at for each in delays), max(each.submitted_at for each in delays)
    bins = min(MOST_POINTS, len(delays))
    edges = [first + (last - first) * place / bins for place in range(bins)]
    members: dict[int, list[Delay]] = {}
    for each in delays:
        members.setdefault(bisect_right(edges, each.submitted_at) - 1, []).append(each)
    return tuple(
        [
            Point(
                at=edges[place],
                real_seconds=sum(each.real_seconds for each in found) / len(found),
                private_seconds=sum(each.private_seconds for each in found) / len(found),
            )
            for place, found in sorted(members.items())
        ]
    )
