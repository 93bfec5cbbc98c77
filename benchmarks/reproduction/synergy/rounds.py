"""The published simulator's rounds: who runs, how fast, until when."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from benchmarks.reproduction.synergy.jobs import SynergyJob
from benchmarks.reproduction.synergy.optimal import optimal
from scheduler.core.building_blocks.auxiliary_shares import (
    Need,
    Servers,
    Share,
    greedy,
    proportional,
    tune,
)

ROUND_SECONDS = 300
#: On which the traces ran.
SERVERS = Servers(4, 8, 24, 500)
#: A mechanism: the shares of jobs in their order, None for a job that does not run.
_Mechanism = Callable[[Servers, Sequence[Need]], list[Share | None]]
_SHARES: Mapping[str, _Mechanism] = {"proportional": proportional, "greedy": greedy, "tune": tune}
MECHANISMS = (*_SHARES, "opt")
#: By policy, what is sorted by: of a job, now, and how many times as fast it is believed to be.
_ORDERS: Mapping[str, Callable[[SynergyJob, float, float], float]] = {
    "fifo": lambda job, now, speed: job.arrived_at,
    "srtf": lambda job, now, speed: _left(job) / speed,
    "las": lambda job, now, speed: job.attained_seconds * job.need.gpus,
    "ftf": lambda job, now, speed: (
        (now - job.arrived_at + _left(job) / speed) / (job.iteration_seconds * job.iterations)
    ),
}
POLICIES = tuple(_ORDERS)


def run(
    jobs: Sequence[SynergyJob], policy: str, mechanism: str, *, servers: Servers = SERVERS
) -> dict[int, float]:
    """Return completion times in seconds by job; all rounds begin as the published simulator's do."""
    arriving = sorted(jobs, key=lambda job: job.arrived_at)[::-1]
    is_static = arriving[0].arrived_at < 1
    now = 1.0 if is_static else math.ceil(arriving[-1].arrived_at / ROUND_SECONDS) * ROUND_SECONDS
    waiting: list[SynergyJob] = []
    ended: dict[int, float] = {}
    while arriving or waiting:
        while arriving and arriving[-1].arrived_at <= now:
            waiting.append(arriving.pop())
        _round(waiting, policy, mechanism, servers, now)
        now += ROUND_SECONDS
        ended |= {job.number: now - job.arrived_at for job in waiting if job.done >= job.iterations}
        waiting = [job for job in waiting if job.done < job.iterations]
    return ended


def _round(waiting: list[SynergyJob], policy: str, mechanism: str, servers: Servers, now: float) -> None:
    order = _ORDERS[policy]
    is_proportional = mechanism == "proportional"
    waiting.sort(
        key=lambda job: (order(job, now, 1 if is_proportional else job.believed_speedup), job.arrived_at)
    )
    tried, free = list(waiting), servers.count * servers.gpus
    if policy == "las":
        # Only here nobody else runs instead of who is skipped.
        tried = []
        for job in waiting:
            if job.need.gpus <= free:
                tried.append(job)
                free -= job.need.gpus
    for job in waiting:
        job.believed_speedup = job.speedup
    for job, speedup in zip(tried, _speedups(tried, mechanism, servers), strict=True):
        if speedup:
            job.done += math.floor(ROUND_SECONDS / (job.iteration_seconds / speedup))
            job.attained_seconds += ROUND_SECONDS


def _speedups(jobs: list[SynergyJob], mechanism: str, servers: Servers) -> list[float]:
    """Return how many times as fast as with the proportional share each job is, 0 for who does not run."""
    if mechanism == "opt":
        points = optimal(servers, [job.profile for job in jobs]).points
        return [point.speed if point else 0.0 for point in points]
    speedups = []
    for job, share in zip(jobs, _SHARES[mechanism](servers, [job.need for job in jobs]), strict=True):
        if share is not None and not share.is_best:
            # The published simulator sorts by it once more, before it forgets who was cut.
            job.believed_speedup = 1.0
        speedups.append(
            0.0 if share is None else 1.0 if mechanism == "proportional" else job.believed_speedup
        )
    return speedups


def _left(job: SynergyJob) -> float:
    return job.iteration_seconds * (job.iterations - job.done)
