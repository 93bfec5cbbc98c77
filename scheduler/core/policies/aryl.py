"""Aryl: base demands first, the shortest job ahead, then what is left goes where it shortens jobs most.

J. Li et al., "Aryl: An Elastic Cluster Scheduler for Deep Learning", arXiv 2202.07896 (Lyra, EuroSys'23),
elastic scaling. A job has a base demand, all its GPUs or the fewest of an elastic one; elastic jobs may have
extra workers beyond it. Bases are served by the shortest remaining time, as many as fit, and nobody loses its
base. The GPUs left over go to extra workers by a multiple-choice knapsack: of each job one number of extra
workers, which weighs their GPUs and is worth by how much sooner the job ends; the weights come to no more
than what is left, their worth is the most there is. Deviations:

- The paper divides extra workers anew in each epoch. Here a job whose base waits gets it in the round in
  which it comes, and extra workers are taken back for it then; only what grows waits for the epoch, since to
  grow is to start anew from a checkpoint.
- Extra workers take idle GPUs only, never those of opportunistic jobs, and there is a knapsack for each GPU
  model: a gang stays on the model that it has.
- A job's progress is in proportion to its GPUs, as in the paper, whatever was measured of it; what remains is
  what `run_time` expects.
- Priority of our jobs comes before the remaining time.
- Servers lent by an inference cluster, and where flexible workers are placed because of them, are not the
  policy's: the placer puts gangs where they fit best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.building_blocks.ordering import Outcome, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import work_left_seconds
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of, least_gpus, shape_in
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, Running


@dataclass(frozen=True, slots=True, kw_only=True)
class Aryl:
    """Shortest base demands first, then a knapsack of extra workers."""

    #: It decides how large elastic gangs are.
    resizes: ClassVar[bool] = True

    #: How often extra workers are divided anew.
    epoch_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.epoch_seconds > 0:
            raise ValueError("epoch_seconds must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Start bases by remaining time, and divide what they leave."""
        epoch_ends = float(memory.get("epoch_ends", view.now))
        is_epoch = view.now >= epoch_ends - INSTANT_SECONDS
        if is_epoch:
            epoch_ends = view.now + self.epoch_seconds
        sizes = _Round(view).sizes(may_grow=is_epoch)
        outcome = _outcome(view, sizes)
        # As long as nobody is elastic an epoch's end changes nothing.
        has_elastic = any(job.elastic is not None for job in view.jobs.values())
        return outcome.decision(
            outcome.reasons(_LESS_LEFT),
            memory={"epoch_ends": epoch_ends} if has_elastic else {},
            wake_at=epoch_ends if has_elastic else None,
        )


def best_choice(options: Sequence[Mapping[int, float]], capacity: int) -> list[int]:
    """Return the weight to choose of each group, 0 for nothing, so that their worth is the most there is.

    The multiple-choice knapsack: each of `options` has the worth of each weight, which is a whole number
    above 0, and all that is chosen weighs at most `capacity`. Of choices that are worth as much, the one that
    weighs less. A dynamic programme of (options · capacity) steps.
    """
    worth = np.zeros(capacity + 1)
    chosen = np.zeros((len(options), capacity + 1), dtype=np.int32)
    for group, weights in enumerate(options):
        before = worth
        worth = before.copy()
        for weight, value in sorted(weights.items()):
            if weight > capacity:
                continue
            candidate = before[: capacity + 1 - weight] + value
            better = np.flatnonzero(candidate > worth[weight:]) + weight
            worth[better] = candidate[better - weight]
            chosen[group, better] = weight
    left = int(worth.argmax())
    choice = [0] * len(options)
    for group in reversed(range(len(options))):
        choice[group] = int(chosen[group, left])
        left -= choice[group]
    return choice


