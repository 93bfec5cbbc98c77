"""What may be reported, and in what words: from an event's row to a notice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from scheduler.core.failures.taxonomy import CLASSES, NO_SIGNATURE, FailureClass
from scheduler.core.model import wording
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, GOES_ON_AT_ONCE
from scheduler.models.attempts import Attempt
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from tenants.models import Tenant
from tenants.times import iso

#: By topic, in a few words. What a webhook may ask for.
TOPICS: Mapping[str, str] = {
    "job.started": "an attempt of a job runs",
    "job.finished": "a job succeeded, or was cancelled",
    "job.failed": "a job failed and is not tried again",
    "job.preempted": "a job was stopped before its end and waits again",
    "job.stuck": "a job reports no progress, or its GPUs are idle",
    "job.trial_failed": "the trial run before a large gang failed",
    "job.maintenance": "a node of a job closes for maintenance before its time limit",
    "job.reserved": "a node of a job is reserved for others before its time limit",
    "budget.reached": "a tenant used up a part of its budget",
    "reservation.changed": "nodes were reserved for a tenant, or its reservation was changed or cancelled",
    "webhook.disabled": "a webhook was switched off, since it could not be reached",
    "node.lost": "a node stopped reporting",
    "node.cordoned": "a node accepts no new jobs",
}
#: For operators only.
CLUSTER_TOPICS = ("node.lost", "node.cordoned")
#: What a job may ask for by `notify.email`.
EMAIL_TOPICS: Mapping[str, tuple[str, ...]] = {
    "start": ("job.started",),
    "end": ("job.finished", "job.failed"),
    "failure": ("job.failed", "job.stuck", "job.trial_failed", "job.maintenance", "job.reserved"),
    "preemption": ("job.preempted", "job.maintenance", "job.reserved"),
}
JOB_TOPICS = tuple(topic for topic in TOPICS if topic.startswith("job."))

_CAUSES = {
    "preempted": "other jobs needed its GPUs",
    "drained": "its node is being drained",
    "node_lost": "its node was lost",
    "gang_timeout": "its nodes did not start it in time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice. `text` states it in sentences, `data` (JSON-ready, small) in fields."""

    topic: str
    at: datetime
    subject: str
    text: str
    url: str
    tenant: Tenant | None = None
    job: Job | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the message as webhooks get it."""
        return {
            "type": self.topic,
            "timestamp": iso(self.at),
            "data": {
                "message": self.text,
                "url": self.url,
                "tenant": self.tenant.name if self.tenant else None,
                **self.data,
            },
        }


def link(path: str) -> str:
    """Return the address of a page, for people."""
    return f"{settings.CONFIG.public_url}{path}"


def notices_of(events: Sequence[Event]) -> list[Notice]:
    """Return the notices of the events, in their order; some events have none."""
    jobs = Job.objects.select_related("tenant", "virtual_cluster", "submitted_by").in_bulk(
        {event.job_id for event in events if event.job_id is not None}
    )
    attempts = Attempt.objects.select_related("allocation").in_bulk(
        {event.subject_id for event in events if event.subject == "attempt"}
    )
    failed = [event.job_id for event in events if event.kind == "job.failed" and event.job_id is not None]
    last = Attempt.objects.filter(job_id__in=failed).order_by("job_id", "-number").distinct("job_id")
    failures = dict(last.values_list("job_id", "failure"))
    nodes = Node.objects.in_bulk({event.node_id for event in events if event.node_id is not None})
    tenants = Tenant.objects.in_bulk({event.tenant_id for event in events if event.tenant_id is not None})
    found = []
    for event in events:
        notice: Notice | None = None
        if event.job_id is not None:
            # The platform starts and ends input workers, so these need no notice.
            if (job := jobs.get(event.job_id)) and job.serves_id is None:
                attempt = attempts.get(event.subject_id) if event.subject == "attempt" else None
                notice = _of_job(event, job, attempt, failures.get(job.id, ""))
        elif event.node_id is not None:
            if node := nodes.get(event.node_id):
                notice = _of_node(event, node)
        elif event.kind in _OF_TENANTS:
            notice = _OF_TENANTS[event.kind](event, tenants.get(event.tenant_id or 0))
        if notice is not None:
            found.append(notice)
    return found


def _of_job(event: Event, job: Job, attempt: Attempt | None, failure: str) -> Notice | None:
    """`failure`: the class of its last attempt's failure, where it failed."""
    title = f"Job {job.id} ({job.name})"
    data: dict[str, Any] = {}
    if event.kind == "job.started" and event.data.get("is_trial"):
        return None
    if event.kind == "job.started":
        topic, verb = "job.started", "started"
        on = f" on {wording.gpus(job.needs.amount(job.gpus))}" if job.gpus else ""
        text = f"{title} runs{on}."
        data = {"is_first_start": job.started_at == event.at}
    elif event.kind in ("job.succeeded", "job.cancelled"):
        topic, verb = "job.finished", event.to_state
        text = f"{title} {'succeeded' if verb == 'succeeded' else 'was cancelled'}{_after(job)}."
    elif event.kind == "job.failed":
        topic, verb = "job.failed", "failed"
        text, data = _failure(event, job, title, failure)
    elif event.kind == "attempt.stuck":
        topic, verb = "job.stuck", "seems stuck"
        text = f"{title} seems stuck: {event.message}"
    elif event.kind == "attempt.trial_failed":
        topic, verb = "job.trial_failed", "failed in its trial run"
        text = f"The trial run of {title[0].lower()}{title[1:]} failed: {event.message}"
    elif event.kind == "attempt.maintenance":
        topic, verb = "job.maintenance", "has to leave a node"
        text, data = f"{title}: {event.message}", {"maintenance": event.data["maintenance"]}
    elif event.kind == "attempt.reserved":
        topic, verb = "job.reserved", "has to leave a node"
        text, data = f"{title}: {event.message}", {"reservation": event.data["reservation"]}
    elif event.kind == "attempt.ended" and _was_preempted(event):
        topic, verb = "job.preempted", "was stopped and waits again"
        text, data = _preemption(event, title)
    else:
        return None
    if attempt is not None:
        data["attempt"] = {"number": attempt.number, "gpu_model": attempt.allocation.gpu_model}
    return Notice(
        topic=topic,
        at=event.at,
        subject=f"{title} {verb}",
        text=text,
        url=link(f"/jobs/{job.id}"),
        tenant=job.tenant,
        job=job,
        data={
            "job": {
                "id": job.id,
                "name": job.name,
                "virtual_cluster": job.virtual_cluster.name,
                "user": job.submitted_by.username,
                "gpus": job.gpus,
                "state": event.to_state if event.subject == "job" else job.state,
                "exit_code": job.exit_code,
            },
            **data,
        },
    )


