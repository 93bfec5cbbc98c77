"""Elastic gangs of guaranteed jobs grow beyond the guarantee of their virtual cluster, into idle GPUs.

GPUs within the guarantee are guaranteed. GPUs beyond it are opportunistic: the last replicas of a gang are a
*surplus* (`Running.opportunistic_gpus`). The policy of its view sees the gang without them, and they count
against no guarantee. Every view of a virtual cluster may reclaim a surplus as it reclaims opportunistic jobs,
the cheapest first; the gang then continues with its other GPUs. Surpluses are given out after all views have
been served, if the guarantee is used up and no job waits in the gang's own virtual cluster or for spare GPUs.
They are given back when a waiting opportunistic job would fit in their place. While a gang has a surplus, its
view does not enlarge it, since that would stop it for GPUs that it already has.

Where GPUs are divided by cells, the base of a gang is in cells of its virtual cluster, and its surplus on any
hardware; its own cells count as used up when its next size does not fit there. A gang of fixed world size has
sizes that divide its replicas; its base keeps the memory that it needs alone. A gang that must be
consolidated grows around its own GPUs. A gang of a pinned cell runs nowhere else, and does not grow. As with
any growth (`building_blocks.growing`), a gang that has just started does not grow. If a job's goodput is
known, GPUs that make it faster by less than a twentieth are left to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.elastic.speedups import goodput_model_of
from scheduler.core.building_blocks.growing import TRIED
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of, needs_held
from scheduler.core.fitting.holding import Fit, Holding, Part
from scheduler.core.model import wording
from scheduler.core.model.plan import Action, ActionKind, Placement
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.run_view import ViewOutcome, queue_of

#: A gang that started less than this ago does not grow, because it may have to give a surplus back at once.
SETTLED_SECONDS = 300.0
#: Growth that makes a job faster by less than this is not worth its restart.
LEAST_GAIN = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The gangs that grow beyond their guarantee, and the capacity left after growing or giving back."""

    capacity: Capacity
    actions: tuple[Action, ...] = ()
    #: When the next gang is old enough to grow.
    wake_at: float | None = None


def beyond_guarantees(facts: Facts, admission: Admission, outcomes: Sequence[ViewOutcome]) -> Growth:
    """Return the changes of surpluses after all views were served; the last outcome is the spare view's."""
    left = outcomes[-1].capacity
    waiting = queue_of(outcomes[-1])
    if waiting:
        return Growth(capacity=_given_back(facts, outcomes[-1], waiting))
    gangs = _growing(facts, admission, outcomes)
    if not gangs:
        return Growth(capacity=left)
    left, actions, wakes = left.fork(), [], []
    for job, running in gangs:
        settled_at = running.since + SETTLED_SECONDS
        if facts.frame.now < settled_at - INSTANT_SECONDS:
            wakes.append(settled_at)
        elif (action := _larger(job, running, left)) is not None:
            actions.append(action)
    return Growth(capacity=left, actions=tuple(actions), wake_at=min(wakes, default=None))


def _growing(
    facts: Facts, admission: Admission, outcomes: Sequence[ViewOutcome]
) -> list[tuple[Job, Running]]:
    """Return the gangs that could be larger, in virtual clusters where no job waits, in order."""
    dropped, found = outcomes[-1].capacity.dropped, []
    for outcome in outcomes[:-1]:
        busy: bool | None = None
        for number in outcome.view.elastic.keys() & outcome.view.running.keys():
            job, running = admission.admitted.get(number), facts.current.get(number)
            if job is None or job.elastic is None or running is None or not _may_grow(facts, job, running):
                continue
            if not dropped.isdisjoint(facts.held_by(running.allocation)):
                continue
            busy = _is_busy(facts, outcome) if busy is None else busy
            # Within its guarantee the gang is resized by its view.
            if not busy and _is_used_up(facts, outcome.capacity, job, running):
                found.append((job, running))
    return sorted(found, key=lambda each: (-each[0].priority, each[0].submitted_at, each[0].id))


def _is_busy(facts: Facts, outcome: ViewOutcome) -> bool:
    """Whether a job waits in a view, or its allocation changes in this round."""
    running, grants = outcome.view.running, outcome.decision.grants
    changed = (
        grants[position].jobs[0] not in running
        or facts.current[grants[position].jobs[0]].base.replicas != placement.replicas
        for position, placement in outcome.placements.items()
    )
    return bool(queue_of(outcome)) or any(changed)


def _is_used_up(facts: Facts, own: Capacity, job: Job, running: Running) -> bool:
    """Whether the unused guarantee of a virtual cluster is too small for a gang's next size."""
    base, model = len(running.base.gpus), running.gpu_model
    more = min([size for size in all_sizes_of(job) if size > base]) - base
    if own.room(model) < more or not facts.is_divided(model):
        return own.room(model) < more
    return own.find(demand_of(_part_of(job, more, base + more), own.cluster, more, model)) is None


