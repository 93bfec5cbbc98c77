"""The GPUs that a view offers, by model and node, and the sizes that its gangs may have there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.elastic.arrangement import NOWHERE, Arrangement, Gang, Row
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import NODE_LEVEL
from scheduler.core.fitting.demand import all_sizes_of, demand_of, least_gpus, models_of
from scheduler.core.model.snapshot import Job, JobId, NodeId, Running

#: A job gets at most this many times the replicas that it ever had, until its scaling is known.
EXPLORATION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """GPUs of one model, and the jobs of the view that may be on them."""

    gpu_model: str
    #: By number of the node: its id, and the GPUs that the view may hand out there, its own included.
    nodes: tuple[NodeId, ...]
    room: tuple[int, ...]
    #: GPUs that may be handed out in all.
    limit: int
    jobs: tuple[Job, ...]
    #: By position in `jobs`.
    gangs: tuple[Gang, ...]

    def row_of(self, position: int, row: Row) -> tuple[tuple[NodeId, int], ...]:
        """Return a gang's nodes by their ids, as a grant names them."""
        return tuple([(self.nodes[node], row[node]) for node in sorted(row)])


def has_exact_nodes(job: Job) -> bool:
    """Whether counts by node describe a gang's place: its replicas are equal, and need no level below a
    node.
    """
    near = job.topology is not None and job.topology.required
    return len(job.tasks) == 1 and not (
        near and job.topology is not None and job.topology.level != NODE_LEVEL
    )


def pools_of(view: View, order: Callable[[Job], tuple[object, ...]]) -> list[Pool]:
    """Return a pool for each model that the view may hand out, jobs in `order`.

    A running job is in the pool of its model. A waiting job that accepts several models is in the pool of the
    first on which its speed is known, else of the one with the most GPUs for each job. Jobs that share GPUs
    and misplaced ones are in none, and their GPUs are not offered.
    """
    pools = _pools_without(view, order, _sharing(view.capacity))
    stuck = {(job,) for pool in pools for job in misplaced(view, pool)}
    return _pools_without(view, order, _sharing(view.capacity) | stuck) if stuck else pools


def _pools_without(
    view: View, order: Callable[[Job], tuple[object, ...]], kept: Collection[tuple[JobId, ...]]
) -> list[Pool]:
    capacity = view.capacity
    rooms = {model: capacity.offered_by_node(model, but=kept) for model in capacity.models}
    limits = {model: _limit(capacity, model, sum(rooms[model]), kept) for model in capacity.models}
    members: dict[str, list[Job]] = {model: [] for model in capacity.models}
    jobs = sorted(view.jobs.values(), key=order)
    for job in jobs:
        running = view.running.get(job.id)
        if running is None or running.jobs != (job.id,) or running.jobs in kept:
            continue
        if running.gpu_model in members:
            members[running.gpu_model].append(job)
    for job in jobs:
        if job.id not in view.running:
            fitting = [
                model
                for model in models_of(job, capacity.cluster)
                if model in members and limits[model] >= least_gpus(job)
            ]
            if fitting:
                members[_preferred(job, fitting, limits, members)].append(job)
    return [
        _pool(view, model, inside, rooms[model], limits[model]) for model, inside in members.items() if inside
    ]


def pool_on(view: View, model: str, jobs: Sequence[Job]) -> Pool:
    """Return the pool of a model with only these jobs, whichever model they run on now."""
    capacity = view.capacity
    sharing = _sharing(capacity)
    room = capacity.offered_by_node(model, but=sharing)
    return _pool(view, model, jobs, room, _limit(capacity, model, sum(room), sharing))


def _sharing(capacity: Capacity) -> set[tuple[JobId, ...]]:
    return {unit for unit in capacity.pending if len(unit) > 1}


def _pool(view: View, model: str, jobs: Sequence[Job], room: Sequence[int], limit: int) -> Pool:
    fleet = view.capacity.cluster.fleets[model]
    numbers = {node.id: number for number, node in enumerate(fleet.nodes)}
    return Pool(
        gpu_model=model,
        nodes=tuple(numbers),
        room=tuple(room),
        limit=limit,
        jobs=tuple(jobs),
        gangs=tuple([_gang(job, view, model, limit, numbers) for job in jobs]),
    )


