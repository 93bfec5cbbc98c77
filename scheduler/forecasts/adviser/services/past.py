"""The jobs of the past: what they asked for, when they had GPUs, and how long they ran."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Running
from scheduler.core.perf.throughput import job_class_of
from scheduler.core.sim.anomalies import JobWait
from scheduler.core.sim.run_times import Assumption, RunTimes
from scheduler.core.sim.workload import Truth
from scheduler.jobspec.shape import shape_of
from scheduler.rounds.throughputs import KnownThroughputs, known_throughputs
from scheduler.wiring.jsonb import read_jsonb

#: Those that were there at some time from one instant on until another, the newest first.
_JOBS = """
SELECT j.id, j.name, t.name, v.name, extract(epoch FROM j.submitted_at)::float8, j.shape::text, j.gpu_models,
       j.priority, j.guaranteed, j.time_limit_seconds, extract(epoch FROM j.ended_at)::float8,
       coalesce(j.time_limit_seconds, v.default_time_limit_seconds),
       EXISTS (SELECT FROM scheduler_event e WHERE e.job_id = j.id AND e.kind = 'job.held')
       OR EXISTS (SELECT FROM scheduler_dependency WHERE job_id = j.id)
       OR jsonb_exists(j.shape, 'singleton') OR jsonb_exists(j.spec, 'begin'),
       (SELECT json_agg(json_build_array(l.id, l.gpu_model, l.replicas,
                                         extract(epoch FROM a.starting_at),
                                         extract(epoch FROM least(l.released_at, a.ended_at)))
                        ORDER BY a.starting_at)
        FROM scheduler_attempt a JOIN scheduler_allocation l ON l.id = a.allocation_id
        WHERE a.job_id = j.id AND a.starting_at IS NOT NULL)
FROM scheduler_job j
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
WHERE (j.guaranteed OR %(all)s) AND (%(vc)s = '' OR v.name = %(vc)s)
  AND j.submitted_at <= to_timestamp(%(until)s)
  AND (j.ended_at IS NULL OR j.ended_at > to_timestamp(%(since)s))
ORDER BY j.submitted_at DESC, j.id DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A job on GPUs. Instants are Unix seconds."""

    allocation: AllocationId
    gpu_model: str
    replicas: tuple[tuple[GpuId, ...], ...]
    began_at: float
    #: None: it has not ended.
    ended_at: float | None

    def seconds(self, since: float, until: float) -> float:
        """Return how much of it was between two instants."""
        end = until if self.ended_at is None else min(self.ended_at, until)
        return max(0.0, end - max(self.began_at, since))

    @property
    def gpus(self) -> int:
        return sum(map(len, self.replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job as it was submitted, and what became of it."""

    job: Job
    name: str
    stays: tuple[Stay, ...]
    ended_at: float | None
    #: Its own limit, or the one that stands in for it.
    limit_seconds: float
    #: It was put on hold at some time, or waited for other jobs, so that its waiting does not count.
    was_held: bool

    @property
    def started_at(self) -> float | None:
        """When it first had GPUs."""
        return self.stays[0].began_at if self.stays else None

    @property
    def runs(self) -> bool:
        return self.ended_at is None and bool(self.stays) and self.stays[-1].ended_at is None

    def held_seconds(self, since: float, until: float) -> float:
        """Return for how long it had GPUs between two instants."""
        return sum(stay.seconds(since, until) for stay in self.stays)

    def waited(self, until: float) -> JobWait:
        """Return what is known of its waiting."""
        last = until if self.ended_at is None else self.ended_at
        in_all = last - self.job.submitted_at - self.held_seconds(self.job.submitted_at, until)
        return JobWait(started_at=self.started_at, ended_at=self.ended_at, seconds=max(0.0, in_all))

    def stay_at(self, instant: float) -> Stay | None:
        """Return the stay on GPUs that it was in at an instant."""
        there = (
            stay
            for stay in self.stays
            if stay.began_at <= instant and (stay.ended_at is None or stay.ended_at > instant)
        )
        return next(there, None)

    def running_at(self, instant: float) -> Running | None:
        """Return that stay as a fact of that instant."""
        stay = self.stay_at(instant)
        if stay is None:
            return None
        return Running(
            allocation=stay.allocation,
            jobs=(self.job.id,),
            gpu_model=stay.gpu_model,
            replicas=stay.replicas,
            since=stay.began_at,
        )

    def job_at(self, instant: float) -> Job:
        """Return the job with the service that it had received by then, in stays that had ended."""
        service: dict[str, float] = {}
        for stay in self.stays:
            if stay.ended_at is not None and stay.ended_at <= instant:
                received = stay.gpus * stay.seconds(0.0, instant)
                service[stay.gpu_model] = service.get(stay.gpu_model, 0.0) + received
        return replace(self.job, attained_service=service)

    def truth(self, since: float, until: float, run_times: RunTimes) -> Truth:
        """Return its work from an instant on: as long as it ran, or as jobs like it do if it never did.

        A running job is assumed to run until the end of the window, or as long as is usual.
        """
        ran = self.held_seconds(since, until)
        if self.stays and not self.runs:
            return Truth(work_seconds=ran)
        usual = run_times.left_seconds(self.job, None, until, self.limit_seconds, Assumption.EXPECTED)
        return Truth(work_seconds=max(usual, ran))


