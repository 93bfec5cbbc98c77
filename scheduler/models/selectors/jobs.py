"""Jobs as far as the viewer may see them.

Members of a job's tenant and operators see it; for all others it does not exist.
"""

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from scheduler.core.model.lifecycle import JOB_FINAL, PartState
from scheduler.models.attempts import AttemptPart, InputPool
from scheduler.models.jobs import Dependency, Job
from tenants.errors import NotFound
from tenants.selectors import Viewer

#: The view that serves the opportunistic jobs of every virtual cluster.
SPARE_VIEW = "spare"


def view_of(job: Job) -> str:
    """Return the name of the view whose policy considers the job."""
    return job.virtual_cluster.name if job.guaranteed else SPARE_VIEW


def jobs_visible(viewer: Viewer) -> QuerySet[Job]:
    if viewer.is_operator:
        return Job.objects.all()
    return Job.objects.filter(tenant_id__in=list(viewer.roles))


def job_visible(viewer: Viewer, job_id: int) -> bool:
    return jobs_visible(viewer).filter(id=job_id).exists()


#: The most waiting jobs that an answer names.
MOST_DEPENDENTS = 100


def dependencies_of(job: Job) -> list[Dependency]:
    """Return a job's dependencies, with the jobs that it waits for."""
    return list(job.dependencies.select_related("awaited").order_by("id"))


def dependents_of(job: Job) -> tuple[list[Dependency], int]:
    """Return which jobs wait for this one, the latest `MOST_DEPENDENTS` of them, and how many there are."""
    rows = Dependency.objects.filter(awaited=job).select_related("job").order_by("-id")
    found = list(rows[:MOST_DEPENDENTS])
    return found, rows.count() if len(found) == MOST_DEPENDENTS else len(found)


#: Those that end are still there for a while beside those that take their places.
MOST_INPUT_WORKERS = 200


def serves_stream(stream: str) -> Q:
    """Return which jobs are input workers of a stream, whichever of its attempts they serve now."""
    return Q(serves__in=InputPool.objects.filter(stream=stream).values("attempt_id"))


def input_workers_of(job: Job) -> tuple[InputPool | None, list[Job]]:
    """Return the newest pool of input workers of a job, and the workers of it that have not ended.

    Where it follows a stream with other jobs, the workers are those of the stream while it follows.
    """
    pool = InputPool.objects.filter(attempt__job=job).order_by("-attempt_id").first()
    if pool is None:
        return None, []
    serving = serves_stream(pool.stream) if pool.stream and pool.is_open else Q(serves=pool.attempt_id)
    workers = Job.objects.filter(serving).exclude(state__in=JOB_FINAL)
    return pool, list(workers.order_by("id")[:MOST_INPUT_WORKERS])


def nodes_of_workers(workers: Sequence[Job]) -> list[str | None]:
    """Return the name of the node that each input worker is on; None: of none yet."""
    there = AttemptPart.objects.filter(attempt__job__in=workers).exclude(state=PartState.EXITED)
    by_job = dict(there.order_by("id").values_list("attempt__job_id", "node__name"))
    return [by_job.get(worker.id) for worker in workers]


def job_get(viewer: Viewer, job_id: int) -> Job:
    """Return a job the viewer may see; else raise NotFound, whether it exists or not."""
    job = jobs_visible(viewer).select_related("tenant", "virtual_cluster").filter(id=job_id).first()
    if job is None:
        raise NotFound(f"There is no job {job_id}, or it belongs to a tenant you are not a member of.")
    return job
