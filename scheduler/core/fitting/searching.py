"""Searches for placements within what a view may hand out; nothing here changes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from scheduler.core.fitting.account import Account
from scheduler.core.fitting.cards import gpus_in
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import (
    Fit,
    Holding,
    Part,
    by_node,
    fit_at,
    gpus_of,
    holding_at,
    holding_in,
    nodes_of,
    together,
)
from scheduler.core.fitting.offers import EVICTING, IDLE, OWN, RELEASING, BySize, Offers
from scheduler.core.fitting.open_gpus import OpenGpus, Places, is_carried, leaving, loss_of
from scheduler.core.fitting.packing import Layer, locate_gpus
from scheduler.core.fitting.reclaim import fewest, lacking_of, reclaim
from scheduler.core.model.bits import members
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Placement
from scheduler.core.model.snapshot import JobId

#: A placer's rule: from what the models offer, a model and the node of each replica of a gang; or None.
Chooser = Callable[[Cluster, Mapping[str, Layer], Demand], tuple[str, Sequence[int]] | None]
#: The same for a gang with parts of GPUs, at a reach: `Searching.open_gpus` returns its offer, and
#: `Searching.fit_of` makes a fit of its choice.
PartChooser = Callable[["Searching", Demand, int], Fit | None]


class Searching(Offers):
    """The layers of a view, with an account of what it may still hand out."""

    def __init__(
        self,
        cluster: Cluster,
        layers: Mapping[str, Sequence[Layer]],
        evictable: Mapping[tuple[str, int], Sequence[tuple[Holding, Part]]],
        by_size: BySize | None = None,
    ) -> None:
        super().__init__(cluster, layers, evictable, by_size)
        #: What the view may still hand out.
        self.account = Account()
        #: Asked first for a place where no job is disturbed; if None, or if it finds nothing, `packing`
        #: chooses.
        self.chooser: Chooser | None = None
        #: The same for gangs with parts of GPUs; else `open_gpus` chooses.
        self.part_chooser: PartChooser | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return self.cluster.models

    def may_stay(self, holding: Holding) -> bool:
        """Whether the view may still hand out the GPUs of one of its own holdings."""
        return self._is_pinned(holding) or self.account.cost(holding) <= self.room(holding.model)

    def undisturbed(self, model: str) -> int:
        """Return how many GPUs of a model could be handed out without stopping a job: idle ones and those
        coming free, within the view's limit.
        """
        return max(0, min(self._layers[model][RELEASING].gpus, self.room(model)))

    def room(self, model: str) -> int:
        """Return how many more GPUs of a model the view's limit allows."""
        room = self.account.room(model)
        return self.cluster.fleets[model].total if room is None else room

    def offered(self, model: str) -> int:
        """Return how many GPUs of a model could be handed out now, including those of possible victims."""
        holdings = [holding for holding in self.pending.values() if holding.model == model]
        kept = [holding for holding in holdings if self._is_pinned(holding)]
        own, pinned = [together(each, has_parts=bool(self.account.own.opened)) for each in (holdings, kept)]
        return min(self._layers[model][-1].gpus + own - pinned, self.room(model)) + pinned

    def offered_by_node(self, model: str, but: Collection[tuple[JobId, ...]] = ()) -> list[int]:
        """Return what each node offers of a model, including the GPUs of possible victims, except those in
        `but`.
        """
        masks, usable = list(self._layers[model][-1].masks), self.cluster.fleets[model].usable
        counts = [mask.bit_count() for mask in masks]
        for jobs, holding in self.pending.items():
            if holding.model == model and jobs not in but:
                for part in holding.parts:
                    kept = part.mask if self._is_pinned(holding) else part.mask & usable[part.node]
                    counts[part.node] += (kept & ~masks[part.node]).bit_count()
        return counts

    def nodes_for(self, demand: Demand, model: str) -> frozenset[int] | None:
        """Return the numbers of a model's nodes that a gang may use; None: all of them."""
        allowed = self._allowed(demand, model)
        return None if allowed is None else frozenset(members(allowed))

    def find_on(self, demand: Demand, model: str, nodes: Sequence[int], own: Mapping[int, int]) -> Fit | None:
        """Return a place on these nodes, one for each replica, preferring the gang's `own` GPUs; or None."""
        if demand.has_parts:
            offers = (self.open_gpus(model, reach, demand) for reach in range(OWN + 1))
            found = (offered.place_on(demand, nodes) for offered in offers if offered is not None)
            places = next((places for places in found if places is not None), None)
            return None if places is None else self.fit_of(demand, model, places)
        needs, fleet = by_node(nodes, demand.needs), self.cluster.fleets[model]
        free = self._layers[model][RELEASING].masks
        for reach in range(OWN + 1 if demand.gpus <= self.room(model) else 0):
            offered = self._offered(model, reach, demand)
            if offered is None:
                continue
            offered = self._but(demand, model, offered)
            if not all(offered.holds(node, needed) for node, needed in needs.items()):
                continue
            masks = {}
            for node, needed in needs.items():
                liked = (own.get(node, 0), free[node], offered.masks[node])
                masks[node] = fleet.layouts[node].prefer(offered.masks[node], gpus_of(needed), liked)
            fit = fit_at(fleet, demand, nodes, masks)
            is_bound = not demand.candidates or self.cluster.can_bind(fit.placement.gpus, demand.candidates)
            return self.fit_on(demand, fit.placement, nodes) if is_bound else None
        return None

    def find(self, demand: Demand) -> Fit | None:
        """Return the best place for a gang, one that disturbs no job if there is one; or None.

        A view's own cells are guaranteed to it: there it uses nodes that the gang should avoid if there is no
        other place (decision 0016). A node that is not a candidate is never used.
        """
        fit = self._search(demand)
        if fit is None and demand.avoid and self._private:
            own = tuple([model for model in demand.models if model in self._private])
            fit = self._search(replace(demand, models=own, avoid=frozenset()))
        if fit is None or not demand.candidates:
            return fit
        return fit if self.cluster.can_bind(fit.placement.gpus, demand.candidates) else None

    def _search(self, demand: Demand) -> Fit | None:
        if demand.has_parts:
            return self._search_parts(demand)
        roomy = [model for model in demand.models if demand.gpus <= self.room(model)]
        for reach in range(OWN + 1):
            models = [model for model in roomy if self._adds(model, reach)]
            if not models:
                continue
            if self.chooser is not None and reach <= RELEASING:
                offers = {model: self._but(demand, model, self._layers[model][reach]) for model in models}
                chosen = self.chooser(self.cluster, offers, demand)
                if chosen is not None:
                    return self._fit_on_chosen(*chosen, offers, demand)
            found = (fit for model in models if (fit := self._find_in(model, reach, demand)) is not None)
            # A job without GPUs goes where the fewest GPUs are idle, since GPU jobs need the CPUs there
            # least.
            best = next(found, None) if demand.gpus else min(found, key=self._idle_beside, default=None)
            if best is not None:
                return best
        return None

    def _fit_on_chosen(
        self, model: str, nodes: Sequence[int], offers: Mapping[str, Layer], demand: Demand
    ) -> Fit:
        fleet = self.cluster.fleets[model]
        place = locate_gpus(offers[model], fleet, demand, 0, 0, nodes)
        assert place is not None
        return fit_at(fleet, demand, *place)

    def _find_in(self, model: str, reach: int, demand: Demand) -> Fit | None:
        offered = self._offered(model, reach, demand)
        if offered is None or offered.gpus < demand.gpus:
            return None
        offered = self._but(demand, model, offered)
        if not offered.has_gpus_for(demand):
            return None
        fleet, node_rank = self.cluster.fleets[model], self.cluster.node_rank
        for rank in demand.ranks:
            if reach > RELEASING:
                fit = self._reclaim(offered, model, reach, demand, rank)
            else:
                place = locate_gpus(offered, fleet, demand, rank, node_rank)
                fit = None if place is None else fit_at(fleet, demand, *place)
            if fit is not None:
                return fit
        return None

    def _idle_beside(self, fit: Fit) -> int:
        idle = self._layers[fit.holding.model][IDLE].masks
        return sum([idle[part.node].bit_count() for part in fit.holding.parts])

    def fit_on(self, demand: Demand, placement: Placement, nodes: Sequence[int]) -> Fit:
        """Return the fit at a place chosen elsewhere, given the node of each replica.

        Raises PolicyError when some of it is not available.
        """
        model = placement.gpu_model
        fleet = self.cluster.fleets[model]
        offered = self._offered(model, OWN, demand) or self._offered(
            model, len(self._layers[model]) - 1, demand
        )
        assert offered is not None
        masks: dict[int, int] = {}
        gpus = [sum([self.cluster.where[gpu][2] for gpu in replica]) for replica in placement.replicas]
        for node, mask in zip(nodes, gpus, strict=True):
            masks[node] = masks.get(node, 0) | mask
        if self._minds_pinned(model, demand):
            wrong = [node for node in masks if fleet.nodes[node].pinned_cell != demand.pinned_cell]
            if wrong:
                raise PolicyError(
                    f"what was placed on node {fleet.nodes[wrong[0]].name} is in the wrong cell"
                )
        if demand.has_parts:
            holding = holding_in(fleet, demand, nodes, gpus)
        else:
            holding = holding_at(fleet, demand, nodes, masks)
        for part in holding.parts:
            if _whole_gpus(part) & ~offered.masks[part.node]:
                raise PolicyError(f"what was placed on node {fleet.nodes[part.node].name} is not to be had")
        contested = [part for part in holding.parts if not self._is_free(part, model)]
        victims: dict[Holding, None] = {}
        if contested:
            occupants = partial(self._occupants, model, self._own_victims(model), demand)
            for part in contested:
                self._add_victims(victims, part, model, occupants(part.node))
        return Fit(placement, holding, tuple(victims))

    def _is_free(self, part: Part, model: str) -> bool:
        """Whether no job has to leave for what a gang would have of a node."""
        fleet, free = self.cluster.fleets[model], self._layers[model][RELEASING]
        cpus, memory = lacking_of(part, free)
        return (
            not _whole_gpus(part) & ~free.masks[part.node]
            and cpus <= 0
            and memory <= 0
            and (not part.readings or free.can_read(part.node, part.readings))
            and all(
                [free.takes(part.node, share, fleet.memory_of(part.node, share.gpu)) for share in part.shares]
            )
        )

    def _add_victims(
        self,
        victims: dict[Holding, None],
        part: Part,
        model: str,
        occupants: Sequence[tuple[Holding, Part]],
    ) -> None:
        """Add those that must leave for what a gang would have of a node; raise PolicyError if that is not
        enough.
        """
        fleet, free = self.cluster.fleets[model], self._layers[model][RELEASING]
        claimed = _whole_gpus(part) & ~free.masks[part.node]
        cpus, memory = lacking_of(part, free)
        others, gone = [], list[Part]()
        makes_room = set[Holding]()
        for share in part.shares:
            movers = leaving(free, fleet, part.node, share, occupants, victims)
            if movers is None:
                raise PolicyError(f"a part of a GPU of node {fleet.nodes[part.node].name} is not to be had")
            makes_room.update(movers)
        for occupant, there in occupants:
            if there.mask & claimed or occupant in victims or occupant in makes_room:
                victims[occupant] = None
                cpus, memory = cpus - there.cpus, memory - there.memory
                gone.append(there)
            else:
                others.append((occupant, there))
        # Some may have to leave for their CPUs or memory, even if their GPUs are not needed.
        also = fewest(others, Part(part.node, 0, cpus, memory, readings=part.readings), 0, free, gone)
        if also is None:
            raise PolicyError(f"what was placed on node {fleet.nodes[part.node].name} is not to be had")
        victims.update((occupant, None) for occupant, _ in also)

    # Searching

    def _reclaim(self, offered: Layer, model: str, reach: int, demand: Demand, rank: int) -> Fit | None:
        fleet, free = self.cluster.fleets[model], self._layers[model][RELEASING]
        own = self._own_victims(model) if reach == OWN else {}
        occupants = partial(self._occupants, model, own, demand)
        others = partial(self._larger_evictable, model, demand) if reach == EVICTING else None
        return reclaim(fleet, free, offered, occupants, demand, rank, self.cluster.node_rank, others)

    # Parts of GPUs

    def _search_parts(self, demand: Demand) -> Fit | None:
        for reach in range(OWN + 1):
            if self.part_chooser is not None and reach <= RELEASING:
                chosen = self.part_chooser(self, demand, reach)
                if chosen is not None:
                    return chosen
            for model in demand.models:
                offered = self.open_gpus(model, reach, demand)
                places = None if offered is None else offered.nearest(demand, self.cluster.node_rank)
                if places is not None:
                    return self.fit_of(demand, model, places)
        return None

    def open_gpus(self, model: str, reach: int, demand: Demand) -> OpenGpus | None:
        """Return what a gang with parts is offered at that reach; None: no more than at the previous one.

        In its own cells a view has whole GPUs only (decision 0053).
        """
        has_more = model not in self._private and self._adds(model, reach)
        offered = self._offered(model, reach, demand) if has_more else None
        if offered is None:
            return None
        kept, layers = self._layers[model][RELEASING], self._layers[model]
        loss = None
        if reach > RELEASING:
            own = self._own_victims(model) if reach == OWN else {}
            occupants = partial(self._occupants, model, own, demand)
            loss = partial(loss_of, kept, self.cluster.fleets[model], occupants)
        return OpenGpus(
            layer=self._but(demand, model, offered),
            fleet=self.cluster.fleets[model],
            budget=self.account.room(model),
            opened=partial(self.account.has_opened, model),
            is_carried=is_carried((kept, layers[IDLE]), demand),
            loss=loss,
        )

    def fit_of(self, demand: Demand, model: str, places: Places) -> Fit:
        """Return the fit of a gang with parts on these GPUs; raise PolicyError when one is not available."""
        fleet = self.cluster.fleets[model]
        replicas = tuple(
            [
                tuple([fleet.gpus[node][gpu] for gpu in members(mask)])
                for node, mask in zip(*places, strict=True)
            ]
        )
        placement = Placement(gpu_model=model, replicas=replicas, nodes=nodes_of(fleet, demand, places[0]))
        return self.fit_on(demand, placement, places[0])


def _whole_gpus(part: Part) -> int:
    """Return the set of GPUs that a gang would have whole."""
    return part.mask & ~gpus_in(part.shares) if part.shares else part.mask
