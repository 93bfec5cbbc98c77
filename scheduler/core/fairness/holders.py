"""What each virtual cluster and tenant holds at the instant of a snapshot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scheduler.core.building_blocks.time_shares.run_options import RunOptions, believed
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.policies.themis.apps import spread_speed
from scheduler.core.round.facts import Facts


@dataclass(slots=True)
class TenantHoldings:
    """GPUs by model; parts of GPUs count as parts, and jobs that share whole GPUs each have an equal part."""

    guaranteed: dict[str, float] = field(default_factory=dict)
    opportunistic: dict[str, float] = field(default_factory=dict)
    #: What its jobs run on, except those that have to leave.
    running: list[tuple[Job, Running]] = field(default_factory=list)
    #: Its guaranteed jobs that are on more nodes than they need, and known to be slower because of it.
    spread: list[JobId] = field(default_factory=list)


class Idle:
    """Usable GPUs that no job holds."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[str, list[int]] = {}

    def of(self, model: str) -> list[int]:
        """Return the number of GPUs of a model on each node that has any."""
        if model not in self._known:
            self._known[model] = self._count(model)
        return self._known[model]

    def _count(self, model: str) -> list[int]:
        fleet = self._facts.cluster.fleets.get(model)
        if fleet is None:
            return []
        left = list(fleet.usable)
        for number, running in self._facts.running.items():
            holding = self._facts.holdings[number]
            if holding.model == model and running.phase == "held":
                surplus = self._facts.surpluses.get(number)
                for part in (*holding.parts, *(surplus.parts if surplus is not None else ())):
                    left[part.node] &= ~part.mask
        return [count for mask in left if (count := mask.bit_count())]


class Holders:
    """What each tenant holds, and with which jobs."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._held: dict[tuple[str, str], TenantHoldings] = {}
        self.jobs: set[JobId] = set()
        for running in facts.running.values():
            if running.phase == "held":
                self._take(running)

    def of(self, virtual_cluster: str, tenant: str) -> TenantHoldings:
        return self._held.get((virtual_cluster, tenant)) or TenantHoldings()

    def _take(self, running: Running) -> None:
        part = self._facts.amount(running) / len(running.jobs)
        for number in running.jobs:
            job = self._facts.jobs.get(number)
            if job is None:
                continue
            self.jobs.add(number)
            held = self._held.setdefault((job.virtual_cluster, job.tenant), TenantHoldings())
            beyond = running.opportunistic_gpus if job.guaranteed else part
            for sums, gpus in ((held.guaranteed, part - beyond), (held.opportunistic, beyond)):
                if gpus:
                    sums[running.gpu_model] = sums.get(running.gpu_model, 0.0) + gpus
            if not running.stopping:
                held.running.append((job, running))
                if job.guaranteed and self._is_spread(running) and spread_speed(job, running.gpu_model) < 1:
                    held.spread.append(number)

    def speed(self, held: TenantHoldings, run_options: RunOptions) -> float:
        """Return how fast its jobs are together, in GPUs of each one's best model in its virtual cluster."""
        return sum([self._speed(job, running, run_options) for job, running in held.running])

    def _speed(self, job: Job, running: Running, run_options: RunOptions) -> float:
        model = running.gpu_model
        speed = self._facts.amount(running) * _relative(job, model, run_options)
        if self._is_spread(running):
            speed *= spread_speed(job, model)
        return speed * running.speeds.get(job.id, 1 / len(running.jobs))

    def _is_spread(self, running: Running) -> bool:
        """Return whether a gang is on more nodes than it needs."""
        holding = self._facts.holdings[running.allocation]
        fleet = self._facts.cluster.fleets.get(running.gpu_model)
        nodes = math.ceil(len(running.gpus) / max(fleet.largest_node, 1)) if fleet else len(holding.parts)
        return len(holding.parts) > nodes

    def speed_alone(self, held: TenantHoldings, run_options: RunOptions) -> float:
        """Return how fast its guaranteed jobs would be on the GPUs that they hold, if near and undisturbed.

        Each job is then alone on its part of them.
        """
        speeds = [
            (self._facts.amount(running) / len(running.jobs)) * _relative(job, running.gpu_model, run_options)
            for job, running in held.running
            if job.guaranteed
        ]
        return sum(speeds)


def _relative(job: Job, model: str, run_options: RunOptions) -> float:
    """Return the job's speed on a model relative to its best in its virtual cluster; 1 where unknown."""
    run_option = run_options.of(job)
    if run_option is None:
        return 1.0
    if model in run_option.speeds:
        return run_option.speeds[model]
    # An opportunistic job may be on a model that its virtual cluster does not have.
    rate = believed(job).throughput.get(model, 0.0)
    return rate / max(run_option.rates.values()) if rate > 0 else 1.0
