"""Elastic gangs: the fewest GPUs of each gang first, its base, then extra workers on idle GPUs.

For policies in which no running job loses its base. A waiting job gets its base in the order given, and extra
workers of others are taken back for it at once. The policy divides what is left, for each GPU model
separately: a gang stays on the model that it has. Extra workers never take the GPUs of opportunistic jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scheduler.core.building_blocks.ordering import Outcome
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of, least_gpus, shape_in
from scheduler.core.model.plan import Decision, Grant, Reason
from scheduler.core.model.snapshot import Job, JobId, Memory, Running

#: The most times that the count is repeated.
ATTEMPTS = 4

#: Divides what is idle: jobs, the sizes in GPUs that each may have (ascending, its base first), and how many
#: GPUs there are beyond all bases; returns a size of each.
Divide = Callable[[Sequence[Job], Sequence[Sequence[int]], int], Sequence[int]]


def decide_by_epochs(
    view: View, memory: Memory, waiting: Sequence[Job], divide: Divide, reason: Reason, epoch_seconds: float
) -> Decision:
    """Return the decision of a policy that divides extra workers again in each epoch, with this reason for
    each job that waits.

    Memory: `epoch_ends`. While no job is elastic, an epoch's end changes nothing, and nothing is kept.
    """
    epoch_ends = float(memory.get("epoch_ends", view.now))
    is_epoch = view.now >= epoch_ends - INSTANT_SECONDS
    if is_epoch:
        epoch_ends = view.now + epoch_seconds
    outcome = with_extra_workers(view, waiting, divide, may_grow=is_epoch)
    has_elastic = any(job.elastic is not None for job in view.jobs.values())
    return outcome.decision(
        outcome.reasons(reason),
        memory={"epoch_ends": epoch_ends} if has_elastic else {},
        wake_at=epoch_ends if has_elastic else None,
    )


def with_extra_workers(view: View, waiting: Sequence[Job], divide: Divide, *, may_grow: bool) -> Outcome:
    """Return the changes; unless `may_grow`, no running job gets more GPUs than it has.

    Sizes are first found by counting, then tried on the cluster, where GPUs may be too fragmented for a job
    to start or grow. Then the count is repeated with that job limited to the largest size that it can have,
    so no job gives up GPUs that no other job gets.
    """
    most: dict[JobId, int] = {}
    for _ in range(ATTEMPTS):
        sizes = _Count(view, most).sizes(waiting, divide, may_grow=may_grow)
        outcome, found = _tried(view, waiting, sizes)
        smaller = {job: found[job] for job, size in sizes.items() if found[job] < size}
        if not smaller:
            break
        most.update(smaller)
    return outcome


def _tried(
    view: View, waiting: Sequence[Job], sizes: Mapping[JobId, int]
) -> tuple[Outcome, dict[JobId, int]]:
    """Return the changes with these sizes: gangs that shrink, then gangs that start, then gangs that grow as
    far as there is room. Also return each gang's resulting size, 0 for a gang that does not start.
    """
    before = {job: len(view.running[job].gpus) for job in sizes if job in view.running}
    capacity = view.capacity.fork()
    capacity.keep_all(but=[job for job, size in before.items() if sizes[job] != size])
    shrinking = [job for job, size in before.items() if sizes[job] < size]
    growing = [job for job, size in before.items() if sizes[job] > size]
    found = dict.fromkeys(sizes, 0) | before
    grants = [_resize(view, capacity, job, range(sizes[job], sizes[job] + 1)) for job in shrinking]
    # A gang that is to grow keeps its GPUs: it makes room for no start.
    capacity.keep_all()
    grants += [_start(capacity, job, sizes[job.id]) for job in waiting if job.id in sizes]
    grants += [_resize(view, capacity, job, range(before[job] + 1, sizes[job] + 1)) for job in growing]
    made = tuple([grant for grant in grants if grant is not None])
    found.update((grant.jobs[0], grant.gpus) for grant in made)
    queue = [job.id for job in waiting if not found.get(job.id)]
    return Outcome(grants=made, queue=tuple(queue)), found


class _Count:
    """Counts how many GPUs each gang may have, with every base somewhere on the cluster."""

    def __init__(self, view: View, most: Mapping[JobId, int]) -> None:
        self._view = view
        #: By job, the most GPUs that it can have; 0: it cannot start.
        self._most = most
        self._capacity = view.capacity.fork()
        #: GPU model of each job that may have extra workers, and the size of each job that changes or could.
        self._models: dict[JobId, str] = {}
        self._sizes: dict[JobId, int] = {}

    def sizes(self, waiting: Sequence[Job], divide: Divide, *, may_grow: bool) -> dict[JobId, int]:
        """Return the GPUs of each elastic gang that runs alone, and of each gang that is to start."""
        view = self._view
        flexible = [held for held in view.running.values() if self._may_be_resized(held)]
        flexible.sort(key=lambda held: (view.jobs[held.jobs[0]].submitted_at, held.jobs))
        self._capacity.keep_all(but=[held.jobs[0] for held in flexible])
        for held in flexible:
            self._shrink(held)
        self._start_bases(waiting)
        for model in sorted(set(self._models.values())):
            jobs = [view.jobs[job] for job, there in self._models.items() if there == model]
            jobs.sort(key=lambda job: (-job.priority, job.submitted_at, job.id))
            self._extend(model, jobs, divide, may_grow=may_grow)
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

    def _shrink(self, held: Running) -> None:
        """Shrink a gang to its base, on the GPU model that it has."""
        job, capacity = self._view.jobs[held.jobs[0]], self._capacity
        holding = capacity.pending[held.jobs]
        without = capacity.fork()
        without.drop(holding)
        fit = without.find(demand_of(job, capacity.cluster, least_gpus(job), held.gpu_model))
        if fit is None or fit.victims:
            # Its nodes would not accept it today, so it stays as it is.
            capacity.keep(holding)
            return
        capacity.drop(holding)
        capacity.take(fit)
        self._note(job, held.gpu_model)

    def _start_bases(self, waiting: Sequence[Job]) -> None:
        capacity = self._capacity
        misfits: set[object] = set()
        for job in waiting:
            shape = shape_in(capacity.cluster, job)
            if shape in misfits or self._most.get(job.id) == 0:
                continue
            fit = capacity.find(demand_of(job, capacity.cluster, least_gpus(job)))
            if fit is None:
                misfits.add(shape)
                continue
            capacity.take(fit)
            self._note(job, fit.holding.model)

    def _note(self, job: Job, model: str) -> None:
        self._sizes[job.id] = least_gpus(job)
        if job.elastic is not None:
            self._models[job.id] = model

    def _extend(self, model: str, jobs: Sequence[Job], divide: Divide, *, may_grow: bool) -> None:
        """Divide the idle GPUs of a model among the jobs on it."""
        choices = []
        for job in jobs:
            held = self._view.running.get(job.id)
            most = len(held.gpus) if held is not None and not may_grow else max(all_sizes_of(job))
            most = min(most, self._most.get(job.id, most))
            choices.append([size for size in all_sizes_of(job) if size <= most])
        idle = min(self._capacity.undisturbed(model), sum([choice[-1] - choice[0] for choice in choices]))
        if idle > 0:
            sizes = divide(jobs, choices, idle)
            self._sizes.update((job.id, size) for job, size in zip(jobs, sizes, strict=True))


def _start(capacity: Capacity, job: Job, size: int) -> Grant | None:
    """Settle a waiting gang at the largest size, up to the one given, at which it fits.

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
    """Settle a running gang at the largest of these sizes that disturbs no other job, else as it is."""
    held = view.running[job]
    holding = view.capacity.pending[held.jobs]
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
    if held.jobs in capacity.pending:
        capacity.keep(holding)
    return None
