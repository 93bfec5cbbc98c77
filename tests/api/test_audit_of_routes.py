"""Every route that changes something leaves an entry in the audit log that says who did it from where."""

import pytest
from django.db import transaction

from tenants.models import AuditEntry
from tests.api.caller import forget_recorded
from tests.api.expectations import EXPECTED
from tests.api.test_every_route import CHANGING, World, world

__all__ = ["world"]

#: What leaves none, and why.
WITHOUT_ENTRY = {
    ("POST", "/api/v1/jobs/check"): "changes nothing",
    ("POST", "/api/v1/what-if"): "is a question",
    ("PUT", "/api/v1/session/tour"): "what the page showed its user is nothing to audit",
    ("POST", "/api/v1/virtual-clusters/<str:name>/anomalies"): "is a question",
    ("POST", "/api/v1/cells/check"): "changes nothing",
    ("POST", "/api/v1/cells/proposal"): "changes nothing",
    ("POST", "/api/v1/failure-rules/test"): "changes nothing",
    ("PUT", "/api/v1/tenants/<str:name>/archives/<str:digest>"): "as tried here, it is stored already",
    ("DELETE", "/api/v1/tenants/<str:name>/budget"): "as tried here, there is none to remove",
    ("DELETE", "/api/v1/tenants/<str:name>/members/<str:username>/budget"): "likewise",
    ("POST", "/api/v1/serving-pools/<str:name>/returns"): "as tried here, the pool has no nodes",
    ("POST", "/api/v1/jobs/<int:job_id>/release"): "as tried here, the job was not held",
    ("POST", "/api/v1/webhooks/<int:webhook_id>/test"): "sends a message that tells of nothing",
    (
        "POST",
        "/api/v1/webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/redeliver",
    ): "sends a message once more",
}
#: What nobody may do to the things of this test; that it does what it should is tested elsewhere.
NOT_DONE_HERE = {
    ("POST", "/api/v1/session"),
    ("POST", "/api/v1/session/password"),
    # A tenant with members stays.
    ("DELETE", "/api/v1/tenants/<str:name>"),
    ("POST", "/api/v1/jobs/<int:job_id>/requeue"),
    ("POST", "/api/v1/jobs/<int:job_id>/ports/<str:port>/open"),
    ("POST", "/api/v1/cells/advice/<uuid:advice_id>/apply"),
    ("POST", "/api/v1/notifications/address/confirm"),
    ("POST", "/api/v1/invitations/accept"),
    ("POST", "/api/v1/invitations/join"),
    ("POST", "/api/v1/invitations/look"),
}
#: What making the caller's own token leaves.
_OF_THE_TEST = ("token.create", "token.first-use")


def entries_of(world: World, who: str, method: str, route: str) -> tuple[int, list[AuditEntry]]:
    """The status of a request and the entries that it left; all of it is undone."""
    forget_recorded()
    world.know(who)
    with transaction.atomic():
        before = AuditEntry.objects.latest("id").id
        status = world.send(who, method, route).status_code
        entries = list(AuditEntry.objects.filter(id__gt=before).exclude(request="").order_by("id"))
        transaction.set_rollback(True)
    is_tokens = route == "/api/v1/tokens"
    return status, [entry for entry in entries if is_tokens or entry.action not in _OF_THE_TEST]


def doer(method: str, route: str) -> str | None:
    """Somebody who may."""
    for who in ("admin", "member", "operator"):
        if EXPECTED[method, route][who] < 300:
            return who
    return None


CHANGES = sorted(
    (method, route) for method, route in EXPECTED if method in CHANGING and "/agent/" not in route
)


def test_all_routes_that_change_something_leave_an_entry(world: World) -> None:
    silent, unlike = [], []
    for method, route in CHANGES:
        who = doer(method, route)
        if who is None:
            assert (method, route) in NOT_DONE_HERE, (method, route)
            continue
        status, entries = entries_of(world, who, method, route)
        assert status == EXPECTED[method, route][who], (method, route)
        if bool(entries) == ((method, route) in WITHOUT_ENTRY):
            silent.append((method, route, [entry.action for entry in entries]))
        unlike += [
            (entry.action, entry.actor, entry.request)
            for entry in entries
            if (entry.actor, entry.address, entry.request)
            != (f"user {who}", "127.0.0.1", f"{method} {route.lstrip('/')}")
        ]
    assert not silent, "say in WITHOUT_ENTRY why these leave none, or that they leave one"
    assert not unlike


@pytest.mark.parametrize("who", ["nobody", "stranger", "read-only", "no csrf"])
def test_all_refusals_are_entries(world: World, who: str) -> None:
    refused = [key for key in sorted(EXPECTED) if EXPECTED[key].get(who) in (401, 403)]
    actor = {"nobody": "nobody", "stranger": "user stranger"}.get(who, "user operator")
    for method, route in refused:
        status, entries = entries_of(world, who, method, route)
        assert status in (401, 403)
        if (who, method, route) == ("nobody", "GET", "/api/v1/session"):
            assert entries == [], "a page asks who is signed in"
            continue
        last = entries[-1]
        assert (last.outcome, last.after["status"]) == ("refused", status), (method, route)
        assert last.after["message"], (method, route)
        if not route.startswith(("/api/agent", "/api/v1/session")):
            assert last.actor == actor, (method, route)
