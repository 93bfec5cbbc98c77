"""Random clusters for property tests: small, but with everything that can be the matter with one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from scheduler.core.fitting.demand import all_sizes_of
from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import GpuPart, SharingLabels
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import (
    ADAPTIVE,
    FIXED_WORLD,
    GpuId,
    Job,
    Node,
    NodeId,
    Running,
    Snapshot,
    Task,
    Tenant,
    Topology,
)
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.model.training import Goodput
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

MODELS = ("P100", "V100")


def task(replicas: int, gpus: int, cpus: float = 0.0, memory_bytes: int = 0) -> Task:
    return Task(replicas=replicas, gpus=gpus, cpus=cpus, memory_bytes=memory_bytes)


def part(replicas: int, request: int, memory_bytes: int = 0) -> Task:
    return Task(
        replicas=replicas,
        gpus=1,
        part=GpuPart(request=request, limit=1_000, memory_bytes=memory_bytes),
    )


SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.1, 0.01, 0.02, 0.002, 1.5)},
    noise=(0.1, 1.0),
    initial_batch=64,
    max_batch=2048,
    max_local_batch=256,
    most_replicas=2,
)

HUNGRY = Sensitivity(by_cpus=((4.0, 1.0), (16.0, 2.0)), by_memory=((2.0**29, 1.0),))

# Few draws make for fast examples: each entry is a combination worth having.
GANGS: tuple[dict[str, Any], ...] = (
    {"tasks": (task(1, 1),)},
    {"tasks": (task(1, 2),)},
    {"tasks": (task(1, 4),)},
    {"tasks": (task(1, 8),)},
    {"tasks": (Task(replicas=3, gpus=1, auto=Auto(sensitivity=HUNGRY)),)},
    {"tasks": (task(2, 4),)},
    {"tasks": (task(3, 8),)},
    {"tasks": (task(1, 4), task(2, 1))},
    {"tasks": (task(2, 2), task(1, 8))},
    {"tasks": (task(1, 1, cpus=40.0),)},
    {"tasks": (task(2, 1, cpus=4.0, memory_bytes=2**33),)},
    {"tasks": (Task(replicas=2, gpus=1, auto=Auto(memory=False)),), "elastic": (1, 4)},
    {"tasks": (task(2, 2),), "elastic": (2, 4)},
    {"tasks": (task(2, 1),), "elastic": (1, 6)},
    {"tasks": (task(2, 1, cpus=2.0, memory_bytes=2**31),), "elastic": (1, 6)},
    {"tasks": (task(4, 1),), "elastic": (1, 4), "elastic_mode": FIXED_WORLD},
    {"tasks": (task(4, 1, cpus=1.5, memory_bytes=2**30),), "elastic": (1, 4), "elastic_mode": FIXED_WORLD},
    {"tasks": (task(1, 1),), "elastic": (1, 8), "elastic_mode": ADAPTIVE, "goodput": SCALES},
    {"tasks": (task(1, 2),), "topology": Topology(level="switch", required=True)},
    {"tasks": (task(4, 1),), "topology": Topology(level="socket", required=True)},
    {"tasks": (task(4, 1),), "topology": Topology(level="node", required=True)},
    {"tasks": (task(2, 4),), "topology": Topology(level="rack", required=True)},
    {"tasks": (task(2, 2),), "topology": Topology(level="node")},
    {"tasks": (part(1, 300),)},
    {"tasks": (part(1, 500),), "sharing": SharingLabels(exclusion="a")},
    {"tasks": (part(2, 400, memory_bytes=2**33),), "sharing": SharingLabels(anti_affinity="b")},
    {"tasks": (part(1, 700), task(1, 2))},
    {"tasks": (task(2, 0, cpus=24.0, memory_bytes=2**31),)},
    {"tasks": (task(1, 0, memory_bytes=2**32),)},
    {"tasks": (task(1, 2), task(2, 0, cpus=8.0))},
    {"tasks": (task(2, 1),), "tags": ("a",), "constraints": (TagConstraint(tag="a", most=0),)},
    {
        "tasks": (task(1, 2),),
        "tags": ("a", "b"),
        "constraints": (TagConstraint(tag="a", scope="rack", most=1),),
    },
    {"tasks": (task(2, 2),), "tags": ("b",)},
    {"tasks": (task(2, 1),), "data": DataSet(name="words", size_bytes=60, bandwidth=3.0)},
    {"tasks": (task(1, 2),), "data": DataSet(name="images", size_bytes=80, bandwidth=5.0)},
    {"tasks": (part(1, 500),), "data": DataSet(name="words", size_bytes=60)},
    {
        "tasks": (task(1, 1),),
        "constraints": (
            TagConstraint(tag="b", scope="rack", least=1),
            TagConstraint(tag="a", scope="cluster", most=2, weight=1.0),
        ),
    },
)

CONDITIONS: tuple[dict[str, Any], ...] = (
    *({},) * 6,
    {"priority": 5},
    {"held": True},
    {"cancelling": True},
    {"eligible_at": NOW + 60},
    {"time_limit_seconds": 60.0},
    {"time_limit_seconds": 3_600.0},
    {"preemption_cost_seconds": 120.0},
    {"avoid": (NodeId(1), NodeId(3))},
    {"outlasts": (NodeId(2),)},
    {"reservation": "paper"},
)

RESERVATIONS: tuple[tuple[Reservation, ...], ...] = (
    *((),) * 6,
    (
        Reservation(
            name="paper", tenant="vision", nodes=("node-0001",), starts_at=NOW - 60, ends_at=NOW + 3_600
        ),
        Reservation(
            name="next",
            tenant="speech",
            nodes=("node-0002", "node-0003"),
            starts_at=NOW + 600,
            ends_at=NOW + 900,
        ),
    ),
)

NODES: tuple[dict[str, Any], ...] = (
    *({},) * 4,
    {"broken": (0,)},
    {"broken": (1, 2, 5)},
    {"schedulable": False},
    {"closes_at": NOW + 60},
    {"cpus": 64.0, "memory_bytes": 2**33},
    {"storage_bandwidth": 6.0, "cache_bytes": 100},
)


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Node:
    return make_node(
        number,
        gpus=draw(st.sampled_from((2, 4, 8, 8))),
        gpu_model=draw(st.sampled_from(MODELS)),
        rack=f"rack-{number % 2 + 1}",
        **draw(st.sampled_from(NODES)),
    )


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Job:
    tenant, virtual_cluster = draw(
        st.sampled_from((("speech", "products"), ("speech", "research"), ("vision", "research")))
    )
    return make_job(
        number,
        tenant=tenant,
        virtual_cluster=virtual_cluster,
        gpu_models=draw(st.sampled_from(((), ("V100",), ("P100",), ("P100", "V100")))),
        guaranteed=draw(st.booleans()),
        user=draw(st.sampled_from(("ada", "bob"))),
        **draw(st.sampled_from(GANGS)),
        **draw(st.sampled_from(CONDITIONS)),
    )


def first_fit(
    job: Job, free: dict[Node, list[GpuId]]
) -> tuple[str, list[list[GpuId]], tuple[NodeId, ...]] | None:
    """Take GPUs for the whole gang out of `free`; None, and nothing taken, when there is no room.

    The nodes are those of a running allocation: none where all replicas have GPUs.
    """
    for model in job.gpu_models or MODELS:
        left = {node: list(gpus) for node, gpus in free.items() if node.gpu_model == model}
        replicas, nodes = [], []
        for task in job.tasks:
            for _ in range(task.replicas):
                node = next((node for node, gpus in left.items() if len(gpus) >= task.gpus), None)
                if node is not None:
                    replicas.append([left[node].pop(0) for _ in range(task.gpus)])
                    nodes.append(node.id)
        if len(replicas) == sum(task.replicas for task in job.tasks):
            free.update(left)
            return model, replicas, () if all(replicas) else tuple(nodes)
    return None


@st.composite
def tenants(draw: st.DrawFn, name: str) -> Tenant:
    """With quotas of GPUs, CPUs and memory, or some of these, of its own and of its users; most have none."""
    limits = UserLimits(
        user="ada",
        gpus=draw(st.sampled_from((None, 0, 2, 5))),
        cpus=draw(st.sampled_from((None, 3.0, 24.0))),
        memory_bytes=draw(st.sampled_from((None, 2**32))),
    )
    return Tenant(
        name=name,
        quota=draw(st.sampled_from(({}, {}, {"*": 6}, {"V100": 4}, {"V100": 3, "P100": 0, "*": 5}))),
        quota_cpus=draw(st.sampled_from((None, None, 0.0, 7.0, 48.0))),
        quota_memory_bytes=draw(st.sampled_from((None, None, 2**31, 2**33))),
        users=draw(st.sampled_from(((), (), (limits,)))),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Two models, failed GPUs, cordoned nodes, gangs that stop and their planned successors, quotas..."""
    fleet = [draw(nodes(number)) for number in range(1, 1 + draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        fleet.append(make_node(9, gpus=0, gpu_model="", cpus=32.0, memory_bytes=2**33))
    queue = [draw(jobs(number)) for number in range(1, 1 + draw(st.integers(0, 8)))]
    free = {node: [gpu.id for gpu in node.gpus] for node in fleet}
    running: list[Running] = []
    releasing: dict[Node, list[GpuId]] = {node: [] for node in fleet}
    where = {gpu: node for node, gpus in free.items() for gpu in gpus}
    for job in queue:
        state = draw(st.sampled_from(("waits", "waits", "runs", "runs", "stops", "promised")))
        found = None if state == "waits" else first_fit(job, releasing if state == "promised" else free)
        if found is None:
            continue
        gpu_model, replicas, told = found
        # What it has beyond the guarantee: the last replicas of a gang that could do without them.
        bases = [size for size in all_sizes_of(job)[:-1] if job.guaranteed and size < job.gpus]
        beyond = job.gpus - draw(st.sampled_from(bases)) if bases and draw(st.booleans()) else 0
        running.append(
            make_running(
                job,
                replicas,
                gpu_model=gpu_model,
                nodes=told,
                since=NOW - (1_000.0 if job.elastic and job.id % 2 else 100.0),
                opportunistic_gpus=beyond,
                stopping=state == "stops",
                phase="planned" if state == "promised" else "held",
            )
        )
        if state == "stops":
            for gpu in running[-1].gpus:
                releasing[where[gpu]].append(gpu)
    counts = {model: sum(len(node.gpus) for node in fleet if node.gpu_model == model) for model in MODELS}
    split = {model: draw(st.integers(0, count)) for model, count in counts.items()}
    clusters = (
        make_virtual_cluster("products", split, tenants=("speech",)),
        make_virtual_cluster("research", {model: counts[model] - split[model] for model in MODELS}),
    )
    return make_snapshot(
        nodes=fleet,
        jobs=queue,
        running=running,
        virtual_clusters=clusters[draw(st.sampled_from((0, 0, 0, 1))) :],
        tenants=(draw(tenants("speech")), draw(tenants("vision"))),
        reservations=draw(st.sampled_from(RESERVATIONS)),
    )
