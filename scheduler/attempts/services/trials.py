"""Trial runs: one replica of a job on a few GPUs, before the whole gang is given what it asks for.

Most jobs that fail do so soon and by their own doing; a large gang that waited a day, and for which others
had to leave, should not be the one that finds out. While a trial is due, `Job.shape` tells rounds what the
trial needs, so that they know of nothing but a small job. A trial is over when it has told of a step, has run
for as long as its job says, or has ended well. One that fails is a failure of the job like any other.
"""

from datetime import datetime

from scheduler.attempts.models import Attempt
from scheduler.attempts.services.steps import step_job
from scheduler.core.model.lifecycle import JobEvent
from scheduler.jobs.models import Job

#: What its replica finds in its environment; its value is 1.
TRIAL_VARIABLE = "ALLOT_TRIAL"


def trial_passed(job: Job, attempt: Attempt, received: dict, *, at: datetime, actor: str) -> None:
    """Queue the job as what it is, its trial being over. `received`: its service until now."""
    ran = (at - (attempt.running_at or at)).total_seconds()
    step_job(
        job,
        JobEvent.REQUEUED,
        at=at,
        actor=actor,
        why=f"Its trial run of {ran:.0f} s went well: now it waits for all of its {job.gpus} GPUs.",
        shape=job.shape["after_trial"],
        service=received,
    )
