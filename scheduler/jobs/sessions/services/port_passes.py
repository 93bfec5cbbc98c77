"""Passes of browsers to the pages of one attempt: a ticket in an address, exchanged once for a cookie.

The pages are a tenant's code, so they are served under another origin than ours, where our own cookies
mean nothing (docs/decisions/0020). A pass opens nothing but that port of that attempt.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from scheduler.core.model.lifecycle import AttemptState
from scheduler.jobs.sessions.services.opening import attempt_open, require_may_enter, require_port
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import job_get
from scheduler.models.sessions import PortPass
from scheduler.wiring.clock import database_now
from tenants import tokens
from tenants.errors import ApplicationError
from tenants.housekeeping import delete_rows
from tenants.rights import SignIn, viewer_now
from tenants.selectors import Viewer

#: A ticket is in an address, which browsers and proxies record, so it is valid once and for a short time.
TICKET_VALID = timedelta(minutes=1)
PASS_VALID = timedelta(hours=12)
PREFIX = "altp"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPass:
    """A pass that is valid now, and its holder."""

    id: int
    viewer: Viewer
    sign_in: SignIn
    job_id: int
    attempt_id: int
    port: str


@transaction.atomic
def ticket_issue(*, viewer: Viewer, job_id: int, port: str, session_key: str) -> tuple[Job, str]:
    """Return the job and a ticket for one of its ports; raise an ApplicationError if it has no such port."""
    job = job_get(viewer, job_id)
    require_may_enter(viewer, job)
    require_port(job, port)
    secret = tokens.new_secret(PREFIX)
    PortPass.objects.create(
        user=viewer.user,
        attempt=attempt_open(job),
        port=port,
        token_id=viewer.token_id,
        session_key="" if viewer.token_id else session_key,
        key=secret.key,
        digest=secret.digest,
        expires_at=database_now() + TICKET_VALID,
    )
    return job, secret.text


@transaction.atomic
def ticket_exchange(text: str, *, job_id: int, port: str) -> str | None:
    """Return the secret of a cookie for a ticket; None when the ticket is invalid or has expired."""
    ticket = _find(text, job_id=job_id, port=port, is_ticket=True)
    if ticket is None:
        return None
    secret = tokens.new_secret(PREFIX)
    taken = PortPass.objects.filter(id=ticket.pk, is_ticket=True).update(
        is_ticket=False,
        key=secret.key,
        digest=secret.digest,
        expires_at=database_now() + PASS_VALID,
    )
    return secret.text if taken else None


def pass_held(text: str, *, job_id: int, port: str) -> HeldPass | None:
    """Return the pass of a cookie; None when it is invalid or has expired."""
    found = _find(text, job_id=job_id, port=port, is_ticket=False)
    return None if found is None else _held(found)


def pass_held_still(pass_id: int) -> HeldPass | None:
    """Return the present state of a pass that was valid a while ago."""
    found = PortPass.objects.select_related("attempt__job__tenant").filter(id=pass_id).first()
    return None if found is None else _held(found)


def _held(found: PortPass) -> HeldPass | None:
    attempt = found.attempt
    if attempt.state == AttemptState.ENDED or found.expires_at <= database_now():
        return None
    sign_in = SignIn(found.user_id, found.token_id, found.session_key)
    viewer = viewer_now(sign_in)
    if viewer is None:
        return None
    try:
        require_may_enter(viewer, attempt.job)
    except ApplicationError:
        return None
    return HeldPass(
        id=found.pk,
        viewer=viewer,
        sign_in=sign_in,
        job_id=attempt.job_id,
        attempt_id=attempt.pk,
        port=found.port,
    )


def prune_passes() -> None:
    delete_rows(PortPass.objects.filter(expires_at__lt=database_now()))


def _find(text: str, *, job_id: int, port: str, is_ticket: bool) -> PortPass | None:
    parts = tokens.split(text, PREFIX)
    if parts is None:
        return None
    key, secret = parts
    found = (
        PortPass.objects.select_related("attempt__job__tenant")
        .filter(key=key, is_ticket=is_ticket, attempt__job_id=job_id, port=port)
        .first()
    )
    if found is None or not tokens.matches(secret, found.digest) or found.expires_at <= database_now():
        return None
    return found
