"""The GPUs that a gang is offered, in layers; each layer contains the one before it.

    idle       no job holds them or is nominated for them
    releasing  and those whose holder is stopping, with no successor named yet
    evicting   and those of opportunistic jobs, which may be reclaimed (not in the spare view); a job that
               lost its guarantee in the view's own virtual cluster makes room for higher priorities only
    own        and those of the view's own jobs that are not settled yet

Each layer is searched in turn, so no job is disturbed while there is another way. Layers that offer the same
are one object, searched once: where no job is stopping, `releasing` is `idle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from scheduler.core.fitting.candidates import allowed_by, allowed_nodes
from scheduler.core.fitting.cards import has_room, objection, share_of
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import Holding, Part
from scheduler.core.fitting.packing import Layer
from scheduler.core.model.snapshot import JobId, Node

IDLE, RELEASING, EVICTING, OWN = range(4)

#: A view's own holdings by their jobs.
Pending = dict[tuple[JobId, ...], Holding]
#: Holdings that may be reclaimed, by model and number of GPUs; those that lose least come first.
BySize = dict[tuple[str, int], list[Holding]]
#: How many of the smallest victims are tried instead of several others.
FEW = 4


class Offers:
    """The layers of a view, and the possible victims in them."""

    def __init__(
        self,
        cluster: Cluster,
        layers: Mapping[str, Sequence[Layer]],
        evictable: Mapping[tuple[str, int], Sequence[tuple[Holding, Part]]],
        by_size: BySize | None = None,
    ) -> None:
        self.cluster = cluster
        self._by_size = by_size or {}
        #: The view's own holdings that are neither kept nor dropped yet, the most important first.
        self.pending: Pending = {}
        #: Holdings that were stopped, by their own view or by one that reclaimed their GPUs.
        self.dropped: set[Holding] = set()
        self._layers = {model: list(offers) for model, offers in layers.items()}
        self._evictable = evictable
        #: Lapsed holdings of the view's own virtual cluster, with their priorities.
        self._lapsed: Mapping[Holding, int] = {}
        #: Models of which the view has its own layers, without victims.
        self._private: frozenset[str] = frozenset()
        #: The jobs of the view's own holdings that stay, whatever is decided.
        self.pinned: frozenset[tuple[JobId, ...]] = frozenset()

    @property
    def has_open_gpus(self) -> bool:
        """Whether a part of a GPU is available somewhere, even if no whole GPU is left."""
        return any([layers[-1].cards for layers in self._layers.values()]) or any(
            [holding.shared for holding in self.pending.values()]
        )

    def idle(self, model: str) -> int:
        """Return the GPUs of a model that no job holds or is nominated for."""
        return self._layers[model][IDLE].gpus

    def idle_nodes(self) -> Iterator[tuple[int, int]]:
        """Yield (idle GPUs, number of nodes with that many), model by model."""
        for layers in self._layers.values():
            for count, nodes in enumerate(layers[IDLE].by_count):
                if count and nodes:
                    yield count, nodes.bit_count()

    def offered_by_group(self, model: str, rank: int | None) -> Counter[int]:
        """Return how many nodes, or groups of nodes of a rank, offer each number of GPUs of a model.

        GPUs of the view's own jobs that are not settled are left out.
        """
        layer, fleet = self._layers[model][-1], self.cluster.fleets[model]
        if rank is None:
            return Counter({gpus: nodes.bit_count() for gpus, nodes in enumerate(layer.by_count)})
        groups = fleet.domains[rank - self.cluster.node_rank - 1]
        return Counter([layer.gpus_in(group) for group in groups])

    def label_in_the_way(self, demand: Demand) -> str:
        """Return the label, as "exclusion a", that alone keeps a gang from a part of an open GPU; empty: none
        does.
        """
        for model in [model for model in demand.models if model in self._layers]:
            layer, fleet = self._layers[model][RELEASING], self.cluster.fleets[model]
            for node, cards in sorted(layer.cards.items()):
                for need in demand.needs:
                    for gpu, card in sorted(cards.items()) if need.part is not None else ():
                        assert need.part is not None
                        device = fleet.memory_of(node, gpu)
                        share = share_of(need.part, need.labels, gpu, device)
                        label = objection(need.labels, card) if has_room(share, card, device) else ""
                        if label:
                            return label
        return ""

    def kept_from(self, demand: Demand) -> list[Holding]:
        """Return the lapsed holdings, of models that a gang accepts, that make no room for it."""
        return [
            holding
            for holding, priority in self._lapsed.items()
            if priority >= demand.priority and holding not in self.dropped and holding.model in demand.models
        ]

    def widest(self, model: str) -> Layer | None:
        """Return all that the view is offered of a model, except its own unsettled holdings; None: it has
        none of it.
        """
        layers = self._layers.get(model)
        return None if layers is None else layers[-1]

    def has_idle(self, model: str, parts: Sequence[Part]) -> bool:
        """Whether these CPUs and this memory of nodes are idle."""
        idle = self._layers[model][IDLE]
        return all(
            [
                (not part.cpus or part.cpus <= idle.cpus[part.node])
                and (not part.memory or part.memory <= idle.memory[part.node])
                and idle.can_read(part.node, part.readings)
                for part in parts
            ]
        )

    def layer_for(self, demand: Demand, model: str, reach: int) -> Layer | None:
        """Return what a gang is offered of a model at that reach; None: this view does not reach so far."""
        offered = self._offered(model, reach, demand)
        return None if offered is None else self._but(demand, model, offered)

    def _offered(self, model: str, reach: int, demand: Demand) -> Layer | None:
        """Return what a gang is offered at that reach; None where this view does not reach so far."""
        layers = self._layers.get(model)
        if layers is None:  # The view has none of this model.
            return None
        if reach < len(layers):
            return layers[reach] if reach < EVICTING else self._but_kept(layers[reach], model, demand)
        own = [held for held in self.pending.values() if held.model == model and not self._is_pinned(held)]
        if reach < OWN or not own:
            return None
        layer, usable = self._but_kept(layers[-1], model, demand).copy(), self.cluster.fleets[model].usable
        for holding in own:
            for part in holding.parts:
                layer.add(part, usable[part.node])
        return layer

    def _adds(self, model: str, reach: int) -> bool:
        """Whether a reach offers anything of a model that the one before it does not."""
        layers = self._layers.get(model, ())
        return reach == IDLE or reach >= len(layers) or layers[reach] is not layers[reach - 1]

    def _but_kept(self, layer: Layer, model: str, demand: Demand) -> Layer:
        """Return a layer of what may be reclaimed, without holdings that make no room for the gang."""
        kept = (
            [holding for holding in self.kept_from(demand) if holding.model == model] if self._lapsed else []
        )
        if not kept:
            return layer
        left = layer.copy()
        for holding in kept:
            for part in holding.parts:
                left.remove(part)
        return left

    def _but(self, demand: Demand, model: str, offered: Layer) -> Layer:
        """Return the layer without nodes that the gang may not use."""
        allowed = self._allowed(demand, model)
        return offered if allowed is None else offered.on(allowed)

    def _allowed(self, demand: Demand, model: str) -> int | None:
        """Return the set of nodes that the gang may use; None: all of them."""
        in_pinned = self._minds_pinned(model, demand)
        fleet = self.cluster.fleets[model]
        # A gang with GPUs never fits on closed nodes; a gang without GPUs must be kept off them.
        in_open = demand.lacks_gpus and fleet.open_nodes != fleet.everything
        if not demand.avoid and not demand.candidates and not in_pinned and not in_open:
            return None
        nodes = fleet.nodes
        if model in self._private:
            left = sum([1 << number for number, node in enumerate(nodes) if self._will_do(node, demand)])
        else:
            left = allowed_nodes(self.cluster, model, demand)
        if in_pinned:
            pinned = demand.pinned_cell
            left &= sum([1 << number for number, node in enumerate(nodes) if node.pinned_cell == pinned])
        return left & fleet.open_nodes if in_open else left

    def _will_do(self, node: Node, demand: Demand) -> bool:
        """Whether a gang may be on the hardware to which a virtual node is or can be bound."""
        home = self.cluster.home_of(node)
        if home is not None:
            return home.id not in demand.avoid and allowed_by(demand.candidates, home.name)
        return not demand.candidates or self.cluster.can_bind([node.gpus[0].id], demand.candidates)

    def _minds_pinned(self, model: str, demand: Demand) -> bool:
        """Whether pinned cells restrict the demand's nodes; they never restrict opportunistic jobs."""
        return self.cluster.fleets[model].has_pinned or bool(self._private and demand.pinned_cell)

    def _own_victims(self, model: str) -> dict[int, list[tuple[Holding, Part]]]:
        """Return the possible victims among the view's own jobs by node: the least important first."""
        found: dict[int, list[tuple[Holding, Part]]] = {}
        for holding in reversed(self.pending.values()):
            if holding.model == model and not self._is_pinned(holding):
                for part in holding.parts:
                    found.setdefault(part.node, []).append((holding, part))
        return found

    def _occupants(
        self,
        model: str,
        own: Mapping[int, Sequence[tuple[Holding, Part]]],
        demand: Demand,
        node: int,
    ) -> list[tuple[Holding, Part]]:
        """Return the possible victims on a node: the one that loses least first, the view's own jobs last."""
        found: list[tuple[Holding, Part]] = []
        if len(self._layers[model]) > EVICTING and model not in self._private:
            found = [pair for pair in self._evictable.get((model, node), ()) if pair[0] not in self.dropped]
            if self._lapsed:
                kept = self.kept_from(demand)
                found = [pair for pair in found if pair[0] not in kept]
        found += own.get(node, ())
        return found

    def _larger_evictable(self, model: str, demand: Demand, most: int) -> list[Holding]:
        """Return a few possible victims on any nodes, each with enough GPUs for a gang and at most `most`;
        those with the fewest come first.
        """
        found: list[Holding] = []
        for gpus in range(demand.gpus, most + 1):
            for holding in self._by_size.get((model, gpus), ()):
                if holding not in self.dropped and holding not in self._lapsed:
                    found.append(holding)
                    if len(found) == FEW:
                        return found
        return found

    def _is_pinned(self, holding: Holding) -> bool:
        return bool(self.pinned) and holding.running is not None and holding.running.jobs in self.pinned
