"""The cluster that the simulator is given, and how its nodes are numbered and wired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.snapshot import Gpu, GpuId, Node, NodeId, NodeLoan, Tenant, VirtualCluster
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.simulation.errors import ClusterError

#: The virtual cluster of a cluster that names none; below, the rack of nodes that name none.
ONLY_VIRTUAL_CLUSTER = "cluster"
ONLY_RACK = "rack-1"
#: More GPUs than any real cluster has, so that a typing mistake does not fill all memory.
MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The preemption limits of policies, as in a Snapshot."""

    preemptions_per_round: int | None = None
    backoff_seconds: float = 30.0
    most_backoff_seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Hardware and how it is divided. A virtual cluster without members is open to every tenant."""

    name: str
    nodes: tuple[Node, ...]
    virtual_clusters: tuple[VirtualCluster, ...]
    tenants: tuple[Tenant, ...] = ()
    #: If None, guarantees are counts of GPUs.
    cells: Specification | None = None
    #: The price of a GPU-hour of each model; 1 for a model that is not named.
    prices: Mapping[str, float] = field(default_factory=dict)
    bounds: Bounds = Bounds()
    #: Pools that answer requests and lend nodes that they do not need.
    pools: tuple[ServingPool, ...] = ()
    #: What was assumed, in sentences for the report.
    notes: tuple[str, ...] = ()
    #: Entries of the file that were left out, in sentences with the number and the first.
    left_out: tuple[str, ...] = ()

    @property
    def gpus_by_model(self) -> Mapping[str, int]:
        """The number of GPUs of each model."""
        return count_gpus(self.nodes)

    @property
    def largest_node(self) -> int:
        """The most GPUs of a node."""
        return max((len(node.gpus) for node in self.nodes), default=1)

    @property
    def largest_gang(self) -> int:
        """The most GPUs that a gang can have: all of its GPUs are of one model."""
        return max(self.gpus_by_model.values(), default=0)


def count_gpus(nodes: tuple[Node, ...]) -> dict[str, int]:
    """Return the number of GPUs of each model."""
    counts: Counter[str] = Counter()
    for node in nodes:
        if node.gpus:
            counts[node.gpu_model] += len(node.gpus)
    return dict(sorted(counts.items()))


def one_virtual_cluster(nodes: tuple[Node, ...]) -> tuple[VirtualCluster, ...]:
    """Return the one virtual cluster that owns everything and is open to all tenants."""
    return (VirtualCluster(name=ONLY_VIRTUAL_CLUSTER, guaranteed=count_gpus(nodes)),)


class Inventory:
    """Collects nodes; ids count from 1 in the order in which nodes are added, GPUs likewise."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._gpus = 0
        self._names: set[str] = set()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(
        self,
        name: str,
        gpu_model: str,
        gpus: int,
        *,
        rack: str = ONLY_RACK,
        cpus: float = 0.0,
        memory_bytes: int = 0,
        storage_bandwidth: float = 0.0,
        cache_bytes: int = 0,
        sockets: int = 1,
        switches: int = 1,
        serving_pool: str = "",
    ) -> None:
        """Add one node; a node of a serving pool is with its pool at first.

        GPUs are divided evenly among sockets and switches, in order of their index. `switches` is for the
        whole node and must be a multiple of `sockets`.
        """
        if self._gpus + gpus > MOST_GPUS:
            raise ClusterError(f"{name}: a cluster may have at most {MOST_GPUS:,} GPUs")
        first = self._gpus + 1
        self._gpus += gpus
        self._names.add(name)
        wired = sockets > 1 or switches > 1
        self._nodes.append(
            Node(
                id=NodeId(len(self._nodes) + 1),
                name=name,
                gpu_model=gpu_model,
                path=(rack,),
                loan=NodeLoan(pool=serving_pool) if serving_pool else None,
                cpus=cpus,
                memory_bytes=memory_bytes,
                storage_bandwidth=storage_bandwidth,
                cache_bytes=cache_bytes,
                gpus=tuple(
                    Gpu(
                        id=GpuId(first + index),
                        index=index,
                        path=(f"socket-{index * sockets // gpus}", f"switch-{index * switches // gpus}")
                        if wired
                        else (),
                    )
                    for index in range(gpus)
                ),
            )
        )
