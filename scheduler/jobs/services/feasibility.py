"""Whether a job could ever run here: the core answers when it is submitted."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.cells.chains import Layout
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.fitting.feasible import Feasibility
from scheduler.core.model import snapshot as core
from scheduler.core.model.loan_terms import BorrowRule, RuleId
from scheduler.core.model.plan import Reason
from scheduler.core.round.admit import TOO_LARGE
from scheduler.jobs.services.submission_facts import SubmissionFacts
from scheduler.jobspec import TOPOLOGY_LEVELS
from scheduler.models.market import MarketRule, RuleKind
from scheduler.models.nodes import Gpu, Node
from scheduler.virtual_clusters.cells.selectors import layout_of
from scheduler.virtual_clusters.market.selectors import market_now
from scheduler.wiring.clock import database_now

#: The cluster and what it was built from. Building it takes tens of milliseconds for 10,000 GPUs, so
#: each process keeps it until the inventory changes.
_built: tuple[tuple[int | None, ...], Cluster] | None = None

_STORAGE = ("storage_bandwidth", "cache_bytes")


class Judge:
    """Judges a tenant's jobs against its virtual clusters, quota, cells and the inventory."""

    def __init__(self, facts: SubmissionFacts) -> None:
        self.cluster = _cluster(facts.inventory)
        self._tenants = {facts.tenant: facts.for_core()}
        owned = {name: one.for_core(facts.tenant) for name, one in facts.virtual_clusters.items()}
        self._ways = [self._way(owned, layout_of(facts.cells) if facts.cells else None)]
        if facts.has_loans:
            now = market_now(database_now()).in_force
            lent = {name: replace(vc, guaranteed=now.gpus.get(name, {})) for name, vc in owned.items()}
            self._ways.append(self._way(lent, now.layout))

    def _way(self, virtual_clusters: Mapping[str, core.VirtualCluster], layout: Layout | None) -> Feasibility:
        return Feasibility(self.cluster, self._tenants, virtual_clusters, layout)

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that have reported their inventory."""
        return frozenset([node.name for fleet in self.cluster.fleets.values() for node in fleet.nodes])

    def never_fits(self, job: core.Job) -> Reason | None:
        """Return why the job could never run, or None. Lent and borrowed GPUs count."""
        reasons = [way.never_fits(job) for way in self._ways]
        if not all(reasons) or self._may_borrow(job, reasons[0]):
            return None
        return reasons[0]

    def _may_borrow(self, job: core.Job, never: Reason | None) -> bool:
        """Whether the job lacks only a guarantee that a rule of its virtual cluster borrows."""
        if never is None or never.code not in TOO_LARGE:
            return False
        if self._ways[0].never_fits(replace(job, guaranteed=False)) is not None:
            return False
        rows = MarketRule.objects.filter(
            virtual_cluster__name=job.virtual_cluster, kind=RuleKind.BORROW, removed_at=None
        )
        models = models_of(job, self.cluster)
        return any(_borrow_rule(row, job.virtual_cluster).may_serve(least_gpus(job), models) for row in rows)


def _borrow_rule(row: MarketRule, virtual_cluster: str) -> BorrowRule:
    return BorrowRule(
        id=RuleId(row.id),
        virtual_cluster=virtual_cluster,
        gpu_models=tuple(row.gpu_models),
        most_gpus=row.most_gpus or 0,
        waiting_seconds=row.waiting_seconds or 0.0,
        price=row.price,
    )


def _cluster(inventory: tuple[int | None, ...]) -> Cluster:
    """Return every node that has reported its inventory, in any state: failed nodes come back."""
    global _built
    if _built is None or _built[0] != inventory:
        _built = inventory, Cluster(_nodes(), TOPOLOGY_LEVELS)
    return _built[1]


def _nodes() -> list[core.Node]:
    gpus: dict[int, list[core.Gpu]] = defaultdict(list)
    rows = Gpu.objects.filter(present=True).values_list(
        "node_id", "id", "index", "socket", "switch", "memory_bytes"
    )
    for node_id, gpu_id, index, socket, switch, memory_bytes in rows:
        path = (str(socket), str(switch))
        gpus[node_id].append(
            core.Gpu(id=core.GpuId(gpu_id), index=index, path=path, memory_bytes=memory_bytes)
        )
    columns = ("id", "name", "gpu_model__name", "rack", "cpus", "memory_bytes", *_STORAGE)
    reported = Node.objects.exclude(gpu_model=None, boot="").values_list(*columns)
    return [
        core.Node(
            id=core.NodeId(node_id),
            name=name,
            gpu_model=model or "",
            gpus=tuple(gpus[node_id]),
            path=(rack,),
            cpus=cpus,
            memory_bytes=memory_bytes,
            storage_bandwidth=bandwidth,
            cache_bytes=cache,
        )
        for node_id, name, model, rack, cpus, memory_bytes, bandwidth, cache in reported
        if gpus[node_id] or model is None
    ]
