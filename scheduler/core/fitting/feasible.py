"""Jobs that can never run: refused at submission, or reported when the cluster has changed later.

Failed GPUs and cordoned nodes count as healthy here, since they come back. The checks are about the shape of
the cluster, the virtual cluster's guarantee, membership and the tenant's quota.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.world import World
from scheduler.core.fitting.apart import misfit_apart
from scheduler.core.fitting.candidates import (
    allowed_nodes,
    bindable_nodes,
    misfit_on_candidates,
    models_on_candidates,
)
from scheduler.core.fitting.cell_room import misfit_in_cells
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import (
    Demand,
    all_sizes_of,
    demand_of,
    divides_world,
    least_gpus,
    models_of,
    shape_in,
)
from scheduler.core.fitting.idle_fleet import misfit_on_idle
from scheduler.core.fitting.nearest_node import misfit_on_nodes
from scheduler.core.fitting.own_clusters import own_clusters
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.quotas import Quota, by_user, exceeds_quota, quotas_of
from scheduler.core.model import wording
from scheduler.core.model.gpu_parts import SHARE_NEVER, WHOLE_GPU, is_instance
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Job, Snapshot, Task, Tenant, VirtualCluster

#: Reasons that do not hold for an opportunistic job.
_OF_GUARANTEE = frozenset(
    {"exceeds_guarantee", "exceeds_cells", "no_parts_in_cells", "no_cpu_tasks_in_cells"}
)


def never_fits(job: Job, snapshot: Snapshot) -> Reason | None:
    """Return why the job could never run on this snapshot's cluster, even if all of it were idle; or None."""
    cluster = Cluster(snapshot.nodes, snapshot.levels)
    tenants = {tenant.name: tenant for tenant in snapshot.tenants}
    virtual_clusters = {vc.name: vc for vc in snapshot.virtual_clusters}
    layout = None if snapshot.cells is None else compiled(snapshot.cells)
    return Feasibility(cluster, tenants, virtual_clusters, layout).never_fits(job)


