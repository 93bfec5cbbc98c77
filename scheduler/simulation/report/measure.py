"""Compute the measures of a simulation from its records. These are only numbers: no files, no figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.sim.result import JobRecord, Result, Stay
from scheduler.simulation.report.distribution import distribution
from scheduler.simulation.report.fairness import finish_time_fairness, jain_index, mean_contention
from scheduler.simulation.report.measures import (
    Counts,
    EndKind,
    Fairness,
    Group,
    Interruptions,
    Measures,
    StatusHours,
)
from scheduler.simulation.report.tenancy import jain_of_parts, tenant_shares
from scheduler.simulation.report.timeline import cluster_use

#: Gang sizes in GPUs as most papers group them: (name, smallest, largest).
GANG_SIZES: tuple[tuple[str, int, float], ...] = (
    ("1 GPU", 0, 1),
    ("2-4 GPUs", 2, 4),
    ("5-8 GPUs", 5, 8),
    ("> 8 GPUs", 9, np.inf),
)
#: Final statuses in the order of tables: Philly's three, then jobs that had not ended.
STATUSES = ("passed", "killed", "failed", "unfinished")
UNFINISHED = ("waiting", "running")
HOUR = 3600.0


def final_status(record: JobRecord) -> str:
    """Return Philly's name for how the job ended here, "unfinished" or "never"."""
    if record.outcome in UNFINISHED:
        return "unfinished"
    if record.outcome == "succeeded":
        # It ran to its end, and the trace states whether that was a success.
        return record.status
    return {"failed": "failed", "cancelled": "killed"}.get(record.outcome, record.outcome)


def measure(result: Result, window: tuple[int, int] | None = None) -> Measures:
    """Return the measures of a run; figures of single jobs are only over the window.

    A window (first, end) contains the jobs with an index in [first, end). The index counts arrivals from 0,
    so it is the id minus one.

    Raises ValueError for a window that contains no job of the workload.
    """
    jobs = result.jobs
    if window is not None:
        first, end = window
        jobs = tuple([job for job in jobs if first < job.id <= end])
        if not jobs:
            raise ValueError(
                f"window {first}:{end} holds no job; jobs are counted from 0 to"
                f" {len(result.jobs) - 1} here, and a window ends before its second number"
            )
    columns = _Columns(jobs, result)
    rho = distribution(columns.rho[columns.worked], curve=True)
    shares = tenant_shares(result, jobs)
    return Measures(
        policy=result.policy,
        placer=result.placer,
        division=result.division,
        workload=result.workload,
        cluster=result.cluster,
        seed=result.seed,
        round_seconds=result.round_seconds,
        gpus_by_model=dict(result.gpus_by_model),
        window=window,
        jobs=_counts(jobs, len(result.jobs), columns),
        completion_seconds=distribution(columns.completion[columns.ended], curve=True),
        queueing_seconds=distribution(columns.queueing[columns.started], curve=True),
        slowdown=distribution(columns.slowdown[columns.worked], curve=True),
        fairness=Fairness(
            rho=rho,
            rho_above_one=float((columns.rho[columns.worked] > 1 + 1e-9).mean()) if rho else None,
            jain_gpu_time=_jain(result.jobs),
            jain_of_parts=jain_of_parts(shares),
            tenants=shares,
        ),
        by_gang_size=_by_size(columns),
        by_virtual_cluster=_by_name(jobs, columns, lambda job: job.virtual_cluster),
        by_tenant=_by_name(jobs, columns, lambda job: job.tenant),
        makespan_seconds=_makespan(result.jobs),
        span_seconds=result.ended_at - result.began_at,
        cluster_use=cluster_use(result.samples, result.ended_at),
        gpu_hours=sum([job.gpu_seconds for job in result.jobs]) / HOUR,
        node_hours=None if result.node_seconds is None else result.node_seconds / HOUR,
        nodes="autoscaled" if result.is_autoscaled else "fixed",
        by_status=_by_status(result.jobs),
        interruptions=_interruptions(result.jobs, result.stays),
        rounds=result.rounds,
        elapsed_seconds=result.elapsed_seconds,
        decide_seconds=result.decide_seconds,
        cut_short=result.cut_short,
        degraded=dict(sorted(result.degraded.items())),
        notes=result.notes,
    )


class _Columns:
    """Arrays with one number per job, in the given order; NaN where a job has none. Masks select jobs."""

    def __init__(self, jobs: Sequence[JobRecord], result: Result) -> None:
        submitted = np.array([job.submitted_at for job in jobs], dtype=float)
        started = np.array([_or_nan(job.first_started_at) for job in jobs], dtype=float)
        ended = np.array([_or_nan(job.ended_at) for job in jobs], dtype=float)
        alone = np.array([job.work_seconds / job.best_rate for job in jobs], dtype=float)
        possible = np.array([job.outcome != "never" for job in jobs], dtype=bool)
        self.gpus = np.array([job.gpus for job in jobs], dtype=float)
        self.gpu_seconds = np.array([job.gpu_seconds for job in jobs], dtype=float)
        self.started: NDArray[np.bool_] = possible & ~np.isnan(started)
        #: The jobs that ran and ended, over which completion times are measured.
        self.ended: NDArray[np.bool_] = self.started & ~np.isnan(ended)
        self.queueing = started - submitted
        self.completion = ended - submitted
        #: Those of them that had work, because a ratio to a run time of 0 is meaningless.
        self.worked: NDArray[np.bool_] = self.ended & (alone > 0)
        self.slowdown = np.divide(self.completion, alone, out=np.full(len(jobs), np.nan), where=self.worked)
        self.rho = np.full(len(jobs), np.nan)
        present = [job for job in result.jobs if job.outcome != "never"]
        contention = mean_contention(
            submitted[self.worked],
            ended[self.worked],
            among_began=np.array([job.submitted_at for job in present], dtype=float),
            among_ended=np.array(
                [result.ended_at if job.ended_at is None else job.ended_at for job in present], dtype=float
            ),
        )
        self.rho[self.worked] = finish_time_fairness(
            self.completion[self.worked],
            alone[self.worked],
            self.gpus[self.worked],
            contention,
            sum(result.gpus_by_model.values()),
        )


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _counts(jobs: Sequence[JobRecord], workload: int, columns: _Columns) -> Counts:
    outcomes = [job.outcome for job in jobs]
    ended = int(columns.ended.sum())
    kinds = {kind: outcomes.count(kind) for kind in ("running", "waiting", "never")}
    return Counts(
        workload=workload,
        measured=len(jobs),
        ended=ended,
        ended_waiting=len(jobs) - ended - sum(kinds.values()),
        without_work=ended - int(columns.worked.sum()),
        **kinds,
    )


