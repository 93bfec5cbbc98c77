"""The specification of an input worker, which follows from that of the job whose batches it makes."""

from scheduler.jobspec.spec import JobSpec
from scheduler.jobspec.tasks import TaskSpec

_NAME_CHARACTERS = 63


def input_worker_of(job: JobSpec) -> JobSpec | None:
    """Return what one input worker of a job asks for; None: the job has none.

    It is opportunistic, so that it takes nothing from a job with a guarantee. It sends no mail, since its job
    does.
    """
    workers = job.input_workers
    if workers is None:
        return None
    suffix = "-input"
    task = TaskSpec(
        name="main",
        gpu=0,
        gpu_models=(),
        cpus=workers.cpus,
        memory_bytes=workers.memory_bytes,
        command=workers.command,
        env=job.tasks[0].env,
    )
    return JobSpec(
        name=job.name[: _NAME_CHARACTERS - len(suffix)] + suffix,
        virtual_cluster=job.virtual_cluster,
        priority=job.priority,
        guaranteed=False,
        tasks=(task,),
        image=job.image,
        code=job.code,
        secrets=job.secrets,
        notify_email=(),
    )
