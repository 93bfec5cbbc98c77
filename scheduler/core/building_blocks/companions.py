"""Jobs that share GPUs: a waiting job starts together with another one, or joins one that runs.

No job stops for a companion (decision 0066). When one job of a shared allocation ends, the others run on
there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.building_blocks.ordering import Outcome
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import shape_in
from scheduler.core.fitting.joining import has_room, join, may_be_joined
from scheduler.core.fitting.settle import settle_all
from scheduler.core.model.plan import Grant, Mode, Placement
from scheduler.core.model.snapshot import Job, JobId, Running


def alike(view: View, job: Job) -> Hashable:
    """Return the key of jobs whose replicas can share GPUs one to one: all that they ask for."""
    return shape_in(view.capacity.cluster, job)


def hosts_of(view: View, outcome: Outcome) -> dict[JobId, Job]:
    """Return the jobs that start, each alone and at its own size, by their numbers."""
    grants = [grant for grant in outcome.grants if len(grant.jobs) == 1]
    hosts = [(view.jobs[grant.jobs[0]], grant) for grant in grants if grant.jobs[0] not in view.running]
    return {job.id: job for job, grant in hosts if grant.gpus == job.gpus}


def waiting_in(view: View, outcome: Outcome) -> Iterable[Job]:
    """Return the jobs that would wait and do not run now, in queue order."""
    return [view.waiting[job] for job in outcome.queue if job in view.waiting]


def together(view: View, outcome: Outcome, companions: Mapping[JobId, Sequence[JobId]]) -> Outcome:
    """Return the outcome in which starting jobs have these companions, by the number of each host.

    A group needs the CPUs and memory of all its jobs. Groups without a placement stay apart. If other jobs
    then have none either, every job stays alone.
    """
    grants = _grants(outcome, companions)
    placed = _placed(view, outcome, grants)
    if len(placed) < len(grants):
        seated = {grants[position].jobs[0] for position in placed}
        fewer = {host: others for host, others in companions.items() if host in seated}
        grants = _grants(outcome, fewer)
        if len(_placed(view, outcome, grants)) < len(grants):
            return outcome
    started = {job for grant in grants for job in grant.jobs}
    queue = tuple([job for job in outcome.queue if job not in started])
    return replace(outcome, grants=tuple(grants), queue=queue)


def joinable(view: View, outcome: Outcome) -> list[Running]:
    """Return the allocations that run on and have room for another job like theirs, by number."""
    going = {view.running[job].jobs for job in (*outcome.stops, *outcome.leaves) if job in view.running}
    going |= {view.running[job].jobs for grant in outcome.grants for job in grant.jobs if job in view.running}
    units = {held.allocation: held for held in view.running.values() if held.jobs not in going}
    found = [held for _, held in sorted(units.items()) if may_be_joined(held)]
    if not found:
        return []
    capacity, _ = _settled(view, outcome, outcome.grants)
    return [held for held in found if has_room(capacity, held, view.jobs[held.jobs[0]])]


def beside(view: View, outcome: Outcome, guests: Mapping[JobId, Sequence[JobId]]) -> Outcome:
    """Return the outcome in which waiting jobs join running ones, as far as there is room."""
    joins: dict[JobId, tuple[JobId, ...]] = {}
    if any(guests.values()):
        capacity, _ = _settled(view, outcome, outcome.grants)
        for host, names in guests.items():
            held = view.running[host]
            came = tuple([job for job in names if join(capacity, held, view.jobs[job])])
            if came:
                joins[host] = came
    begun = {job for came in joins.values() for job in came}
    return replace(outcome, joins=joins, queue=tuple([job for job in outcome.queue if job not in begun]))


def _grants(outcome: Outcome, companions: Mapping[JobId, Sequence[JobId]]) -> list[Grant]:
    """Return the grants, each with the companions of its jobs."""
    return [_with(grant, companions.get(grant.jobs[0], ())) for grant in outcome.grants]


def _with(grant: Grant, others: Sequence[JobId]) -> Grant:
    return replace(grant, jobs=(*grant.jobs, *others), mode=Mode.PACK) if others else grant


def _placed(view: View, outcome: Outcome, grants: Sequence[Grant]) -> Mapping[int, object]:
    """Return the grants, by position, for which there is room once stopped jobs have left."""
    return _settled(view, outcome, grants)[1]


def _settled(
    view: View, outcome: Outcome, grants: Sequence[Grant]
) -> tuple[Capacity, Mapping[int, Placement]]:
    """Return the capacity left once the grants are settled, and their placements."""
    capacity = view.capacity.fork()
    stopped = [job for stop in outcome.stops for job in view.running[stop].jobs]
    moved = [job for grant in grants for job in grant.jobs if job in view.running]
    capacity.keep_all(but=[*stopped, *moved])
    for jobs, holding in list(capacity.pending.items()):
        if not set(jobs).isdisjoint(stopped):
            capacity.drop(holding)
    return capacity, settle_all(grants, view.jobs, capacity)
