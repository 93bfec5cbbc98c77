"""Placing by scores: the node with the most points gets a replica, the earliest among equals.

Kubernetes places like this, and so do the published baselines of papers on parts of GPUs. A scorer knows one
node and one replica; this module asks it about all nodes, for whole GPUs and for parts of them, and caches
its score of a node as long as the node is unchanged. A gang's replicas are placed one after another, the
largest first, each on what the earlier ones left. A gang's topology comes before points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduler.core.building_blocks.node_scores import Kinds, NodeState, Scorer, ask_of, free_of
from scheduler.core.building_blocks.placing import Option, Site, chooser_by, place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cards import Card
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.fragmentation import WHOLE, Free
from scheduler.core.fitting.holding import Fit
from scheduler.core.fitting.open_gpus import OpenGpus
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.searching import Searching
from scheduler.core.model.bits import listed, members
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import NodeId

#: The order among equals: by GPU model and topology, or as nodes were listed, whatever their model.
TIES = TOPOLOGY, LISTED = "topology", "listed"


def place_by_score(
    grants: Sequence[Grant],
    view: View,
    capacity: Capacity,
    scorer: Scorer,
    *,
    parts_only: bool = False,
    ties: str = TOPOLOGY,
) -> PlacerDecision:
    """Settle the grants in their order by the scorer; `parts_only`: whole GPUs as every placer does.

    Raises PolicyError for ties that are neither TOPOLOGY nor LISTED.
    """
    if ties not in TIES:
        raise PolicyError(f"ties are decided by {TOPOLOGY} or {LISTED}, not {ties!r}")
    listed = ties == LISTED
    kinds = Kinds(view.running.values(), view.jobs, capacity.cluster) if scorer.sees_kinds else None
    whole = None if parts_only else chooser_by(WholeGpus(scorer, kinds, listed=listed))
    parts = PartsByScore(scorer, kinds, listed=listed)
    return place_all(grants, view, capacity, chooser=whole, part_chooser=parts)


class WholeGpus:
    """The scorer as a rule for whole GPUs."""

    models_alike = True

    def __init__(self, scorer: Scorer, kinds: Kinds | None, *, listed: bool = False) -> None:
        self._scorer, self._kinds, self._listed = scorer, kinds, listed
        #: By model: the number of each node in the order listed.
        self._numbers: dict[str, list[NodeId]] = {}
        self._scores: dict[tuple[str, Need], dict[object, float]] = {}
        self._tried: dict[tuple[str, int], str] = {}

    def pick(
        self, site: Site, nodes: Sequence[int], need: Need, taken: Mapping[int, Need]
    ) -> tuple[float, int]:
        fleet, layer = site.fleet, site.layer
        masks, cpus, all_cards, usable = layer.masks, layer.cpus, layer.cards, fleet.usable
        scores = self._scores.setdefault((fleet.model, need), {})
        best, chosen = -1.0, nodes[0]
        for node in nodes:
            # Whole GPUs are alike: only how many of them are idle matters.
            count, left = masks[node].bit_count(), cpus[node]
            if node in taken:
                count, left = count - taken[node].gpus, left - taken[node].cpus
            cards = all_cards.get(node)
            state: tuple[object, ...] = (left, count, usable[node].bit_count())
            kinds: frozenset[str] = frozenset()
            if cards:
                state = (
                    *state,
                    tuple(sorted(layer.rooms[node].values())),
                )
            if self._kinds is not None:
                kinds = self._kinds.of(fleet, layer, node)
                state = (*state, kinds)
            points = scores.get(state)
            if points is None:
                free = free_of(fleet, left, layer, node)
                for _ in range(masks[node].bit_count() - count):
                    at = free.shares.index(WHOLE)
                    free = free._replace(shares=(*free.shares[:at], 0, *free.shares[at + 1 :]))
                points = scores[state] = self._scorer.score(NodeState(free, kinds), need, ())[0]
            if points > best or (
                self._listed and points == best and fleet.nodes[node].id < fleet.nodes[chosen].id
            ):
                best, chosen = points, node
        if self._listed:
            self._numbers.setdefault(fleet.model, [node.id for node in fleet.nodes])
        if self._kinds is not None and need.gpus:
            self._tried[fleet.model, chosen] = f"{need.gpus}"
        return -best, chosen

    def best(self, options: Sequence[Option]) -> Option:
        chosen = min(options, key=lambda option: (option.cost, self._place(option)))
        if self._kinds is not None:
            for node in set(chosen.nodes):
                # A job without GPUs there has no kind.
                if (chosen.model, node) in self._tried:
                    self._kinds.add(chosen.model, node, self._tried[chosen.model, node])
            self._tried.clear()
        return chosen

    def _place(self, option: Option) -> int:
        """Return the position of an option among equal ones."""
        return self._numbers[option.model][option.nodes[0]] if self._listed else 0


#: The replicas of a gang placed on a node already, each with the set of its GPUs.
_Mine = Sequence[tuple[Need, int]]
#: The GPUs of a node on offer, its CPUs, and what is left of its open GPUs.
_Idle = tuple[int, float, Mapping[int, int] | None]


class _Situation(NamedTuple):
    """The state of a node that decides its score for a replica for which its CPUs, memory and storage
    suffice.
    """

    free: Free
    #: Its usable GPUs, and those that no job has.
    usable: int
    mask: int
    #: The memory of its GPUs, and the jobs that share them, where memory or labels may exclude another job.
    memory: tuple[int, ...]
    cards: tuple[tuple[int, Card], ...]


#: The node of each replica, and the set of its GPUs there.
_Places = tuple[list[int], list[int]]


class _Remembered:
    """A scorer's answers for a fleet's nodes and one kind of replica, and the states of the nodes then."""

    __slots__ = ("answers", "found", "layer", "points", "seen", "states")

    def __init__(self, nodes: int) -> None:
        #: The layer of the last question, and how many of its changes had happened by then.
        self.layer: Layer | None = None
        self.seen = 0
        #: Stored by column, so that many nodes are compared at a time.
        self.states: list[list[object]] = []
        #: (points, GPU) by node; None where it does not fit. And the points alone, -1 where it does not fit.
        self.found: list[tuple[float, int] | None] = [None] * nodes
        self.points = [-1.0] * nodes
        #: The answers by situation and kinds of jobs there: thousands of nodes are alike.
        self.answers: dict[tuple[_Situation, object], tuple[float, int] | None] = {}

    def changed(self, layer: Layer, kinds: Sequence[object]) -> Sequence[int]:
        """Return the nodes that have changed since the last call."""
        if self.layer is layer and not kinds:
            recent, self.seen = layer.changes[self.seen :], len(layer.changes)
            return recent if len(recent) < 2 else sorted(set(recent))
        is_first = self.layer is None
        self.layer, self.seen = layer, len(layer.changes)
        # It is another layer. A node's open GPUs are replaced when they change, so identity suffices.
        cards = list(map(layer.cards.get, range(len(layer.masks))))
        room: list[object] = [*zip(layer.cpus, layer.memory, strict=True)]
        for node, readings in layer.readings.items():
            room[node] = room[node], readings
        now: list[list[object]] = [[*layer.masks], room, [*cards], [*kinds]]
        before, self.states = self.states, now
        if is_first:
            return range(len(layer.masks))
        changed: set[int] = set()
        for was, then in zip(before, now, strict=True):
            if was != then:
                changed.update(_differences(was, then))
        return sorted(changed)


#: This many nodes are compared at a time.
_AT_A_TIME = 64


def _differences(before: Sequence[object], after: Sequence[object]) -> Iterator[int]:
    """Yield the positions at which two columns differ."""
    for first in range(0, len(after), _AT_A_TIME):
        last = first + _AT_A_TIME
        if before[first:last] != after[first:last]:
            for place in range(first, min(last, len(after))):
                if before[place] != after[place]:
                    yield place


class PartsByScore:
    """The scorer in the form that a capacity calls for gangs with parts of GPUs."""

    def __init__(self, scorer: Scorer, kinds: Kinds | None = None, *, listed: bool = False) -> None:
        self._scorer, self._kinds, self._listed = scorer, kinds, listed
        self._memory: dict[object, _Remembered] = {}
        self._scored: dict[tuple[NodeState, Need, tuple[int, ...]], tuple[float, int]] = {}
        #: By model and node: its situation, and the state by which it is known to be current.
        self._situations: dict[tuple[str, int], tuple[_Idle, _Situation]] = {}

    def __call__(self, capacity: Searching, demand: Demand, reach: int) -> Fit | None:
        """Return the place with the most points that disturbs no job; or None."""
        offers = [
            (model, offered)
            for model in demand.models
            if (offered := capacity.open_gpus(model, reach, demand)) is not None
        ]
        is_single = len(demand.needs) == 1
        for rank in demand.ranks[-1:] if is_single else demand.ranks:
            best: tuple[tuple[float, int], str, _Places] | None = None
            for model, offered in offers:
                for laid in (
                    self._single(offered, demand.needs[0])
                    if is_single
                    else [
                        self._laid_out(offered, demand, scope, group)
                        for scope, group in offered.groups(rank, capacity.cluster.node_rank)
                    ]
                ):
                    if laid is None:
                        continue
                    number = offered.fleet.nodes[laid[1][0][0]].id if self._listed else 0
                    if best is None or (laid[0], -number) > best[0]:
                        best = (laid[0], -number), model, laid[1]
            if best is not None:
                _, model, places = best
                if self._kinds is not None:
                    self._kinds.add_all(model, places, demand.needs)
                return capacity.fit_of(demand, model, places)
        return None

    def _single(self, offered: OpenGpus, need: Need) -> tuple[tuple[float, _Places] | None]:
        """Return the same as `_laid_out` for a single replica that may be anywhere, the usual case."""
        found = self._best(offered, need, offered.fleet.everything, -1, offered.budget, {})
        return (None if found is None else (0.0 + found[0], ([found[1]], [found[2]])),)

    def _laid_out(
        self, offered: OpenGpus, demand: Demand, scope: int, group: int
    ) -> tuple[float, _Places] | None:
        """Return the points and the placement of a gang within a group; None where it does not fit."""
        needs, budget, total = demand.needs, offered.budget, 0.0
        nodes, gpus = [0] * len(needs), [0] * len(needs)
        taken: dict[int, list[tuple[Need, int]]] = {}
        for replica in sorted(range(len(needs)), key=lambda replica: _size(needs[replica])):
            need = needs[replica]
            found = self._best(offered, need, scope, group, budget, taken)
            if found is None:
                return None
            points, node, mask = found
            total += points
            if budget is not None:
                budget -= need.gpus if need.part is None else offered.cost(node, mask)
            taken.setdefault(node, []).append((need, mask))
            nodes[replica], gpus[replica] = node, mask
        return total, (nodes, gpus)

    def _best(
        self,
        offered: OpenGpus,
        need: Need,
        scope: int,
        group: int,
        budget: int | None,
        taken: Mapping[int, _Mine],
    ) -> tuple[float, int, int] | None:
        """Return (points, node, GPUs) for one replica: the most points, the earliest among equals."""
        fleet, layer, kinds = offered.fleet, offered.layer, self._kinds
        known, masks = self._known(offered, need, group, budget), layer.masks
        there = [] if kinds is None else [kinds.of(fleet, layer, node) for node in range(len(masks))]
        request = 0 if need.part is None else need.part.request
        left = layer.left
        for node in known.changed(layer, there):
            # Most nodes that changed are full, and each kind of replica asks about all of them.
            has_room = masks[node] or left.get(node, 0) >= request
            found = None
            if has_room and _holds(layer, node, need, ()):
                state = self._situation(fleet, layer, node), there[node] if there else None
                if state in known.answers:
                    found = known.answers[state]
                else:
                    found = known.answers[state] = self._ask(offered, node, need, group, budget, ())
            known.found[node] = found
            known.points[node] = -1.0 if found is None else found[0]
        points, among = known.points, dict[int, tuple[float, int] | None]()
        if taken:
            points = points.copy()
            for node, mine in taken.items():
                fits = _holds(layer, node, need, mine)
                among[node] = found = self._ask(offered, node, need, group, budget, mine) if fits else None
                points[node] = -1.0 if found is None else found[0]
        best, chosen = self._choice(points, scope, scope == fleet.everything)
        if self._listed and chosen >= 0:
            equal = [node for node, each in enumerate(points) if each == best and scope >> node & 1]
            chosen = min(equal, key=lambda node: fleet.nodes[node].id)
        if chosen < 0:
            return None
        if need.part is not None:
            there_is = among[chosen] if chosen in among else known.found[chosen]
            assert there_is is not None
            return best, chosen, 1 << there_is[1]
        whole = masks[chosen] & group & ~_gpus_of(taken.get(chosen, ()))
        return best, chosen, fleet.layouts[chosen].nearest(whole, need.gpus)[1]

    def _choice(self, points: Sequence[float], scope: int, is_everywhere: bool) -> tuple[float, int]:
        """Return the most points in a set of nodes and the earliest node that has them; -1: none fits."""
        if is_everywhere:
            best = max(points)
            return best, points.index(best) if best > -1.0 else -1
        best, chosen = -1.0, -1
        for node in members(scope):
            if points[node] > best:
                best, chosen = points[node], node
        return best, chosen

    def _known(self, offered: OpenGpus, need: Need, group: int, budget: int | None) -> _Remembered:
        """Return the cached answers for such a replica and budget."""
        fleet = offered.fleet
        if budget is not None and budget < need.gpus:
            # What the view may open depends on more than the node, so nothing is cached.
            return _Remembered(len(fleet.nodes))
        key = fleet.model, need, group, offered.is_carried
        if key not in self._memory:
            self._memory[key] = _Remembered(len(fleet.nodes))
        return self._memory[key]

    def _ask(
        self, offered: OpenGpus, node: int, need: Need, group: int, budget: int | None, taken: _Mine
    ) -> tuple[float, int] | None:
        """Return the points of a node that holds the replica, and the GPU for a part; None: no GPU suits."""
        fleet, layer = offered.fleet, offered.layer
        cpus, among = layer.cpus[node], group
        if taken:
            cpus -= sum([other.cpus for other, _ in taken])
            among &= ~_gpus_of(taken)
        able: list[int] = []
        if need.part is not None:
            able = offered.able(node, need, among, budget)
        if not able if need.part is not None else not _is_whole(layer, node, need, among, budget):
            return None
        free = free_of(fleet, cpus, layer, node)
        numbers = listed(fleet.usable[node])
        if taken:
            shares = list(free.shares)
            for other, mask in taken:
                for gpu in members(mask):
                    shares[numbers.index(gpu)] -= ask_of(other).share
            free = free._replace(shares=tuple(shares))
        kinds = frozenset[str]() if self._kinds is None else self._kinds.of(fleet, layer, node)
        places = tuple([numbers.index(gpu) for gpu in able])
        points, at = self._score(NodeState(free, kinds), need, places)
        return points, numbers[at] if able else 0

    def _situation(self, fleet: Fleet, layer: Layer, node: int) -> _Situation:
        """Return a node's situation, computed once for all kinds of replicas until it changes."""
        place = fleet.model, node
        cpus, mask = layer.cpus[node], layer.masks[node]
        now = mask, cpus, layer.rooms.get(node)
        before, situation = self._situations.get(place, (None, None))
        # The record of open GPUs is replaced when it changes.
        if situation is None or before is None or before[:2] != now[:2] or before[2] is not now[2]:
            cards = layer.cards.get(node, {})
            memory = fleet.gpu_memory[node]
            sharing = (*cards.items(),) if any(memory) or _has_labels(cards.values()) else ()
            free = free_of(fleet, cpus, layer, node)
            situation = _Situation(free, fleet.usable[node], mask, memory, sharing)
            self._situations[place] = now, situation
        return situation

    def _score(self, node: NodeState, need: Need, able: tuple[int, ...]) -> tuple[float, int]:
        """Ask the scorer, once for all nodes that are alike."""
        key = node, need, able
        found = self._scored.get(key)
        if found is None:
            found = self._scored[key] = self._scorer.score(node, need, able)
        return found


def _holds(layer: Layer, node: int, need: Need, taken: _Mine) -> bool:
    """Whether CPUs, memory and storage of a node suffice for a replica beside those placed there already."""
    cpus, memory, reading = layer.cpus[node], layer.memory[node], need.readings
    if taken:
        cpus -= sum([other.cpus for other, _ in taken])
        memory -= sum([other.memory_bytes for other, _ in taken])
        reading = (*[each for other, _ in taken for each in other.readings], *reading)
    return cpus >= need.cpus and memory >= need.memory_bytes and layer.can_read(node, reading)


def _has_labels(cards: Iterable[Card]) -> bool:
    return any([share.labels is not None for card in cards for share in card])


def _is_whole(layer: Layer, node: int, need: Need, among: int, budget: int | None) -> bool:
    """Whether a node has whole GPUs for a replica, and the view may still hand out that many."""
    return (layer.masks[node] & among).bit_count() >= need.gpus and (budget is None or budget >= need.gpus)


def _gpus_of(taken: _Mine) -> int:
    """Return the set of the GPUs of these replicas."""
    found = 0
    for _, mask in taken:
        found |= mask
    return found


def _size(need: Need) -> tuple[int, int]:
    return -need.gpus, 0 if need.part is None else -need.part.request
