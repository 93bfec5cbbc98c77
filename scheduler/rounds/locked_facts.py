"""What is true of everything that a plan's actions touch, read after its rows were locked."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from scheduler.core.fitting.demand import needs_held
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.holds import GpuHolds
from scheduler.core.model.lifecycle import AttemptState, JobState
from scheduler.core.model.plan import Action, ActionKind, Placement
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Snapshot
from scheduler.jobs.attempts.services.gpu_holds import holds_on
from scheduler.jobs.attempts.services.node_room import Amounts, NodeRoom
from scheduler.models.attempts import Attempt
from scheduler.rounds.snapshot import read_tenants, read_virtual_clusters

# The task's name of each rank: rank by rank, as a job's replicas are numbered.
_LOCK_JOBS = """
SELECT id, version, state, tenant_id, jsonb_exists(shape, 'after_trial'),
       (SELECT array_agg(task->>'name' ORDER BY place, replica)
        FROM jsonb_array_elements(spec->'tasks') WITH ORDINALITY AS listed(task, place),
             generate_series(1, (task->>'replicas')::int) AS replica),
       coalesce((SELECT max(number) FROM scheduler_attempt WHERE job_id = scheduler_job.id), 0),
       shape -> 'ports'
FROM scheduler_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
_LOCK_NODES = """
SELECT id FROM scheduler_node
WHERE id IN (SELECT node_id FROM scheduler_gpu WHERE id = ANY(%s)) OR id = ANY(%s)
ORDER BY id FOR NO KEY UPDATE
"""
_USABLE_GPUS = """
SELECT g.id, g.node_id, g.index FROM scheduler_gpu g JOIN scheduler_node n ON n.id = g.node_id
WHERE g.id = ANY(%s) AND g.healthy AND g.present AND n.state = 'ready' AND NOT n.cordoned
      AND n.loan_state IN ('', 'lent')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedJob:
    """The facts of a job that its start needs; the row is locked."""

    tenant_id: int
    #: Whether its next attempt is a trial run.
    is_trial_due: bool
    #: By rank: the name of the task it belongs to.
    task_names: list[str]
    #: Number of its newest attempt; 0: it has had none.
    newest_attempt: int
    #: Its fixed ports.
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlace:
    """Where a GPU is, as its agent sees it."""

    node_id: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a start needs of its place."""

    #: By replica: the node that it is on.
    homes: Sequence[int]
    #: Its parts of GPUs, by GPU.
    parts: Mapping[GpuId, GpuPart]
    #: By job and node: the CPUs and memory that it takes.
    amounts: Mapping[JobId, Mapping[int, Amounts]]

    @property
    def together(self) -> dict[int, Amounts]:
        """Return by node what all its jobs take."""
        needed: dict[int, Amounts] = {}
        for amounts in self.amounts.values():
            for node, (cpus, memory) in amounts.items():
                before = needed.get(node, (0.0, 0.0))
                needed[node] = before[0] + cpus, before[1] + memory
        return needed


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is true now of everything the plan's actions touch; read after their rows were locked."""

    jobs: dict[JobId, LockedJob]
    #: Jobs that changed since the snapshot, with the reason in words.
    changed_jobs: dict[JobId, str]
    #: These and the jobs whose rights changed since then, all of which get no GPUs, with the reason in words.
    barred: Mapping[JobId, str]
    #: Usable GPUs, and the allocations that hold them or are nominated for them.
    places: dict[GpuId, GpuPlace]
    holds: GpuHolds
    #: The allocation that has each GPU before the plan, the first of several that have parts of it.
    givers: Mapping[GpuId, AllocationId]
    #: The jobs as the plan was made for them, which say what they have of their GPUs.
    known: Mapping[JobId, Job]
    #: Unended attempts by allocation.
    attempts: dict[AllocationId, list[Attempt]]
    dropped: list[dict[str, Any]] = field(default_factory=list)
    #: Allocations that this plan makes, and the GPUs that these have as a whole.
    granted: set[AllocationId] = field(default_factory=set)
    given_whole: set[GpuId] = field(default_factory=set)
    #: What replicas without GPUs find on the nodes that the plan has for them, once its stops are done; None:
    #: there are no such replicas.
    room: NodeRoom | None = None

    def drop(self, action: Action, why: str) -> None:
        self.dropped.append({"kind": str(action.kind), "jobs": list(action.jobs), "why": why})

    def asks_of(self, action: Action) -> Asks:
        """Return what a start needs; its GPUs are usable."""
        assert action.placement is not None
        placement, job = action.placement, self.known.get(action.jobs[0])
        homes: list[int] = [*placement.nodes]
        homes = homes or [self.places[gpus[0]].node_id for gpus in placement.replicas]
        return Asks(
            homes=homes,
            parts={} if job is None else job.parts_on(placement.replicas),
            amounts={job: self._amounts_of(job, placement, homes) for job in action.jobs},
        )

    def _amounts_of(self, job: JobId, placement: Placement, homes: Sequence[int]) -> dict[int, Amounts]:
        """Return by node the CPUs and memory that a job takes there."""
        needs = needs_held(self.known[job], len(placement.gpus)) if job in self.known else ()
        found: dict[int, Amounts] = {}
        for node, need in zip(homes, needs, strict=False):
            cpus, memory = found.get(node, (0.0, 0.0))
            found[node] = cpus + need.cpus, memory + need.memory_bytes
        return found