def read_past(
    *, since: float, until: float, most: int, virtual_cluster: str = "", with_opportunistic: bool = False
) -> list[PastJob]:
    """Return the newest guaranteed jobs that were there between two instants, in order of submission.

    Those of one virtual cluster, or of all; with the opportunistic ones, if these are to be read too.
    """
    parameters: dict[str, Any] = {
        "vc": virtual_cluster,
        "since": since,
        "until": until,
        "most": most,
        "all": with_opportunistic,
    }
    with connection.cursor() as cursor:
        throughputs = known_throughputs(cursor)
        cursor.execute(_JOBS, parameters)
        rows = cursor.fetchall()
    return [_past_job(row, throughputs) for row in reversed(rows)]


def _past_job(row: Sequence[Any], throughputs: KnownThroughputs) -> PastJob:
    """Return a job of the past; throughputs known today are assumed to have been known then."""
    (
        job_id, name, tenant, virtual_cluster, submitted_at, shape, gpu_models, priority, guaranteed,
        time_limit_seconds, ended_at, limit_seconds, was_held, stays,
    ) = row  # fmt: skip
    declared = shape_of(shape)
    known = throughputs.of(
        job_class_of(tenant, declared.application, name), declared.gpus, declared.throughput, shape
    )
    job = Job(
        id=JobId(job_id),
        tenant=tenant,
        virtual_cluster=virtual_cluster,
        submitted_at=submitted_at,
        gpu_models=known.accepted(tuple(gpu_models)),
        priority=priority,
        guaranteed=guaranteed,
        time_limit_seconds=time_limit_seconds,
        throughput=known.throughput,
        estimated=known.estimated,
        deadline_at=declared.deadline_at(submitted_at),
        estimate_seconds=declared.estimate_seconds,
        **declared.facts(),
    )
    return PastJob(
        job=job,
        name=name,
        stays=tuple(_stay(*stay) for stay in read_jsonb(stays) or ()),
        ended_at=ended_at,
        limit_seconds=limit_seconds,
        was_held=was_held,
    )


def _stay(
    allocation: int, gpu_model: str, replicas: list[list[int]], began_at: float, ended_at: float | None
) -> Stay:
    return Stay(
        allocation=AllocationId(allocation),
        gpu_model=gpu_model,
        replicas=tuple(tuple(GpuId(gpu) for gpu in replica) for replica in replicas),
        began_at=began_at,
        ended_at=ended_at,
    )
