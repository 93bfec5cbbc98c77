"""The nodes on which a user lets a job start: HiveD's suggested nodes, but as a hard constraint.

Cells have no nodes until they are bound, so a gang fits in cells if these can be bound on such nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.cells.chains import Chain
from scheduler.core.cells.mapping import Binder, Unbindable
from scheduler.core.cells.world import World
from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import Demand, models_of
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import RETURNING, SERVING, Candidates, Job, Node, NodeId

#: Nodes named in a reason's details.
MOST_NODES = 20


def allowed_by(candidates: Sequence[Candidates], node: str) -> bool:
    """Whether all of these allow the node of this name."""
    return all([each.allow(node) for each in candidates])


def allowed_in(chain: Chain, candidates: Sequence[Candidates]) -> int | None:
    """Return the set of a chain's nodes that all of these allow; None: all of them."""
    found = _allowed(chain.nodes, candidates)
    return None if found.bit_count() == len(chain.nodes) else found


def allowed_nodes(cluster: Cluster, model: str, demand: Demand) -> int:
    """Return the set of a fleet's nodes on which a gang may be, and that it need not avoid.

    The answer is cached, since a waiting job asks in every round.
    """
    key = (model, demand.avoid, demand.candidates)
    found = cluster.allowed_nodes.get(key)
    if found is None:
        nodes = cluster.fleets[model].nodes
        found = _allowed(cluster.numbers_by_name(model), demand.candidates)
        if demand.avoid:
            found &= ~sum([1 << number for number, node in enumerate(nodes) if node.id in demand.avoid])
        cluster.allowed_nodes[key] = found
    return found


def models_on_candidates(job: Job, cluster: Cluster) -> tuple[str, ...]:
    """Return the GPU models that a job may have on the nodes that it names; all, where none of these has
    GPUs.
    """
    models = models_of(job, cluster)
    if job.nodes is None or len(models) == 1:
        return models
    found = [model for model in models if _allowed(cluster.numbers_by_name(model), (job.nodes,))]
    return tuple(found) or models


def _allowed(numbers: Mapping[str, int], candidates: Sequence[Candidates]) -> int:
    """Return the set of the nodes that all of these allow; only what they name is looked up."""
    found = (1 << len(numbers)) - 1
    for each in candidates:
        if each.only:
            found &= _set_of(numbers, each.only)
        found &= ~_set_of(numbers, each.avoid)
    return found


def _set_of(numbers: Mapping[str, int], names: Iterable[str]) -> int:
    found = 0
    for name in names:
        if name in numbers:
            found |= 1 << numbers[name]
    return found


def bindable_nodes(world: World, virtual_cluster: str, candidates: Sequence[Candidates]) -> set[NodeId]:
    """Return virtual nodes that can be bound to candidate nodes at once, as many of each cell as possible.

    `world`: one in which only pinned cells are bound; it is left so.
    """
    bound: list[Binder] = []
    found, place = set[NodeId](), 0
    for space in (*world.spaces[virtual_cluster].values(), *world.pinned[virtual_cluster].values()):
        hardware = world.hardware[space.chain.name]
        allowed = allowed_in(space.chain, candidates)
        for level, number in space.all_roots():
            size = space.chain.sizes[min(level, space.chain.node_level)]
            first = number * space.chain.sizes[level]
            units = space.chain.sizes[level] // size
            for count in range(units, 0, -1):
                binder = Binder(hardware, space, allowed)
                try:
                    binder.bind(range(first, first + count * size))
                except Unbindable:
                    continue
                bound.append(binder)
                found.update(NodeId(-place - unit - 1) for unit in range(count))
                break
            place += units
    for binder in reversed(bound):
        binder.undo()
    return found