def lock_and_read(snapshot: Snapshot, changes: Sequence[Action]) -> Facts:
    """Lock the jobs, then the nodes, in id order, and read what is true of them now.

    The jobs of a joined allocation are locked, too: otherwise the last of them could end, and give back its
    GPUs, while another job is put beside it.
    """
    joined = {action.allocation for action in changes if action.kind is ActionKind.JOIN}
    hosts = {job for held in snapshot.running if held.allocation in joined for job in held.jobs}
    jobs = sorted({job for action in changes for job in action.jobs} | hosts)
    nodes = sorted({node for action in changes if action.placement for node in action.placement.nodes})
    needed = sorted({gpu for action in changes if action.placement for gpu in action.placement.gpus})
    versions = {job.id: job.version for job in snapshot.jobs}
    changed: dict[JobId, str] = {job: f"job {job} has ended" for job in jobs}
    locked: dict[JobId, LockedJob] = {}
    places: dict[GpuId, GpuPlace] = {}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_JOBS, [jobs])
        for job, version, state, tenant, is_trial_due, task_names, newest, ports in cursor.fetchall():
            locked[job] = LockedJob(
                tenant_id=tenant,
                is_trial_due=is_trial_due,
                task_names=task_names,
                newest_attempt=newest,
                ports=tuple(json.loads(ports)) if ports else (),
            )
            if version == versions.get(job) and state in (JobState.QUEUED, JobState.RUNNING):
                del changed[job]
            else:
                changed[job] = f"job {job} changed after the snapshot"
        cursor.execute(_LOCK_NODES, [needed, nodes])
        cursor.execute(_USABLE_GPUS, [needed])
        for gpu, node, index in cursor.fetchall():
            places[gpu] = GpuPlace(node_id=node, index=index)
    known = {job.id: job for job in snapshot.jobs if job.id in locked}
    given = {job for action in changes if action.placement is not None for job in action.jobs} & known.keys()
    rights = _with_changed_rights([known[job] for job in given], snapshot) if given else {}
    holds = holds_on(needed)
    there = {allocation for gpu in needed for allocation in holds.holders(gpu)}
    concerned = {action.allocation for action in changes if action.allocation is not None}
    return Facts(
        jobs=locked,
        changed_jobs=changed,
        barred={**rights, **changed},
        places=places,
        holds=holds,
        givers={gpu: min(holders) for gpu in places if (holders := holds.holders(gpu))},
        known=known,
        attempts=_unended_attempts(concerned | there),
    )


def _with_changed_rights(jobs: Iterable[Job], snapshot: Snapshot) -> dict[JobId, str]:
    """Return the jobs whose quotas, budgets or membership are no longer those of the snapshot, and why.

    No job starts against what was withdrawn while its round was decided.
    """
    left = {(vc.name, member.tenant) for vc in snapshot.virtual_clusters for member in vc.members}
    with connection.cursor() as cursor:
        tenants = {tenant.name: tenant for tenant in read_tenants(cursor)}
        left -= {(vc.name, member.tenant) for vc in read_virtual_clusters(cursor) for member in vc.members}
    same = {tenant.name for tenant in snapshot.tenants if tenant == tenants.get(tenant.name)}
    changed = {}
    for job in jobs:
        if job.tenant not in same:
            changed[job.id] = f"a quota or budget of tenant {job.tenant} changed after the snapshot"
        elif (job.virtual_cluster, job.tenant) in left:
            changed[job.id] = f"tenant {job.tenant} is no longer a member of {job.virtual_cluster}"
    return changed


def _unended_attempts(allocations: Collection[AllocationId]) -> dict[AllocationId, list[Attempt]]:
    found: dict[AllocationId, list[Attempt]] = defaultdict(list)
    rows = Attempt.objects.filter(allocation_id__in=allocations).exclude(state=AttemptState.ENDED)
    for attempt in rows.select_related("job", "allocation").order_by("id"):
        found[AllocationId(attempt.allocation_id)].append(attempt)
    return found
