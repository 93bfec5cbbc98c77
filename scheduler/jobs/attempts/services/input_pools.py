"""What nodes say of attempts with input workers: where their trainers wait, and how many they ask for.

Nothing here starts a worker (`jobs.services.input_workers` does). The caller has locked the job.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.utils.crypto import salted_hmac

from scheduler.core.perf.input_workers import within
from scheduler.models.attempts import Attempt, AttemptPart, InputPool, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now

SECRET_VARIABLE = "ALLOT_INPUT_SECRET"
_REQUESTED = "input_workers_desired"
#: No trainer counts further.
_WORKERS_MOST = 10_000


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
    pool.save(update_fields=["requested", "requested_since", "connected", "stall"])


def input_secret(job: Job, attempt_id: int) -> str | None:
    """Return what trainer and input workers prove to each other that they know; None: the job has neither.

    It is made from the server's own key when a node asks for it, another one for each attempt of a trainer:
    it is kept nowhere.
    """
    if job.serves_id is None and job.specification.input_workers is None:
        return None
    return salted_hmac(
        "allot.input-workers", str(job.serves_id or attempt_id), algorithm="sha256"
    ).hexdigest()


def trainers_of(attempts: Iterable[int]) -> dict[int, str]:
    """Return by attempt where its ranks wait, as a worker's ALLOT_INPUT_TRAINERS lists it."""
    pools = InputPool.objects.filter(attempt_id__in=set(attempts))
    return {
        pool.attempt_id: ",".join(address for _, address in sorted(pool.trainers.items(), key=_by_rank))
        for pool in pools
    }


def _by_rank(trainer: tuple[str, str]) -> int:
    return int(trainer[0])