def _after(job: Job) -> str:
    if job.started_at is None or job.ended_at is None:
        return ""
    return f" {wording.duration((job.ended_at - job.started_at).total_seconds())} after its first start"


def _failure(event: Event, job: Job, title: str, name: str) -> tuple[str, dict[str, Any]]:
    # A site's own classes are known by their name alone.
    failure = CLASSES.get(name, FailureClass(name, NO_SIGNATURE.layer, name)) if name else None
    words = f": {failure.words}" if failure else ""
    code = "" if job.exit_code is None else f" It exited with {job.exit_code}."
    # The event repeats the error, and goes on with what becomes of the job.
    error, rest = job.message.rstrip("."), event.message.removeprefix(job.message)
    text = f"{title} failed{words}.{code}{f' {error}.' if error else ''}{rest}"
    failure_form = (
        {"name": failure.name, "layer": str(failure.layer), "words": failure.words} if failure else None
    )
    return text, {"failure": failure_form, "error": job.message}


def _was_preempted(event: Event) -> bool:
    """Whether the attempt had begun and was ended for another's sake, so that its job waits again.

    A job that moves to other GPUs, or is resized, goes on: that is the scheduler's daily work.
    """
    was_stopped = event.data.get("outcome") in ("preempted", "lost") and event.from_state in ATTEMPT_LIVE
    return was_stopped and event.data.get("cause") not in GOES_ON_AT_ONCE


def _preemption(event: Event, title: str) -> tuple[str, dict[str, Any]]:
    cause, by = event.data.get("cause") or "", event.data.get("preempted_by") or []
    lost_seconds = event.data.get("lost_seconds")
    why = _CAUSES.get(cause, event.message or "the platform stopped it")
    whose = f" ({wording.jobs(by)})" if by else ""
    lost = f" About {wording.duration(lost_seconds)} of work were lost." if lost_seconds else ""
    text = f"{title} was stopped and waits again: {why}{whose}.{lost}"
    return text, {"cause": cause, "preempted_by": by[:100], "lost_seconds": lost_seconds}


def _of_node(event: Event, node: Node) -> Notice:
    verb = "was lost" if event.kind == "node.lost" else "was cordoned"
    return Notice(
        topic=event.kind,
        at=event.at,
        subject=f"Node {node.name} {verb}",
        text=f"Node {node.name} {verb} ({event.actor}). {event.message}".strip(),
        url=link(f"/nodes/{node.name}"),
        data={"node": {"name": node.name, "rack": node.rack, "state": node.state}, "actor": event.actor},
    )


def _of_budget(event: Event, tenant: Tenant | None) -> Notice | None:
    if tenant is None:
        return None
    return Notice(
        topic="budget.reached",
        at=event.at,
        subject=f"{event.data['percent']} % of the budget of {tenant.name} used",
        text=event.message,
        url=link(f"/tenants/{tenant.name}"),
        tenant=tenant,
        data={"budget": event.data},
    )


def _of_reservation(event: Event, tenant: Tenant | None) -> Notice | None:
    if tenant is None:
        return None
    return Notice(
        topic="reservation.changed",
        at=event.at,
        subject=f"Reservation {event.data['name']} of {tenant.name} {event.data['change']}",
        text=event.message,
        url=link("/calendar"),
        tenant=tenant,
        data={"reservation": event.data},
    )


def _of_webhook(event: Event, tenant: Tenant | None) -> Notice:
    return Notice(
        topic="webhook.disabled",
        at=event.at,
        subject="A webhook was switched off",
        text=event.message,
        url=link(f"/webhooks/{event.subject_id}"),
        tenant=tenant,
        data={"webhook": {"id": event.subject_id, **event.data}},
    )


_OF_TENANTS: Mapping[str, Callable[[Event, Tenant | None], Notice | None]] = {
    "budget.reached": _of_budget,
    "reservation.changed": _of_reservation,
    "webhook.disabled": _of_webhook,
}
