"""The jobs of a snapshot: their rows, and for each row the job's facts from other tables."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from scheduler.core.building_blocks.pace import Pace, measured_seconds
from scheduler.core.model import snapshot as core
from scheduler.core.model.awaited import Awaited
from scheduler.core.model.job_array import ArrayTask
from scheduler.core.model.training import Goodput, Profile, Training
from scheduler.core.perf.recurrence import Like, Recurrence
from scheduler.core.round.registry import traits_of
from scheduler.jobspec.shape import Shape, shape_of
from scheduler.models.selectors.maintenance import CLOSED_BY_WINDOWS
from scheduler.rounds.alike import Names
from scheduler.rounds.awaited import earlier_namesakes, read_awaited
from scheduler.rounds.recurrence import known_recurrence
from scheduler.rounds.throughputs import JobThroughputs, KnownThroughputs
from scheduler.rounds.training import (
    Losses,
    Profiles,
    Scalings,
    Trainings,
    policies_in_use,
    read_losses,
    read_profiles,
    read_scalings,
    read_trainings,
)

_WITHOUT_CONTAINERS = """
SELECT id FROM scheduler_node WHERE NOT coalesce((isolation ->> 'container')::boolean, false)
"""
_CLOSING = f"""
SELECT n.id, extract(epoch FROM least(n.drain_deadline, w.starts_at) - clock_timestamp())::float8
FROM scheduler_node n LEFT JOIN ({CLOSED_BY_WINDOWS}) w ON w.name = n.name
WHERE n.drain_deadline IS NOT NULL OR w.name IS NOT NULL ORDER BY n.id
"""
# A job that was never preempted counts like the latest preempted ones of its virtual cluster.
_JOBS = """
WITH costs AS (
    SELECT v.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.preemption_cost_seconds) AS seconds
    FROM tenants_virtualcluster v, LATERAL (
        SELECT preemption_cost_seconds FROM scheduler_job
        WHERE virtual_cluster_id = v.id AND preemption_cost_seconds IS NOT NULL ORDER BY id DESC LIMIT 100
    ) latest GROUP BY v.id
)
SELECT j.id, j.name, t.name AS tenant, u.username AS "user", v.name AS virtual_cluster,
       extract(epoch FROM j.submitted_at)::float8 AS submitted_at, j.shape::text AS shape, j.gpu_models,
       j.priority, j.guaranteed, j.time_limit_seconds,
       coalesce(j.time_limit_seconds, v.default_time_limit_seconds) AS lasts_seconds,
       coalesce(extract(epoch FROM j.eligible_at), 0)::float8 AS eligible_at,
       coalesce(extract(epoch FROM j.waits_since), 0)::float8 AS waits_since, j.held, j.cancelling,
       j.array_id, (j."array" ->> 'at_most')::int AS array_at_most, j.service, j.attempts_started,
       j.avoid_nodes, coalesce(j.preemption_cost_seconds, c.seconds, 0) AS preemption_cost_seconds,
       j.short_runs, coalesce(extract(epoch FROM j.may_borrow_at), 0)::float8 AS may_borrow_at,
       j.pace::text AS pace, j.version
FROM scheduler_job j
JOIN tenants_user u ON u.id = j.submitted_by_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
LEFT JOIN costs c ON c.id = v.id
WHERE j.state IN ('queued', 'running')
    AND NOT EXISTS (SELECT FROM unnest(%s::bigint[]) AS out (id) WHERE out.id = j.id)