def misfit_on_candidates(
    demand: Demand, fleet: Fleet, whole: Layer, allowed: int, node_rank: int
) -> Reason | None:
    """Return why a gang that fits into a fleet can never run on the nodes that it may use; None when it can.

    `whole`: what the fleet offers when it is idle; `allowed`: the set of its nodes that may be used.
    """
    layer, widest = whole.on(allowed), demand.ranks[-1]
    if locate(layer, fleet, demand, widest, node_rank) is not None:
        return None
    nearest = locate(whole, fleet, demand, widest, node_rank, layer)
    lacking = [] if nearest is None else sorted({node for node in nearest if not allowed >> node & 1})
    names = [fleet.nodes[node].name for node in lacking if fleet.nodes[node].id > 0]
    short = f"there are {wording.gpus(layer.gpus, [fleet.model])} for it; it needs {demand.gpus}"
    apart = f"the {len(demand.needs)} replicas do not fit, even if all of them were idle"
    message = f"On the nodes that it may use ({described(demand.candidates)}),"
    return Reason(
        code="exceeds_candidates",
        tier=Tier.NEVER,
        message=f"{message} {short if layer.gpus < demand.gpus else apart}.",
        blocking=_named(demand),
        needed=demand.gpus,
        available=layer.gpus,
        hint=f"It would fit with {wording.listed(names)} as well."
        if names
        else "Name more nodes in `nodes.only`, or fewer in `nodes.avoid`.",
    )


def needed_words(demand: Demand) -> str:
    """Return "4 V100 or P100", or the CPUs and memory of a gang without GPUs."""
    return wording.gpus(demand.gpus, demand.models) if demand.gpus else "CPUs and memory for it"


def waits_for_candidates(demand: Demand, cluster: Cluster) -> Reason:
    """Return why a job waits although other nodes have room.

    The reason names the nodes that the job may use and that take no new work.
    """
    states = {
        node.name: state
        for model in demand.models
        for node in cluster.fleets[model].nodes
        if allowed_by(demand.candidates, node.name) and (state := _closed(node))
    }
    if states and any(each.only for each in demand.candidates):
        shown = sorted(states)[:MOST_NODES]
        described_states = wording.listed([f"{name} {states[name]}" for name in shown])
        return Reason(
            code="candidate_nodes",
            tier=Tier.CAPACITY,
            message=f"{needed_words(demand)} are available, but not on the nodes that"
            f" it may use: {described(demand.candidates)}. Nothing new starts on some of"
            f" these: {described_states}.",
            blocking=_named(demand),
            needed=demand.gpus,
            hint="It can start there when such a node takes work again. With other nodes in `nodes.only`"
            " it might start sooner.",
        )
    return Reason(
        code="candidate_nodes",
        tier=Tier.CAPACITY,
        message=f"{needed_words(demand)} are available, but not on the nodes that it may"
        f" use: {described(demand.candidates)}.",
        blocking=_named(demand),
        needed=demand.gpus,
        hint="It starts when others leave these nodes. With more of them in `nodes.only`, or fewer in"
        " `nodes.avoid`, it might start sooner.",
    )


def _closed(node: Node) -> str:
    """Return why nothing new starts on a node, in words; "": jobs may start there."""
    if node.loan is not None and node.loan.state == SERVING:
        return f"serves for its serving pool {node.loan.pool}, which does not lend it"
    if node.loan is not None and node.loan.state == RETURNING:
        return f"returns to its serving pool {node.loan.pool}"
    return "" if node.schedulable else "is cordoned or lost"


def _named(demand: Demand) -> dict[str, list[str]]:
    """Return the nodes that the jobs name, for a reason's details."""
    only = [name for each in demand.candidates for name in each.only]
    avoid = [name for each in demand.candidates for name in each.avoid]
    return {key: names[:MOST_NODES] for key, names in (("nodes", only), ("avoid", avoid)) if names}


def described(candidates: Sequence[Candidates]) -> str:
    """Return "only A and B", "all but C"."""
    words = []
    for each in candidates:
        only = [name for name in each.only if each.allow(name)]
        words.append(f"only {wording.listed(only)}" if only else f"all but {wording.listed(each.avoid)}")
    return "; ".join(dict.fromkeys(words))
