"""Bind the cells of each virtual cluster to hardware, from round to round: HiveD under decide().

A policy works on the cells of its virtual cluster as on a private cluster (`private_cluster`). Here its
virtual GPUs are bound to hardware (HiveD, OSDI'20, section 3.2), where that disturbs the fewest GPUs of
opportunistic jobs, and unbound when nothing runs on them any more. `cells.pool` ensures that each virtual
cluster can always get all the cells that it is owed.

The bindings are remembered between rounds but may be lost without harm. If a guaranteed job is outside the
cells of its virtual cluster, a cell is bound around it if possible. If not (the cells were reconfigured), its
guarantee *lapses*: it runs on as opportunistic, as after HiveD's lazy preemption, and gets its guarantee back
once there is a cell around it. HiveD never gives it back. In its own virtual cluster, the job still makes
room only for higher priorities.

Differences from the published scheduler: a gang may span the chains of one GPU model; a node with one broken
GPU counts as broken for guaranteed jobs that have yet to start, but serves opportunistic ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from scheduler.core.building_blocks.policy import View
from scheduler.core.cells.adopting import Seats, adopt
from scheduler.core.cells.chains import Layout
from scheduler.core.cells.health import fail, settle
from scheduler.core.cells.mapping import Binder, Unbindable
from scheduler.core.cells.pairs import release
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.cells.world import World
from scheduler.core.fitting.candidates import allowed_in, waits_for_candidates
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand, demand_of_grant, pinned_cell_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.fitting.own_clusters import own_clusters
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Decision, Placement, Reason
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Memory, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.guarantees.bound_cells import Hints, Remembered, as_memory, hints_of, remember
from scheduler.core.round.guarantees.devices import Devices, Leaves
from scheduler.core.round.guarantees.lapse import held_by_lapsed
from scheduler.core.round.guarantees.private_cluster import PrivateCluster, shared_cluster
from scheduler.core.round.reservations import waits_for_reserved
from scheduler.core.round.whereabouts import Whereabouts

#: The key of the bindings in Snapshot.memory; no virtual cluster may have this name.
CELLS = "cells"


class Binding:
    """Binds and unbinds cells, and tracks which guarantees hold."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        assert facts.layout is not None
        self._facts, self._admission = facts, admission
        self.layout: Layout = facts.layout
        cluster = facts.cluster
        self._shared = shared_cluster(cluster, self.layout.gpu_models)
        self._devices = Devices(self.layout, cluster, facts.is_lasting)
        self._own = own_clusters(self.layout, cluster)
        self._memory: Memory | None = None

    # A round begins

    def refresh(self, allocations: Collection[AllocationId]) -> tuple[set[JobId], Collection[AllocationId]]:
        """Read the allocations that changed.

        Returns the jobs whose guarantee lapsed or returned, and the allocations that were read again.
        """
        memory = self._facts.frame.memory.get(CELLS, {})
        # Live rounds read their memory again, so an equal one counts. The cells that broken hardware makes
        # unusable depend on all bindings, so they are computed again.
        is_own = memory is self._memory or memory == self._memory
        anew = not is_own or bool(self._devices.broken)
        if anew:
            self.world = World(self.layout)
            self._hints: Hints = hints_of(self.world, memory)
            self._seats: dict[AllocationId, Seats] = {}
            self._tentative: list[Seats] = []
            self._lapsed: set[AllocationId] = set()
            self._disturbed: dict[AllocationId, list[tuple[Hardware, list[int]]]] = {}
            self._privates: dict[str, PrivateCluster] = {}
            self._memory = None
            #: The remembered bindings of each space, and the spaces whose bindings are out of date.
            self._remembered: dict[Space, Remembered] = {}
            self._changed: set[Space] = set()
            allocations = self._facts.running.keys()
        changed = sorted(allocations, key=self._urgency)
        for allocation in changed:
            self._leave(allocation)
        for allocation in changed:
            self._join(allocation)
        for seats in self._tentative:
            self._let_go(seats)
        self._tentative.clear()
        lapsed = sorted(self._lapsed, key=self._urgency)
        for allocation in lapsed:
            running = self._facts.running[allocation]
            self._adopt(running, self._devices.leaves_of(running.base), {})
        self._hints = {}
        if anew:
            self._build_privates()
        for allocation in sorted({*changed, *lapsed}):
            self._show(allocation)
        regraded = [each for each in sorted({*changed, *lapsed}) if self._regrade(each)]
        return {job for allocation in regraded for job in self._facts.running[allocation].jobs}, changed

    def _urgency(self, allocation: AllocationId) -> tuple[bool, int, AllocationId]:
        """Return the key of the order of getting cells: allocations with cells first, then priority, age."""
        running = self._facts.running.get(allocation)
        if running is None:
            return False, 0, allocation
        return not running.guaranteed, -self._facts.priority_of(running.jobs), allocation

    def _build_privates(self) -> None:
        """Record broken hardware, and build every virtual cluster's private cluster."""
        for chain, node in self._devices.broken:
            fail(self.world.hardware[chain.name], node)
        self._settle()
        for vc in self._facts.virtual_clusters:
            self._privates[vc] = self._private(vc)

    def _private(self, vc: str) -> PrivateCluster:
        own = self._own.get(vc) or Cluster((), self._facts.cluster.levels)
        return PrivateCluster(self._spaces(vc), own, self._shared, self._devices.nodes)

    def _settle(self) -> None:
        for hardware in self.world.hardware.values():
            if hardware.broken and not hardware.settled:
                settle(self.world, hardware)

    def _spaces(self, vc: str) -> list[tuple[Hardware, Space]]:
        """Return the spaces of a virtual cluster in the order of its virtual nodes."""
        world = self.world
        spaces = [*world.spaces.get(vc, {}).values(), *world.pinned.get(vc, {}).values()]
        return [(world.hardware[space.chain.name], space) for space in spaces]

    def _leave(self, allocation: AllocationId) -> None:
        seats = self._seats.pop(allocation, None)
        if seats is not None:
            for hardware, space, leaves in seats:
                # If it stays in another state, such as stopping, it keeps its virtual GPUs.
                hints = self._hints.setdefault(space.virtual_cluster, {}).setdefault(hardware.chain.name, {})
                hints.update((space.twins[0][leaf], leaf) for leaf in leaves)
            self._let_go(seats)
            private = self._privates.get(seats[0][1].virtual_cluster)
            if private is not None and allocation in private.seated:
                private.unseat(allocation)
        self._lapsed.discard(allocation)
        self._disturb_no_more(allocation)
        self._disturb_no_more(AllocationId(-allocation))

    def _hold(self, seats: Seats) -> None:
        for _, space, leaves in seats:
            space.hold(leaves)
            self._changed.add(space)

    def _let_go(self, seats: Seats) -> None:
        for hardware, space, leaves in seats:
            release(hardware, space, space.let_go(leaves))
            self._changed.add(space)

    def _join(self, allocation: AllocationId) -> None:
        running = self._facts.running.get(allocation)
        if running is None or allocation in self._facts.stale:
            return
        ends = self._ends(running)
        if ends and running.is_nominated:
            return  # A dropped nomination frees nothing.
        if running.gpu_model not in self.layout.gpu_models or not running.gpus:
            return
        # Only the base is in cells; the surplus is opportunistic, wherever it is.
        surplus, running = running.surplus, running.base
        if surplus is not None:
            self._disturb(surplus)
        guaranteed, leaves = self._is_guaranteed(running), self._devices.leaves_of(running)
        if guaranteed and self._is_known(running, leaves) and self._adopt(running, leaves, self._hints):
            return
        if guaranteed and not ends:
            self._lapsed.add(allocation)
        elif ends or not running.guaranteed:
            self._disturb(running)

    def _ends(self, running: Running) -> bool:
        return running.stopping or running.allocation in self._admission.endings

    def _is_guaranteed(self, running: Running) -> bool:
        """Whether all its jobs were submitted as guaranteed."""
        jobs = self._facts.jobs
        return all(job in jobs and jobs[job].guaranteed for job in running.jobs)

    def _vc_of(self, running: Running) -> str:
        return self._facts.jobs[running.jobs[0]].virtual_cluster

    def _adopt(self, running: Running, leaves: Sequence[Leaves] | None, hints: Hints) -> bool:
        """Give an allocation virtual GPUs, those of the hints where possible; return whether it got them."""
        vc = self._vc_of(running)
        pinned = pinned_cell_of([self._facts.jobs[job] for job in running.jobs])
        own = hints.get(vc, {})
        seats = None if leaves is None else adopt(self.world, vc, leaves, own, pinned=pinned)
        if seats is None:
            return False
        self._hold(seats)
        self._seats[running.allocation] = seats
        self._lapsed.discard(running.allocation)
        return True

    def _is_known(self, running: Running, replicas: Sequence[Leaves] | None) -> bool:
        """Return whether the GPUs of an allocation are bound to virtual ones, or were in an earlier round."""
        hints = self._hints.get(self._vc_of(running), {})
        for chain, leaves in replicas or ():
            twins = self.world.hardware[chain].twins[0]
            known = hints.get(chain, {})
            if not all(leaf in known or twins[leaf] != NONE for leaf in leaves):
                return False
        return True

    def _show(self, allocation: AllocationId) -> None:
        """Add an allocation to the private cluster of its virtual cluster."""
        seats = self._seats.get(allocation)
        running = self._facts.running.get(allocation)
        if seats is None or running is None:
            return
        private = self._privates[seats[0][1].virtual_cluster]
        stands_for: dict[GpuId, GpuId] = {}
        for hardware, space, leaves in seats:
            gpus = self._devices.gpus[hardware.chain.name]
            for leaf in leaves:
                gpu = gpus[space.twins[0][leaf]]
                assert gpu is not None
                stands_for[gpu] = private.gpu(space, leaf)
        # GPUs that are no longer in a cell keep their numbers, which the private cluster does not know.
        running = running.base
        seen = replace(
            running,
            replicas=tuple(
                [tuple([stands_for.get(gpu, gpu) for gpu in replica]) for replica in running.replicas]
            ),
        )
        holding = self._facts.holding_on(private.cluster, seen)
        private.seat(seen, holding, leaves=self._ends(running))

    def _regrade(self, allocation: AllocationId) -> bool:
        """Let the guarantee lapse or return, depending on whether the allocation is in cells now."""
        if allocation in self._seats:
            self._disturb_no_more(allocation)
            ends = self._ends(self._facts.running[allocation])
            return not ends and self._facts.regrade(allocation, guaranteed=True)
        if allocation not in self._lapsed:
            return False
        self._disturb(self._facts.running[allocation].base)
        return self._facts.regrade(allocation, guaranteed=False)

    def _disturb(self, running: Running) -> None:
        """Count the GPUs of an allocation as GPUs that bindings should avoid."""
        if running.allocation in self._disturbed:
            return
        found = [
            (self.world.hardware[name], leaves) for name, leaves in self._devices.by_chain(running).items()
        ]
        self._disturbed[running.allocation] = found
        for hardware, leaves in found:
            hardware.disturb(leaves, 1)

    def _disturb_no_more(self, allocation: AllocationId) -> None:
        for hardware, leaves in self._disturbed.pop(allocation, ()):
            hardware.disturb(leaves, -1)

    # A view is served

    def seen(self, running: Running) -> tuple[Running, Holding] | None:
        """Return an allocation of a guaranteed view as its policy sees it; None if it sees it unchanged."""
        seats = self._seats.get(running.allocation)
        return (
            None if seats is None else self._privates[seats[0][1].virtual_cluster].seated[running.allocation]
        )

    def offered(self, vc: str, cluster: Capacity) -> Capacity:
        """Return what a virtual cluster can have of the hardware that earlier views left."""
        self._settle()
        private = self._privates[vc]
        if not private.is_current:
            self._privates[vc] = self._private(vc)
            for allocation, (running, holding) in private.seated.items():
                ends = self._ends(self._facts.running[allocation])
                self._privates[vc].seat(running, holding, leaves=ends)
        return self._privates[vc].offered(cluster)

    def realised(
        self,
        view: View,
        decision: Decision,
        placements: Mapping[int, Placement],
        left: Capacity,
        cluster: Capacity,
        downgraded: Collection[AllocationId],
        whereabouts: Whereabouts,
    ) -> tuple[dict[int, Placement], Capacity, dict[JobId, Reason]]:
        """Bind a view's placements on its private cluster to hardware.

        `downgraded` has allocations that lose their cells, and their hardware only if it is needed.

        Returns the placements on real GPUs, what is left of the cluster, and the reasons for jobs whose
        placement cannot be carried out because a job that keeps running holds the hardware, or its CPUs or
        memory.
        """
        after, found = cluster.fork(), {}
        unbound: dict[JobId, Reason] = {}
        for holding in view.capacity.pending.values():
            if holding in left.dropped and holding.running is not None:
                after.drop(self._facts.holdings[holding.running.allocation])
                if holding.running.allocation in downgraded:
                    self._downgrade(holding.running.allocation)
        for position, placement in placements.items():
            grant = decision.grants[position]
            before = view.running.get(grant.jobs[0])
            if before is not None and before.jobs == grant.jobs and before.replicas == placement.replicas:
                now = self._facts.running[before.allocation].base
                found[position] = replace(placement, replicas=now.replicas)
                continue
            demand = demand_of_grant(grant, view.jobs, after.cluster)
            kept = self._kept_from(view.name, grant.jobs)
            try:
                real = self._real(view.name, placement, demand, kept)
            except Unbindable:
                if kept or demand.candidates:
                    reason = self._why_unbindable(view, view.jobs[grant.jobs[0]], demand, kept)
                    unbound.update(dict.fromkeys(grant.jobs, reason))
                continue
            objection = whereabouts.objection(grant.jobs, real)
            if objection is not None:
                self._let_go(self._tentative.pop())
                unbound.update(dict.fromkeys(grant.jobs, objection))
                continue
            nodes = [number for _, number in after.cluster.homes(real)]
            try:
                fit = after.fit_on(demand, real, nodes)
                if any(victim.running in kept for victim in fit.victims):
                    raise PolicyError("its CPUs or memory are held by one that stays")
                after.take(fit)
            except PolicyError:
                self._let_go(self._tentative.pop())
                unbound.update((job, held_by_lapsed(view.name, "cells", kept)) for job in grant.jobs if kept)
            else:
                found[position] = real
                whereabouts.put(grant.jobs, real.replicas)
        return found, after, unbound

    def _why_unbindable(self, view: View, job: Job, demand: Demand, kept: Sequence[Running]) -> Reason:
        if kept:
            return held_by_lapsed(view.name, "cells", kept)
        if job.reserved is not None:
            return waits_for_reserved(job, demand, self._facts)
        return waits_for_candidates(demand, self._facts.cluster)

    def _downgrade(self, allocation: AllocationId) -> None:
        """Take the cells of an allocation; bindings then avoid its GPUs where possible."""
        seats = self._seats.pop(allocation, None)
        if seats is not None:
            self._let_go(seats)
            self._privates[seats[0][1].virtual_cluster].unseat(allocation)
            self._disturb(self._facts.running[allocation].base)

    def _kept_from(self, vc: str, jobs: Sequence[JobId]) -> list[Running]:
        """Return a virtual cluster's lapsed allocations that make no room for these jobs of its own."""
        if not self._lapsed:
            return []
        priority = self._facts.priority_of(jobs)
        lapsed = [self._facts.running[each].base for each in sorted(self._lapsed)]
        return [
            running
            for running in lapsed
            if self._vc_of(running) == vc and self._facts.priority_of(running.jobs) >= priority
        ]

    def _real(self, vc: str, placement: Placement, demand: Demand, kept: Sequence[Running]) -> Placement:
        """Bind the virtual GPUs of a placement; return the placement with real ones."""
        if placement.gpu_model not in self.layout.gpu_models:
            self._tentative.append([])
            return placement
        private = self._privates[vc]
        seats = private.seats(placement.gpus)
        untouched = self._devices.sets_of(kept)
        stand_in = {
            private.gpu(space, leaf): (hardware.chain.name, number)
            for hardware, space, leaves in seats
            for leaf, number in zip(
                leaves, self._bound(hardware, space, leaves, demand, untouched), strict=True
            )
        }
        self._hold(seats)
        self._tentative.append(seats)
        replicas = []
        for replica in placement.replicas:
            gpus = [
                self._devices.gpus[name][number]
                for name, number in sorted([stand_in[gpu] for gpu in replica])
            ]
            replicas.append(tuple([gpu for gpu in gpus if gpu is not None]))
        return replace(placement, replicas=tuple(replicas))

    def _bound(
        self,
        hardware: Hardware,
        space: Space,
        leaves: Sequence[int],
        demand: Demand,
        untouched: Mapping[str, int],
    ) -> list[int]:
        """Bind virtual GPUs to hardware on candidate nodes, if possible not on nodes to be avoided.

        Guaranteed cells outrank avoidance; otherwise a virtual cluster's cells would depend on others.
        """
        chain, kept = hardware.chain, untouched.get(hardware.chain.name, 0)
        allowed = allowed_in(chain, demand.candidates)
        usable = self._devices.without(chain, demand.avoid) if demand.avoid else None
        if usable is not None:
            with suppress(Unbindable):
                both = usable if allowed is None else usable & allowed
                return Binder(hardware, space, both, kept).bind(leaves)
        return Binder(hardware, space, allowed, kept).bind(leaves)

    def cells_in_use(self, vc: str) -> Counter[tuple[str, int]]:
        """Return how many cells of a virtual cluster are in use, by chain and level, without pinned ones."""
        found: Counter[tuple[str, int]] = Counter()
        for name, space in self.world.spaces.get(vc, {}).items():
            found.update((name, level) for level, _ in space.uses)
        return found

    def memory(self) -> Memory:
        """Return the bindings for the next round; the same object while nothing changes."""
        if self._memory is None or self._changed:
            for space in self._changed:
                self._remembered[space] = remember(space)
            self._changed.clear()
            found = as_memory(self._remembered)
            if found != self._memory:
                self._memory = found
        return self._memory
