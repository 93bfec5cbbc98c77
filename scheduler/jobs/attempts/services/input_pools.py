"""What nodes report of attempts with input workers: where trainers wait, and how many workers they want.

Nothing here starts a worker (`jobs.services.input_workers` does). The caller has locked the job.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet
from django.utils.crypto import salted_hmac

from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.perf.input_workers import within
from scheduler.jobspec.input_workers import input_worker_of
from scheduler.models.attempts import Attempt, AttemptPart, InputPool, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now

SECRET_VARIABLE = "ALLOT_INPUT_SECRET"
_REQUESTED = "input_workers_desired"
#: Higher numbers in a progress line are not plausible.
_WORKERS_MOST, _SKIPPED_MOST = 10_000, 10**15


def trainers_note(part: AttemptPart, ports: Mapping[str, int]) -> None:
    """Note where the ranks of a part wait for input workers; with the first of them the pool begins."""
    workers = part.attempt.job.specification.input_workers
    if workers is None:
        return
    host = f"[{part.node.address}]" if ":" in part.node.address else part.node.address
    own = {str(replica["rank"]) for replica in part.replicas}
    told = {rank: f"{host}:{port}" for rank, port in ports.items() if rank in own and 0 < port < 65_536}
    pool = InputPool.objects.filter(attempt_id=part.attempt_id).first()
    if pool is None:
        InputPool.objects.create(
            attempt_id=part.attempt_id,
            stream=stream_of(part.attempt.job),
            trainers=told,
            desired=workers.least,
            requested=workers.least,
            requested_since=database_now(),
        )
    elif not told.items() <= pool.trainers.items():
        pool.trainers |= told
        pool.save(update_fields=["trainers"])


def demand_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Note how many input workers the newest of new progress lines asks for."""
    values = next((point.values for point in reversed(points) if _REQUESTED in point.values), None)
    workers = values and attempt.job.specification.input_workers
    pool = workers and InputPool.objects.filter(attempt_id=attempt.id).first()
    if not values or not workers or not pool:
        return
    requested = within(values[_REQUESTED], workers.least, workers.most)
    if requested != pool.requested:
        pool.requested, pool.requested_since = requested, database_now()
    pool.connected = int(min(max(values.get("input_workers", 0), 0), _WORKERS_MOST))
    pool.stall = min(max(values.get("input_stall", 0.0), 0.0), 1.0)
    if pool.stream:
        pool.skipped = int(min(max(values.get("input_skipped", 0), 0), _SKIPPED_MOST))
    pool.save(update_fields=["requested", "requested_since", "connected", "stall", "skipped"])


def stream_of(job: Job) -> str:
    """Return what identifies the stream that a job follows with others of its search; "": it shares none.

    They are jobs of the same tenant and the same user, whose workers would be the same but for their names
    and priorities: so no job gets batches that another user made, or that another command would make.
    """
    workers, worker = job.specification.input_workers, input_worker_of(job.specification)
    if workers is None or worker is None or not workers.shared:
        return ""
    alike = replace(worker, name="", priority=0).to_dict()
    whose = [job.tenant_id, job.submitted_by_id, job.specification.search]
    return hashlib.sha256(json.dumps([whose, alike], sort_keys=True).encode()).hexdigest()


def input_secret(job: Job, attempt_id: int) -> str | None:
    """Return the secret that trainer and input workers prove to each other to know; None: the job has
    neither.

    It is derived from the server's own key when a node asks for it, a different one for each attempt of a
    trainer or each stream. It is stored nowhere.
    """
    if job.serves_id is None and job.specification.input_workers is None:
        return None
    trainer = job if job.serves is None else job.serves.job
    if stream := stream_of(trainer):
        return salted_hmac("allot.input-streams", stream, algorithm="sha256").hexdigest()
    return salted_hmac(
        "allot.input-workers", str(job.serves_id or attempt_id), algorithm="sha256"
    ).hexdigest()


@dataclass(frozen=True, slots=True)
class Trainers:
    """Where the trainers wait that an input worker serves, as ALLOT_INPUT_TRAINERS lists it."""

    addresses: str = ""
    #: They follow a stream, and come and go while the worker runs.
    is_stream: bool = False


def trainers_of(attempts: Iterable[int]) -> dict[int, Trainers]:
    """Return by attempt where its ranks wait, with all others that follow its stream."""
    pools = list(InputPool.objects.filter(attempt_id__in=set(attempts)))
    streams = {pool.stream for pool in pools if pool.stream}
    following: dict[str, list[str]] = {}
    for other in streams_open(streams) if streams else ():
        following.setdefault(other.stream, []).extend(_addresses(other))
    return {
        pool.attempt_id: Trainers(
            ",".join(following.get(pool.stream, []) if pool.stream else _addresses(pool)), bool(pool.stream)
        )
        for pool in pools
    }


def streams_open(streams: Iterable[str]) -> QuerySet[InputPool]:
    """Return the pools of attempts that run and follow one of these streams, the oldest first."""
    running = InputPool.objects.filter(stream__in=streams, is_open=True, attempt__state=AttemptState.RUNNING)
    return running.order_by("attempt_id")


def _addresses(pool: InputPool) -> list[str]:
    return [address for _, address in sorted(pool.trainers.items(), key=_by_rank)]


def _by_rank(trainer: tuple[str, str]) -> int:
    return int(trainer[0])
