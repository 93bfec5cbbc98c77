"""Hand out quotas to the jobs of one tenant, in order: the tenant's own, and those of its users."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from scheduler.core.fitting.candidates import models_on_candidates
from scheduler.core.fitting.demand import least_amount, models_of
from scheduler.core.fitting.quotas import (
    ALL_MODELS,
    CPUS,
    MEMORY,
    UNLIMITED,
    Amounts,
    Quota,
    by_user,
    exact,
    growth_of,
    held_with,
    least_held,
    most_gpus_held,
    most_held,
    over_quota,
)
from scheduler.core.model.plan import Reason
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.round.facts import Facts

#: A job, or the amounts that it holds.
Request = TypeVar("Request")


class Handed(NamedTuple):
    """The result of handing out quotas."""

    #: Admitted jobs; elastic gangs and models are narrowed to what may be granted.
    admitted: Mapping[JobId, Job]
    held_back: Mapping[JobId, tuple[Reason, ...]]
    #: Whether the jobs want more than their quotas.
    is_crowded: bool


#: The error of dividing amounts that have six places.
_ROUNDING = 1e-9


class _Left:
    """What is left of one quota while it is handed out."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.left: dict[str, float] = dict(quota.lines)
        #: Whether it holds back a job.
        self.is_crowded = False

    def holds(self, asking: Sequence[Job], held: Sequence[Amounts]) -> bool:
        """Return whether all requests together fit beside what is held, whatever the models."""
        quota, lines = self.quota, self.quota.lines
        gpus = sum([most_gpus_held(job) for job in asking]) + sum([each.gpus for each in held])
        if gpus > quota.gpus_of_any_model or quota.is_of_gpus:
            return gpus <= quota.gpus_of_any_model
        asked_for = [*map(most_held, asking), *held]
        return (CPUS not in lines or exact(sum([each.cpus for each in asked_for])) <= lines[CPUS]) and (
            MEMORY not in lines or sum([each.memory_bytes for each in asked_for]) <= lines[MEMORY]
        )

    def models_with_room(self, models: Sequence[str], needs: Amounts) -> tuple[str, ...]:
        """Return the models with room for a gang; none if CPUs or memory are lacking."""
        if any([needs.of(line) > self.left.get(line, math.inf) for line in (CPUS, MEMORY)]):
            return ()
        if not needs.gpus:
            return tuple(models)
        return tuple([model for model in models if self.quota.room(model, self.left) >= needs.gpus])

    def take(self, models: Sequence[str], amounts: Amounts) -> None:
        """Count a gang, its GPUs against every model that it may still use."""
        for line in (*models, ALL_MODELS, CPUS, MEMORY):
            if line in self.left:
                self.left[line] = exact(self.left[line] - amounts.of(line))

    def replicas_more(self, models: Sequence[str], each: Amounts) -> float:
        """Return how many more replicas of these amounts fit."""
        rooms = [
            math.floor(self.left[line] / each.of(line) + _ROUNDING)
            for line in (*models, ALL_MODELS, CPUS, MEMORY)
            if line in self.left and each.of(line)
        ]
        return max(0, min(rooms, default=UNLIMITED))


