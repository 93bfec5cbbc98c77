"""What a node should be running: the desired state of its parts, as the answer to a report carries it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q
from django.utils.crypto import salted_hmac

from nodeagent.messages import INPUT_PORT, Code, DesiredPart, GpuPart, Launcher, Replica, Turn
from scheduler.core.model import gpu_parts
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, AttemptState, PartState
from scheduler.core.model.snapshot import FIXED_WORLD
from scheduler.jobs.attempts.services import lifecycle as attempts
from scheduler.jobs.attempts.services.input_pools import Trainers, trainers_of
from scheduler.jobspec import TaskSpec
from scheduler.jobspec.code import SHA256
from scheduler.jobspec.launchers import processes_each
from scheduler.models.attempts import AllocatedGpu, AttemptPart
from scheduler.models.nodes import Node
from scheduler.models.selectors.attempts import time_slices_of

#: What the replica of a trial run finds in its environment; its value is 1.
_TRIAL_VARIABLE = "ALLOT_TRIAL"
#: What replicas of a job of a fixed world size find: the number of ranks that all of them play together.
_LOGICAL_WORLD_SIZE = "ALLOT_LOGICAL_WORLD_SIZE"
#: The launcher whose replicas send each other orders, and where they find the key that signs them.
_MPI, _LAUNCH_KEY = "mpi", "ALLOT_LAUNCH_KEY"
#: What replicas of a task of an array find: its index, the array's number, and the number of tasks.
_ARRAY_VARIABLES = ("ALLOT_ARRAY_INDEX", "ALLOT_ARRAY", "ALLOT_ARRAY_SIZE")
#: An attempt that has ended shares the GPUs of its allocation with no other any more.
_HAS_NOT_ENDED = ~Q(attempt__allocation__attempts__state=AttemptState.ENDED)


def desired_parts(node: Node) -> tuple[DesiredPart, ...]:
    """Return every part that this node should run or stop, and whose end it has not reported."""
    if not _has_parts(node):
        return ()
    parts = (
        AttemptPart.objects.filter(node=node, attempt__state__in=ATTEMPT_LIVE)
        .exclude(state=PartState.EXITED)
        .select_related("attempt__job__tenant", "attempt__allocation")
        .annotate(sharers=Count("attempt__allocation__attempts", filter=_HAS_NOT_ENDED))
        .order_by("attempt_id")
    )
    turns = time_slices_of([part.attempt for part in parts])
    gpu_parts_here = _gpu_parts(node, [part.attempt.allocation_id for part in parts])
    served = [part.attempt.job.serves_id for part in parts if part.attempt.job.serves_id is not None]
    trainers = trainers_of(served) if served else {}
    return tuple(
        _desired_part(
            part,
            turns.get(part.attempt_id),
            gpu_parts_here.get(part.attempt.allocation_id, {}),
            trainers.get(part.attempt.job.serves_id or 0, Trainers()),
        )
        for part in parts
    )


def _gpu_parts(node: Node, allocations: Sequence[int]) -> dict[int, dict[int, GpuPart]]:
    """Return by allocation its parts of the GPUs of the node, by GPU."""
    rows = AllocatedGpu.objects.filter(
        allocation_id__in=allocations, gpu__node=node, request__lt=gpu_parts.WHOLE_GPU
    )
    found: dict[int, dict[int, GpuPart]] = {}
    for row in rows.select_related("gpu"):
        part = gpu_parts.GpuPart(request=row.request, limit=row.limit, memory_bytes=row.memory_bytes)
        found.setdefault(row.allocation_id, {})[row.gpu_id] = GpuPart(
            request=part.request, limit=part.limit, memory_bytes=part.memory_on(row.gpu.memory_bytes)
        )
    return found


def _has_parts(node: Node) -> bool:
    """Look before all parts are read with their relations: most nodes ask again and again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM scheduler_attemptpart WHERE node_id = %s AND state <> 'exited')",
            [node.id],
        )
        return bool(cursor.fetchone()[0])