class _Round:
    """Counts who gets how many GPUs; what it says is tried on the cluster afterwards."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._capacity = view.capacity.fork()
        #: By job: the GPU model and the base of whoever may have extra workers.
        self._bases: dict[JobId, tuple[str, int]] = {}
        self._sizes: dict[JobId, int] = {}

    def sizes(self, *, may_grow: bool) -> dict[JobId, int]:
        """Return the GPUs of each job that runs alone and may be resized, or is to start; unless `may_grow`,
        nobody gets more than it has."""
        view = self._view
        flexible = [held for held in view.running.values() if self._may_be_resized(held)]
        self._capacity.keep_all(but=[held.jobs[0] for held in flexible])
        for held in sorted(flexible, key=lambda held: held.jobs):
            self._shrink(held)
        self._start_bases()
        limits = {
            job: max(all_sizes_of(view.jobs[job])) if may_grow else self._size_now(job) for job in self._bases
        }
        for model in sorted({model for model, _ in self._bases.values()}):
            self._extend(model, limits)
        return self._sizes

    def _may_be_resized(self, held: Running) -> bool:
        job = self._view.jobs[held.jobs[0]]
        return (
            job.elastic is not None
            and len(held.jobs) == 1
            and held.phase == "held"
            and held.jobs not in self._view.capacity.pinned
            and len(held.gpus) in all_sizes_of(job)
        )

    def _size_now(self, job: JobId) -> int:
        held = self._view.running.get(job)
        return 0 if held is None else len(held.gpus)

    def _shrink(self, held: Running) -> None:
        """Leave a gang its base, on the GPU model that it has."""
        job, capacity = self._view.jobs[held.jobs[0]], self._capacity
        holding = capacity.pending[held.jobs]
        base = least_gpus(job)
        without = capacity.fork()
        without.drop(holding)
        fit = without.find(demand_of(job, capacity.cluster, base, held.gpu_model))
        if fit is None or fit.victims:
            # The nodes that it has would not take it today: it stays as it is.
            capacity.keep(holding)
            return
        capacity.drop(holding)
        capacity.take(fit)
        self._note(job, held.gpu_model, base)

    def _start_bases(self) -> None:
        """Start whoever waits, on its base, the shortest first."""
        view, capacity = self._view, self._capacity
        misfits: set[object] = set()
        for job in waiting_in_order(view):
            shape = shape_in(capacity.cluster, job)
            if shape in misfits:
                continue
            fit = capacity.find(demand_of(job, capacity.cluster, least_gpus(job)))
            if fit is None:
                misfits.add(shape)
                continue
            capacity.take(fit)
            self._note(job, fit.holding.model, least_gpus(job))

    def _note(self, job: Job, model: str, base: int) -> None:
        self._sizes[job.id] = base
        if job.elastic is not None:
            self._bases[job.id] = model, base

    def _extend(self, model: str, limits: Mapping[JobId, int]) -> None:
        """Divide what is idle of a model among those that are on it."""
        groups = [job for job, (there, _) in self._bases.items() if there == model]
        options = [self._worths(self._view.jobs[job], limits[job]) for job in groups]
        most = sum([max(weights, default=0) for weights in options])
        capacity = min(self._capacity.undisturbed(model), most)
        if capacity > 0:
            for job, extra in zip(groups, best_choice(options, capacity), strict=True):
                self._sizes[job] += extra

    def _worths(self, job: Job, limit: int) -> dict[int, float]:
        """Return by how many seconds sooner the job ends, by its extra GPUs."""
        view = self._view
        base = self._bases[job.id][1]
        running = view.running.get(job.id)
        left = work_left_seconds(job, running, view.now, view.default_time_limit_seconds) * job.gpus
        return {size - base: left / base - left / size for size in all_sizes_of(job) if base < size <= limit}


def waiting_in_order(view: View) -> list[Job]:
    """Return the jobs that wait: by priority, then by how long they would run on their base."""

    def rank(job: Job) -> tuple[int, float, float, JobId]:
        left = work_left_seconds(job, None, view.now, view.default_time_limit_seconds)
        return -job.priority, left * job.gpus / least_gpus(job), job.submitted_at, job.id

    return sorted(waiting_jobs(view), key=rank)


def _outcome(view: View, sizes: Mapping[JobId, int]) -> Outcome:
    """Return what changes: who shrinks first, then who starts, then who grows as far as there is room."""
    sizes_now = {job: len(view.running[job].gpus) for job in sizes if job in view.running}
    capacity = view.capacity.fork()
    capacity.keep_all(but=[job for job, size in sizes_now.items() if sizes[job] != size])
    grants: list[Grant | None] = [
        _resize(view, capacity, job, range(sizes[job], sizes[job] + 1))
        for job, size in sizes_now.items()
        if sizes[job] < size
    ]
    queue = []
    for job in waiting_in_order(view):
        started = _start(capacity, job, sizes.get(job.id, 0))
        grants.append(started)
        if started is None:
            queue.append(job.id)
    grants += [
        _resize(view, capacity, job, range(size + 1, sizes[job] + 1))
        for job, size in sizes_now.items()
        if sizes[job] > size
    ]
    return Outcome(grants=tuple([grant for grant in grants if grant is not None]), queue=tuple(queue))


def _start(capacity: Capacity, job: Job, size: int) -> Grant | None:
    """Settle a gang that waits at the largest size, up to the one given, at which it fits.

    Its base may take the GPUs of opportunistic jobs, its extra workers may not.
    """
    base = least_gpus(job)
    for gpus in reversed(all_sizes_of(job)):
        if gpus > size:
            continue
        fit = capacity.find(demand_of(job, capacity.cluster, gpus))
        if fit is not None and (gpus == base or not fit.victims):
            capacity.take(fit)
            return Grant(jobs=(job.id,), gpus=gpus)
    return None


def _resize(view: View, capacity: Capacity, job: JobId, sizes: range) -> Grant | None:
    """Settle a gang that runs at the largest of these sizes at which it disturbs nobody, else as it is."""
    held = view.running[job]
    holding = capacity.pending[held.jobs]
    without = capacity.fork()
    without.drop(holding)
    for gpus in reversed(all_sizes_of(view.jobs[job])):
        if gpus not in sizes:
            continue
        fit = without.find(demand_of(view.jobs[job], capacity.cluster, gpus, held.gpu_model))
        if fit is not None and not fit.victims:
            capacity.drop(holding)
            capacity.take(fit)
            return Grant(jobs=held.jobs, gpus=gpus, gpu_model=held.gpu_model)
    capacity.keep(holding)
    return None


_LESS_LEFT = Reason(
    code="less_left_first",
    tier=Tier.ORDER,
    message="Jobs with less left to run go before it.",
    hint="A shorter estimate or time limit moves it forward.",
)