def misplaced(view: View, pool: Pool) -> set[JobId]:
    """Return the jobs on GPUs of the model that the view may no longer hand out, such as those of closed
    nodes.

    No policy can change that, so they stay as they are.
    """
    found: set[JobId] = set()
    board = Arrangement(pool.room, pool.gangs, limit=pool.limit, apart=False)
    for place, (job, gang) in enumerate(zip(pool.jobs, pool.gangs, strict=True)):
        running = view.running.get(job.id)
        if running is None or gang.pinned or running.gpu_model != pool.gpu_model:
            continue
        is_whole = sum(gang.base.values()) * gang.replica_gpus == len(running.gpus)
        if is_whole and board.fits(place, gang.base):
            board.put(place, gang.base)
        else:
            found.add(job.id)
    return found


def most_replicas(job: Job, running: Running | None) -> int:
    """Return the most replicas that a job should get for now: twice as many as it ever had, so that assumed
    scaling is tested step by step (Pollux, OSDI'21, section 4.1).
    """
    least = least_gpus(job) // job.tasks[0].gpus
    had = 0 if running is None else len(running.replicas)
    if job.goodput is not None:
        had = max(had, job.goodput.most_replicas)
    return max(EXPLORATION * had, least, 1)


def _limit(capacity: Capacity, model: str, offered: int, sharing: Collection[tuple[JobId, ...]]) -> int:
    """Return how many GPUs of a model the jobs that share none may have together."""
    room = int(capacity.room(model))
    for unit, holding in capacity.pending.items():
        if holding.model == model:
            # Pinned holdings were already subtracted when the view was made.
            room += holding.gpus if unit in capacity.pinned else 0
            room -= holding.gpus if unit in sharing else 0
    return max(min(offered, room), 0)


def _preferred(
    job: Job, fitting: Sequence[str], limits: Mapping[str, int], members: Mapping[str, Sequence[Job]]
) -> str:
    known = job.goodput.parameters if job.goodput is not None else job.throughput
    for model in fitting:
        if model in known:
            return model
    return max(fitting, key=lambda model: limits[model] / (1 + len(members[model])))


def _gang(job: Job, view: View, model: str, limit: int, numbers: Mapping[NodeId, int]) -> Gang:
    running, capacity = view.running.get(job.id), view.capacity
    each = job.tasks[0].gpus if len(job.tasks) == 1 else 1
    sizes = tuple([gpus // each for gpus in all_sizes_of(job) if gpus <= limit])
    if job.elastic is not None:
        bound = most_replicas(job, running)
        sizes = tuple([size for size in sizes if size <= bound]) or sizes[:1]
    here = running is not None and running.gpu_model == model
    base = _base(running, capacity, each) if running is not None and here else NOWHERE
    size = sum(base.values())
    pinned = running is not None and running.jobs in capacity.pinned
    if pinned or (job.elastic is None and base) or not sizes:
        sizes = (size or least_gpus(job) // each,)
    return Gang(
        replica_gpus=each,
        sizes=sizes,
        base=base,
        pinned=pinned,
        nodes=_allowed(job, capacity, model, numbers),
        on_one_node=job.topology is not None and job.topology.required and job.topology.level == NODE_LEVEL,
    )


def _base(running: Running, capacity: Capacity, each: int) -> Row:
    """Return a gang's replicas by node; for a gang with unequal replicas, its GPUs by node."""
    row: dict[int, int] = {}
    for replica in running.replicas:
        places = [capacity.cluster.where[gpu][1] for gpu in replica if gpu in capacity.cluster.where]
        if places:
            row[places[0]] = row.get(places[0], 0) + len(replica) // each
    return row


def _allowed(
    job: Job, capacity: Capacity, model: str, numbers: Mapping[NodeId, int]
) -> frozenset[int] | None:
    demand = demand_of(job, capacity.cluster, least_gpus(job), model)
    return capacity.nodes_for(demand, model)