class Feasibility:
    """Answers `never_fits` for many jobs of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        tenants: Mapping[str, Tenant],
        virtual_clusters: Mapping[str, VirtualCluster],
        layout: Layout | None = None,
    ) -> None:
        self._layout = layout
        self._own: Mapping[str, Cluster] | None = None
        #: The empty cells, made once a job with candidate nodes needs them.
        self._world: World | None = None
        self.cluster, self.tenants, self.virtual_clusters = cluster, tenants, virtual_clusters
        self.members = {
            name: frozenset(member.tenant for member in vc.members) for name, vc in virtual_clusters.items()
        }
        self._empty: dict[str, Layer] = {}
        #: By tenant with quotas: the tenant, its quotas, and users and shapes of fitting jobs.
        self._quotas: dict[str, tuple[Tenant, Callable[[str], Sequence[Quota]], set[object]]] = {}
        #: By virtual cluster: what decides about its guaranteed jobs; often equal.
        self._owned = {name: self._what_is_owned(vc) for name, vc in virtual_clusters.items()}
        #: (what is owned, or None for opportunistic; shape) of jobs that fit: most jobs are alike.
        self._sound: set[object] = set()
        self._misfits: dict[object, tuple[int, Reason] | None] = {}
        #: By shape, tags and constraints: why its replicas cannot be as far apart as they must.
        self._apart_known: dict[object, Reason | None] = {}

    def never_fits(self, job: Job) -> Reason | None:
        """Return why the job could never run, or None."""
        reason = self._reason(job)
        if reason is not None and job.guaranteed and reason.code in _OF_GUARANTEE:
            # Its advice is to do without the guarantee, which must not be refused in turn.
            return self._reason(replace(job, guaranteed=False)) or reason
        return reason

    def _reason(self, job: Job) -> Reason | None:
        kind = (self._owned.get(job.virtual_cluster) if job.guaranteed else None, shape_in(self.cluster, job))
        reason = self._membership(job) or self._shares_parts(job)
        if self._layout is not None:
            reason = reason or self._lacks_gpus_in_cells(job)
        if reason is None and kind not in self._sound:
            reason = self._well_formed(job) or self._models(job) or self._containers(job)
            reason = reason or self._pinned(job) or self._guarantee(job) or self._room(job)
            if reason is None:
                self._sound.add(kind)
        if reason is None and job.constraints:
            reason = self._apart(job, kind[1])
        return reason or self._quota(job, kind)

    def _what_is_owned(self, vc: VirtualCluster) -> Hashable:
        counts = tuple(sorted(vc.guaranteed.items()))
        if self._layout is None:
            return counts
        pinned = [cell[:2] for cell in self._layout.pinned.get(vc.name, {}).values()]
        return counts, tuple(self._layout.owned.get(vc.name, {}).items()), tuple(pinned)

    def _membership(self, job: Job) -> Reason | None:
        name = job.virtual_cluster
        if name not in self.virtual_clusters:
            return Reason(
                code="unknown_virtual_cluster",
                tier=Tier.NEVER,
                message=f"There is no virtual cluster {name}.",
                blocking={"virtual_cluster": name},
                hint=f"Choose {wording.either(sorted(self.virtual_clusters)) or 'none: there are none yet'}.",
            )
        if job.tenant in self.members[name]:
            return None
        open_to = sorted(vc for vc, members in self.members.items() if job.tenant in members)
        return Reason(
            code="not_a_member",
            tier=Tier.NEVER,
            message=f"Tenant {job.tenant} is not a member of virtual cluster {name}.",
            blocking={"virtual_cluster": name, "tenant": job.tenant},
            hint=f"Submit it to {wording.either(open_to)}." if open_to else "Ask an operator for membership.",
        )

    def _shares_parts(self, job: Job) -> Reason | None:
        """Return why a job that asks for parts of GPUs can have none at all; None: it can."""
        if not job.has_parts:
            return None
        if self.virtual_clusters[job.virtual_cluster].sharing == SHARE_NEVER:
            return Reason(
                code="sharing_off",
                tier=Tier.NEVER,
                message=f"Virtual cluster {job.virtual_cluster} never shares a GPU; this job asks for parts.",
                blocking={"virtual_cluster": job.virtual_cluster},
                hint="Ask for whole GPUs, or an operator to let the virtual cluster share.",
            )
        models = models_of(job, self.cluster)
        instances = sorted(filter(is_instance, job.gpu_models or self.cluster.models))
        if not models and instances:
            return Reason(
                code="no_parts_of_instances",
                tier=Tier.NEVER,
                message=f"GPUs of {wording.listed(instances)} are instances of divided GPUs (MIG), which a"
                " job has whole; this job asks for parts.",
                blocking={"gpu_models": instances},
                hint="Ask for a whole GPU of that model, or for a part of another model.",
            )
        owned = self._only_cells(job, models)
        if owned:
            return Reason(
                code="no_parts_in_cells",
                tier=Tier.NEVER,
                message=f"{wording.listed(owned)} are guaranteed by cells here, which are never less than a"
                " whole GPU; this guaranteed job asks for parts.",
                blocking={"virtual_cluster": job.virtual_cluster},
                hint="Submit it as opportunistic, or ask for whole GPUs.",
            )
        return None

    def _only_cells(self, job: Job, models: Sequence[str]) -> Sequence[str]:
        """Return the models that a guaranteed job may wait for if all are divided by cells; else none."""
        # A guaranteed job cannot wait for a model of which nothing is guaranteed.
        guaranteed = self.virtual_clusters[job.virtual_cluster].guaranteed
        owned = [model for model in models if guaranteed.get(model)] or models
        return owned if all([self._is_in_cells(job, model) for model in owned]) else ()

    def _lacks_gpus_in_cells(self, job: Job) -> Reason | None:
        """Return a reason if not all of its replicas have GPUs, and it would be in cells."""
        if all([task.gpus for task in job.tasks]):
            return None
        owned = self._only_cells(job, models_of(job, self.cluster))
        if not owned:
            return None
        return Reason(
            code="no_cpu_tasks_in_cells",
            tier=Tier.NEVER,
            message=f"{wording.listed(owned)} are guaranteed by cells here, and each cell is made of GPUs;"
            f" {'this guaranteed job' if job.is_without_gpus else 'a task of this guaranteed job'} asks for"
            " no GPU.",
            blocking={"virtual_cluster": job.virtual_cluster},
            hint="Submit it as opportunistic"
            + ("." if job.is_without_gpus else ", or submit the task without GPUs as a job of its own."),
        )

    def _well_formed(self, job: Job) -> Reason | None:
        if not job.tasks or any(task.replicas < 1 or not _takes_something(task) for task in job.tasks):
            return Reason(
                code="no_gpus_requested",
                tier=Tier.NEVER,
                message="Every task needs at least one replica, and every replica GPUs, or else CPUs or"
                " memory in numbers.",
                hint="Give each task `replicas` and `resources.gpu` of 1 or more, or say `cpu` or `memory`.",
            )
        if job.is_without_gpus and job.constraints:
            return Reason(
                code="no_gpus_requested",
                tier=Tier.NEVER,
                message="Constraints between tags are for jobs with GPUs; this one asks for none.",
                hint="Leave the constraints out.",
            )
        if job.topology is not None and job.topology.level not in self.cluster.levels:
            return Reason(
                code="unknown_topology_level",
                tier=Tier.NEVER,
                message=f"This cluster has no topology level {job.topology.level}.",
                hint=f"Use {wording.either(self.cluster.levels)}.",
            )
        if job.has_parts and any([not _is_part(task) for task in job.tasks]):
            return Reason(
                code="part_wrong",
                tier=Tier.NEVER,
                message="A part is of exactly one GPU per replica: at most all of it, and within its limit.",
                hint="Use `gpu` below 1, and `gpu_limit` from there to 1.",
            )
        if job.elastic is None:
            return None
        least, most = job.elastic
        step = job.tasks[0].gpus
        if (
            len(job.tasks) == 1
            and not job.has_parts
            and 0 < least <= job.gpus <= most
            and least % step == most % step == 0
        ):
            return self._divided(job)
        return Reason(
            code="elastic_range_wrong",
            tier=Tier.NEVER,
            message=f"A gang of {job.gpus} GPUs cannot be elastic from {least} to {most} GPUs.",
            hint=f"Use one task, and a range around its size in steps of {step} GPUs (one replica).",
        )

    @staticmethod
    def _divided(job: Job) -> Reason | None:
        """Return a reason if a fixed world does not divide among the fewest and most GPUs of its range."""
        assert job.elastic is not None
        wrong = [gpus for gpus in job.elastic if not divides_world(job, gpus)]
        if not wrong:
            return None
        fitting = [gpus for gpus in all_sizes_of(replace(job, elastic=(job.tasks[0].gpus, job.gpus)))]
        return Reason(
            code="elastic_range_wrong",
            tier=Tier.NEVER,
            message=f"A gang of fixed world with {job.tasks[0].replicas} replicas cannot run on"
            f" {wording.gpus(wrong[0])}: its replicas do not divide among them.",
            hint=f"Use a range between two of {wording.listed([str(gpus) for gpus in fitting])} GPUs.",
        )

    def _models(self, job: Job) -> Reason | None:
        if models_of(job, self.cluster):
            return None
        models = wording.either(job.gpu_models) or ("node" if job.is_without_gpus else "GPU")
        return Reason(
            code="unknown_gpu_model",
            tier=Tier.NEVER,
            message=f"This cluster has no {models}.",
            blocking={"gpu_models": list(job.gpu_models)},
            needed=job.gpus,
            available=0,
            hint=f"It has {wording.listed(self.cluster.models)}." if self.cluster.models else "",
        )

    def _containers(self, job: Job) -> Reason | None:
        """Return a reason if it avoids every node; for hardware alone it avoids at most half of them."""
        if not job.avoid:
            return None
        avoided, models = frozenset(job.avoid), models_of(job, self.cluster)
        if any(node.id not in avoided for model in models for node in self.cluster.fleets[model].nodes):
            return None
        those = f"nodes with {wording.either(job.gpu_models)}" if job.gpu_models else "nodes"
        return Reason(
            code="no_containers",
            tier=Tier.NEVER,
            message=f"None of the {those} runs containers, which this job's image needs.",
            blocking={"gpu_models": list(job.gpu_models)},
            needed=job.gpus,
            available=0,
            hint="Leave the image out, or let an operator allow images in the nodes' agents.",
        )

    def _pinned(self, job: Job) -> Reason | None:
        """Return a reason unless its virtual cluster has the pinned cell that it names."""
        name = job.pinned_cell
        if not name or not job.guaranteed:
            return None
        models: dict[str, str] = {}
        if self._layout is not None:
            for pinned, cell in self._layout.pinned.get(job.virtual_cluster, {}).items():
                models[pinned] = self._layout.chains[cell.chain].gpu_model
        fitting = [pinned for pinned, model in models.items() if model in (job.gpu_models or (model,))]
        if name in fitting:
            return None
        problem = f"has no {wording.either(job.gpu_models)}" if name in models else "does not exist"
        return Reason(
            code="unknown_pinned_cell",
            tier=Tier.NEVER,
            message=f"The pinned cell {name} of virtual cluster {job.virtual_cluster} {problem}.",
            blocking={"virtual_cluster": job.virtual_cluster, "pinned_cell": name},
            hint=f"Name {wording.either(sorted(fitting))}, or none."
            if fitting
            else "Leave `pinned_cell` out, or ask an operator to pin one.",
        )

    def _quota(self, job: Job, kind: Hashable) -> Reason | None:
        tenant = self.tenants.get(job.tenant)
        if tenant is None or not tenant.is_capped:
            return None
        known = self._quotas.get(tenant.name)
        if known is None or known[0] is not tenant:
            own = by_user([(quota.user, quota) for quota in quotas_of(tenant)])
            known = self._quotas[tenant.name] = tenant, own, set()
        _, quotas_of_user, sound = known
        who = (job.user, kind) if tenant.users else kind
        if who in sound:
            return None
        reason = exceeds_quota(job, quotas_of_user(job.user), lambda: self._fitting_models(job))
        if reason is None:
            sound.add(who)
        return reason

    def _guarantee(self, job: Job) -> Reason | None:
        if not job.guaranteed:
            return None
        guaranteed = self.virtual_clusters[job.virtual_cluster].guaranteed
        models = models_of(job, self.cluster)
        most, model = max((guaranteed.get(model, 0), model) for model in models)
        if least_gpus(job) <= most:
            return None
        owns = [wording.gpus(count, [model]) for model, count in sorted(guaranteed.items()) if count]
        fewer = f"Ask for at most {wording.gpus(most, [model])}, or submit" if most else "Submit"
        return Reason(
            code="exceeds_guarantee",
            tier=Tier.NEVER,
            message=f"Virtual cluster {job.virtual_cluster} guarantees {wording.listed(owns) or 'no GPUs'};"
            f" this guaranteed job needs {wording.gpus(least_gpus(job), job.gpu_models)}.",
            blocking={"virtual_cluster": job.virtual_cluster},
            needed=least_gpus(job),
            available=most,
            hint=f"{fewer} it as opportunistic.",
        )

    def _room(self, job: Job) -> Reason | None:
        """Return a reason if the gang does not fit onto an idle cluster: that of the closest model."""
        demand = demand_of(job, self.cluster, least_gpus(job))
        closest: tuple[int, Reason] | None = None
        for model in self._large_enough(job, demand.models):
            found = self._misfit(job, demand, model)
            if found is None:
                return None
            if closest is None or _nearness(found) > _nearness(closest):
                closest = found
        if closest and closest[1].code == "exceeds_node_resources" and job.is_without_gpus:
            return misfit_on_nodes(demand, self.cluster) or closest[1]
        return closest[1] if closest else None

    def _fitting_models(self, job: Job) -> Sequence[str]:
        """Return the models on which a job fits, by its guarantee and the nodes that it names too."""
        demand = demand_of(job, self.cluster, least_gpus(job))
        models = self._large_enough(job, models_on_candidates(job, self.cluster))
        return [model for model in models if self._misfit(job, demand, model) is None] or models

    def _large_enough(self, job: Job, models: Sequence[str]) -> Sequence[str]:
        """Return the models of which a guaranteed job's virtual cluster is guaranteed enough."""
        guaranteed = self.virtual_clusters[job.virtual_cluster].guaranteed
        least = least_gpus(job)
        return [model for model in models if not job.guaranteed or least <= guaranteed.get(model, 0)]

    def _misfit(self, job: Job, demand: Demand, model: str) -> tuple[int, Reason] | None:
        """Return why the gang does not fit onto a model's nodes, all of them idle, and how near it came."""
        key = (demand.needs, demand.ranks, model)
        if key not in self._misfits:
            self._misfits[key] = misfit_on_idle(job, demand, model, self.cluster, self._idle(model))
        found = self._misfits[key] or self._misfit_in_cells(job, demand, model)
        return found or self._misfit_on_candidates(job, demand, model)

    def _apart(self, job: Job, shape: Hashable) -> Reason | None:
        key = (shape, job.tags, job.constraints)
        if key not in self._apart_known:
            self._apart_known[key] = misfit_apart(job, self.cluster)
        return self._apart_known[key]

    def _misfit_on_candidates(self, job: Job, demand: Demand, model: str) -> tuple[int, Reason] | None:
        """Return the same for the user's candidate nodes, where the gang fits otherwise."""
        if not demand.candidates:
            return None
        owner = job.virtual_cluster if self._is_in_cells(job, model) else ""
        key = (owner, demand.needs, demand.ranks, model, demand.pinned_cell, demand.candidates)
        if key not in self._misfits:
            cluster = self._own_cluster(owner) if owner else self.cluster
            fleet = cluster.fleets[model]
            if owner:
                assert self._layout is not None
                self._world = self._world or World(self._layout)
                bindable = bindable_nodes(self._world, owner, demand.candidates)
                # The nodes in the pinned cell that it names, else the nodes in no pinned cell.
                own = [node.pinned_cell == demand.pinned_cell for node in fleet.nodes]
                usable = [mask if mine else 0 for mask, mine in zip(fleet.usable, own, strict=True)]
                whole = Layer.unclaimed(fleet, usable)
                allowed = sum([1 << number for number, node in enumerate(fleet.nodes) if node.id in bindable])
            else:
                whole = self._idle(model)
                # Nodes that it should avoid now may be allowed later.
                allowed = allowed_nodes(cluster, model, replace(demand, avoid=frozenset()))
            reason = misfit_on_candidates(demand, fleet, whole, allowed, cluster.node_rank)
            self._misfits[key] = (6, reason) if reason else None
        return self._misfits[key]

    def _is_in_cells(self, job: Job, model: str) -> bool:
        return job.guaranteed and self._layout is not None and model in self._layout.gpu_models

    def _own_cluster(self, virtual_cluster: str) -> Cluster:
        """Return the cluster of a virtual cluster's cells."""
        assert self._layout is not None
        if self._own is None:
            self._own = own_clusters(self._layout, self.cluster)
        return self._own.get(virtual_cluster) or Cluster((), self.cluster.levels)

    def _misfit_in_cells(self, job: Job, demand: Demand, model: str) -> tuple[int, Reason] | None:
        """Return the same for the cells of its virtual cluster, where the model is divided by cells."""
        if self._layout is None or not self._is_in_cells(job, model):
            return None
        key = (job.virtual_cluster, demand.needs, demand.ranks, model, demand.pinned_cell)
        if key not in self._misfits:
            own = self._own_cluster(job.virtual_cluster)
            reason = misfit_in_cells(job, demand, model, self._layout, own)
            self._misfits[key] = (5, reason) if reason else None
        return self._misfits[key]

    def _idle(self, model: str) -> Layer:
        """Return what the fleet would offer if all of it were healthy and idle."""
        if model not in self._empty:
            fleet = self.cluster.fleets[model]
            whole = [layout.levels[-1][0] for layout in fleet.layouts]
            self._empty[model] = Layer.unclaimed(fleet, whole)
        return self._empty[model]


def _takes_something(task: Task) -> bool:
    """Whether a replica takes GPUs or states CPUs or memory: a share by GPUs would be nothing."""
    return task.gpus > 0 or (task.auto is None and (task.cpus > 0 or task.memory_bytes > 0))


def _is_part(task: Task) -> bool:
    """Whether a task's GPUs are possible: whole ones, or a part of one."""
    part = task.part
    return part is None or (task.gpus == 1 and 0 < part.request <= part.limit <= WHOLE_GPU)


def _nearness(misfit: tuple[int, Reason]) -> tuple[int, int]:
    stage, reason = misfit
    return stage, reason.available or 0
