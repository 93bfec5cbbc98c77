"""A place for a gang with parts of GPUs: on open GPUs where they fit, else on fresh ones.

KubeShare 1.0's choice of a device (HPDC 2020): the suitable GPU with the least left, so that a fresh one is
opened only when no open one fits. Deviations: a gang is placed whole, near together, and each of its replicas
has a GPU of its own; a fresh GPU is taken where the fewest are left, so that big holes stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from scheduler.core.fitting.cards import Card, Share, carries, has_room, may_join, share_of, without
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.holding import Holding, Part
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.storage import Reading
from scheduler.core.model.bits import listed, members
from scheduler.core.model.gpu_parts import WHOLE_GPU

#: The most GPUs compared for one replica where others would have to leave.
CANDIDATES = 64
#: The node of each replica, and the set of its GPUs there.
Places = tuple[list[int], list[int]]
#: The number of GPUs that others lose if a share is taken; None: it is not available.
Loss = Callable[[int, Share], float | None]
#: What replicas of the gang already have of a node: GPUs, CPUs, memory and readings.
_Use = tuple[int, float, float, tuple[Reading, ...]]
_Taken = Mapping[int, _Use]
_NOTHING: _Use = (0, 0.0, 0.0, ())
_NO_ROOMS: Mapping[int, int] = {}
_NO_CARDS: Mapping[int, Card] = {}


@dataclass(slots=True, kw_only=True, eq=False)
class OpenGpus:
    """What a fleet offers to one gang, and on which terms.

    One is made for each question; it is not frozen, since that would take twice as long.
    """

    layer: Layer
    fleet: Fleet
    #: GPUs that the view may still hand out (None: no limit), and GPUs that it has opened already.
    budget: int | None
    opened: Callable[[int, int], bool]
    #: Whether a GPU with the gang's affinity is in use; the gang then waits for room there.
    is_carried: bool = False
    #: What others lose; None: all that is offered is available without disturbing another job.
    loss: Loss | None = None

    def nearest(self, demand: Demand, node_rank: int) -> Places | None:
        """Return a place for the gang within one group of the lowest rank possible; or None."""
        if len(demand.needs) == 1 and demand.needs[0].part is not None:
            return self._laid_out(demand, self.fleet.everything, -1)
        for rank in demand.ranks:
            for scope, group in self._scopes(rank, node_rank):
                found = self._laid_out(demand, scope, group)
                if found is not None:
                    return found
        return None

    def place_on(self, demand: Demand, nodes: Sequence[int]) -> Places | None:
        """Return a place for the gang with each replica on its given node; or None."""
        return self._laid_out(demand, self.fleet.everything, -1, nodes)

    def _scopes(self, rank: int, node_rank: int) -> Iterator[tuple[int, int]]:
        """Yield groups of nodes, and of GPUs on each, the narrowest first."""
        for level in range(min(rank, node_rank) + 1):
            for node, layout in enumerate(self.fleet.layouts):
                for group in layout.levels[level]:
                    yield 1 << node, group
        for domains in self.fleet.domains[: max(rank - node_rank, 0)]:
            for domain in domains:
                yield domain, -1

    def groups(self, rank: int, node_rank: int) -> Iterator[tuple[int, int]]:
        """Yield the groups of nodes, and of GPUs on each, of one rank."""
        if rank > node_rank:
            yield from [(domain, -1) for domain in self.fleet.domains[rank - node_rank - 1]]
            return
        for node, layout in enumerate(self.fleet.layouts):
            yield from [(1 << node, group) for group in layout.levels[rank]]

    def able(self, node: int, need: Need, among: int, budget: int | None) -> list[int]:
        """Return the GPUs of a node, among a set, that suit a replica with a part, if `budget` more may be
        handed out.
        """
        assert need.part is not None
        request = need.part.request
        with_room = 0 if self.is_carried else self.layer.masks[node]
        for gpu, left in self.layer.rooms.get(node, _NO_ROOMS).items():
            if left >= request:
                with_room |= gpu
        # A part costs one GPU at most.
        is_scarce = budget is not None and budget < 1
        cards = self.layer.cards.get(node, _NO_CARDS)
        return [
            number
            for number in listed(with_room & among)
            if not (is_scarce and self.cost(node, 1 << number))
            and self._lets_in(need, node, 1 << number, cards.get(1 << number, ()))
        ]

    def _lets_in(self, need: Need, node: int, gpu: int, card: Card) -> bool:
        """Whether memory and labels let a replica share a GPU that has enough compute left."""
        device = self.fleet.gpu_memory[node][gpu.bit_length() - 1]
        if device and not has_room(self._share(need, node, gpu), card, device):
            return False
        return may_join(need.labels, card)

    def _laid_out(
        self, demand: Demand, scope: int, group: int, nodes: Sequence[int] | None = None
    ) -> Places | None:
        order = sorted(
            range(len(demand.needs)),
            key=lambda replica: (-demand.needs[replica].gpus, -_request(demand.needs[replica])),
        )
        budget, taken = self.budget, dict[int, _Use]()
        chosen: Places = ([0] * len(order), [0] * len(order))
        for replica in order:
            need = demand.needs[replica]
            within = scope if nodes is None else 1 << nodes[replica]
            found = (
                self._whole(need, within, group, taken, budget)
                if need.part is None
                else self._part(need, within, group, taken, budget)
            )
            if found is None:
                return None
            cost, node, gpus = found
            budget = None if budget is None else budget - cost
            mask, cpus, memory, reading = taken.get(node, _NOTHING)
            cpus, memory = cpus + need.cpus, memory + need.memory_bytes
            taken[node] = mask | gpus, cpus, memory, reading + need.readings
            chosen[0][replica], chosen[1][replica] = node, gpus
        return chosen

    def _holds(self, node: int, need: Need, taken: _Taken) -> bool:
        _, cpus, memory, reading = taken.get(node, _NOTHING)
        cpus, memory = cpus + need.cpus, memory + need.memory_bytes
        return (
            (not cpus or self.layer.cpus[node] >= cpus)
            and (not memory or self.layer.memory[node] >= memory)
            and self.layer.can_read(node, reading + need.readings)
        )

    def _whole(
        self,
        need: Need,
        scope: int,
        group: int,
        taken: _Taken,
        budget: int | None,
    ) -> tuple[int, int, int] | None:
        """Return (cost, node, GPUs) for a replica with whole GPUs, on the node with the fewest left over."""
        layer, layouts = self.layer, self.fleet.layouts
        if budget is not None and need.gpus > budget:
            return None
        for count in range(need.gpus, len(layer.by_count)):
            for node in members(layer.by_count[count] & scope):
                left = layer.masks[node] & ~taken.get(node, _NOTHING)[0] & group
                if left.bit_count() >= need.gpus and self._holds(node, need, taken):
                    return need.gpus, node, layouts[node].nearest(left, need.gpus)[1]
        return None

    def _part(
        self,
        need: Need,
        scope: int,
        group: int,
        taken: _Taken,
        budget: int | None,
    ) -> tuple[int, int, int] | None:
        """Return (cost, node, GPU) for a replica with a part: the GPU with the least left over."""
        found: Iterable[tuple[int, int, int, int]] = chain(
            self._on_open(need, scope, group, taken), self._on_fresh(need, scope, group, taken)
        )
        if budget is not None and budget < 1:  # A part costs one GPU at most.
            found = [option for option in found if option[0] <= budget]
        if self.loss is None:
            best = min(found, default=None)
            return None if best is None else (best[0], best[2], best[3])
        weighed = []
        for cost, left, node, gpu in sorted(found)[:CANDIDATES]:
            loss = self.loss(node, self._share(need, node, gpu))
            if loss is not None:
                weighed.append((cost, loss, left, node, gpu))
        cheapest = min(weighed, default=None)
        return None if cheapest is None else (cheapest[0], cheapest[3], cheapest[4])

    def _on_open(
        self, need: Need, scope: int, group: int, taken: _Taken
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield (cost, what is left, node, GPU) for the suitable open GPUs."""
        assert need.part is not None
        layer, request = self.layer, need.part.request
        least = WHOLE_GPU - request
        cpus, memory = layer.cpus, layer.memory
        needs_cpus, needs_memory = need.cpus > 0, need.memory_bytes > 0
        is_unlimited, opened, is_harmless = self.budget is None, self.opened, self.loss is None
        # Most nodes are full.
        for node in [node for node, most in layer.left.items() if most >= request]:
            cards = layer.cards[node]
            if not scope >> node & 1 or (needs_cpus and cpus[node] < need.cpus):
                continue
            if needs_memory and memory[node] < need.memory_bytes:
                continue
            mine = 0
            if (node in taken or need.readings) and not self._holds(node, need, taken):
                continue
            if node in taken:
                mine = taken[node][0]
            for gpu, idle in layer.rooms[node].items():
                left, card = idle - request, cards[gpu]
                # Without a loss to others, only the tightest GPU so far is of interest.
                if left < 0 or left > least or gpu & mine or not gpu & group:
                    continue
                if self._lets_in(need, node, gpu, card):
                    cost = 0 if is_unlimited or opened(node, gpu) else 1
                    if is_harmless and not cost:
                        least = left
                    yield cost, left, node, gpu

    def _on_fresh(
        self, need: Need, scope: int, group: int, taken: _Taken
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield the same for fresh GPUs, on nodes with the fewest left: one, or a few where the loss of
        others differs.
        """
        assert need.part is not None
        if self.is_carried:
            return
        layer, yielded = self.layer, 0
        for count in range(1, len(layer.by_count)):
            for node in members(layer.by_count[count] & scope):
                left = layer.masks[node] & ~taken.get(node, _NOTHING)[0] & group
                if not left or not self._holds(node, need, taken):
                    continue
                gpu = self.fleet.layouts[node].nearest(left, 1)[1]
                if not has_room(self._share(need, node, gpu), (), self.fleet.memory_of(node, gpu)):
                    continue
                yield self.cost(node, gpu), WHOLE_GPU - need.part.request, node, gpu
                yielded += 1
                if self.loss is None or yielded >= CANDIDATES:
                    return

    def cost(self, node: int, gpu: int) -> int:
        """Return how many more GPUs the view hands out with a part of this GPU."""
        return 0 if self.budget is None or self.opened(node, gpu) else 1

    def _share(self, need: Need, node: int, gpu: int) -> Share:
        assert need.part is not None
        return share_of(need.part, need.labels, gpu, self.fleet.memory_of(node, gpu))


def is_carried(layers: Iterable[Layer], demand: Demand) -> bool:
    """Whether a job with the affinity of the gang has a part of a GPU in one of the layers."""
    affinities = {need.labels.affinity for need in demand.needs if need.labels is not None}
    affinities.discard("")
    return bool(affinities) and any(
        carries(card, affinity)
        for layer in layers
        for affinity in affinities
        for cards in layer.cards.values()
        for card in cards.values()
    )


def _request(need: Need) -> int:
    return WHOLE_GPU if need.part is None else need.part.request


def loss_of(
    free: Layer,
    fleet: Fleet,
    occupants: Callable[[int], Sequence[tuple[Holding, Part]]],
    node: int,
    share: Share,
) -> float | None:
    """Return the number of GPUs of the victims for a share of a GPU; None: no victims suffice."""
    found = leaving(free, fleet, node, share, occupants(node), ())
    return None if found is None else sum([holding.gpus for holding in found])


def leaving(
    free: Layer,
    fleet: Fleet,
    node: int,
    share: Share,
    occupants: Sequence[tuple[Holding, Part]],
    gone: Collection[Holding],
) -> list[Holding] | None:
    """Return the victims for a share of a GPU, besides those that are gone; None: no victims suffice. Holders
    that lose least come first.
    """
    device = fleet.memory_of(node, share.gpu)
    if free.takes(node, share, device):
        return []
    there = [pair for pair in occupants if pair[1].mask & share.gpu]
    card = free.cards.get(node, {}).get(share.gpu)
    if card is None:
        # Jobs with whole GPUs are there, or no possible victim is.
        if not there or any([pair[1].shares for pair in there]):
            return None
        return [holding for holding, _ in there] if has_room(share, (), device) else None

    def rest(chosen: Collection[Holding]) -> Card:
        left = card
        for holding, part in there:
            if holding in chosen:
                for other in part.shares:
                    if other.gpu == share.gpu:
                        left = without(left, other)
        return left

    def enough(chosen: Collection[Holding]) -> bool:
        left = rest(chosen)
        return has_room(share, left, device) and may_join(share.labels, left)

    chosen = [holding for holding, _ in there if holding in gone]
    already = list(chosen)
    for holding, _ in there:
        if enough(chosen):
            break
        if holding not in chosen:
            chosen.append(holding)
    if not enough(chosen):
        return None
    for holding in reversed([each for each in chosen if each not in already]):
        fewer = [other for other in chosen if other is not holding]
        if enough(fewer):
            chosen = fewer
    return chosen
