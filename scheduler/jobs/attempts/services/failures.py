"""The consequences of a failed attempt: whether its job is tried again, on which nodes it is not, and what
the failure says about the node."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from scheduler.core.failures.retrying import AfterLoss, FailedAttempt, Verdict, after_loss, judge
from scheduler.core.failures.site_rules import class_in, to_match
from scheduler.core.failures.taxonomy import IDLE_GPUS, STUCK, class_of
from scheduler.core.model.lifecycle import AttemptState, Outcome, StopCause
from scheduler.jobs.failures.services import rule_for
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.jobs import Job
from scheduler.models.nodes import LoanState, Node, NodeState
from scheduler.models.selectors.maintenance import nodes_in_maintenance
from scheduler.nodes.services.changes import cordon_node, node_locked

#: A job avoids at most this many nodes, the newest, and never more than half of those that it could use.
MOST_AVOIDED = 8
#: A node is cordoned when its hardware failed this many jobs, of this many tenants, within this time. A job
#: writes its own log, so one tenant alone must not be able to take nodes from others.
SUSPECT_WITHIN = timedelta(hours=6)
SUSPECT_JOBS, SUSPECT_TENANTS = 3, 2

#: An attempt that the platform stopped for one of these causes has failed.
_FAILED_BY_CAUSE = {StopCause.STUCK: STUCK, StopCause.IDLE_GPUS: IDLE_GPUS}
#: The attempt did not cause these ends, so its output does not matter.
_NOT_ITS_OWN = frozenset({"", "stopped", "lost"})


def verdict_on(job: Job, attempt: Attempt) -> Verdict | None:
    """Return the next state of a job whose attempt failed; None if it was stopped and did not fail."""
    failed = _failed(attempt)
    if failed is None:
        return None
    rows = Attempt.objects.filter(job=job, outcome=Outcome.FAILED, number__lt=attempt.number)
    before = [one for row in rows.order_by("number") if (one := _failed(row)) is not None]
    return judge(failed, before, job.specification.retry)


def _failed(attempt: Attempt) -> FailedAttempt | None:
    """Return the failure class of an attempt; None if it was stopped for another reason."""
    if attempt.stop_cause in _FAILED_BY_CAUSE:
        return FailedAttempt(_FAILED_BY_CAUSE[StopCause(attempt.stop_cause)], attempt.stop_message)
    if attempt.stop_cause not in ("", StopCause.PART_FAILED) or not attempt.category:
        return None
    if attempt.matched_rule:
        return FailedAttempt(class_in(attempt.matched_rule), attempt.message)
    return FailedAttempt(class_of(attempt.category, attempt.message), attempt.message)


def match_site_rules(attempt: Attempt, part: AttemptPart, last_lines: str) -> None:
    """Set on the attempt the site's rule that the first failed part matches; does not save it."""
    if part.category not in _NOT_ITS_OWN:
        # An attempt that never started has a message and no output.
        rule = rule_for(part.exit_code or 0, f"{last_lines}\n{part.message}")
        attempt.matched_rule = None if rule is None else to_match(rule)


def verdict_on_loss(job: Job, attempt: Attempt, *, at: datetime) -> AfterLoss:
    """Return the next state of a job whose attempt was lost just now."""
    ended = Attempt.objects.filter(job=job, state=AttemptState.ENDED).exclude(id=attempt.id)
    ran_seconds = [_ran_seconds(attempt, at)]
    for before in ended.order_by("-number").iterator(chunk_size=20):
        if before.outcome != Outcome.LOST or before.starting_at is None:
            break
        ran_seconds.append(_ran_seconds(before, before.ended_at))
    return after_loss(ran_seconds)


def _ran_seconds(attempt: Attempt, until: datetime | None) -> float:
    began = attempt.running_at
    return (until - began).total_seconds() if began is not None and until is not None else 0.0


def nodes_to_avoid(job: Job, attempt: Attempt) -> Sequence[int]:
    """Return the nodes that the job avoids from now on: those whose parts failed, and those from before."""
    parts = attempt.parts.filter(category=attempt.category).exclude(exit_code=0)
    nodes = [*parts.order_by("id").values_list("node_id", flat=True)]
    known = [*(node for node in job.avoid_nodes if node not in nodes), *nodes]
    usable = Node.objects.filter(state=NodeState.READY, cordoned=False, loan_state__in=["", LoanState.LENT])
    usable = usable.exclude(name__in=nodes_in_maintenance())
    if job.gpu_models:
        usable = usable.filter(gpu_model__name__in=job.gpu_models)
    most = min(MOST_AVOIDED, usable.count() // 2)
    return known[-most:] if most else []


def cordon_if_suspect(attempt: Attempt, *, at: datetime) -> None:
    """Cordon a node whose hardware has failed several jobs of several tenants."""
    for part in attempt.parts.filter(category="hardware").select_related("node").order_by("node_id"):
        failed = AttemptPart.objects.filter(
            node=part.node, category="hardware", attempt__planned_at__gte=at - SUSPECT_WITHIN
        )
        jobs = set(failed.values_list("attempt__job_id", "attempt__job__tenant_id"))
        tenants = {tenant for _, tenant in jobs}
        if len(jobs) < SUSPECT_JOBS or len(tenants) < SUSPECT_TENANTS:
            continue
        node = node_locked(part.node)
        if not node.cordoned:
            # Without a word of their output: all tenants see why a node takes no work.
            why = (
                f"Its hardware failed {len(jobs)} jobs of {len(tenants)} tenants within"
                f" {SUSPECT_WITHIN.total_seconds() / 3600:g} hours."
            )
            # It does not return automatically: no check shows whether that hardware is sound again.
            cordon_node(node, actor="health", why=why)
