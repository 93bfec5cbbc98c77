"""Lucid's profiler: a few nodes on which jobs run for a while before they are scheduled, fewest GPUs first.

Jobs that end meanwhile are done: whoever tries something out has its answer at once. With time-aware scaling,
a virtual cluster lends a node while many wait for the profiler and takes it back before many more come.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.reproduction.lucid.forecasts import Forecasts
from benchmarks.reproduction.lucid.jobs import LucidJob
from benchmarks.reproduction.lucid.nodes import LENT, Nodes, Place

#: More waiting jobs than this: another node. Fewer than that: back with it.
_CROWD, _CALM = 10, 5
#: How often is looked whether a node is needed, and whether it can be given back, in seconds.
_BORROW_EVERY, _RETURN_EVERY = 10, 100
#: It is given back unless more than so many times the GPUs of the largest job profiled are expected.
_FULL_TIMES = 5


@dataclass(frozen=True, slots=True)
class Profiler:
    """Nodes, how long a job is profiled there, and GPUs by node of the largest job that is."""

    nodes: int = 2
    seconds: int = 200
    gpus_by_node: int = 4
    #: Without: it has its own nodes only.
    forecasts: Forecasts | None = None

    @property
    def most_gpus(self) -> int:
        return self.nodes * self.gpus_by_node


@dataclass(frozen=True, slots=True)
class Profiling:
    """What came of it."""

    #: When jobs ended that needed no more, by number.
    ended_at: dict[int, int] = field(default_factory=dict)
    #: When it borrowed a node (+1) and gave it back (-1).
    changes: list[tuple[int, int]] = field(default_factory=list)


def profile(jobs: Sequence[LucidJob], profiler: Profiler) -> Profiling:
    """Profile the jobs, which are given by submission, that are small enough."""
    done = Profiling()
    nodes, queue = Nodes.of(profiler.nodes), list[LucidJob]()
    arrivals = [job for job in jobs if job.gpus <= profiler.most_gpus][::-1]
    ends: list[tuple[int, int, Place]] = []
    has_borrowed, now = False, -1
    while arrivals or queue or ends:
        instants = [arrivals[-1].submitted_at] if arrivals else []
        instants += [ends[0][0]] if ends else []
        if profiler.forecasts is not None:
            every = _RETURN_EVERY if has_borrowed else _BORROW_EVERY
            if has_borrowed or len(queue) > _CROWD:
                instants.append((now // every + 1) * every)
            if done.changes and done.changes[-1][0] == now:
                instants.append(now + 1)
        now = min(instants)
        while ends and ends[0][0] == now:
            nodes.release(heapq.heappop(ends)[2])
        while arrivals and arrivals[-1].submitted_at == now:
            queue.append(arrivals.pop())
        queue.sort(key=lambda job: job.gpus)
        while queue:
            place = nodes.place(queue[0].gpus)
            if place is None:
                break
            job = queue.pop(0)
            if job.duration <= profiler.seconds:
                done.ended_at[job.number] = now + job.duration
            heapq.heappush(ends, (now + min(job.duration, profiler.seconds), job.number, place))
        if profiler.forecasts is None:
            continue
        if not has_borrowed and now % _BORROW_EVERY == 0 and len(queue) > _CROWD:
            has_borrowed = True
            nodes.add()
            done.changes.append((now, 1))
        elif (
            has_borrowed
            and now % _RETURN_EVERY == 0
            and len(queue) < _CALM
            and any(node.number == LENT for node in nodes.idle())
            and profiler.forecasts.gpus_ahead(now) <= profiler.most_gpus * _FULL_TIMES
        ):
            has_borrowed = False
            nodes.remove()
            done.changes.append((now, -1))
    return done
