"""Step 4, place: the view's placer says exactly which GPUs; what it says is checked here."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.building_blocks.policy import Placed, Placer, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, demand_of_grant
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Decision, Placement


def place(view: View, decision: Decision, placer: Placer) -> tuple[Placed, Capacity]:
    """Return the placer's answer, and the capacity that is left.

    Raises PolicyError when the placer fails or uses GPUs that the view may not use.
    """
    try:
        placed = placer.place(decision.grants, view, _offered(view, decision))
        return placed, settle_exactly(view, decision, placed.placements)
    except PolicyError:
        raise
    except Exception as error:  # A placer may fail in any way it likes: it costs only its own view.
        raise PolicyError(f"placer {type(placer).__name__} failed: {error!r}") from error


def _offered(view: View, decision: Decision) -> Capacity:
    """Return a copy of the view's capacity in which those stay who are not up for decision."""
    capacity = view.capacity.fork()
    if decision.keep_running:
        named = [job for grant in decision.grants for job in grant.jobs if job in view.running]
        capacity.keep_all(but=[*named, *decision.stops])
    return capacity


def settle_exactly(view: View, decision: Decision, placements: Mapping[int, Placement]) -> Capacity:
    """Carry out placements on the view's own capacity, which refuses those that are not allowed."""
    if not set(placements) <= set(range(len(decision.grants))):
        raise PolicyError(f"grants were placed that do not exist: {sorted(placements)}")
    capacity = _offered(view, decision)
    staying = set()
    for position, placement in placements.items():
        jobs = decision.grants[position].jobs
        holding = capacity.pending.get(jobs)
        if holding is not None and holding.running and holding.running.replicas == placement.replicas:
            capacity.keep(holding)
            staying.add(position)
    for holding in list(capacity.pending.values()):
        capacity.drop(holding)
    for position, placement in placements.items():
        if position not in staying:
            demand = demand_of_grant(decision.grants[position], view.jobs, capacity.cluster)
            nodes = _nodes_of(placement, demand, capacity)
            capacity.take(capacity.fit_on(demand, placement, nodes))
    if capacity.limits and min(capacity.limits.values()) < 0:
        raise PolicyError(f"view {view.name} was given more GPUs than it is guaranteed")
    return capacity


def _nodes_of(placement: Placement, demand: Demand, capacity: Capacity) -> list[int]:
    """Return the node of each replica; raise PolicyError when the placement is not what was granted."""
    model, where = placement.gpu_model, capacity.cluster.where
    if model not in demand.models or demand.gpus > capacity.room(model):
        raise PolicyError(f"{demand.gpus} GPUs of {model} were placed, which the view may not hand out")
    if tuple(map(len, placement.replicas)) != tuple([need.gpus for need in demand.needs]):
        raise PolicyError(f"a gang of {demand.gpus} GPUs was placed as {placement.replicas}")
    if len(set(placement.gpus)) != demand.gpus:
        raise PolicyError(f"a GPU was used twice in {placement.replicas}")
    nodes = []
    for replica in placement.replicas:
        places = {where[gpu][:2] for gpu in replica if gpu in where}
        if len(places) != 1 or any(gpu not in where for gpu in replica) or min(places)[0] != model:
            raise PolicyError(f"a replica was placed on GPUs {replica}, not all {model} of one node")
        nodes.append(min(places)[1])
    return nodes
