"""Lucid: the shortest first by what is expected of them, in pairs where these hardly slow each other down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.reproduction.lucid.forecasts import INTERVAL_SECONDS, Forecasts
from benchmarks.reproduction.lucid.jobs import LucidJob, Outcome
from benchmarks.reproduction.lucid.nodes import GPUS_PER_NODE, Nodes, Place
from benchmarks.reproduction.lucid.profiler import Profiler, profile
from benchmarks.reproduction.lucid.profiles import Profiles
from benchmarks.reproduction.lucid.queues import by_virtual_cluster

#: Of a GPU, in MiB, and what the scores of a pair may be together.
GPU_MEMORY = 24_576
MOST_SCORE = 2
#: The guest is expected to take at most so many times the GPU time of its host.
_LONGER = 2
#: With no more jobs expected in an interval, everyone is alone.
_FEW_JOBS = 2.0
#: What stands for an estimate below 0.
_NO_ESTIMATE = 1000
#: From as near to a whole second, it is counted second by second how rounding goes.
_NEAR = 1e-6


@dataclass(slots=True, eq=False)
class _Run:
    """A job on its GPUs: what is left of it after the second `counted_at`, and how fast it goes."""

    job: LucidJob
    place: Place
    left: float
    counted_at: int
    speed: float = 1.0
    partner: _Run | None = None
    #: It came to GPUs that its partner had.
    is_guest: bool = False
    #: It shares its GPUs, or did so as the guest of a host that has ended.
    shares: bool = False
    ends_at: int = 0

    def change_speed(self, now: int, speed: float) -> None:
        self.left -= self.speed * (now - self.counted_at)
        self.counted_at, self.speed = now, speed
        self.ends_at = now + _seconds(self.left, speed) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lucid:
    """`packs`: whether jobs share at all. `lender`: whose nodes the profiler borrows."""

    profiles: Profiles
    profiler: Profiler
    forecasts: Forecasts | None = None
    packs: bool = True
    lender: str = ""

    def run(self, jobs: Sequence[LucidJob], nodes: Mapping[str, int]) -> Outcome:
        """Profile the jobs and run every virtual cluster, of so many nodes; raise InputError."""
        in_order = sorted(jobs, key=lambda job: job.submitted_at)
        by_name = by_virtual_cluster(in_order, nodes)
        profiling = profile(in_order, self.profiler)
        ended = dict(profiling.ended_at)
        shared: set[int] = set()
        for name, mine in by_name.items():
            left = [job for job in mine if job.number not in profiling.ended_at]
            lent = dict(profiling.changes) if name == self.lender else {}
            _VirtualCluster(self, Nodes.of(nodes[name]), left[::-1], lent, ended, shared).run()
        return Outcome(ended, len(profiling.ended_at), len(shared))

    def shares_at(self, now: int) -> bool:
        return self.packs and (self.forecasts is None or self.forecasts.jobs_ahead(now) > _FEW_JOBS)


@dataclass(slots=True, eq=False)
class _VirtualCluster:
    lucid: Lucid
    nodes: Nodes
    #: The next one last.
    arrivals: list[LucidJob]
    lent: Mapping[int, int]
    ended: dict[int, int]
    shared: set[int]
    queue: list[LucidJob] = field(default_factory=list)
    running: list[_Run] = field(default_factory=list)

    def run(self) -> None:
        now, again = -1, False
        lendings = sorted(self.lent)
        while self.arrivals or self.queue or self.running:
            instants = [run.ends_at for run in self.running]
            instants += [self.arrivals[-1].submitted_at] if self.arrivals else []
            instants += [now + 1] if again else []
            instants += lendings[:1]
            if self.queue and self.lucid.forecasts is not None:
                instants.append((now // INTERVAL_SECONDS + 1) * INTERVAL_SECONDS)
            now, again = min(instants), False
            for run in list(self.running):
                if run.ends_at == now:
                    self._end(run, now)
            while self.arrivals and self.arrivals[-1].submitted_at == now:
                self.queue.append(self.arrivals.pop())
            self.queue.sort(key=_priority)
            self._start(now)
            if lendings and lendings[0] == now:
                again = True
                if self.lent[lendings.pop(0)] > 0:
                    self.nodes.remove()
                else:
                    self.nodes.add()

    def _start(self, now: int) -> None:
        shares = self.lucid.shares_at(now)
        for job in list(self.queue):
            host = self._host(job) if shares and job.gpus <= GPUS_PER_NODE else None
            place = self.nodes.place(job.gpus) if host is None else host.place
            if place is None:
                if not shares:
                    return
                continue
            run = _Run(job, place, job.duration, now)
            speed = 1.0
            if host is not None:
                speed, hosts_speed = self.lucid.profiles.speeds(job.configuration, host.job.configuration)
                run.partner, host.partner = host, run
                run.shares = host.shares = run.is_guest = True
                host.change_speed(now, hosts_speed)
                self.shared |= {job.number, host.job.number}
            run.change_speed(now, speed)
            self.queue.remove(job)
            self.running.append(run)

    def _host(self, job: LucidJob) -> _Run | None:
        """Return the first that runs, alone, on as many GPUs, with which the job may share them."""
        own = job.configuration
        for run in self.running:
            other = run.job.configuration
            if (
                not run.shares
                and run.job.gpus == job.gpus
                and other.memory < GPU_MEMORY - own.memory
                and other.score + own.score <= MOST_SCORE
                and _priority(job) <= _LONGER * _priority(run.job)
            ):
                return run
        return None

    def _end(self, run: _Run, now: int) -> None:
        self.ended[run.job.number] = now
        self.running.remove(run)
        partner = run.partner
        if partner is None:
            self.nodes.release(run.place)
            return
        partner.partner = None
        # A host recovers. A guest whose host ends stays as slow, and alone: the published simulator looks for
        # the partner of the one that ended then, and finds that one itself.
        if not partner.is_guest:
            partner.shares = False
            partner.change_speed(now, 1.0)


def _priority(job: LucidJob) -> int:
    return (_NO_ESTIMATE if job.lucid_estimate < 0 else job.lucid_estimate) * job.gpus


def _seconds(left: float, speed: float) -> int:
    """Return after how many seconds nothing is left, taken away second by second."""
    exact = max(left / speed, 0.0)
    if abs(exact - round(exact)) > _NEAR or speed == 1.0:
        return math.ceil(exact)
    seconds = 0
    while left > 0:
        left -= speed
        seconds += 1
    return seconds
