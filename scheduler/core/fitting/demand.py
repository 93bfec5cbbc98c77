"""What a grant asks of the cluster: its replicas, the models it accepts, and their locality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from scheduler.core.fitting.cluster import NODE_LEVEL, Cluster, Shapes
from scheduler.core.fitting.storage import Reading, merged
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart, SharingLabels, is_instance
from scheduler.core.model.plan import Grant, Locality
from scheduler.core.model.snapshot import FIXED_WORLD, Candidates, Job, JobId, NodeId, Task


class Need(NamedTuple):
    """What one replica takes of the node it is on."""

    gpus: int
    cpus: float
    memory_bytes: int
    #: The part of its one GPU; None: it has whole GPUs.
    part: GpuPart | None = None
    #: Labels that decide which jobs may share the GPU with it.
    labels: SharingLabels | None = None
    #: The data sets that it reads there.
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """A gang to be placed whole, on GPUs of one model."""

    needs: tuple[Need, ...]
    gpus: int
    #: Models to try, in this order.
    models: tuple[str, ...]
    #: Ranks of the topology levels to try in this order; the gang must fit into one group of that level.
    ranks: tuple[int, ...]
    #: Nodes that it should avoid. Within its guarantee such a node is still better than none.
    avoid: frozenset[NodeId] = frozenset()
    #: Each of these must allow every node that it is on.
    candidates: tuple[Candidates, ...] = ()
    #: The pinned cell that it must be in; empty: in none.
    pinned_cell: str = ""
    #: Lapsed holdings make room only for a demand of higher priority than theirs. 0 while there are none.
    priority: int = 0
    #: The number of replicas without which an elastic gang cannot run; later ones are flexible. 0: all.
    base: int = 0
    #: Whether some replicas have a part of their GPU.
    has_parts: bool = False
    #: Whether some replicas have no GPUs.
    lacks_gpus: bool = False
    #: (GPUs, how many replicas need at least that many), the largest first.
    sizes: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)
    #: The data sets that it reads; it prefers nodes where they are read already.
    data: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts = sorted(Counter([need.gpus for need in self.needs if need.gpus]).items(), reverse=True)
        totals = accumulate([count for _, count in counts])
        sizes = tuple([(gpus, total) for (gpus, _), total in zip(counts, totals, strict=True)])
        object.__setattr__(self, "sizes", sizes)
        data = frozenset([reading.data for need in self.needs if need.readings for reading in need.readings])
        object.__setattr__(self, "data", data)


def needs_of(job: Job, gpus: int) -> tuple[Need, ...]:
    """Return the replicas of a gang of that many GPUs, in the order of the job's spec.

    An elastic gang has one task, of which it runs more or fewer replicas. Raises PolicyError for a size
    that the job cannot have.
    """
    if gpus != job.gpus:
        if job.elastic is None or len(job.tasks) != 1:
            raise PolicyError(f"job {job.id} needs {job.gpus} GPUs and was granted {gpus}")
        least, most = job.elastic
        task = job.tasks[0]
        if not least <= gpus <= most or gpus % task.gpus:
            raise PolicyError(
                f"job {job.id} can run on {least} to {most} GPUs in steps of {task.gpus}"
                f" and was granted {gpus}"
            )
        if not divides_world(job, gpus):
            raise PolicyError(
                f"job {job.id} keeps its {task.replicas} replicas, which do not divide among {gpus} GPUs"
            )
    return needs_held(job, gpus)


def needs_held(job: Job, gpus: int) -> tuple[Need, ...]:
    """Return the same for a gang's present size, which may be one that could not be granted.

    For a gang of fixed world that shares devices, a replica here is a device: its replicas take turns on the
    CPUs of one of them, and each keeps its memory.
    """
    readings = readings_of(job) if job.data is not None else ()
    if gpus == job.gpus or job.elastic is None:
        gang = [(_need_of(task, job.sharing, readings),) * task.replicas for task in job.tasks]
        return tuple([need for needs in gang for need in needs])
    task = job.tasks[0]
    memory, devices = task.memory_bytes, max(gpus // task.gpus, 1)
    if job.elastic_mode == FIXED_WORLD:
        memory *= -(-task.replicas // devices)
    return (Need(task.gpus, task.cpus, memory, readings=readings),) * (gpus // task.gpus)


def readings_of(job: Job) -> tuple[Reading, ...]:
    """Return what each replica of a job reads from its node's storage; most jobs do not state it."""
    if job.data is None:
        return ()
    return (Reading(f"{job.tenant}/{job.data.name}", job.data.size_bytes, job.data.bandwidth),)