def _desired_part(
    part: AttemptPart, turn: Turn | None, parts: Mapping[int, GpuPart], trainers: Trainers
) -> DesiredPart:
    """Return what the node is to run; `trainers`: those that it serves as an input worker."""
    attempt, job = part.attempt, part.attempt.job
    stated = job.specification
    code = stated.code
    tasks = {task.name: task for task in stated.tasks}
    variables: dict[str, str] = {_TRIAL_VARIABLE: "1"} if attempt.is_trial else {}
    if job.array is not None:
        values = (job.array["index"], job.array_id, job.array["size"])
        variables |= dict(zip(_ARRAY_VARIABLES, map(str, values), strict=True))
    ports = {name: number or 0 for name, number in stated.ports.items()}
    if (workers := stated.input_workers) is not None:
        ports[INPUT_PORT] = 0
        variables |= {"ALLOT_INPUT_MIN": str(workers.least), "ALLOT_INPUT_MAX": str(workers.most)}
        variables |= {"ALLOT_INPUT_SHARED": "1"} if workers.shared else {}
    if trainers.addresses and not trainers.is_stream:
        variables["ALLOT_INPUT_TRAINERS"] = trainers.addresses
    # An elastic job has as many as it was granted.
    world_size, ranks = len(attempt.allocation.replicas), 1
    if not attempt.is_trial and stated.elastic_mode == FIXED_WORLD:
        replicas = sum(task.replicas for task in stated.tasks)
        variables[_LOGICAL_WORLD_SIZE] = str(replicas * processes_each(stated))
        ranks = replicas // world_size
    if stated.launcher == _MPI:
        variables[_LAUNCH_KEY] = salted_hmac(_LAUNCH_KEY, str(attempt.id), algorithm="sha256").hexdigest()
    return DesiredPart(
        attempt=attempt.id,
        job=job.id,
        number=attempt.number,
        name=job.name,
        tenant=job.tenant.name,
        gpu_model=attempt.allocation.gpu_model,
        replicas=tuple(
            _replica(
                replica,
                tasks[replica["task"]],
                stated.image,
                parts,
                shares=attempt.auxiliary["replicas"] if attempt.auxiliary else [],
                variables=variables,
                ranks=ranks,
                launcher=stated.launcher,
            )
            for replica in part.replicas
        ),
        code=None
        if code is None
        else Code(archive=code.archive.removeprefix(SHA256), git=code.git, commit=code.commit),
        trainers=trainers.addresses if trainers.is_stream else "",
        world_size=world_size,
        go=attempt.go,
        stop=attempt.state == AttemptState.STOPPING,
        grace_seconds=job.grace_seconds,
        has_rank_zero=attempts.has_rank_zero(part),
        master_address=attempt.master_address,
        master_port=attempt.master_port or 0,
        log_bytes=settings.CONFIG.log_bytes_per_attempt,
        shares_gpus=part.sharers > 1,  # type: ignore[attr-defined]
        turn=turn,
        has_secrets=bool(stated.secrets or workers) or job.serves_id is not None,
        ports=ports,
    )


def _replica(
    placed: dict[str, Any],
    task: TaskSpec,
    image: str,
    parts: Mapping[int, GpuPart],
    *,
    shares: Sequence[Sequence[float]],
    variables: dict[str, str],
    ranks: int,
    launcher: Launcher,
) -> Replica:
    """Return a process; `ranks`: how many replicas of the task it plays in turn, with the memory of all.

    `shares`: by rank, the CPUs and memory that it has now of what its task leaves to the platform.
    """
    rank = placed["rank"]
    # Without a share, a replica has no limit.
    cpus, memory = shares[rank] if rank < len(shares) else (0.0, 0)
    return Replica(
        rank=rank,
        task=placed["task"],
        gpu_indexes=tuple(placed["gpu_indexes"]),
        command=tuple(task.command),
        env={**task.env, **variables},
        cpus=float(cpus if isinstance(task.cpus, str) else task.cpus),
        memory_bytes=int(memory) if isinstance(task.memory_bytes, str) else task.memory_bytes * ranks,
        image=image,
        gpu_part=parts.get(placed["gpus"][0]) if placed["gpus"] else None,
        launcher=launcher,
    )
