"""The facts indexed for a round: where each job is, and which claims are still valid.

They are made from a snapshot. Where many rounds follow one another, as in the simulator, `put_*` and `drop_*`
keep them up to date, so that the cost of a round depends on what changed. Changes since the last round are
recorded for steps that keep their own indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.cells.compiling import compiled
from scheduler.core.fitting.cards import Card, Share, has_room, share_of
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Need, amount_of, demand_of, needs_held, shared_needs
from scheduler.core.fitting.holding import Holding, Part, together_on
from scheduler.core.fitting.storage import merged
from scheduler.core.model.changing import changed
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.plan import Action, Placement
from scheduler.core.model.snapshot import (
    RETURNING,
    AllocationId,
    GpuId,
    Job,
    JobId,
    Memory,
    Node,
    NodeId,
    Running,
    Snapshot,
    Tenant,
)
from scheduler.core.serving_pools.returning import kept_replicas, stop_instant

#: The need of a gang whose job is gone from the snapshot: its GPUs count, the rest is unknown.
UNKNOWN_NEED = Need(gpus=0, cpus=0.0, memory_bytes=0)


class Facts:
    """The facts that every step of a round looks up."""

    def __init__(self, snapshot: Snapshot) -> None:
        #: Time, configuration and memory; jobs and allocations are below, where they can change.
        self.frame = replace(snapshot, jobs=(), running=())
        self.cluster = Cluster(snapshot.nodes, snapshot.levels)
        #: By GPU: its node, for nodes that return to their serving pools.
        self.returning = {
            gpu.id: node
            for node in snapshot.nodes
            if node.loan is not None and node.loan.state == RETURNING
            for gpu in node.gpus
        }
        #: The cells; None if no GPUs are divided by cells.
        self.layout = None if snapshot.cells is None else compiled(snapshot.cells)
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        #: By tenant and user.
        self._limits = {tenant.name: _limits_of_users(tenant) for tenant in snapshot.tenants}
        self.virtual_clusters = {vc.name: vc for vc in snapshot.virtual_clusters}
        self.sharing = {vc.name: vc.sharing for vc in snapshot.virtual_clusters}
        self.jobs: dict[JobId, Job] = {}
        self.by_tenant: dict[str, dict[JobId, Job]] = {}
        #: Jobs with tags or constraints between tags; and the number of jobs with constraints, by tenant.
        self.tagged: dict[JobId, Job] = {}
        self.constraining: Counter[str] = Counter()
        #: Jobs that leave CPUs or memory to the platform.
        self.automatic: dict[JobId, Job] = {}
        #: Jobs that take only CPUs and memory.
        self.without_gpus: dict[JobId, Job] = {}
        self.running: dict[AllocationId, Running] = {}
        #: By allocation: its holding without the surplus, which is beyond its virtual cluster's guarantee.
        self.holdings: dict[AllocationId, Holding] = {}
        self.surpluses: dict[AllocationId, Holding] = {}
        #: What each job holds or is nominated for.
        self.current: dict[JobId, Running] = {}
        #: The allocations that jobs have to leave but have not left yet.
        self.stopping: dict[JobId, Running] = {}
        #: Nominated allocations; below, those of them whose GPUs will not become available.
        self.nominated: dict[AllocationId, Running] = {}
        #: Nominated allocations with replicas without GPUs, which wait for CPUs and memory, too.
        self.nominated_on_nodes: set[AllocationId] = set()
        self.stale: frozenset[AllocationId] = frozenset()
        #: Allocations whose guarantee lapses or returns in this round, and whether they have one afterwards.
        self.regraded: dict[AllocationId, bool] = {}
        #: Opportunistic allocations that may not be reclaimed yet.
        self.shielded: set[AllocationId] = set()
        self.changed_jobs: set[JobId] = set()
        self.changed_allocations: set[AllocationId] = set()
        # Sorted, so that no later step depends on the order in which the facts were given.
        for job in sorted(snapshot.jobs, key=lambda job: job.id):
            self.put_job(job)
        for running in sorted(snapshot.running, key=lambda running: running.allocation):
            self.put_running(running)

    # Changes

    def turn_to(self, round_number: int, now: float, memory: Mapping[str, Memory]) -> None:
        """Start another round."""
        self.frame = changed(self.frame, round_number=round_number, now=now, memory=memory)

    def put_job(self, job: Job) -> None:
        """Add a new job, or update a known one."""
        if job.id in self.tagged:
            self._forget_tags(job.id)
        self.jobs[job.id] = job
        if job.tags or job.constraints:
            self.tagged[job.id] = job
            self.constraining[job.tenant] += bool(job.constraints)
        for task in job.tasks:
            if task.auto is not None:
                self.automatic[job.id] = job
                break
        else:
            self.automatic.pop(job.id, None)
        if job.is_without_gpus:
            self.without_gpus[job.id] = job
        self.by_tenant.setdefault(job.tenant, {})[job.id] = job
        self.changed_jobs.add(job.id)

    def drop_job(self, job_id: JobId) -> None:
        """Forget a job that has ended."""
        self._forget_tags(job_id)
        self.automatic.pop(job_id, None)
        self.without_gpus.pop(job_id, None)
        self.cluster.shapes.known.pop(job_id, None)
        job = self.jobs.pop(job_id)
        del self.by_tenant[job.tenant][job_id]
        self.changed_jobs.add(job_id)

    def _forget_tags(self, job_id: JobId) -> None:
        job = self.tagged.pop(job_id, None)
        if job is not None:
            self.constraining[job.tenant] -= bool(job.constraints)

    def put_tenant(self, tenant: Tenant) -> None:
        """Update a known tenant; all its jobs are checked again."""
        self.tenants[tenant.name] = tenant
        self._limits[tenant.name] = _limits_of_users(tenant)
        self.frame = replace(self.frame, tenants=tuple(self.tenants.values()))
        self.changed_jobs.update(self.by_tenant.get(tenant.name, ()))

    def put_running(self, running: Running) -> None:
        """Add a new allocation, or update a known one."""
        if running.allocation in self.running:
            self._unlink(self.running[running.allocation])
            self.surpluses.pop(running.allocation, None)
            self.regraded.pop(running.allocation, None)
        self.running[running.allocation] = running
        self.holdings[running.allocation] = self.holding_on(self.cluster, running)
        surplus = running.surplus
        if surplus is not None:
            holding = self.holding_on(self.cluster, surplus, whole=running)
            # Otherwise it is not held yet, or about to be free, so there is nothing to reclaim.
            lasts = running.phase == "held" and not running.stopping
            self.surpluses[running.allocation] = holding if lasts else replace(holding, evictable=False)
        by_job = self.stopping if running.stopping else self.current
        by_job.update(dict.fromkeys(running.jobs, running))
        self.stopping.update(dict.fromkeys(running.leaving, running))
        if running.is_nominated and not running.stopping:
            self.nominated[running.allocation] = running
            if running.nodes:
                self.nominated_on_nodes.add(running.allocation)
        self._note(running)

    def drop_running(self, allocation: AllocationId) -> None:
        """Forget an allocation whose GPUs are free again."""
        running = self.running.pop(allocation)
        del self.holdings[allocation]
        self.surpluses.pop(allocation, None)
        self.regraded.pop(allocation, None)
        self.shielded.discard(allocation)
        self._unlink(running)
        self._note(running)

    def regrade(self, allocation: AllocationId, guaranteed: bool) -> bool:
        """Let the guarantee of an allocation lapse or return; return whether that is a change."""
        running = self.running[allocation]
        if guaranteed == self.is_guaranteed(running):
            return False
        if guaranteed == running.guaranteed:
            del self.regraded[allocation]
        else:
            self.regraded[allocation] = guaranteed
        self.holdings[allocation] = self.holding_on(self.cluster, running)
        self._note(running)
        return True

    def shield(self, allocation: AllocationId, shielded: bool) -> None:
        """Protect an opportunistic allocation from being reclaimed, or end that protection."""
        if shielded == (allocation in self.shielded):
            return
        self.shielded.symmetric_difference_update([allocation])
        running = self.running[allocation]
        self.holdings[allocation] = self.holding_on(self.cluster, running)
        self._note(running)

    def _unlink(self, running: Running) -> None:
        self.nominated.pop(running.allocation, None)
        self.nominated_on_nodes.discard(running.allocation)
        for by_job in (self.current, self.stopping):
            for job in (*running.jobs, *running.leaving):
                if by_job.get(job) is running:
                    del by_job[job]

    def _note(self, running: Running) -> None:
        self.changed_allocations.add(running.allocation)
        self.changed_jobs.update(running.jobs, running.leaving)

    def find_stale(self) -> None:
        """Find nominated allocations whose GPUs will not be free: a job runs on, or a GPU is unusable."""
        stale: set[AllocationId] = set()
        if self.nominated:
            taken: set[GpuId] = set()
            shared: dict[GpuId, Card] = {}
            for running in self.running.values():
                if running.phase == "held" and not running.stopping:
                    self._take(running, taken, shared)
            for running in sorted(self.nominated.values(), key=lambda running: running.allocation):
                is_there = all(map(self.is_usable, running.gpus)) and all(map(self.is_open, running.nodes))
                if is_there and self._can_have(running, taken, shared):
                    self._take(running, taken, shared)
                else:
                    stale.add(running.allocation)
        for allocation in self.stale ^ stale:
            if allocation in self.running:
                self._note(self.running[allocation])
        self.stale = frozenset(stale)

    def parts(self, running: Running) -> Mapping[GpuId, GpuPart]:
        """Return the parts of GPUs that an allocation has, by GPU."""
        job = self.jobs.get(running.jobs[0])
        return job.parts_on(running.replicas) if job is not None and job.has_parts else {}

    def shares(self, running: Running) -> dict[GpuId, Share]:
        """Return the same as shares of the cluster's cards, without GPUs that are gone."""
        job = self.jobs.get(running.jobs[0])
        found: dict[GpuId, Share] = {}
        for gpu, part in self.parts(running).items():
            if gpu in self.cluster.where:
                mask = self.cluster.where[gpu][2]
                found[gpu] = share_of(part, job.sharing if job else None, mask, self.device_bytes(gpu))
        return found

    def device_bytes(self, gpu: GpuId) -> int:
        """Return the memory of a GPU in bytes; 0 if it is unknown."""
        if gpu not in self.cluster.where:
            return 0
        model, node, mask = self.cluster.where[gpu]
        return self.cluster.fleets[model].memory_of(node, mask)

    def amount(self, running: Running) -> float:
        """Return the amount of GPUs of an allocation; a part of a GPU counts as a fraction."""
        job = self.jobs.get(running.jobs[0])
        return len(running.gpus) if job is None else amount_of(job, len(running.gpus))

    def _take(self, running: Running, taken: set[GpuId], shared: dict[GpuId, Card]) -> None:
        """Record the GPUs and parts of an allocation."""
        shares = self.shares(running)
        taken.update([gpu for gpu in running.gpus if gpu not in shares] if shares else running.gpus)
        for gpu, share in shares.items():
            shared[gpu] = (*shared.get(gpu, ()), share)

    def _can_have(self, running: Running, taken: Collection[GpuId], shared: Mapping[GpuId, Card]) -> bool:
        """Return whether an allocation's promised GPUs keep only jobs that share them with it."""
        if any([gpu in taken for gpu in running.gpus]):
            return False
        shares = self.shares(running)
        for gpu in running.gpus:
            card = shared.get(gpu, ())
            if card and gpu not in shares:
                return False
            if gpu in shares and not has_room(shares[gpu], card, self.device_bytes(gpu)):
                return False
        return True

    # Questions

    def is_usable(self, gpu: GpuId) -> bool:
        """Whether new work may start on the GPU: it is healthy and its node takes work."""
        if gpu not in self.cluster.where:
            return False
        model, node, bit = self.cluster.where[gpu]
        return bool(self.cluster.fleets[model].usable[node] & bit)

    def is_open(self, node: NodeId) -> bool:
        """Whether a node takes new work."""
        place = self.cluster.place_of(node)
        return place is not None and bool(self.cluster.fleets[place[0]].open_nodes >> place[1] & 1)

    def places_of(self, held: Running | Placement) -> set[tuple[str, int]]:
        """Return the nodes of an allocation or placement, as fleet and number."""
        where = self.cluster.where
        places = {where[gpu][:2] for gpu in held.gpus if gpu in where}
        known = map(self.cluster.place_of, held.nodes)
        return places.union([place for place in known if place is not None])

    def is_lasting(self, gpu: GpuId) -> bool:
        """Whether new work of any length may start on the GPU: its node does not close, either."""
        if not self.is_usable(gpu):
            return False
        model, node, _ = self.cluster.where[gpu]
        return self.cluster.fleets[model].nodes[node].closes_at is None

    def is_divided(self, model: str) -> bool:
        """Whether GPUs of a model are divided by cells, rather than by counts."""
        return self.layout is not None and model in self.layout.gpu_models

    def returning_under(self, running: Running) -> Node | None:
        """Return the first node of an allocation that returns to its serving pool, or None."""
        if not self.returning:
            return None
        nodes = {gpu: self.returning[gpu] for gpu in running.gpus if gpu in self.returning}.values()
        return min(nodes, key=lambda node: (stop_instant(node), node.id), default=None)

    def left_by_return(
        self, running: Running, placed: Iterable[Action] = ()
    ) -> tuple[tuple[GpuId, ...], ...] | None:
        """Return the replicas with which a gang continues when nodes of it return; None if it cannot.

        `placed` has placements of this round, whose memory is no longer free.
        """
        job = self.jobs.get(running.jobs[0])
        if job is None or running.is_nominated or not self.is_live(running):
            return None
        left = kept_replicas(job, running, self.returning.keys())
        # Nodes of serving pools are in no cell, so only what the gang has beyond its cells may be on them.
        in_cells = self.is_guaranteed(running) and self.is_divided(running.gpu_model)
        base = running.base.replicas
        if left is None or (in_cells and left[: len(base)] != base):
            return None
        if not all([self.is_usable(gpu) for replica in left for gpu in replica]):
            return None
        return left if self._has_memory_for(job, running, left, placed) else None

    def _has_memory_for(
        self, job: Job, running: Running, left: tuple[tuple[GpuId, ...], ...], placed: Iterable[Action]
    ) -> bool:
        """Return whether the remaining nodes have memory for the replicas that move there.

        Replicas move only if the world size is fixed. All memory of other jobs counts as used, even if they
        are about to leave.
        """
        need = needs_held(job, sum(map(len, left)))[0]
        if need.memory_bytes <= needs_held(job, sum(map(len, running.replicas)))[0].memory_bytes:
            return True
        lacking: dict[tuple[str, int], float] = {}
        for replica in left:
            model, node, _ = self.cluster.where[replica[0]]
            fleet = self.cluster.fleets[model]
            lacking[model, node] = lacking.get((model, node), -fleet.memory[node]) + need.memory_bytes
        for held in (*self.holdings.values(), *self.surpluses.values()):
            # A surplus has the number of its allocation, negated.
            if held.running is None or abs(held.running.allocation) != running.allocation:
                for part in held.parts:
                    if (held.model, part.node) in lacking:
                        lacking[held.model, part.node] += part.memory
        for action in placed:
            if action.placement is not None:
                homes = self.cluster.homes(action.placement)
                gangs = [needs_held(self.jobs[each], len(action.placement.gpus)) for each in action.jobs]
                for its, place in zip(shared_needs(gangs), homes, strict=False):
                    if place in lacking:
                        lacking[place] += its.memory_bytes
        return all([bytes_lacking <= 0 for bytes_lacking in lacking.values()])

    def limits_of(self, job: Job) -> UserLimits | None:
        """Return what a job's user is allowed by its tenant; None: the tenant sets no limits for the user."""
        return self._limits.get(job.tenant, {}).get(job.user)

    def is_live(self, running: Running) -> bool:
        """Return whether the jobs of the allocation can keep it."""
        return not running.stopping and running.allocation not in self.stale

    def is_guaranteed(self, running: Running) -> bool:
        """Whether no view of another virtual cluster may reclaim the allocation, from this round on."""
        return self.regraded.get(running.allocation, running.guaranteed)

    def held_by(self, allocation: AllocationId) -> list[Holding]:
        """Return an allocation's holdings: the one within its guarantee, and its surplus if there is one."""
        found = [self.holdings[allocation]]
        return [*found, self.surpluses[allocation]] if allocation in self.surpluses else found

    def priority_of(self, jobs: Sequence[JobId]) -> int:
        """Return the priority of jobs that share GPUs: the highest of theirs."""
        known = [self.jobs[job].priority for job in jobs if job in self.jobs]
        return max(known) if known else 0

    def holding_on(self, cluster: Cluster, running: Running, whole: Running | None = None) -> Holding:
        """Return an allocation's holding on a cluster that has its GPUs, without its surplus.

        `whole` is the allocation of which `running` is the surplus.
        """
        running = running.base
        units = (*running.jobs, *running.leaving) if running.leaving else running.jobs
        jobs = [self.jobs[job] for job in units if job in self.jobs]
        where = cluster.where
        gangs = [_needs(job, cluster, whole or running) for job in jobs]
        needs = shared_needs(gangs) if gangs else (UNKNOWN_NEED,) * len(running.replicas)
        parts: dict[int, Part] = {}
        for number, (need, replica) in enumerate(zip(needs, running.replicas, strict=False)):
            mask, model, node = 0, "", -1
            for gpu in replica:
                # GPUs that have left the inventory are skipped.
                if gpu in where:
                    model, node, bit = where[gpu]
                    mask |= bit
            if not replica and running.nodes:
                model, node = cluster.place_of(running.nodes[number]) or ("", -1)
            if node >= 0:
                shares: tuple[Share, ...] = ()
                if need.part is not None:
                    device = cluster.fleets[model].memory_of(node, mask)
                    shares = (share_of(need.part, need.labels, mask, device),)
                part = Part(node, mask, need.cpus, need.memory_bytes, shares, need.readings)
                if node in parts:
                    part = together_on(parts[node], part)
                    # Replicas of one gang read their data set once.
                    part = part._replace(readings=merged(part.readings)) if part.readings else part
                parts[node] = part
        return Holding(
            running.gpu_model,
            sum([part.mask.bit_count() for part in parts.values()]),
            tuple(parts.values()),
            running,
            evictable=not self.is_guaranteed(running) and running.allocation not in self.shielded,
            cost_seconds=max([job.preemption_cost_seconds for job in jobs], default=0.0),
        )


def _limits_of_users(tenant: Tenant) -> Mapping[str, UserLimits]:
    return {limits.user: limits for limits in tenant.users}


def _needs(job: Job, cluster: Cluster, running: Running) -> tuple[Need, ...]:
    """Return what each replica of a job takes at the size at which it was placed."""
    if job.elastic is None:
        return demand_of(job, cluster, job.gpus).needs
    # Its holding stays the same even if its range has changed or some nodes have left.
    return needs_held(job, len(running.replicas) * job.tasks[0].gpus)
