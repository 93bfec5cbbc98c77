"""Jobs that have waited too long come first, under policies that prefer the jobs that gain most from GPUs.

A large gang that cannot shrink costs many others their GPUs, so under a sum of speedups or utilities it may
wait for ever. So a job that waits for longer than a limit is *due*; due jobs are ordered by priority, then by
the longest wait. A due job gets its fewest GPUs before other jobs are considered, and keeps them for as long
as the limit, its *turn*. Turns get at most half of the GPUs, but a single turn may have all that it needs;
the rest goes where it makes the most progress. No due job passes another. So the first due job that would fit
into the GPUs of the view starts at the latest when all turns have ended, which is within the limit and a
cycle; the n-th starts after n such times at most. Waits count from when the policy first saw the job wait,
and start again if its memory is lost. This rule is ours: neither Pollux (OSDI'21) nor Sia (SOSP'23) has one
(decision 0051).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.building_blocks.elastic.arrangement import Arrangement, Gang
from scheduler.core.building_blocks.elastic.pools import Pool
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import least_gpus
from scheduler.core.model.snapshot import Job, JobId, Memory

#: The part of the GPUs that goes to due jobs.
LARGEST_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LongWaits:
    """Which jobs come first in a cycle, and since when each one waits."""

    #: Waiting jobs that are due: by priority, then the longest wait first.
    due: tuple[Job, ...]
    #: Running jobs that have a turn, and keep their GPUs for now.
    kept: frozenset[JobId]
    #: Since when each waits.
    since: Mapping[JobId, float]

    def within(self, gpus: int, used: int, could: Callable[[Job], bool]) -> list[Job]:
        """Return the jobs whose turn may begin with this many GPUs in all, of which other turns have `used`.

        `could`: whether a job could start if no job had a turn; a job that could not delays no other.
        """
        found: list[Job] = []
        for job in filter(could, self.due):
            least = least_gpus(job)
            if used + least > (LARGEST_PART * gpus if used else gpus):
                break
            found.append(job)
            used += least
        return found

    def memory(self, served: Iterable[Job]) -> dict[str, Any]:
        """Return the memory after the turns of `served` have begun; plain values."""
        kept = sorted(self.kept | {job.id for job in served})
        found: dict[str, Any] = {}
        if self.since:
            found["waits"] = {str(job): since for job, since in sorted(self.since.items())}
        if kept:
            found["kept"] = kept
        return found


def long_waits(view: View, known: Memory, longest_seconds: float) -> LongWaits:
    """Return the long waits, given what `LongWaits.memory` returned last time; none where the limit is 0."""
    if not longest_seconds:
        return LongWaits(due=(), kept=frozenset(), since={})
    before, now = known.get("waits", {}), view.now
    since = {job: before.get(str(job), now) for job in view.waiting}
    due = [job for job in since if now - since[job] >= longest_seconds - INSTANT_SECONDS]
    due.sort(key=lambda job: (-view.jobs[job].priority, since[job], job))
    kept = [
        job
        for job in map(JobId, known.get("kept", ()))
        if job in view.running and now - view.running[job].since < longest_seconds - INSTANT_SECONDS
    ]
    return LongWaits(due=tuple([view.jobs[job] for job in due]), kept=frozenset(kept), since=since)


def in_turn(waits: LongWaits, pool: Pool) -> tuple[tuple[Gang, ...], list[Job]]:
    """Return the gangs of a pool, with those that have a turn pinned, and the jobs whose turn begins.

    Jobs whose turn begins are placed as if only jobs with a turn and pinned jobs had GPUs.
    """
    places = {job.id: place for place, job in enumerate(pool.jobs)}
    if waits.kept.isdisjoint(places) and not any([job.id in places for job in waits.due]):
        return pool.gangs, []
    gangs, used = list(pool.gangs), 0
    alone = Arrangement(pool.room, gangs, limit=pool.limit, apart=False)
    board = Arrangement(pool.room, gangs, limit=pool.limit, apart=False)
    for number in sorted(waits.kept & places.keys()):
        place = places[number]
        base = gangs[place].base
        if not gangs[place].pinned and board.fits(place, base):
            board.put(place, base)
            gangs[place] = replace(gangs[place], sizes=(sum(base.values()),), pinned=True)
            used += sum(base.values()) * gangs[place].replica_gpus

    def fewest(job: Job) -> int:
        return least_gpus(job) // gangs[places[job.id]].replica_gpus

    def could(job: Job) -> bool:
        return job.id in places and alone.find(places[job.id], fewest(job)) is not None

    begins = []
    for job in waits.within(pool.limit, used, could):
        place = places[job.id]
        row = board.find(place, fewest(job))
        if row is None:
            break
        board.put(place, row)
        gangs[place] = replace(gangs[place], sizes=(fewest(job),), base=row, pinned=True)
        begins.append(job)
    return tuple(gangs), begins