ORDER BY j.id
"""

#: The job class of a job that states no application begins with this; its name follows.
_NAMED = "name:"


class JobRow(NamedTuple):
    """A row of `_JOBS`, in its order."""

    id: core.JobId
    name: str
    tenant: str
    user: str
    virtual_cluster: str
    submitted_at: float
    shape: str
    gpu_models: list[str]
    priority: int
    guaranteed: bool
    time_limit_seconds: float | None
    #: Its time limit, or else that of its virtual cluster.
    lasts_seconds: float
    eligible_at: float
    waits_since: float
    held: bool
    cancelling: bool
    array_id: int | None
    array_at_most: int | None
    service: str
    attempts_started: int
    avoid_nodes: list[core.NodeId]
    preemption_cost_seconds: float
    short_runs: int
    may_borrow_at: float
    pace: str | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJobs:
    jobs: tuple[core.Job, ...]
    #: Tenant and application of each.
    job_classes: Mapping[int, tuple[str, str]]
    #: The fixed ports of the jobs that have any.
    ports: Mapping[core.JobId, tuple[int, ...]]
    #: Jobs that were not read.
    left_out: tuple[core.JobId, ...]


def read_jobs(
    cursor: Any,
    throughputs: KnownThroughputs,
    choose: Callable[[Names], Sequence[core.JobId]] | None = None,
) -> ReadJobs:
    """Read the jobs that have not ended, except those that `choose` leaves out."""
    beside = _read_beside(cursor, throughputs)
    left_out = [] if choose is None else list(choose(beside.names()))
    cursor.execute(_JOBS, [left_out])
    rows = [JobRow._make(row) for row in cursor.fetchall()]
    shapes = [shape_of(row.shape) for row in rows]
    # A plain tuple, equal to a JobClass and made in a third of the time.
    classes = [
        (row.tenant, stated.application or f"{_NAMED}{row.name}")
        for row, stated in zip(rows, shapes, strict=True)
    ]
    known = [
        beside.known(row, stated, job_class)
        for row, stated, job_class in zip(rows, shapes, classes, strict=True)
    ]
    jobs = _made.jobs(rows, known)
    singletons = {row.id for row, stated in zip(rows, shapes, strict=True) if stated.singleton}
    return ReadJobs(
        left_out=tuple(left_out),
        jobs=tuple(_after_namesakes(jobs, rows, singletons) if singletons else jobs),
        job_classes={row.id: job_class for row, job_class in zip(rows, classes, strict=True)},
        ports={row.id: stated.ports for row, stated in zip(rows, shapes, strict=True) if stated.ports},
    )


def nodes_without_containers(cursor: Any) -> list[core.NodeId]:
    """Return the nodes on which a job with an image cannot run."""
    cursor.execute(_WITHOUT_CONTAINERS)
    return [node for (node,) in cursor.fetchall()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """The facts of jobs from other tables."""

    throughputs: KnownThroughputs
    without_containers: list[core.NodeId]
    #: Nodes that are being drained, and seconds until their deadline.
    closing: list[tuple[core.NodeId, float]]
    trainings: Trainings
    scalings: Scalings
    losses: Mapping[int, Losses]
    profiles: Profiles
    awaited: Mapping[int, tuple[Awaited, ...]]
    #: None if no policy reads it.
    recurrence: Recurrence | None

    def known(self, row: JobRow, stated: Shape, job_class: tuple[str, str]) -> "_Known":
        """Return all that a job is made of beside its row."""
        throughputs = self.throughputs.of(job_class, stated.gpus, stated.throughput, row.shape)
        return _Known(
            stated=stated,
            throughputs=throughputs,
            awaits=self.awaited.get(row.id, ()),
            training=self.trainings.of(row.id, throughputs.throughput),
            losses=self.losses.get(row.id, ()),
            goodput=self.scalings.of(row.id, throughputs.throughput),
            profile=self.profiles.of(row.id, row.user, job_class),
            usual_seconds=self._usual_seconds(row, stated, job_class),
            avoid=self._avoided(row, stated),
            outlasts=self._outlasted(row, stated),
            after_trial=self._after_trial(stated, job_class) if stated.after_trial else None,
        )

    def names(self) -> Names:
        """Return the job names that matter."""
        classes = [*self.throughputs.job_classes, *self.profiles.job_classes]
        named = [application for _, application in classes if application.startswith(_NAMED)]
        return Names(
            known=[name.removeprefix(_NAMED) for name in named], all_count=self.recurrence is not None
        )

    def _usual_seconds(self, row: JobRow, stated: Shape, job_class: tuple[str, str]) -> float | None:
        if self.recurrence is None:
            return None
        usual = self.recurrence.usual(Like(row.tenant, row.user, job_class[1], stated.gpus))
        return None if usual is None else usual.seconds

    def _avoided(self, row: JobRow, stated: Shape) -> tuple[core.NodeId, ...]:
        if not stated.needs_containers:
            return tuple(row.avoid_nodes)
        return tuple(sorted({*row.avoid_nodes, *self.without_containers}))

    def _outlasted(self, row: JobRow, stated: Shape) -> tuple[core.NodeId, ...]:
        """Return the nodes that are drained before the job's time limit is over."""
        if not self.closing:
            return ()
        lasts_seconds = stated.limited(row.lasts_seconds)
        return tuple(
            [node for node, seconds in self.closing if lasts_seconds is None or lasts_seconds > seconds]
        )

    def _after_trial(self, stated: Shape, job_class: tuple[str, str]) -> tuple[Shape, JobThroughputs]:
        gang = shape_of(stated.after_trial)
        return gang, self.throughputs.of(job_class, gang.gpus, gang.throughput, stated.after_trial)


class _Known(NamedTuple):
    """All that a job is made of beside its row."""

    stated: Shape
    throughputs: JobThroughputs
    awaits: tuple[Awaited, ...]
    training: Training | None
    losses: Losses
    goodput: Goodput | None
    profile: Profile | None
    usual_seconds: float | None
    avoid: tuple[core.NodeId, ...]
    outlasts: tuple[core.NodeId, ...]
    #: Shape and throughputs of the gang, for a job whose trial run comes first.
    after_trial: tuple[Shape, JobThroughputs] | None