def hand_out(
    quotas: Sequence[Quota],
    jobs: Sequence[Job],
    still_held: Sequence[tuple[Job, str, Amounts]],
    in_order: Callable[[Sequence[Job]], Sequence[Job]],
    facts: Facts,
) -> Handed:
    """Admit a tenant's jobs, in order, as far as its quotas go.

    Which model a waiting job will get is not known yet, so it counts against every model it may still use.
    That can hold back a later job for a round or more, but can never exceed a quota. Jobs that are being
    stopped (`still_held`, with the model) count until their processes are gone.
    """
    parts = _too_small(quotas, jobs, still_held)
    if not parts:
        return Handed({job.id: job for job in jobs}, {}, is_crowded=False)
    parts_of = by_user([(part.quota.user, part) for part in parts])
    of_gpus = all([part.quota.is_of_gpus for part in parts])
    admitted: dict[JobId, Job] = {}
    held_back: dict[JobId, tuple[Reason, ...]] = {}
    for stopping, model, amounts in still_held:
        for part in parts_of(stopping.user):
            part.take([model], amounts)
    elastic: list[JobId] = []
    for job in in_order(jobs):
        running, own = facts.current.get(job.id), parts_of(job.user)
        if running is None:
            needs = Amounts(least_amount(job), 0.0, 0) if of_gpus else least_held(job)
            accepted = models_of(job, facts.cluster)
            models = models_on_candidates(job, facts.cluster)
            reason = None
            for part in own:
                models = part.models_with_room(models, needs)
                if not models:
                    part.is_crowded = True
                    reason = over_quota(job, needs, part.quota, part.left)
                    break
            if reason is not None:
                held_back[job.id] = (reason,)
                continue
            narrows = models != accepted
        else:
            needs, models = counted(job, running, facts), (running.gpu_model,)
            # A running job counts for its present model: if it must move, it stays on that model.
            narrows = any([part.quota.of_gpus.keys() - {ALL_MODELS} for part in own])
        if job.elastic is not None:
            size = int(needs.gpus)
            job = replace(job, elastic=(min(job.elastic[0], size), size))
            elastic.append(job.id)
        if narrows:
            job = replace(job, gpu_models=models)
        admitted[job.id] = job
        for part in own:
            part.take(models, needs)
    _share_rest(parts_of, elastic, facts, admitted)
    return Handed(admitted, held_back, is_crowded=True)


def counted(job: Job, running: Running, facts: Facts) -> Amounts:
    """Return the amounts of an allocation for one of its jobs."""
    return held_with(job, len(running.replicas))._replace(gpus=facts.amount(running))


def _too_small(
    quotas: Sequence[Quota], jobs: Sequence[Job], still_held: Sequence[tuple[Job, str, Amounts]]
) -> list[_Left]:
    """Return the quotas that do not hold all that counts against them."""
    if not quotas:
        return []
    asking = _grouped([(job, job) for job in jobs])
    held = _grouped([(job, amounts) for job, _, amounts in still_held])
    parts = [_Left(quota) for quota in quotas]
    return [part for part in parts if not part.holds(asking[part.quota.user], held[part.quota.user])]


def _grouped(requests: Iterable[tuple[Job, Request]]) -> defaultdict[str, list[Request]]:
    """Return what counts against the quota of each user and, by the empty name, of the tenant."""
    found: defaultdict[str, list[Request]] = defaultdict(list)
    for job, request in requests:
        for user in {"", job.user}:
            found[user].append(request)
    return found


def _share_rest(
    parts_of: Callable[[str], Sequence[_Left]],
    elastic: Sequence[JobId],
    facts: Facts,
    admitted: dict[JobId, Job],
) -> None:
    """Let elastic gangs grow as far as the quotas allow: all up to their own size, and then beyond it.

    Where a quota holds back jobs, no running gang grows into it, and GPUs that a gang has beyond its own size
    are meant for these jobs. A policy that resizes takes them back; under any other policy they stay.
    """
    for beyond_own_size in (False, True):
        for name in elastic:
            job, declared, running = (
                admitted[name],
                facts.jobs[name].elastic,
                facts.current.get(name),
            )
            assert job.elastic is not None
            assert declared is not None
            least, most = job.elastic
            own = parts_of(job.user)
            is_crowded = any([part.is_crowded for part in own])
            if is_crowded and (beyond_own_size or running is not None):
                most = max(least, min(most, job.gpus)) if beyond_own_size else most
            else:
                target = declared[1] if beyond_own_size else min(declared[1], job.gpus)
                models = models_of(job, facts.cluster) if running is None else (running.gpu_model,)
                each = growth_of(job)
                rooms = [part.replicas_more(models, each) for part in own]
                replicas = int(max(0, min([(target - most) // job.tasks[0].gpus, *rooms])))
                more = Amounts(each.gpus * replicas, each.cpus * replicas, each.memory_bytes * replicas)
                for part in own:
                    part.take(models, more)
                most += int(more.gpus)
            admitted[name] = replace(job, elastic=(least, most))