def _need_of(task: Task, labels: SharingLabels | None, readings: tuple[Reading, ...]) -> Need:
    if task.part is None:
        return Need(task.gpus, task.cpus, task.memory_bytes, readings=readings)
    return Need(task.gpus, task.cpus, task.memory_bytes, task.part, labels, readings)


def divides_world(job: Job, gpus: int) -> bool:
    """Whether the replicas of a gang of fixed world divide evenly among `gpus` GPUs; True for other gangs."""
    task = job.tasks[0]
    return job.elastic_mode != FIXED_WORLD or (
        gpus <= job.gpus and task.replicas % max(gpus // task.gpus, 1) == 0
    )


def least_gpus(job: Job) -> int:
    """Return the smallest size of a gang, in GPUs."""
    return job.gpus if job.elastic is None else job.elastic[0]


def amount_of(job: Job, gpus: int | None = None) -> float:
    """Return the amount of `gpus` GPUs of a gang (None: its own size); a part of a GPU counts as a fraction.

    A gang with parts always has the size that it asks for.
    """
    if job.has_parts:
        return job.milligpus / WHOLE_GPU
    return job.gpus if gpus is None else gpus


def least_amount(job: Job) -> float:
    """Return the amount of a gang's smallest size, for quotas; a part of a GPU counts as a fraction."""
    return amount_of(job, least_gpus(job))


def sizes_of(job: Job) -> tuple[int, ...]:
    """Return the sizes in GPUs to try, the job's own first and then smaller ones of an elastic gang.

    Sizes above its own are for policies that resize: `all_sizes_of`.
    """
    if job.elastic is None:
        return (job.gpus,)
    own = max(job.elastic[0], min(job.gpus, job.elastic[1]))
    return tuple([gpus for gpus in reversed(all_sizes_of(job)) if gpus <= own])


def all_sizes_of(job: Job) -> tuple[int, ...]:
    """Return every size in GPUs that a gang can have, the smallest first."""
    if job.elastic is None:
        return (job.gpus,)
    least, most = job.elastic
    sizes = range(least, most + 1, job.tasks[0].gpus)
    if job.elastic_mode != FIXED_WORLD:
        return tuple(sizes)
    return tuple([gpus for gpus in sizes if divides_world(job, gpus)])


def shape_of(job: Job) -> Hashable:
    """Return the facts that decide whether a job fits: jobs of equal shape fit equally well."""
    # Spelled out in plain values, which Python hashes and compares several times faster than dataclasses.
    tasks = tuple([(task.replicas, task.gpus, task.cpus, task.memory_bytes) for task in job.tasks])
    near = job.topology and (job.topology.level, job.topology.required)
    nodes = job.nodes and (job.nodes.only, job.nodes.avoid)
    reserved = job.reserved and (job.reserved.only, job.reserved.avoid)
    elastic = job.elastic and (job.elastic, job.elastic_mode)
    data = job.data and readings_of(job)
    if job.has_parts:
        parts = [task.part and (task.part.request, task.part.memory_bytes) for task in job.tasks]
        labels = job.sharing and (job.sharing.affinity, job.sharing.anti_affinity, job.sharing.exclusion)
        return (
            tasks,
            tuple(parts),
            labels,
            job.gpu_models,
            near,
            job.avoid,
            job.outlasts,
            job.pinned_cell,
            nodes,
            reserved,
            data,
        )
    return (
        tasks,
        job.gpu_models,
        near,
        elastic,
        job.avoid,
        job.outlasts,
        job.pinned_cell,
        nodes,
        reserved,
        data,
    )


def shape_in(cluster: Cluster, job: Job) -> Hashable:
    """Return the number of a job's shape in this cluster, cached because every round asks for it."""
    shapes = cluster.shapes
    _, shape, _ = _known(shapes, job)
    return (shape, job.priority) if shapes.by_priority else shape


def _known(shapes: Shapes, job: Job) -> tuple[Job, int, int]:
    known = shapes.known.get(job.id)
    if known is None or known[0] is not job:
        shape = shape_of(job)
        number = shapes.number_of(shape)
        with_speeds = shapes.number_of((shape, *job.throughput.items())) if job.throughput else number
        known = shapes.known[job.id] = job, number, with_speeds
    return known


def models_of(job: Job, cluster: Cluster) -> tuple[str, ...]:
    """Return the models of this cluster that the job accepts, the preferred first.

    A job that accepts any model prefers those on which it is known to be faster. A job with parts of GPUs
    accepts no instances of divided devices. A job without GPUs also accepts nodes without GPUs, and prefers
    them.
    """
    if job.is_without_gpus:
        others = [model for model in cluster.fleets if model not in cluster.models]
        accepted = (*others, *cluster.models)
        return tuple([model for model in accepted if not job.gpu_models or model in job.gpu_models])
    if job.gpu_models:
        models = tuple([model for model in job.gpu_models if model in cluster.fleets])
    elif not job.throughput:
        models = cluster.models
    else:
        models = tuple(sorted(cluster.models, key=lambda model: (-job.throughput.get(model, 0.0), model)))
    return tuple([model for model in models if not is_instance(model)]) if job.has_parts else models


def demand_of(
    job: Job,
    cluster: Cluster,
    gpus: int | None = None,
    gpu_model: str | None = None,
    locality: Locality = Locality.ANY,
) -> Demand:
    """Return what the job asks for when granted `gpus` GPUs (by default its own size)."""
    shapes = cluster.shapes
    _, _, with_speeds = _known(shapes, job)
    key = with_speeds, job.priority if shapes.by_priority else 0, gpus, gpu_model, locality
    found = cluster.demands.get(key)
    if found is None:
        size = job.gpus if gpus is None else gpus
        found = cluster.demands[key] = Demand(
            needs=needs_of(job, size),
            gpus=size,
            models=models_of(job, cluster) if gpu_model is None else (gpu_model,),
            ranks=_ranks(job, cluster, locality),
            avoid=_avoided(job),
            candidates=candidates_of([job]),
            pinned_cell=job.pinned_cell,
            priority=key[1],
            base=0 if job.elastic is None else -(-job.elastic[0] // job.tasks[0].gpus),
            has_parts=job.has_parts,
            lacks_gpus=not all([task.gpus for task in job.tasks]),
        )
    return found


def _avoided(job: Job) -> frozenset[NodeId]:
    return frozenset(job.avoid + job.outlasts)


def demand_of_grant(grant: Grant, jobs: Mapping[JobId, Job], cluster: Cluster) -> Demand:
    """Return what a grant asks for; jobs that share GPUs must have replicas of the same sizes."""
    first, *others = [jobs[job] for job in grant.jobs]
    demand = demand_of(first, cluster, grant.gpus, grant.gpu_model, grant.locality)
    if not others:
        return demand
    together = shared_needs([demand.needs, *(needs_of(job, grant.gpus) for job in others)])
    models = tuple([m for m in demand.models if all(m in models_of(job, cluster) for job in others)])
    avoid = demand.avoid.union(*(_avoided(job) for job in others))
    return replace(
        demand,
        needs=together,
        models=models,
        avoid=avoid,
        candidates=candidates_of([first, *others]),
        pinned_cell=pinned_cell_of([first, *others]),
        priority=max(job.priority for job in (first, *others)) if cluster.shapes.by_priority else 0,
        base=0,
    )


def candidates_of(jobs: Sequence[Job]) -> tuple[Candidates, ...]:
    """Return the nodes on which jobs that share GPUs may be, by each job's candidates and by reservations."""
    return tuple([each for job in jobs for each in (job.nodes, job.reserved) if each is not None])


def pinned_cell_of(jobs: Sequence[Job]) -> str:
    """Return the pinned cell of jobs that share GPUs: the first that one of them names, else none."""
    return next((job.pinned_cell for job in jobs if job.pinned_cell), "")


def shared_needs(gangs: Sequence[tuple[Need, ...]]) -> tuple[Need, ...]:
    """Return what gangs that share GPUs need together: the same GPUs, and the CPUs and memory of all."""
    if len(gangs) == 1:
        return gangs[0]
    if any([need.part is not None for gang in gangs for need in gang]):
        raise PolicyError("jobs that have parts of GPUs share them by these alone, and not by a grant")
    sizes = {tuple([need.gpus for need in gang]) for gang in gangs}
    if len(sizes) != 1:
        raise PolicyError(f"jobs with replicas of different sizes cannot share GPUs: {sorted(sizes)}")
    return tuple(
        [
            Need(
                row[0].gpus,
                sum(need.cpus for need in row),
                sum(need.memory_bytes for need in row),
                readings=merged([reading for need in row for reading in need.readings]),
            )
            for row in zip(*gangs, strict=True)
        ]
    )


def _ranks(job: Job, cluster: Cluster, locality: Locality) -> tuple[int, ...]:
    """Return the ranks to try: the preferred level first, then the required one."""
    widest = len(cluster.levels)
    if locality is Locality.NODE:
        widest = cluster.ranks[NODE_LEVEL]
    elif locality is Locality.RACK:
        widest = cluster.ranks.get("rack", widest)
    if job.topology is None:
        return (widest,)
    wished = min(cluster.ranks.get(job.topology.level, widest), widest)
    return (wished,) if job.topology.required or wished == widest else (wished, widest)
