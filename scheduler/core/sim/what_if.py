"""Compare the forecast for changed facts with the one for the facts as they are: which jobs start later.

A change turns a snapshot into another snapshot, which looks like a real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.computing import Timekeeper, untimed
from scheduler.core.building_blocks.service import put_back
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import Job, JobId, Running, Snapshot, VirtualCluster
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.forecast import Bounds, Forecast, Prediction, forecast
from scheduler.core.sim.run_times import RunTimes

#: The error of a start far ahead, as a part of its distance (`Forecast.exact_until`).
_KNOWN_TO = 0.1


class ChangeError(SchedulingError):
    """A change that does not fit these facts; names the field, what is wrong, and what would be right."""

    def __init__(self, field: str, problem: str, expected: str = "") -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem, self.expected = field, problem, expected


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A waiting or running job asks for something else; a field that is None stays as it is."""

    job: JobId
    #: The GPUs of each replica, and the number of replicas, for a job of one task. Its estimate is for its
    #: original size, so on fewer GPUs it is assumed to run longer in proportion. Its time limit stays.
    gpus: int | None = None
    replicas: int | None = None
    gpu_models: tuple[str, ...] | None = None
    time_limit_seconds: float | None = None
    guaranteed: bool | None = None
    priority: int | None = None
    virtual_cluster: str | None = None

    def apply(self, facts: Snapshot) -> Snapshot:
        """Return the facts with the changed job. A running job is put back into the queue first."""
        known = {job.id: job for job in facts.jobs}
        if self.job not in known:
            raise ChangeError(
                "job", f"job {self.job} is neither waiting nor running", "one that has not ended"
            )
        changed = self._changed(known[self.job])
        _check_virtual_cluster(facts, changed.virtual_cluster)
        there = {node.gpu_model for node in facts.nodes}
        for model in self.gpu_models or ():
            if model not in there:
                raise ChangeError("gpu_models", f"there is no GPU model {model!r}", _one_of(there))
        facts = _put_back(facts, [on for on in facts.running if self.job in on.jobs])
        jobs = tuple([_same_service(changed, job) if job.id == self.job else job for job in facts.jobs])
        return replace(facts, jobs=jobs)

    def _changed(self, job: Job) -> Job:
        if job.trial is not None:
            # Only the job itself changes: its trial is as large and as long as before.
            trial = replace(job.trial, gang=self._changed(job.trial.gang))
            small = replace(self, gpus=None, replicas=None, time_limit_seconds=None)
            return replace(small._changed(replace(job, trial=None)), trial=trial)
        if self.gpus is not None or self.replicas is not None:
            if len(job.tasks) != 1:
                field = "gpus" if self.gpus is not None else "replicas"
                raise ChangeError(field, f"job {job.id} has {len(job.tasks)} tasks", "a job of one task")
            task = job.tasks[0]
            task = replace(task, gpus=self.gpus or task.gpus, replicas=self.replicas or task.replicas)
            before, job = job, replace(job, tasks=(task,), elastic=None)
            if job.estimate_seconds is not None and before.gpus and job.gpus:
                job = replace(job, estimate_seconds=job.estimate_seconds * before.gpus / job.gpus)
        job = replace(
            job,
            gpu_models=job.gpu_models if self.gpu_models is None else self.gpu_models,
            guaranteed=job.guaranteed if self.guaranteed is None else self.guaranteed,
            priority=job.priority if self.priority is None else self.priority,
            virtual_cluster=self.virtual_cluster or job.virtual_cluster,
        )
        limit = job.time_limit_seconds if self.time_limit_seconds is None else self.time_limit_seconds
        return replace(job, time_limit_seconds=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that has not been submitted; its id must not be in use."""

    job: Job

    def apply(self, facts: Snapshot) -> Snapshot:
        """Return the facts with the job, submitted now."""
        _check_virtual_cluster(facts, self.job.virtual_cluster)
        return replace(facts, jobs=(*facts.jobs, replace(self.job, submitted_at=facts.now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A node is drained (its jobs go back into the queue), or takes work again."""

    node: str
    schedulable: bool

    def apply(self, facts: Snapshot) -> Snapshot:
        """Return the facts with the changed node."""
        by_name = {node.name: node for node in facts.nodes}
        if self.node not in by_name:
            raise ChangeError("node", f"there is no node {self.node!r}", _one_of(by_name))
        gpus = {gpu.id for gpu in by_name[self.node].gpus}
        turned = replace(by_name[self.node], schedulable=self.schedulable, closes_at=None)
        nodes = tuple([turned if node.name == self.node else node for node in facts.nodes])
        facts = replace(facts, nodes=nodes)
        if self.schedulable:
            return facts
        return _put_back(facts, [running for running in facts.running if not gpus.isdisjoint(running.gpus)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeChange:
    """A virtual cluster is guaranteed more GPUs of a model."""

    virtual_cluster: str
    gpu_model: str
    more_gpus: int

    def apply(self, facts: Snapshot) -> Snapshot:
        """Return the facts with the larger guarantee; the cluster must have all guaranteed GPUs."""
        _check_virtual_cluster(facts, self.virtual_cluster)
        there = sum(len(node.gpus) for node in facts.nodes if node.gpu_model == self.gpu_model)
        if not there:
            models = {node.gpu_model for node in facts.nodes}
            raise ChangeError("gpu_model", f"there is no GPU model {self.gpu_model!r}", _one_of(models))
        guaranteed = sum(vc.guaranteed.get(self.gpu_model, 0) for vc in facts.virtual_clusters)
        if guaranteed + self.more_gpus > there:
            raise ChangeError(
                "more_gpus",
                f"{guaranteed} of {there} {self.gpu_model} GPUs are guaranteed already",
                f"at most {max(0, there - guaranteed)}",
            )
        return replace(facts, virtual_clusters=tuple([self._changed(vc) for vc in facts.virtual_clusters]))

    def _changed(self, vc: VirtualCluster) -> VirtualCluster:
        if vc.name != self.virtual_cluster:
            return vc
        more = vc.guaranteed.get(self.gpu_model, 0) + self.more_gpus
        return replace(vc, guaranteed={**vc.guaranteed, self.gpu_model: more})


Change = JobChange | NewJob | NodeChange | GuaranteeChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A job before and after; None where it runs, or does not exist."""

    job: JobId
    before: Prediction | None
    after: Prediction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two forecasts of the same instant."""

    before: Forecast
    after: Forecast
    #: The jobs that the changes affect directly; then the jobs that start later because of them, and those
    #: that start sooner, in order of the difference.
    subjects: tuple[Effect, ...]
    later: tuple[Effect, ...]
    sooner: tuple[Effect, ...]


def what_if(
    snapshot: Snapshot,
    changes: Sequence[Change],
    run_times: RunTimes | None = None,
    *,
    bounds: Bounds | None = None,
    pools: Sequence[ServingPool] = (),
    timekeeper: Timekeeper = untimed,
) -> Comparison:
    """Forecast the facts as they are and with the changes made in their order. Raises ChangeError.

    `pools` states how the serving pools lend their nodes, before and after. `timekeeper` is that of
    `decide()`.
    """
    changed = snapshot
    for change in changes:
        changed = change.apply(changed)
    bounds = bounds or Bounds.for_jobs(len(changed.jobs))
    before = forecast(snapshot, run_times, bounds=bounds, pools=pools, timekeeper=timekeeper)
    after = forecast(changed, run_times, bounds=bounds, pools=pools, timekeeper=timekeeper)
    about = [_subject(change) for change in changes]
    subjects = [job for job in dict.fromkeys(about) if job is not None]
    others = sorted((before.predictions.keys() | after.predictions.keys()).difference(subjects))
    shifts = {job: _shift(job, before, after, snapshot.round_seconds) for job in others}
    later = sorted((job for job in others if shifts[job] > 0), key=lambda job: (-shifts[job], job))
    sooner = sorted((job for job in others if shifts[job] < 0), key=lambda job: (shifts[job], job))

    def effects(jobs: Sequence[JobId]) -> tuple[Effect, ...]:
        return tuple(
            [
                Effect(job=job, before=before.predictions.get(job), after=after.predictions.get(job))
                for job in jobs
            ]
        )

    return Comparison(
        before=before, after=after, subjects=effects(subjects), later=effects(later), sooner=effects(sooner)
    )


def _subject(change: Change) -> JobId | None:
    if isinstance(change, JobChange):
        return change.job
    return change.job.id if isinstance(change, NewJob) else None


def _shift(job: JobId, before: Forecast, after: Forecast, round_seconds: float) -> float:
    """Return by how many seconds the job starts later; 0 where the difference is too small to be reliable."""
    first, second = (_start(made.predictions, job, made.made_at) for made in (before, after))
    if first == second:
        return 0.0
    sooner, least = min(first, second), round_seconds
    if sooner > min(before.exact_until, after.exact_until):
        least = max(least, _KNOWN_TO * (sooner - before.made_at))
    return second - first if abs(second - first) >= least else 0.0


def _start(predictions: Mapping[JobId, Prediction], job: JobId, now: float) -> float:
    """Return when the job starts; for a running job, now."""
    if job not in predictions:
        return now
    at = predictions[job].starts_at
    return float("inf") if at is None else at


def _put_back(facts: Snapshot, stopped: Sequence[Running]) -> Snapshot:
    """Return the facts without these allocations, whose jobs wait with the service that they had."""
    if not stopped:
        return facts
    gone = {running.allocation for running in stopped}
    on = {job: running for running in stopped for job in running.jobs if running.phase == "held"}
    jobs = tuple([put_back(job, on[job.id], facts.now) if job.id in on else job for job in facts.jobs])
    running = tuple([each for each in facts.running if each.allocation not in gone])
    return replace(facts, jobs=jobs, running=running)


def _same_service(changed: Job, job: Job) -> Job:
    return replace(changed, attained_service=job.attained_service, attempts=job.attempts)


def _check_virtual_cluster(facts: Snapshot, name: str) -> None:
    known = {vc.name for vc in facts.virtual_clusters}
    if name not in known:
        raise ChangeError("virtual_cluster", f"there is no virtual cluster {name!r}", _one_of(known))


def _one_of(names: Mapping[str, object] | set[str]) -> str:
    return f"one of: {', '.join(sorted(names))}"
