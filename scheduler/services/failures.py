"""What is made of an attempt that failed: whether its job is tried again, and where not."""

from collections.abc import Sequence

from scheduler.core.failures.retrying import Failed, RetryRules, Verdict, judge
from scheduler.core.failures.taxonomy import class_of
from scheduler.core.lifecycle import Outcome
from scheduler.models import Attempt, Job, Node
from scheduler.models.inventory import NodeState
from scheduler.models.jobs import StopCause

#: A job avoids no more nodes than these, the newest, and never more than half of those that it could use.
MOST_AVOIDED = 8


def verdict_on(job: Job, attempt: Attempt) -> Verdict | None:
    """Return what becomes of a job whose attempt failed; None where it was stopped and did not fail."""
    if attempt.stop_cause not in ("", StopCause.PART_FAILED) or not attempt.category:
        return None
    before = Attempt.objects.filter(job=job, outcome=Outcome.FAILED, number__lt=attempt.number)
    failed = [_failed(*row) for row in before.order_by("number").values_list("category", "message")]
    return judge(_failed(attempt.category, attempt.message), failed, RetryRules(**job.spec["retry"]))


def _failed(category: str, message: str) -> Failed:
    return Failed(class_of(category, message), message)


def nodes_to_avoid(job: Job, attempt: Attempt) -> Sequence[int]:
    """Return the nodes that the job avoids from now on: those whose parts failed, and those from before."""
    parts = attempt.parts.filter(category=attempt.category).exclude(exit_code=0)
    nodes = [*parts.order_by("id").values_list("node_id", flat=True)]
    known = [*(node for node in job.avoid_nodes if node not in nodes), *nodes]
    usable = Node.objects.filter(state=NodeState.READY, cordoned=False)
    if job.gpu_models:
        usable = usable.filter(gpu_model__name__in=job.gpu_models)
    most = min(MOST_AVOIDED, usable.count() // 2)
    return known[-most:] if most else []
