"""Step 7, check: the invariants of a plan, from the raw snapshot alone.

Nothing here uses the structures that made the plan, so a mistake in those cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import replace

from scheduler.core.fitting.demand import pinned_cell_of
from scheduler.core.model.errors import PlanError
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart, is_instance
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import (
    FIXED_WORLD,
    AllocationId,
    Gpu,
    GpuId,
    Job,
    JobId,
    Node,
    NodeId,
    Running,
    Snapshot,
)
from scheduler.core.round.checks.auxiliary import check_auxiliary
from scheduler.core.round.checks.cells import Owner, check_cells, undeclared
from scheduler.core.round.checks.market import check_market
from scheduler.core.round.checks.quotas import check_quotas
from scheduler.core.round.checks.reservations import check_reservations
from scheduler.core.round.checks.storage import check_storage
from scheduler.core.round.checks.tags import check_tags
from scheduler.core.round.checks.without_gpus import check_nodes, check_processors


def check(snapshot: Snapshot, plan: Plan) -> None:
    """Raise PlanError, naming the jobs, when the plan breaks an invariant."""
    where = {gpu.id: (node, gpu) for node in snapshot.nodes for gpu in node.gpus}
    nodes = {node.id: node for node in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.jobs}
    allocations = {running.allocation: running for running in snapshot.running}
    current = {job: running for running in snapshot.running if not running.stopping for job in running.jobs}
    uses = _Uses(jobs, where)
    placed: dict[JobId, Action] = {}
    settled: set[AllocationId] = set()
    left: set[JobId] = set()
    joined: list[Action] = []
    regraded: dict[AllocationId, Running] = {}
    for action in plan.actions:
        if action.kind is ActionKind.STOP and _is_parting(action, allocations):
            left.update(action.jobs)
            continue
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
        check_nodes(action, nodes)
        for job in action.jobs:
            _check_gang(jobs[job], action)
            _check_nodes(jobs[job], action, where, nodes)
        if action.kind is ActionKind.JOIN:
            joined.append(action)
        else:
            uses.add(action.jobs, action.placement.replicas)
        for job in action.jobs:
            if job in placed:
                raise PlanError(f"job {job} is placed twice")
            placed[job] = action
    kept = {
        job: regraded.get(running.allocation, running)
        for job, running in current.items()
        if running.allocation not in settled and job not in left
    }
    _check_kept(kept, uses)
    _check_company(jobs, joined, left, kept, allocations)
    # GPUs that have left the cluster count against no guarantee either.
    gone = {gpu for running in snapshot.running for gpu in running.gpus if gpu not in where}
    nobodys = undeclared(snapshot) | gone
    _check_guarantees(snapshot, plan, kept, jobs, nobodys)
    bound = plan.memory.get("cells", {}).get("bound", {})
    check_cells(snapshot, bound, lambda: _guaranteed_uses(plan, kept, jobs, nobodys))
    check_quotas(snapshot, placed, kept, current)
    check_market(snapshot, plan)
    check_reservations(snapshot, placed, where, nodes)
    check_storage(snapshot, placed, kept, current, where)
    given = {job: action.placement.replicas for job, action in placed.items() if action.placement}
    check_tags(snapshot, given, {job: running.replicas for job, running in kept.items()}, where)
    check_auxiliary(snapshot, plan, given, kept, where)
    check_processors(snapshot, plan, kept)
    _check_reasons(plan, jobs.keys() - placed.keys() - kept.keys())


def _check_reasons(plan: Plan, waiting: Collection[JobId]) -> None:
    silent = sorted([job for job in waiting if not plan.reasons.get(job)])
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
    if action.kind in (ActionKind.START, ActionKind.JOIN):
        busy = [job for job in action.jobs if job in current]
        if busy:
            raise PlanError(f"jobs {busy} run already and are started")
        return
    assert action.allocation is not None
    running = allocations.get(action.allocation)
    if running is None or running.stopping or running.jobs != action.jobs:
        raise PlanError(f"{action.kind} of {action.jobs} names allocation {action.allocation}, not theirs")
    if action.allocation in settled:
        raise PlanError(f"allocation {action.allocation} has two actions")
    settled.add(action.allocation)


def _is_parting(action: Action, allocations: Mapping[AllocationId, Running]) -> bool:
    """Return whether some of the jobs of an allocation stop, but not all."""
    running = None if action.allocation is None else allocations.get(action.allocation)
    return running is not None and not running.stopping and set(action.jobs) < set(running.jobs)


def _check_company(
    jobs: Mapping[JobId, Job],
    joined: Collection[Action],
    left: Set[JobId],
    kept: Mapping[JobId, Running],
    allocations: Mapping[AllocationId, Running],
) -> None:
    """Check that a job joins or leaves others only where some of them run on, on their GPUs."""
    staying = {running.allocation for running in kept.values()}
    homes = [running.allocation for running in allocations.values() if not left.isdisjoint(running.jobs)]
    deserted = [each for each in homes if each not in staying]
    if deserted:
        raise PlanError(f"all jobs leave allocations {deserted}")
    joins = [action.allocation for action in joined]
    for action in joined:
        running = None if action.allocation is None else allocations.get(action.allocation)
        if running is None or running.allocation not in staying or running.phase != "held":
            raise PlanError(f"{action.jobs} join allocation {action.allocation}, where nobody stays")
        if joins.count(action.allocation) > 1 or running.allocation in homes or running.leaving:
            raise PlanError(f"{action.jobs} join allocation {action.allocation}, which others join or leave")
        assert action.placement is not None
        if action.placement.replicas != running.replicas:
            raise PlanError(f"{action.jobs} join allocation {action.allocation} on other GPUs than its own")
        both = [jobs[job] for job in (*action.jobs, *running.jobs)]
        if (
            any([job.has_parts or job.elastic is not None for job in both])
            or running.slice_seconds is not None
        ):
            raise PlanError(f"{action.jobs} join allocation {action.allocation}, which cannot be joined")


def _check_placement(action: Action, where: Mapping[GpuId, tuple[Node, Gpu]]) -> None:
    """Check that new work is on healthy GPUs of open nodes, each replica on one node and one model."""
    assert action.placement is not None
    for replica in filter(None, action.placement.replicas):
        nodes = {where[gpu][0].id for gpu in replica}
        if len(nodes) != 1:
            raise PlanError(f"a replica of {action.jobs} spans nodes {sorted(nodes)}")
        for gpu in replica:
            node, device = where[gpu]
            if node.gpu_model != action.placement.gpu_model or not device.healthy or not node.takes_work:
                raise PlanError(f"{action.jobs} were placed on GPU {gpu}, which may not be used")


def _check_gang(job: Job, action: Action) -> None:
    """Check that the gang is whole and on a model that the job accepts."""
    assert action.placement is not None
    sizes = [len(replica) for replica in action.placement.replicas]
    if job.has_parts and is_instance(action.placement.gpu_model):
        raise PlanError(f"job {job.id} has parts of {action.placement.gpu_model}, which is a part already")
    if job.gpu_models and action.placement.gpu_model not in job.gpu_models:
        raise PlanError(f"job {job.id} does not accept {action.placement.gpu_model}")
    whole = [task.gpus for task in job.tasks for _ in range(task.replicas)]
    if sizes != whole and (job.elastic is None or set(sizes) != set(whole)):
        raise PlanError(f"job {job.id} needs replicas of {whole} GPUs and was given {sizes}")
    if job.elastic is not None and not job.elastic[0] <= sum(sizes) <= job.elastic[1]:
        raise PlanError(f"job {job.id} can run on {job.elastic} GPUs and was given {sum(sizes)}")
    if job.elastic is not None and job.elastic_mode == FIXED_WORLD and len(whole) % len(sizes):
        raise PlanError(f"job {job.id} keeps its {len(whole)} replicas and was given {len(sizes)} devices")


def _check_nodes(
    job: Job, action: Action, where: Mapping[GpuId, tuple[Node, Gpu]], nodes: Mapping[NodeId, Node]
) -> None:
    """Check that no replica starts on a node that its user excludes."""
    assert action.placement is not None
    if job.nodes is None:
        return
    used = {where[gpu][0].name for gpu in action.placement.gpus}
    used |= {nodes[node].name for node in action.placement.nodes}
    wrong = [name for name in used if not job.nodes.allow(name)]
    if wrong:
        raise PlanError(f"job {job.id} was placed on {sorted(wrong)}, where it is not to run")


class _Uses:
    """The jobs on each GPU: one, or several whose parts fit together."""

    def __init__(self, jobs: Mapping[JobId, Job], where: Mapping[GpuId, tuple[Node, Gpu]]) -> None:
        self._jobs, self._where = jobs, where
        self._whole: dict[GpuId, tuple[JobId, ...]] = {}
        self._parts: dict[GpuId, list[tuple[tuple[JobId, ...], GpuPart]]] = {}
        #: The GPUs of all that was added.
        self.given: set[GpuId] = set()

    def add(self, jobs: tuple[JobId, ...], replicas: tuple[tuple[GpuId, ...], ...]) -> None:
        first = self._jobs.get(jobs[0])
        parts = {} if first is None else first.parts_on(replicas)
        if len({gpu for replica in replicas for gpu in replica}) < _size(replicas):
            raise PlanError(f"{jobs} were given a GPU twice: {replicas}")
        if parts and len(jobs) > 1:
            raise PlanError(f"jobs {jobs} have parts of GPUs and were granted these together")
        self.given.update(*replicas)
        for gpu in [gpu for replica in replicas for gpu in replica]:
            others = self._whole.get(gpu) or tuple([job for by, _ in self._parts.get(gpu, ()) for job in by])
            if others and (gpu in self._whole or gpu not in parts):
                raise PlanError(f"GPU {gpu} is given to {others} and to {jobs}")
            if gpu not in parts:
                self._whole[gpu] = jobs
                continue
            there = self._parts.setdefault(gpu, [])
            there.append((jobs, parts[gpu]))
            request = sum([part.request for _, part in there])
            device = self._where[gpu][1].memory_bytes if gpu in self._where else 0
            memory = sum([part.memory_on(device) for _, part in there])
            if request > WHOLE_GPU or (device and memory > device):
                raise PlanError(
                    f"GPU {gpu} has no room for {(*others, *jobs)}: {request} thousandths, {memory} B"
                )


def _check_kept(kept: Mapping[JobId, Running], uses: _Uses) -> None:
    """Check that jobs without an action keep their GPUs, or their parts of them."""
    seen: set[AllocationId] = set()
    for job, running in kept.items():
        # Few of thousands are on a GPU that another job gets.
        if uses.given.isdisjoint(running.gpus) or running.allocation in seen:
            continue
        taken = [gpu for gpu in running.gpus if gpu in uses.given]
        seen.add(running.allocation)
        try:
            uses.add(running.jobs, running.replicas)
        except PlanError as error:
            raise PlanError(f"job {job} stays, but lost GPUs {taken}: {error}") from error


def _check_guarantees(
    snapshot: Snapshot,
    plan: Plan,
    kept: Mapping[JobId, Running],
    jobs: Mapping[JobId, Job],
    nobodys: Collection[GpuId],
) -> None:
    """Check that guaranteed jobs stay within their virtual cluster's guarantee; `nobodys` do not count."""
    used: dict[tuple[str, str], int] = {}
    # A GPU counts once for a virtual cluster, however many of its jobs have parts of it.
    shared: set[tuple[str, str, GpuId]] = set()

    def count(vc: str, model: str, gpus: Collection[GpuId], parts: Collection[GpuId]) -> None:
        number = len(gpus)
        if parts:
            new = {(vc, model, gpu) for gpu in gpus if gpu in parts} - shared
            shared.update(new)
            number = len(new) + sum([gpu not in parts for gpu in gpus])
        used[vc, model] = used.get((vc, model), 0) + number

    for action in plan.actions:
        if action.guaranteed and action.placement is not None and action.kind is not ActionKind.JOIN:
            replicas = action.placement.replicas
            kept_gpus = action.placement.gpus[: len(action.placement.gpus) - action.opportunistic_gpus]
            parts = jobs[action.jobs[0]].parts_on(replicas)
            count(action.virtual_cluster, action.placement.gpu_model, kept_gpus, parts.keys())
    for running in snapshot.running:
        number = running.jobs[0]
        if number not in kept:
            number = next((job for job in running.jobs if job in kept), number)
        first = jobs.get(number)
        if first is None or not first.guaranteed or running.stopping:
            continue
        if first.id in kept and kept[first.id].guaranteed:
            own: Collection[GpuId] = running.base.gpus
            if nobodys:
                own = [gpu for gpu in own if gpu not in nobodys]
            parts = first.parts_on(running.replicas) if first.has_parts else {}
            count(first.virtual_cluster, running.gpu_model, own, parts.keys())
    guaranteed = {
        (vc.name, model): count for vc in snapshot.virtual_clusters for model, count in vc.guaranteed.items()
    }
    known = {vc.name for vc in snapshot.virtual_clusters}
    for key, gpus in used.items():
        # Jobs whose virtual cluster was deleted stay as they are.
        if key[0] in known and gpus > guaranteed.get(key, 0):
            raise PlanError(f"virtual cluster {key[0]} would use {gpus} {key[1]}, more than its guarantee")


def _guaranteed_uses(
    plan: Plan, kept: Mapping[JobId, Running], jobs: Mapping[JobId, Job], nobodys: Collection[GpuId]
) -> dict[GpuId, Owner]:
    """Return the owner of the guaranteed job on each GPU, including nominated jobs.

    GPUs in `nobodys` count only if a job newly gets them as guaranteed, or has no others.
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


def _size(replicas: tuple[tuple[GpuId, ...], ...]) -> int:
    return sum(map(len, replicas))