def _may_grow(facts: Facts, job: Job, running: Running) -> bool:
    return (
        running.jobs == (job.id,)
        and running.phase == "held"
        and facts.is_live(running)
        and facts.is_guaranteed(running)
        and not job.pinned_cell
        and facts.returning_under(running) is None
        and job.elastic is not None
        and len(running.gpus) < all_sizes_of(job)[-1]
        and running.allocation not in facts.regraded
    )


def _larger(job: Job, running: Running, left: Capacity) -> Action | None:
    """Settle the largest growth of a gang beside its own GPUs; return the action, or None."""
    now, around = len(running.gpus), _around(job, running, left)
    most = now + left.offered(running.gpu_model)
    sizes = [size for size in all_sizes_of(job) if now < size <= most]
    for gpus in reversed(_paying(job, running, sizes)):
        more = _part_of(job, gpus - now, gpus)
        fit = around.find(demand_of(more, left.cluster, gpus - now, running.gpu_model))
        if fit is None or fit.victims:
            continue
        left.take(fit)
        return Action(
            kind=ActionKind.RESIZE,
            jobs=running.jobs,
            virtual_cluster=job.virtual_cluster,
            placement=Placement(
                gpu_model=running.gpu_model, replicas=(*running.replicas, *fit.placement.replicas)
            ),
            opportunistic_gpus=running.opportunistic_gpus + gpus - now,
            allocation=running.allocation,
            message=f"{wording.gpus(gpus - now)} beyond the guarantee of virtual cluster"
            f" {job.virtual_cluster} were idle: it has them until others need them.",
        )
    return None


def _part_of(job: Job, gpus: int, whole: int) -> Job:
    """Return `gpus` GPUs of a gang that has `whole` of them in all, as a gang of its own."""
    need, task = needs_held(job, whole)[0], job.tasks[0]
    part = replace(task, replicas=gpus // task.gpus, cpus=need.cpus, memory_bytes=need.memory_bytes)
    return replace(job, tasks=(part,), elastic=None)


def _around(job: Job, running: Running, left: Capacity) -> Capacity:
    """Return the capacity in which a gang can grow: if it must be consolidated, only around its own GPUs."""
    cluster, model = left.cluster, running.gpu_model
    rank = demand_of(job, cluster, job.gpus, model).ranks[-1]
    if rank >= len(cluster.levels):
        return left
    near, fleet = cluster.group_around(running.gpus, rank), cluster.fleets[model]
    far = [(1 << len(gpus)) - 1 & ~near.get(node, 0) for node, gpus in enumerate(fleet.gpus)]
    left = left.fork()
    # One holder occupies all other nodes.
    rest = Holding(model, 0, tuple([Part(node, mask, 0.0, 0.0) for node, mask in enumerate(far)]))
    left.take(Fit(Placement(gpu_model=model, replicas=()), rest))
    return left


def _paying(job: Job, running: Running, sizes: Sequence[int]) -> list[int]:
    """Return the sizes, in GPUs, at which a gang gains enough speed, as far as its goodput is known."""
    model = goodput_model_of(job, running.gpu_model) if sizes else None
    if model is None:
        return list(sizes)
    each = job.tasks[0].gpus
    # The new replicas' nodes are not known yet, so another node is assumed, which is slower.
    replicas = [len(running.replicas), *[size // each for size in sizes]]
    before, *after = model.best([1, *[2] * len(sizes)], replicas).goodput.tolist()
    return [size for size, goodput in zip(sizes, after, strict=True) if goodput >= LEAST_GAIN * before]


def _given_back(facts: Facts, spare: ViewOutcome, waiting: Sequence[JobId]) -> Capacity:
    """Take surpluses back, those of the latest jobs first, until a job that waits for spare GPUs fits.

    That job is the first in the queue that can fit; it starts in the next round.
    """
    left = spare.capacity
    surpluses = [
        (facts.jobs[facts.running[number].jobs[0]], holding)
        for number, holding in facts.surpluses.items()
        if holding.evictable and left.dropped.isdisjoint(facts.held_by(number))
    ]
    if not surpluses:
        return left
    surpluses.sort(key=lambda each: (each[0].submitted_at, each[0].id), reverse=True)
    jobs = spare.view.jobs
    for number in waiting[:TRIED]:
        if number in spare.view.running or number not in jobs:
            continue
        demand = demand_of(jobs[number], left.cluster)
        without = left.fork()
        for _, holding in surpluses:
            without.drop(holding)
            fit = without.find(demand)
            if fit is not None and not fit.victims:
                return without
    return left