def _group(name: str, chosen: NDArray[np.bool_], columns: _Columns) -> Group:
    ended = chosen & columns.ended
    rho = columns.rho[chosen & columns.worked]
    return Group(
        name=name,
        jobs=int(chosen.sum()),
        ended=int(ended.sum()),
        gpu_hours=float(columns.gpu_seconds[chosen].sum()) / HOUR,
        completion_seconds=distribution(columns.completion[ended]),
        queueing_seconds=distribution(columns.queueing[chosen & columns.started]),
        mean_rho=float(rho.mean()) if len(rho) else None,
    )


def _by_size(columns: _Columns) -> tuple[Group, ...]:
    masks = [(name, (columns.gpus > low - 1) & (columns.gpus <= high)) for name, low, high in GANG_SIZES]
    return tuple([_group(name, mask, columns) for name, mask in masks if mask.any()])


def _by_name(
    jobs: Sequence[JobRecord], columns: _Columns, name_of: Callable[[JobRecord], str]
) -> tuple[Group, ...]:
    """Return groups by name, the one with the most GPU-hours first."""
    names, indices = np.unique(np.array([name_of(job) for job in jobs]), return_inverse=True)
    groups = [_group(str(name), indices == index, columns) for index, name in enumerate(names)]
    return tuple(sorted(groups, key=lambda group: (-group.gpu_hours, group.name)))


def _jain(jobs: Sequence[JobRecord]) -> float | None:
    by_tenant: dict[str, float] = {}
    for job in jobs:
        by_tenant[job.tenant] = by_tenant.get(job.tenant, 0.0) + job.gpu_seconds
    return jain_index(np.array(list(by_tenant.values()), dtype=float))


def _makespan(jobs: Sequence[JobRecord]) -> float | None:
    possible = [job for job in jobs if job.outcome != "never"]
    ends = [job.ended_at for job in possible if job.ended_at is not None]
    if not ends or len(ends) < len(possible):
        return None
    return max(ends) - min(job.submitted_at for job in possible)


def _by_status(jobs: Sequence[JobRecord]) -> tuple[StatusHours, ...]:
    sums = {status: [0.0, 0.0, 0.0] for status in STATUSES}
    counts = dict.fromkeys(STATUSES, 0)
    for job in jobs:
        status = final_status(job)
        if status in sums:
            counts[status] += 1
            row = sums[status]
            row[0] += job.gpu_seconds
            row[1] += job.overhead_gpu_seconds
            row[2] += job.lost_gpu_seconds
    return tuple(
        [
            StatusHours(
                status=status,
                jobs=counts[status],
                gpu_hours=held / HOUR,
                useful_gpu_hours=(held - overhead - lost) / HOUR,
                overhead_gpu_hours=overhead / HOUR,
                lost_gpu_hours=lost / HOUR,
            )
            for status, (held, overhead, lost) in sums.items()
            if counts[status]
        ]
    )


def _interruptions(jobs: Sequence[JobRecord], stays: Sequence[Stay]) -> Interruptions:
    held = sum([job.gpu_seconds for job in jobs])
    overhead = sum([job.overhead_gpu_seconds for job in jobs])
    lost = sum([job.lost_gpu_seconds for job in jobs])
    preemptions = [job.preemptions for job in jobs]
    ends: dict[str, list[float]] = {}
    for stay in stays:
        row = ends.setdefault(stay.end, [0, 0.0, 0.0, 0.0])
        gpus = stay.amount
        row[0] += 1
        row[1] += gpus * (stay.ended_at - stay.started_at)
        row[2] += gpus * stay.overhead_seconds
        row[3] += gpus * stay.lost_seconds
    return Interruptions(
        preemptions=sum(preemptions),
        preempted_jobs=sum([count > 0 for count in preemptions]),
        most_preemptions=max(preemptions, default=0),
        migrations=sum([job.migrations for job in jobs]),
        overhead_gpu_hours=overhead / HOUR,
        lost_gpu_hours=lost / HOUR,
        cost_share=(overhead + lost) / held if held else 0.0,
        ends=tuple(
            [
                EndKind(
                    end=end,
                    stays=int(row[0]),
                    gpu_hours=row[1] / HOUR,
                    overhead_gpu_hours=row[2] / HOUR,
                    lost_work_gpu_hours=row[3] / HOUR,
                )
                for end, row in sorted(ends.items())
            ]
        ),
    )
