"""Step 7, check: the invariants of a plan, from the raw snapshot alone.

Nothing here uses the structures that made the plan, so a mistake in those cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.core.fitting.demand import pinned_cell_of
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import (
    FIXED_WORLD,
    AllocationId,
    Gpu,
    GpuId,
    Job,
    JobId,
    Node,
    Running,
    Snapshot,
)
from scheduler.core.round.checks.cells import Owner, check_cells, undeclared
from scheduler.core.round.checks.market import check_market


def check(snapshot: Snapshot, plan: Plan) -> None:
    """Raise PlanError, naming the jobs, when the plan breaks an invariant."""
    where = {gpu.id: (node, gpu) for node in snapshot.nodes for gpu in node.gpus}
    jobs = {job.id: job for job in snapshot.jobs}
    allocations = {running.allocation: running for running in snapshot.running}
    current = {job: running for running in snapshot.running if not running.stopping for job in running.jobs}
    holder: dict[GpuId, Action] = {}
    placed: dict[JobId, Action] = {}
    settled: set[AllocationId] = set()
    regraded: dict[AllocationId, Running] = {}
    for action in plan.actions:
        _check_fields(action, allocations, current, settled)
        if action.kind is ActionKind.REGRADE:
            assert action.allocation is not None
            settled.remove(action.allocation)
            regraded[action.allocation] = replace(
                allocations[action.allocation], guaranteed=action.guaranteed
            )
        if action.placement is None:
            continue
        _check_placement(action, where)
        for job in action.jobs:
            _check_gang(jobs[job], action)
            _check_nodes(jobs[job], action, where)
        for gpu in action.placement.gpus:
            if gpu in holder:
                raise PlanError(f"GPU {gpu} is given to {holder[gpu].jobs} and to {action.jobs}")
            holder[gpu] = action
        for job in action.jobs:
            if job in placed:
                raise PlanError(f"job {job} is placed twice")
            placed[job] = action
    kept = {
        job: regraded.get(running.allocation, running)
        for job, running in current.items()
        if running.allocation not in settled
    }
    _check_kept(kept, holder)
    # Of GPUs that have left the cluster nobody is guaranteed any either.
    gone = {gpu for running in snapshot.running for gpu in running.gpus if gpu not in where}
    nobodys = undeclared(snapshot) | gone
    _check_guarantees(snapshot, plan, kept, jobs, nobodys)
    uses = _guaranteed_uses(plan, kept, jobs, nobodys)
    check_cells(snapshot, plan.memory.get("cells", {}).get("bound", {}), uses)
    _check_quotas(snapshot, placed, kept, current)
    check_market(snapshot, plan)
    silent = [job for job in jobs if job not in placed and job not in kept and not plan.reasons.get(job)]
    if silent:
        raise PlanError(f"no reason is given why these jobs wait: {silent[:10]}")


def _check_fields(
    action: Action,
    allocations: Mapping[AllocationId, Running],
    current: Mapping[JobId, Running],
    settled: set[AllocationId],
) -> None:
    if (action.placement is None) != (action.kind in (ActionKind.STOP, ActionKind.REGRADE)):
        raise PlanError(f"{action.kind} of {action.jobs} has the wrong fields")
    if (action.allocation is None) != (action.kind is ActionKind.START):
        raise PlanError(f"{action.kind} of {action.jobs} has the wrong fields")
    if action.allocation is None:
        busy = [job for job in action.jobs if job in current]
        if busy:
            raise PlanError(f"jobs {busy} run already and are started")
        return
    running = allocations.get(action.allocation)
    if running is None or running.stopping or running.jobs != action.jobs:
        raise PlanError(f"{action.kind} of {action.jobs} names allocation {action.allocation}, not theirs")
    if action.allocation in settled:
        raise PlanError(f"allocation {action.allocation} has two actions")
    settled.add(action.allocation)


def _check_placement(action: Action, where: Mapping[GpuId, tuple[Node, Gpu]]) -> None:
    """New work goes to healthy GPUs of nodes that take work; a replica is on one node and of one model."""
    assert action.placement is not None
    for replica in action.placement.replicas:
        nodes = {where[gpu][0].id for gpu in replica}
        if len(nodes) != 1:
            raise PlanError(f"a replica of {action.jobs} spans nodes {sorted(nodes)}")
        for gpu in replica:
            node, device = where[gpu]
            if node.gpu_model != action.placement.gpu_model or not device.healthy or not node.takes_work:
                raise PlanError(f"{action.jobs} were placed on GPU {gpu}, which may not be used")


def _check_gang(job: Job, action: Action) -> None:
    """The gang is whole and on a model that the job accepts."""
    assert action.placement is not None
    sizes = [len(replica) for replica in action.placement.replicas]
    if job.gpu_models and action.placement.gpu_model not in job.gpu_models:
        raise PlanError(f"job {job.id} does not accept {action.placement.gpu_model}")
    whole = [task.gpus for task in job.tasks for _ in range(task.replicas)]
    if sizes != whole and (job.elastic is None or set(sizes) != set(whole)):
        raise PlanError(f"job {job.id} needs replicas of {whole} GPUs and was given {sizes}")
    if job.elastic is not None and not job.elastic[0] <= sum(sizes) <= job.elastic[1]:
        raise PlanError(f"job {job.id} can run on {job.elastic} GPUs and was given {sum(sizes)}")
    if job.elastic is not None and job.elastic_mode == FIXED_WORLD and len(whole) % len(sizes):
        raise PlanError(f"job {job.id} keeps its {len(whole)} replicas and was given {len(sizes)} devices")


def _check_nodes(job: Job, action: Action, where: Mapping[GpuId, tuple[Node, Gpu]]) -> None:
    """Nothing of it is started on a node that its user rules out."""
    assert action.placement is not None
    used = {where[gpu][0].name for gpu in action.placement.gpus} if job.nodes is not None else ()
    wrong = [name for name in used if job.nodes is not None and not job.nodes.allow(name)]
    if wrong:
        raise PlanError(f"job {job.id} was placed on {sorted(wrong)}, where it is not to run")


def _check_kept(kept: Mapping[JobId, Running], holder: Mapping[GpuId, Action]) -> None:
    """What was not decided about keeps its GPUs."""
    for job, running in kept.items():
        taken = [gpu for gpu in running.gpus if gpu in holder]
        if taken:
            raise PlanError(f"job {job} stays, but lost GPUs {taken}")


def _check_guarantees(
    snapshot: Snapshot,
    plan: Plan,
    kept: Mapping[JobId, Running],
    jobs: Mapping[JobId, Job],
    nobodys: Collection[GpuId],
) -> None:
    """A virtual cluster's guaranteed jobs stay within its guarantee, to which `nobodys` do not count."""
    used: dict[tuple[str, str], int] = {}
    for action in plan.actions:
        if action.guaranteed and action.placement is not None:
            key = action.virtual_cluster, action.placement.gpu_model
            used[key] = used.get(key, 0) + _size(action.placement.replicas) - action.opportunistic_gpus
    for running in snapshot.running:
        first = jobs.get(running.jobs[0])
        if first is None or not first.guaranteed or running.stopping:
            continue
        if first.id in kept and kept[first.id].guaranteed:
            key = first.virtual_cluster, running.gpu_model
            used[key] = used.get(key, 0) + sum([gpu not in nobodys for gpu in running.base.gpus])
    guaranteed = {
        (vc.name, model): count for vc in snapshot.virtual_clusters for model, count in vc.guaranteed.items()
    }
    known = {vc.name for vc in snapshot.virtual_clusters}
    for key, count in used.items():
        # Jobs whose virtual cluster was deleted under them stay as they are.
        if key[0] in known and count > guaranteed.get(key, 0):
            raise PlanError(f"virtual cluster {key[0]} would use {count} {key[1]}, more than its guarantee")


