"""Common to placers: which jobs stay, which are dropped, and how a preference for nodes becomes a
placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.holding import processors_of, readings_of_all
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.searching import Chooser, PartChooser
from scheduler.core.fitting.settle import settle_all
from scheduler.core.model.bits import members
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import JobId


class Site(NamedTuple):
    """A set of nodes where a gang may be placed, and the resources on offer there."""

    fleet: Fleet
    layer: Layer
    nodes: int


class Option(NamedTuple):
    """One placement of a whole gang."""

    model: str
    #: The node of each replica.
    nodes: Sequence[int]
    #: The number of nodes among which the first one was chosen.
    choices: int
    #: The sum of the rule's costs of its replicas.
    cost: float


class Rule(Protocol):
    """A placer's preference among nodes. It may keep state while grants are placed, and sees what is idle
    then.
    """

    @property
    def models_alike(self) -> bool:
        """Whether it treats all models that a job accepts alike; else the preferred one is tried first."""
        ...

    def pick(
        self, site: Site, nodes: Sequence[int], need: Need, taken: Mapping[int, Need]
    ) -> tuple[float, int]:
        """Return the cost of the choice and the node for one replica, out of those that hold it, in order.

        `taken`: what replicas of the same gang already have of each node.
        """
        ...

    def best(self, options: Sequence[Option]) -> Option:
        """Return the best placement of the gang; there is at least one option."""
        ...


def place_all(
    grants: Sequence[Grant],
    view: View,
    capacity: Capacity,
    rule: Rule | None = None,
    *,
    chooser: Chooser | None = None,
    part_chooser: PartChooser | None = None,
) -> PlacerDecision:
    """Settle the grants in their order. A job stays in place if it can. Else the rule chooses its nodes, or
    the given chooser of whole placements does instead; the part chooser places parts of GPUs.

    The rule only chooses among places where no job is disturbed. When it finds none, and wherever other jobs
    must make room, places are found as for every placer. A policy grants what fits when packed. If the rule
    has fragmented what a later grant needs whole, all new gangs of the round are packed instead. So no
    placer's preference makes a gang wait that was granted GPUs.
    """
    granted = {grant.jobs for grant in grants}
    for running, holding in list(capacity.pending.items()):
        if running not in granted:
            capacity.drop(holding)
    if rule is not None:
        chooser = chooser_by(rule)
    if chooser is None and part_chooser is None:
        return PlacerDecision(placements=settle_all(grants, view.jobs, capacity))
    untouched = capacity.fork()
    capacity.chooser, capacity.part_chooser = chooser, part_chooser
    liked = settle_all(grants, view.jobs, capacity)
    if _served(grants, liked) < {job for jobs in granted for job in jobs}:
        packed = settle_all(grants, view.jobs, untouched)
        if len(_served(grants, packed)) > len(_served(grants, liked)):
            return PlacerDecision(placements=packed)
    return PlacerDecision(placements=liked)


def _served(grants: Sequence[Grant], positions: Iterable[int]) -> set[JobId]:
    return {job for position in positions for job in grants[position].jobs}


def chooser_by(rule: Rule) -> Chooser:
    """Return the rule in the form that a capacity calls; a gang's topology comes before the rule's
    preference.
    """

    def choose(
        cluster: Cluster, offers: Mapping[str, Layer], demand: Demand
    ) -> tuple[str, Sequence[int]] | None:
        for models in [list(offers)] if rule.models_alike else [[model] for model in offers]:
            for rank in demand.ranks:
                options = [
                    option
                    for model in models
                    for option in _options(rule, cluster, model, offers[model], demand, rank)
                ]
                if options:
                    best = rule.best(options)
                    return best.model, best.nodes
        return None

    return choose


def _options(
    rule: Rule, cluster: Cluster, model: str, layer: Layer, demand: Demand, rank: int
) -> Iterator[Option]:
    """Yield one placement of the gang for each group of that topology rank with room."""
    if layer.gpus < demand.gpus:
        return
    fleet, above = cluster.fleets[model], rank - cluster.node_rank
    if above > 0:
        for nodes in fleet.domains[above - 1]:
            if layer.gpus_in(nodes) >= demand.gpus:
                option = _laid_out(rule, Site(fleet, layer, nodes), demand)
                if option is not None:
                    yield option
        return
    site = Site(fleet, layer, fleet.everything)
    cpus, memory = processors_of(demand.needs)
    whole = Need(demand.gpus, cpus, int(memory), readings=readings_of_all(demand.needs))
    near = [
        node
        for node in _holding(site, whole)
        if above == 0 or fleet.layouts[node].nearest(layer.masks[node], demand.gpus)[0] <= rank
    ]
    if near:
        cost, node = rule.pick(site, near, whole, {})
        yield Option(model, [node] * len(demand.needs), len(near), cost)


def _laid_out(rule: Rule, site: Site, demand: Demand) -> Option | None:
    """Place the gang, its largest replicas first; None when one finds no room."""
    needs, nodes = demand.needs, [0] * len(demand.needs)
    taken: dict[int, Need] = {}
    holding: dict[Need, list[int]] = {}
    cost, choices = 0.0, 0
    for replica in sorted(range(len(needs)), key=lambda replica: -needs[replica].gpus):
        need = needs[replica]
        if need not in holding:
            holding[need] = _holding(site, need)
        fitting = holding[need]
        if taken:
            fitting = [
                node for node in fitting if node not in taken or site.layer.holds(node, (taken[node], need))
            ]
        if not fitting:
            return None
        choices = choices or len(fitting)
        extra, node = rule.pick(site, fitting, need, taken)
        cost += extra
        nodes[replica] = node
        before = taken.get(node, Need(0, 0.0, 0))
        taken[node] = Need(
            before.gpus + need.gpus,
            before.cpus + need.cpus,
            before.memory_bytes + need.memory_bytes,
            readings=readings_of_all((before, need)),
        )
    return Option(site.fleet.model, nodes, choices, cost)


def _holding(site: Site, need: Need) -> list[int]:
    """Return the nodes of the site that hold such a replica, in their order.

    Nodes where the replica's data is already being read come first: rules take the first among equals.
    """
    layer, large_enough = site.layer, 0
    for count in range(need.gpus, len(layer.by_count)):
        large_enough |= layer.by_count[count]
    cpus, memory = layer.cpus, layer.memory
    found = [
        node
        for node in members(large_enough & site.nodes)
        if cpus[node] >= need.cpus and memory[node] >= need.memory_bytes
    ]
    if not need.readings:
        return found
    liked = layer.readers_of(frozenset([reading.data for reading in need.readings]))
    able = [node for node in found if layer.can_read(node, need.readings)]
    return sorted(able, key=lambda node: not liked >> node & 1)
