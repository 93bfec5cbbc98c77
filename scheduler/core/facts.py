"""The snapshot indexed once for the whole round: who is where, and which claims still stand."""

from __future__ import annotations

from scheduler.core.cluster import Cluster
from scheduler.core.demand import Need, demand_of, shared_needs
from scheduler.core.holding import Holding, Part
from scheduler.core.snapshot import AllocationId, GpuId, Job, JobId, Running, Snapshot

#: Of a gang whose job is gone from the snapshot: its GPUs count, what else it takes is not known.
UNKNOWN_NEED = Need(gpus=0, cpus=0.0, memory_bytes=0)


class Facts:
    """What every step of a round looks up."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.cluster = Cluster(snapshot.nodes, snapshot.levels)
        # Sorted once here, so that no later step depends on the order in which the facts were given.
        self.jobs = {job.id: job for job in sorted(snapshot.jobs, key=lambda job: job.id)}
        self.running = sorted(snapshot.running, key=lambda running: running.allocation)
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        self.virtual_clusters = {vc.name: vc for vc in snapshot.virtual_clusters}
        #: What each job holds or was promised.
        self.current: dict[JobId, Running] = {}
        #: What each job was told to leave and has not left yet.
        self.stopping: dict[JobId, Running] = {}
        for running in self.running:
            by_job = self.stopping if running.stopping else self.current
            by_job.update(dict.fromkeys(running.jobs, running))
        self.holdings = {running.allocation: self._holding(running) for running in self.running}
        self.stale = self._stale()
        #: Who is on each GPU now, be it to leave.
        self.holders: dict[GpuId, Running] = {
            gpu: running for running in self.running if running.phase == "held" for gpu in running.gpus
        }

    def _holding(self, running: Running) -> Holding:
        jobs = [self.jobs[job] for job in running.jobs if job in self.jobs]
        where = self.cluster.where
        gangs = [demand_of(job, self.cluster, _granted(job, running)).needs for job in jobs]
        needs = shared_needs(gangs) if gangs else (UNKNOWN_NEED,) * len(running.replicas)
        parts: dict[int, Part] = {}
        for need, replica in zip(needs, running.replicas, strict=False):
            # GPUs that left the inventory hold nothing any more.
            places = [where[gpu] for gpu in replica if gpu in where]
            if places:
                node, mask = places[0][1], sum([bit for _, _, bit in places])
                part = parts.get(node)
                if part is None:
                    parts[node] = Part(node, mask, need.cpus, need.memory_bytes)
                else:
                    cpus, memory = part.cpus + need.cpus, part.memory + need.memory_bytes
                    parts[node] = Part(node, part.mask | mask, cpus, memory)
        return Holding(
            running.gpu_model,
            sum(map(len, running.replicas)),
            tuple(parts.values()),
            running,
            evictable=not running.guaranteed,
            cost_seconds=max([job.preemption_cost_seconds for job in jobs], default=0.0),
        )

    def _stale(self) -> frozenset[AllocationId]:
        """Return the promises that cannot come true: someone runs on, or the GPU is not to be used."""
        planned = [running for running in self.running if running.phase == "planned" and not running.stopping]
        if not planned:
            return frozenset()
        taken: set[GpuId] = set()
        for running in self.running:
            if running.phase == "held" and not running.stopping:
                taken.update(running.gpus)
        stale = set()
        for running in planned:
            if taken.isdisjoint(running.gpus) and all(map(self.is_usable, running.gpus)):
                taken.update(running.gpus)
            else:
                stale.add(running.allocation)
        return frozenset(stale)

    def is_usable(self, gpu: GpuId) -> bool:
        """Whether new work may start on the GPU: it is healthy and its node takes work."""
        if gpu not in self.cluster.where:
            return False
        model, node, bit = self.cluster.where[gpu]
        return bool(self.cluster.fleets[model].usable[node] & bit)

    def is_live(self, running: Running) -> bool:
        """Whether the allocation is one that its jobs can keep."""
        return not running.stopping and running.allocation not in self.stale


def _granted(job: Job, running: Running) -> int:
    """Return the size at which the job was placed; of a stopping gang some nodes may have left already."""
    return job.gpus if job.elastic is None else len(running.replicas) * job.tasks[0].gpus
