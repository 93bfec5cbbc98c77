"""A place for a gang where others must leave, chosen so that the victims lose as little as possible.

A victim's whole gang stops, so the cost is all GPUs of the victims, then the number of victims, since each is
stopped or moved, then the work that they lose. So one gang over many nodes is preferred as a victim to many
gangs on one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import (
    Fit,
    Holding,
    Part,
    by_node,
    fit_at,
    freed,
    gpus_of,
    processors_of,
    readings_of_all,
)
from scheduler.core.fitting.packing import Layer, locate, single_nodes

#: Nodes compared for one gang; those with most GPUs available without an eviction come first.
CANDIDATES = 64

#: The possible victims on a node, in order.
Occupants = Callable[[int], Sequence[tuple[Holding, Part]]]
#: Possible victims on any nodes, each with enough GPUs, but at most this many.
Elsewhere = Callable[[int], Sequence[Holding]]


#: GPUs of all victims, the number of victims, and the GPU-seconds of work that they lose.
Loss = tuple[int, int, float]


class Room(NamedTuple):
    """A node for each replica, the GPUs of each node, and the victims."""

    nodes: Sequence[int]
    masks: dict[int, int]
    victims: list[Holding]


def reclaim(
    fleet: Fleet,
    free: Layer,
    offered: Layer,
    occupants: Occupants,
    demand: Demand,
    rank: int,
    node_rank: int,
    elsewhere: Elsewhere | None = None,
) -> Fit | None:
    """Return the place that costs others least: on one node if possible, else on as few as possible.

    `free`: what is available without an eviction; `offered`: with any number of them. Where several gangs
    would have to leave, one gang `elsewhere` leaves instead if its GPUs suffice.
    """
    single = islice(single_nodes(offered, fleet, demand, rank, free), CANDIDATES)
    options: list[Sequence[int]] = [[node] * len(demand.needs) for _, node in single]
    if not options:
        spread = locate(offered, fleet, demand, rank, node_rank, free)
        options = [] if spread is None else [spread]
    found: list[tuple[Loss, int, Room]] = []
    for nodes in options:
        room = _make_room(fleet, free, offered, occupants, demand, nodes, min(rank, node_rank))
        if room is not None:
            found.append((_loss(room.victims), len(found), room))
    if not found:
        return None
    *_, room = min(found, key=lambda option: option[:2])
    if len(room.victims) > 1:
        others = elsewhere(_loss(room.victims)[0]) if elsewhere is not None else ()
        line = room.victims, others
        room = _disturbing_fewer(fleet, free, offered, occupants, demand, node_rank, *line) or room
    return fit_at(fleet, demand, room.nodes, room.masks, tuple(room.victims))


def _loss(victims: Sequence[Holding]) -> Loss:
    gpus = sum([victim.gpus for victim in victims])
    return gpus, len(victims), sum([victim.gpus * victim.cost_seconds for victim in victims])


def _disturbing_fewer(
    fleet: Fleet,
    free: Layer,
    offered: Layer,
    occupants: Occupants,
    demand: Demand,
    node_rank: int,
    victims: Sequence[Holding],
    others: Sequence[Holding],
) -> Room | None:
    """Return a place with fewer victims, however far apart the gang may be; or None.

    Victims lose all their GPUs on all nodes. The GPUs of one victim are tried, the smallest first, then those
    of one of the others, then those of several victims, the largest first. Victims must have enough GPUs
    without idle ones, so usually nothing is tried.
    """
    line = sorted(victims, key=lambda victim: (-victim.gpus, victim.disturbance))
    alone = [victim for victim in reversed(line) if victim.gpus >= demand.gpus]
    tried: list[tuple[Holding, ...]] = [(victim,) for victim in alone[:CANDIDATES]]
    tried += [(other,) for other in others if other not in victims]
    for count in range(2, min(len(line), CANDIDATES)):
        if sum([victim.gpus for victim in line[:count]]) >= demand.gpus:
            tried.append(tuple(line[:count]))
    # A job that shares a GPU leaves no whole GPU behind.
    tried = [some for some in tried if not any([part.shares for each in some for part in each.parts])]
    if not tried:
        return None
    nodes = ((1 << len(offered.masks)) - 1) & ~offered.by_count[0]
    kept, rank = free.on(nodes), demand.ranks[-1]
    for leaving in tried:
        layer = kept.copy()
        for holding in leaving:
            for part in holding.parts:
                layer.add(part, offered.masks[part.node])
        found = locate(layer, fleet, demand, rank, node_rank, kept)
        if found is None:
            continue

        def only(node: int, leaving: Sequence[Holding] = leaving) -> Sequence[tuple[Holding, Part]]:
            return [pair for pair in occupants(node) if pair[0] in leaving]

        room = _make_room(fleet, kept, layer, only, demand, found, min(rank, node_rank))
        if room is not None:
            return room
    return None


def _make_room(
    fleet: Fleet,
    free: Layer,
    offered: Layer,
    occupants: Occupants,
    demand: Demand,
    nodes: Sequence[int],
    rank: int,
) -> Room | None:
    """Choose the victims, and the GPUs to take, to place the gang on these nodes."""
    victims: list[Holding] = []
    masks: dict[int, int] = {}
    for node, needs in by_node(nodes, demand.needs).items():
        layout, count, usable = fleet.layouts[node], gpus_of(needs), offered.masks[node]
        had = free.masks[node]
        cpus, memory = lacking_of(Part(node, 0, *processors_of(needs)), free)
        readings = readings_of_all(needs)
        staying: list[tuple[Holding, Part]] = []
        left: list[Part] = []
        for holding, part in occupants(node):
            if holding in victims:
                left.append(part)
                cpus, memory = cpus - part.cpus, memory - part.memory
            else:
                staying.append((holding, part))
        had |= freed(left, [part for _, part in staying]) & usable
        choices: list[tuple[int, int, int, list[tuple[Holding, Part]]]] = []
        for group in layout.levels[rank]:
            lacking = count - (had & group).bit_count()
            needed = Part(node, group & usable, cpus, memory, readings=readings)
            chosen = fewest(staying, needed, lacking, free, left)
            if chosen is not None:
                loss = sum([holding.gpus for holding, _ in chosen])
                choices.append((loss, len(choices), group, chosen))
        if not choices:
            return None
        *_, group, chosen = min(choices, key=lambda choice: choice[:2])
        victims += [holding for holding, _ in chosen]
        left += [part for _, part in chosen]
        had |= freed(left, [pair[1] for pair in staying if pair not in chosen]) & usable
        masks[node] = layout.nearest(had & group, count)[1]
    return Room(nodes, masks, victims)


def lacking_of(part: Part, free: Layer) -> tuple[float, float]:
    """Return the CPUs and the bytes of memory that a node lacks for this part; 0 for what the part does not
    ask for.
    """
    cpus, memory = part.cpus - free.cpus[part.node], part.memory - free.memory[part.node]
    return cpus if part.cpus else min(cpus, 0.0), memory if part.memory else min(memory, 0.0)


def fewest(
    occupants: Sequence[tuple[Holding, Part]], lacking: Part, gpus: int, free: Layer, gone: Sequence[Part]
) -> list[tuple[Holding, Part]] | None:
    """Choose which jobs must leave so that `gpus` GPUs of `lacking.mask`, and its CPUs and memory, come free.

    Its readings must be possible too, beside what the node reads in `free` without those that are `gone`.
    Takes occupants in their order until they suffice, then spares those that turn out not to be needed, the
    most expensive first. None when all of them together do not suffice.
    """

    shared = any([part.shares for _, part in occupants])

    def gpus_from(chosen: Sequence[tuple[Holding, Part]]) -> int:
        if not shared:
            return sum([(part.mask & lacking.mask).bit_count() for _, part in chosen])
        staying = [pair[1] for pair in occupants if pair not in chosen]
        return (freed([part for _, part in chosen], staying) & lacking.mask).bit_count()

    def can_be_read(chosen: Sequence[tuple[Holding, Part]]) -> bool:
        leaving = [reading for part in (*gone, *[part for _, part in chosen]) for reading in part.readings]
        return free.can_read(lacking.node, lacking.readings, leaving)

    def enough(chosen: Sequence[tuple[Holding, Part]]) -> bool:
        return (
            gpus_from(chosen) >= gpus
            and sum([part.cpus for _, part in chosen]) >= lacking.cpus
            and sum([part.memory for _, part in chosen]) >= lacking.memory
            and (not lacking.readings or can_be_read(chosen))
        )

    chosen: list[tuple[Holding, Part]] = []
    for occupant in occupants:
        if enough(chosen):
            break
        chosen.append(occupant)
    if not enough(chosen):
        return None
    for occupant in reversed(chosen.copy()):
        fewer = [other for other in chosen if other is not occupant]
        if enough(fewer):
            chosen = fewer
    return chosen
