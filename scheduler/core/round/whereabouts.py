"""The places of jobs that tag constraints concern, while one view after another is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler.core.building_blocks.policy import Tagged, View
from scheduler.core.model import wording
from scheduler.core.model.plan import Decision, Placement, Reason, Tier
from scheduler.core.model.snapshot import GpuId, Job, JobId, Node, NodeId
from scheduler.core.model.tag_constraints import TagConstraint, group_of, in_words
from scheduler.core.round.facts import Facts

Nodes = Mapping[NodeId, int]


class Whereabouts:
    """The jobs that run as the round begins, and those that it places; a leaving job counts until it left."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tenants = frozenset([tenant for tenant, count in facts.constraining.items() if count > 0])
        self._where: dict[JobId, Nodes] = {}
        self._nodes: dict[NodeId, Node] = {}
        if self._tenants:
            for fleet in facts.cluster.fleets.values():
                self._nodes.update((node.id, node) for node in fleet.nodes)
            for number in facts.tagged:
                running = facts.current.get(number)
                if running is not None:
                    self.put([number], running.replicas)

    def shown_to(self, view: View) -> View:
        """Return the view with the places of the jobs that it does not schedule."""
        if not self._tenants:
            return view
        elsewhere = [
            (self._facts.jobs[job], nodes)
            for job, nodes in sorted(self._where.items())
            if job not in view.jobs
        ]
        return replace(view, tagged=Tagged(tenants=self._tenants, elsewhere=elsewhere, nodes=self._nodes))

    def take_in(self, decision: Decision, placements: Mapping[int, Placement]) -> None:
        """Add a view's placements, on real GPUs."""
        for position, placement in placements.items() if self._tenants else ():
            self.put(decision.grants[position].jobs, placement.replicas)

    def put(self, jobs: Iterable[JobId], replicas: tuple[tuple[GpuId, ...], ...]) -> None:
        """Add jobs that have a place."""
        for number in jobs:
            job = self._facts.tagged.get(number)
            if job is not None and job.tenant in self._tenants:
                self._where[number] = self._nodes_of(replicas)

    def _nodes_of(self, replicas: tuple[tuple[GpuId, ...], ...]) -> Nodes:
        where, fleets = self._facts.cluster.where, self._facts.cluster.fleets
        places = [where[replica[0]] for replica in replicas if replica and replica[0] in where]
        return Counter([fleets[model].nodes[node].id for model, node, _ in places])

    def objection(self, jobs: Iterable[JobId], placement: Placement) -> Reason | None:
        """Return the reason if an upper bound keeps jobs from the hardware of their cells, or None."""
        for number in jobs:
            job = self._facts.tagged.get(number)
            if job is None or job.tenant not in self._tenants:
                continue
            there = {**self._where, number: self._nodes_of(placement.replicas)}
            for owner, nodes in there.items():
                other = self._facts.jobs[owner]
                for each in other.constraints if other.tenant == job.tenant else ():
                    is_heeded = owner == number or each.tag in job.tags
                    if is_heeded and each.weight is None and self._exceeds(other, each, nodes, there):
                        return Reason(
                            code="tag_constraint",
                            tier=Tier.TOPOLOGY,
                            message=f"Its virtual cluster has cells for it, but where they would be"
                            f" {wording.jobs([owner])} could not have {in_words(each)}, as must be.",
                            blocking={"tag": each.tag, "scope": each.scope, "jobs": [owner]},
                            needed=job.gpus,
                        )
        return None

    def _exceeds(
        self, job: Job, constraint: TagConstraint, nodes: Nodes, there: Mapping[JobId, Nodes]
    ) -> bool:
        """Return whether a job would have more others with a tag near it than its constraint allows."""
        seen = Counter[object]()
        for number, on in there.items():
            other = self._facts.jobs[number]
            if other.tenant == job.tenant and constraint.tag in other.tags:
                for node, count in on.items():
                    seen[self._group(node, constraint.scope)] += count
        own = constraint.tag in job.tags
        groups = {self._group(node, constraint.scope) for node in nodes}
        return constraint.most is not None and any([seen[each] - own > constraint.most for each in groups])

    def _group(self, node: NodeId, scope: str) -> object:
        return group_of(scope, node, self._nodes[node].path, self._facts.cluster.levels)