class _MadeJobs:
    """The jobs as this process read them last. One of which nothing differs is the same object again.

    To make a job takes several times as long as to compare what it is made of, and a round that gets the same
    object need not compare it again.
    """

    def __init__(self) -> None:
        self._made: Mapping[core.JobId, tuple[object, core.Job]] = {}

    def jobs(self, rows: Sequence[JobRow], known: Sequence[_Known]) -> list[core.Job]:
        before, made = self._made, dict[core.JobId, tuple[object, core.Job]]()
        for row, found in zip(rows, known, strict=True):
            # The text of its shape, the longest of a row, is compared as what it states.
            content = row[:_SHAPE], row[_SHAPE + 1 :], found
            kept = before.get(row.id)
            if kept is None or kept[0] != content:
                kept = content, _job(row, found)
            made[row.id] = kept
        # Threads that read at the same time each keep theirs whole.
        self._made = made
        return [job for _, job in made.values()]


_SHAPE = JobRow._fields.index("shape")
_made = _MadeJobs()


def _job(row: JobRow, known: _Known) -> core.Job:
    stated, throughputs = known.stated, known.throughputs
    measured = None
    if row.pace is not None:
        amount = stated.amount(stated.gpus)
        measured = measured_seconds(_pace_of(row.pace), amount, throughputs.throughput)
    gpu_models = tuple(row.gpu_models)
    job = core.Job(
        id=row.id,
        tenant=row.tenant,
        virtual_cluster=row.virtual_cluster,
        submitted_at=row.submitted_at,
        user=row.user,
        gpu_models=throughputs.accepted(gpu_models) if throughputs.not_on else gpu_models,
        priority=row.priority,
        guaranteed=row.guaranteed,
        time_limit_seconds=stated.limited(row.time_limit_seconds),
        eligible_at=row.eligible_at,
        waits_since=row.waits_since,
        awaits=known.awaits,
        array=_array_of(row),
        held=row.held,
        cancelling=row.cancelling,
        throughput=throughputs.throughput,
        estimated=throughputs.estimated,
        spread_speeds=throughputs.spread,
        deadline_at=stated.deadline_at(row.submitted_at),
        training=known.training,
        losses=known.losses,
        goodput=known.goodput,
        profile=known.profile,
        estimate_seconds=stated.estimate_seconds if measured is None else measured,
        measured=measured is not None,
        usual_seconds=known.usual_seconds,
        attained_service={model: float(value) for model, value in json.loads(row.service).items()},
        attempts=row.attempts_started,
        avoid=known.avoid,
        outlasts=known.outlasts,
        preemption_cost_seconds=row.preemption_cost_seconds,
        short_runs=row.short_runs,
        may_borrow_at=row.may_borrow_at,
        version=row.version,
        **stated.facts(),
    )
    if known.after_trial is None:
        return job
    itself = _after_trial(job, *known.after_trial, row.time_limit_seconds)
    return replace(job, trial=core.Trial(seconds=stated.estimate_seconds or 0.0, gang=itself))


def _read_beside(cursor: Any, throughputs: KnownThroughputs) -> _Beside:
    without_containers = nodes_without_containers(cursor)
    policies = policies_in_use(cursor)
    cursor.execute(_CLOSING)
    return _Beside(
        throughputs=throughputs,
        without_containers=without_containers,
        closing=cursor.fetchall(),
        trainings=read_trainings(),
        scalings=read_scalings(),
        losses=read_losses(cursor, policies),
        profiles=read_profiles(),
        awaited=read_awaited(cursor),
        recurrence=known_recurrence() if any(traits_of(name).reads_recurrence for name in policies) else None,
    )


def _array_of(row: JobRow) -> ArrayTask | None:
    if not row.array_id or not row.array_at_most:
        return None
    return ArrayTask(number=row.array_id, at_most=row.array_at_most)


def _after_namesakes(
    jobs: Sequence[core.Job], rows: Sequence[JobRow], singletons: Collection[int]
) -> list[core.Job]:
    """Let each singleton wait for the job of its tenant, user and name that came before it."""
    earlier = earlier_namesakes(singletons, [(row.id, (row.tenant, row.user, row.name)) for row in rows])
    return [replace(job, awaits=(*job.awaits, earlier[job.id])) if job.id in earlier else job for job in jobs]


def _after_trial(
    job: core.Job, gang: Shape, known: JobThroughputs, time_limit_seconds: float | None
) -> core.Job:
    """Return the job itself behind a trial run, present or planned."""
    return replace(
        job,
        tasks=gang.tasks,
        topology=gang.topology,
        elastic=gang.elastic,
        elastic_mode=gang.elastic_mode,
        time_limit_seconds=time_limit_seconds,
        throughput=known.throughput,
        estimated=known.estimated,
        spread_speeds=known.spread,
        estimate_seconds=gang.estimate_seconds,
        measured=False,
    )


# The stored steps of a job change once a minute.
@lru_cache(maxsize=16_384)
def _pace_of(text: str) -> Pace:
    return Pace(**json.loads(text))
