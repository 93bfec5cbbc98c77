"""Sessions inside running attempts: the right to one, its target, and its end.

A session ends with the right to it: `session_problem` is asked when its user's rights change, and every
minute for other causes. The bytes themselves never come here (`controlplane.sessions`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from nodeagent.messages import SessionOffer, encode
from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.jobs.attempts.services.steps import job_event
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from scheduler.models.selectors.jobs import job_get
from scheduler.models.sessions import Session
from scheduler.wiring.clock import database_now
from scheduler.wiring.stream import node_group, on_commit, send
from tenants.errors import Conflict, Invalid, NotAllowed
from tenants.housekeeping import delete_rows
from tenants.models import Role, Scope
from tenants.selectors import Viewer

#: A session that no server process has held for this time is over: its process was killed.
UNSEEN = timedelta(minutes=3)
KEPT = timedelta(days=30)
#: Connections to a port make one event, not one each.
_SAME_VISIT = timedelta(minutes=10)
_COMMAND_CHARACTERS = 500
#: States of attempts that sessions can enter, a stopping one too.
_OPEN = (AttemptState.RUNNING, AttemptState.STOPPING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a session is for: a command with or without a terminal, or a connection to a port."""

    rank: int = 0
    command: tuple[str, ...] = ()
    terminal: str = ""
    rows: int = 24
    columns: int = 80
    port: str = ""


@transaction.atomic
def session_open(
    *, viewer: Viewer, job_id: int, request: SessionRequest, address: str, attempt_id: int | None = None
) -> Session:
    """Record a session and offer it to the node's agent; raise an ApplicationError where it is not allowed.

    `address`: where the agent's joining is announced. `attempt_id`: the attempt that it must be.
    """
    job = job_get(viewer, job_id)
    require_may_enter(viewer, job)
    part = _part_of(job, request.rank, attempt_id)
    _check_room(viewer, part.attempt)
    if request.port and not request.port.isdigit():
        require_port(job, request.port)
    at = database_now()
    session = Session(
        user=viewer.user,
        attempt=part.attempt,
        rank=request.rank,
        node_id=part.node_id,
        port=request.port,
        command=_text(request.command),
        address=address,
        opened_at=at,
        seen_at=at,
    )
    if not request.port or not _visited_lately(session):
        _tell(viewer, job, session)
    session.save(force_insert=True)
    offer = SessionOffer(
        id=str(session.id),
        attempt=session.attempt_id,
        rank=request.rank,
        command=request.command,
        terminal=request.terminal,
        rows=request.rows,
        columns=request.columns,
        port=request.port,
    )
    offer_session(part.node_id, encode(offer))
    return session


def session_join(*, node: Node, session_id: UUID) -> Session | None:
    """Let the agent of its node join a session, no other agent, and only once."""
    at = database_now()
    waiting = Session.objects.filter(id=session_id, node=node, joined_at=None, ended_at=None)
    if not waiting.update(joined_at=at):
        return None
    return Session.objects.get(id=session_id)


def session_problem(session_id: UUID, viewer: Viewer | None) -> str:
    """Return why a session must end, "" if it may go on; then it counts as seen now."""
    if viewer is None:
        return "You are no longer signed in."
    session = Session.objects.select_related("attempt__job__tenant", "user").get(id=session_id)
    if session.ended_at is not None:
        return "The session was ended."
    if session.attempt.state == AttemptState.ENDED:
        return "The attempt has ended."
    try:
        require_may_enter(viewer, session.attempt.job)
    except NotAllowed as error:
        return error.message
    Session.objects.filter(id=session_id).update(seen_at=database_now())
    return ""


def session_end(session_id: UUID, *, exit_code: int | None = None) -> None:
    Session.objects.filter(id=session_id, ended_at=None).update(ended_at=database_now(), exit_code=exit_code)


def session_is_open(session_id: UUID, node_token_key: str) -> bool:
    """Whether a session goes on, and its node's agent still signs in with the same token."""
    return Session.objects.filter(id=session_id, ended_at=None, node__token_key=node_token_key).exists()