def _guaranteed_uses(
    plan: Plan, kept: Mapping[JobId, Running], jobs: Mapping[JobId, Job], nobodys: Collection[GpuId]
) -> dict[GpuId, Owner]:
    """Return of the guaranteed job on each GPU, nominated ones included, where it belongs.

    Of `nobodys` only those that somebody is newly given as guaranteed, or has nothing besides.
    """
    uses: dict[GpuId, Owner] = {}
    for job, running in kept.items():
        if running.guaranteed and job in jobs and jobs[job].guaranteed:
            base = running.base.gpus
            gpus = [gpu for gpu in base if gpu not in nobodys] or base
            owner = jobs[job].virtual_cluster, pinned_cell_of([jobs[each] for each in running.jobs])
            uses.update(dict.fromkeys(gpus, owner))
    for action in plan.actions:
        if action.placement is not None and action.guaranteed:
            owner = action.virtual_cluster, pinned_cell_of([jobs[job] for job in action.jobs])
            count = len(action.placement.gpus) - action.opportunistic_gpus
            uses.update(dict.fromkeys(action.placement.gpus[:count], owner))
    return uses


def _check_quotas(
    snapshot: Snapshot,
    placed: Mapping[JobId, Action],
    kept: Mapping[JobId, Running],
    current: Mapping[JobId, Running],
) -> None:
    """Tenants stay within their quotas, or below what they held before."""
    used: dict[tuple[str, str], int] = {}
    before: dict[tuple[str, str], int] = {}
    capped = {tenant.name for tenant in snapshot.tenants if tenant.quota}
    for job in snapshot.jobs:
        if job.tenant not in capped:
            continue
        action, running = placed.get(job.id), current.get(job.id)
        if action is not None and action.placement is not None:
            _add(used, job.tenant, action.placement.gpu_model, _size(action.placement.replicas))
        if job.id in kept:
            _add(used, job.tenant, kept[job.id].gpu_model, _size(kept[job.id].replicas))
        if running is not None:
            _add(before, job.tenant, running.gpu_model, _size(running.replicas))
    for tenant in snapshot.tenants:
        for line, cap in tenant.quota.items():
            key = tenant.name, line
            if used.get(key, 0) > max(cap, before.get(key, 0)):
                raise PlanError(
                    f"tenant {tenant.name} would hold {used[key]} ({line}), more than its quota {cap}"
                )


def _size(replicas: tuple[tuple[GpuId, ...], ...]) -> int:
    return sum(map(len, replicas))


def _add(counts: dict[tuple[str, str], int], tenant: str, model: str, gpus: int) -> None:
    for key in ((tenant, model), (tenant, "*")):
        counts[key] = counts.get(key, 0) + gpus
