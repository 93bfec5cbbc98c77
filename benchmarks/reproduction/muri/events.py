"""Muri-S and Muri-L: the shortest first, in groups that share GPUs by turns where not everyone fits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.reproduction.muri.jobs import (
    MuriJob,
    Nodes,
    Outcome,
    arrivals_of,
    check_sizes,
    next_end,
)
from scheduler.core.building_blocks.interleaved_groups import LARGEST_GROUP, grouped
from scheduler.core.perf.interleaving import cycle_seconds

#: An end as near to an arrival is one event with it, in seconds.
_TOGETHER = 1e-4

Group = tuple[MuriJob, ...]


def run_muri(
    jobs: Sequence[MuriJob],
    *,
    knows_durations: bool = True,
    autopack: bool = True,
    nodes: int = 8,
    gpus_per_node: int = 8,
) -> Outcome:
    """Run Muri-S, by remaining time times GPUs, or Muri-L, by attained time times GPUs.

    With `autopack` a group is taken apart whose jobs are faster one after another, as in the published code
    today; it was off when the figures of the paper were made.
    """
    cluster = Nodes(nodes, gpus_per_node)
    check_sizes(jobs, cluster)
    arrivals, active = arrivals_of(jobs)[::-1], list[MuriJob]()
    group_of: dict[int, Group] = {}
    seconds: dict[int, float] = {}
    ends_at, ending = math.inf, list[MuriJob]()
    events = sharing = 0
    largest = 1

    def priority(job: MuriJob) -> float:
        if not knows_durations:
            return job.executed_seconds * job.gpus
        # Until it first runs, its duration is believed.
        left = job.iterations_left * job.iteration_seconds if job.executed_seconds else job.duration_seconds
        return left * job.gpus

    now = 0.0
    while arrivals or active:
        starts_at = arrivals[-1][0] if arrivals else math.inf
        together = math.isclose(starts_at, ends_at, abs_tol=_TOGETHER)
        now = starts_at if together else min(starts_at, ends_at)
        if together or ends_at < starts_at:
            for job in ending:
                job.ended_at, job.running = now, False
                active.remove(job)
        if together or starts_at < ends_at:
            for job in arrivals.pop()[1]:
                job.counted_at = job.submitted_at
                active.append(job)
        for job in active:
            if job.running:
                pause = sum([each.pause_seconds for each in group_of[job.number]])
                progress = max(now - job.counted_at - pause, 0)
                job.iterations_left -= progress / seconds[job.number]
                job.executed_seconds = job.executed_seconds + now - job.counted_at
            job.counted_at = now
        active.sort(key=priority)
        groups = _chosen(active, cluster, autopack=autopack)
        active.sort(key=lambda job: -job.gpus)
        group_of = {job.number: group for group in groups for job in group}
        seconds = {job.number: group_seconds(group) for group in groups for job in group}
        for job in active:
            job.running = job.number in group_of
        running = [job for job in active if job.running]
        ends = [now + job.iterations_left * seconds[job.number] for job in running]
        ends_at, ending = next_end(running, ends)
        events += 1
        sharing += any(len(group) > 1 for group in groups)
        largest = max([largest, *[len(group) for group in groups]])
    return Outcome(
        completion_seconds={job.number: (job.ended_at or now) - job.submitted_at for job in jobs},
        makespan_seconds=now,
        events=events,
        sharing_events=sharing,
        largest_group=largest,
    )


def group_seconds(group: Group) -> float:
    """Return the time in which every job of a group does an iteration."""
    return group[0].iteration_seconds if len(group) == 1 else cycle_seconds([job.stages for job in group])


def _chosen(waiting: Sequence[MuriJob], cluster: Nodes, *, autopack: bool) -> list[Group]:
    """Return the groups that run next, of all jobs by priority."""
    rank = {job.number: place for place, job in enumerate(waiting)}
    groups: list[Group] = []
    admitted = _admitted(waiting, cluster)
    for group in grouped(admitted, lambda size: size, lambda job: job.stages, cluster.gpus):
        if autopack and group_seconds(group) > sum([job.iteration_seconds for job in group]):
            groups += [(job,) for job in group]
        else:
            groups.append(group)
    # Where no group is taken apart, the largest are placed first.
    groups.sort(
        key=lambda group: (0 if autopack else -group[0].gpus, min([rank[job.number] for job in group]))
    )
    cluster.clear()
    return [group for group in groups if cluster.place(group[0].gpus)]


def _admitted(waiting: Sequence[MuriJob], cluster: Nodes) -> dict[int, list[MuriJob]]:
    """Return by GPUs the jobs for which there are seats: with each seat the next four of its size."""
    by_size: dict[int, list[MuriJob]] = {}
    for job in waiting:
        by_size.setdefault(job.gpus, []).append(job)
    admitted = dict.fromkeys(by_size, 0)
    seen = dict.fromkeys(by_size, 0)
    cluster.clear()
    for job in waiting:
        seen[job.gpus] += 1
        if seen[job.gpus] > admitted[job.gpus] and cluster.place(job.gpus):
            admitted[job.gpus] = min(admitted[job.gpus] + LARGEST_GROUP, len(by_size[job.gpus]))
    return {size: by_size[size][: admitted[size]] for size in by_size}