def require_may_enter(viewer: Viewer, job: Job) -> None:
    """Raise NotAllowed unless the viewer may do inside the job what the job itself may.

    The submitter may while a member, and so may the admins of its tenant unless it has secrets of the
    submitter's own, and operators where the installation allows it. Other members of the tenant can see and
    cancel the job, but not act in its name.
    """
    viewer.require_scope(Scope.SUBMIT)
    role = viewer.roles.get(job.tenant_id)
    # Opening a session is a change, also through a WebSocket.
    operates = viewer.is_operator and Scope.OPERATE in viewer.scopes
    is_own = job.submitted_by_id == viewer.user.pk and (role in (Role.MEMBER, Role.ADMIN) or operates)
    if uses_own_secrets(job) and not is_own:
        raise NotAllowed(
            f"Job {job.id} uses its submitter's own secrets, so only the submitter can enter it."
        )
    if role == Role.ADMIN or is_own or (operates and settings.CONFIG.operators_enter_jobs):
        return
    said = f"Only the user who submitted job {job.id} and admins of tenant {job.tenant.name!r} can enter it"
    raise NotAllowed(f"{said}{'; operators can if ALLOT_OPERATORS_ENTER_JOBS is set' * viewer.is_operator}.")


def uses_own_secrets(job: Job) -> bool:
    """Whether a session in the job can read secrets that are not its tenant's."""
    return any(use.scope == "user" for use in job.specification.secrets)


def require_port(job: Job, name: str) -> None:
    if name not in ports_of(job):
        known = ", ".join(ports_of(job)) or "none"
        raise Conflict(f"Job {job.id} has no port {name!r}; its ports: {known}.")


def ports_of(job: Job) -> Mapping[str, int]:
    """Return the job's ports by name, with the fixed number of each, else 0."""
    return {name: number or 0 for name, number in job.specification.ports.items()}


def attempt_open(job: Job) -> Attempt:
    """Return the job's attempt that sessions can enter; raise Conflict when there is none."""
    attempt = Attempt.objects.filter(job=job, state__in=_OPEN).first()
    if attempt is None:
        raise Conflict(f"Job {job.id} does not run now: its state is {job.state}.")
    return attempt


def sessions_open() -> QuerySet[Session]:
    return Session.objects.filter(ended_at=None, seen_at__gt=database_now() - UNSEEN)


def prune_sessions() -> None:
    now = database_now()
    over = Q(ended_at__isnull=False) | Q(seen_at__lt=now - UNSEEN)
    delete_rows(Session.objects.filter(over, opened_at__lt=now - KEPT))


def _part_of(job: Job, rank: int, attempt_id: int | None) -> AttemptPart:
    """Return the running part with that rank."""
    attempt = attempt_open(job)
    if attempt_id not in (None, attempt.id):
        raise Conflict(f"The attempt of job {job.id} has ended; the job now runs as another attempt.")
    attempt.job = job
    parts = list(AttemptPart.objects.filter(attempt=attempt))
    for part in parts:
        if any(replica["rank"] == rank for replica in part.replicas):
            if part.state not in (PartState.RUNNING, PartState.STOPPING):
                raise Conflict(f"Rank {rank} of job {job.id} does not run: its state is {part.state}.")
            part.attempt = attempt
            return part
    ranks = sum(len(part.replicas) for part in parts)
    raise Invalid(f"rank: job {job.id} has no rank {rank}; its ranks are 0 to {ranks - 1}.")


def _check_room(viewer: Viewer, attempt: Attempt) -> None:
    most_of_user, most_of_job = settings.CONFIG.sessions_per_user, settings.CONFIG.sessions_per_job
    if sessions_open().filter(user=viewer.user).count() >= most_of_user:
        raise Conflict(f"You have {most_of_user} sessions already; end one of them.")
    if sessions_open().filter(attempt=attempt).count() >= most_of_job:
        raise Conflict(f"There are {most_of_job} sessions in this job already.")


def _visited_lately(session: Session) -> bool:
    return Session.objects.filter(
        user=session.user,
        attempt_id=session.attempt_id,
        port=session.port,
        opened_at__gt=session.opened_at - _SAME_VISIT,
    ).exists()


def _tell(viewer: Viewer, job: Job, session: Session) -> None:
    what = f"port {session.port}" if session.port else session.command or "a shell"
    job_event(
        job,
        "job.port_visited" if session.port else "job.entered",
        at=session.opened_at,
        actor=viewer.actor,
        why=f"Rank {session.rank}: {what}",
        data={"rank": session.rank, "session": str(session.id)},
    ).save()


def _text(command: Sequence[str]) -> str:
    # PostgreSQL's text cannot hold a zero byte.
    return " ".join(command).replace("\x00", "\ufffd")[:_COMMAND_CHARACTERS]


def offer_session(node_id: int, offer: Mapping[str, Any]) -> None:
    """Notify the node's agent that a session wants to enter one of its attempts."""
    on_commit(send, [((node_group(node_id),), {"type": "agent.session", "session": dict(offer)})])
