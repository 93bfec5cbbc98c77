"""Every route x method, as nobody, as a stranger, in each role, read-only, and from another origin.

The routes come from the URL resolver, so a new one fails here until somebody has said in
`tests/api/expectations.py` who may use it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from controlplane.auth import scopes_needed
from scheduler.agents.maintenance.services import Choice, window_create
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.forecasts.adviser.services.comparisons import nothing_found
from scheduler.models import (
    Advice,
    Allowance,
    AnomalyReport,
    Event,
    Job,
    LogChunk,
    Round,
    ServingPool,
    WhatIf,
)
from scheduler.models.jobs import JobTemplate, SavedSearch
from scheduler.models.reservations import Reservation
from scheduler.virtual_clusters.ledger.services import ledger_write
from tenants.models import Invitation, Role, Scope, Secret, Tenant, Token, User, VirtualCluster
from tenants.times import iso
from tests.api.caller import Caller, caller, forget_wrong_passwords, is_error, make_token
from tests.api.expectations import BODIES, COLUMNS, EXPECTED, FALLBACKS, OWN_SCOPES, QUERIES
from tests.scheduler.builders import (
    make_account,
    make_archive,
    make_attempt,
    make_correction,
    make_delivery,
    make_failed_attempt,
    make_job,
    make_lend_rule,
    make_loan,
    make_measurement,
    make_node,
    make_offer,
    make_tenant,
    make_user,
    make_vc,
    make_webhook,
)

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
METHODS = ("GET", *CHANGING)
#: Written into everything that belongs to the tenant.
MARK = "marked-as-private"


def routes() -> Iterator[tuple[str, type | None]]:
    """Every route with the class of its view, if it has one."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, type | None]]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            else:
                yield route, getattr(pattern.callback, "view_class", None)

    yield from walk(get_resolver().url_patterns, "/")


def methods_of(view: type | None, route: str) -> set[str]:
    """The methods that a view answers; of plain functions only those that are expected of it."""
    if view is None:
        return {method for method, known in EXPECTED if known == route}
    return {method for method in METHODS if hasattr(view, method.lower())}


REAL = {
    (method, route)
    for route, view in routes()
    if route not in FALLBACKS
    for method in methods_of(view, route) or {"?"}
}


@dataclass
class World:
    """A tenant "red" with one of everything, people in every role, and a stranger."""

    people: dict[str, User] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    #: By name and scopes: one each, for a request is tried in milliseconds and a token made in as many.
    tokens: dict[tuple[str, frozenset[Scope]], str] = field(default_factory=dict)

    def path(self, route: str) -> str:
        def value(match: re.Match[str]) -> str:
            family = route.removeprefix("/api/v1/").split("/")[0]
            name = match.group(1)
            return self.parameters.get(f"{family}.{name}") or self.parameters[name]

        return re.sub(r"<\w+:(\w+)>", value, route)

    def send(self, who: str, method: str, route: str, *, scopes: Collection[Scope] = tuple(Scope)):
        body = BODIES.get((method, route))
        path = self.path(route)
        if query := QUERIES.get((method, route)):
            path += f"?{urlencode(query)}"
        if who == "no csrf":
            client = Client(enforce_csrf_checks=True)
            client.force_login(self.people["operator"])
            content = json.dumps(body).encode() if body is not None else b""
            return client.generic(method, path, content, content_type="application/json")
        if who == "nobody":
            return Caller().send(method, path, body)
        return Caller(self.token(who, scopes)).send(method, path, body)

    def know(self, who: str) -> None:
        """Make the token of those who have one, before what they do is undone, and it with it."""
        if who in self.people or who == "read-only":
            self.token(who)

    def token(self, who: str, scopes: Collection[Scope] = tuple(Scope)) -> str:
        """The token by which one of them sends requests."""
        person = self.people["operator" if who == "read-only" else who]
        scopes = frozenset({Scope.READ} if who == "read-only" else scopes)
        if (who, scopes) not in self.tokens:
            self.tokens[who, scopes] = make_token(person, scopes=[scope.value for scope in scopes])
        return self.tokens[who, scopes]


@pytest.fixture
def world(db, settings) -> World:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    forget_wrong_passwords()
    people = {role.value: make_user(role.value) for role in Role}
    people |= {"stranger": make_user("stranger"), "operator": make_user("operator", operator=True)}
    mia = make_user("mia")
    red = make_tenant("red", members={people[role.value]: role for role in Role})
    make_tenant("blue", members={people["stranger"]: Role.ADMIN})
    shared = make_vc("shared", members=[red], guaranteed={"V100": 4})
    unused = make_vc("unused")
    node = make_node("busy")
    chat, unused_pool = (ServingPool.objects.create(name=name) for name in ("chat", "idle"))
    returning = {"return_by": timezone.now(), "return_stops_at": timezone.now()}
    make_node("spare", state="lost", gpus=1, serving_pool=chat, loan_state="returning", **returning)
    archive = make_archive(red, {"train.py": MARK}, by=people["member"])
    waiting = make_job(
        tenant=red,
        virtual_cluster=shared,
        submitted_by=people["member"],
        name=f"{MARK}-1",
        columns={"archive": archive},
    )
    running = make_job(
        tenant=red,
        virtual_cluster=shared,
        submitted_by=people["member"],
        name=f"{MARK}-2",
        command=["echo", MARK],
        labels={"note": MARK},
    )
    attempt = make_attempt(running, list(node.gpus.all()[:1]))
    failed = make_job(tenant=red, virtual_cluster=shared, submitted_by=people["member"], state="failed")
    make_failed_attempt(failed, list(node.gpus.all()[1:2]), message=MARK)
    LogChunk.objects.create(attempt=attempt, rank=0, sequence=0, at=timezone.now(), text=MARK)
    Event.objects.create(
        at=timezone.now(),
        kind="submitted",
        subject="job",
        subject_id=waiting.id,
        job_id=waiting.id,
        tenant=red,
        actor="user member",
        message=MARK,
    )
    Event.objects.create(
        at=timezone.now(),
        kind="virtual_cluster.changed",
        subject="virtual_cluster",
        subject_id=shared.id,
        actor="user operator",
        message=shared.name,
        data={"before": {"members": {}}, "after": {"members": {"red": 1.0}}},
    )
    Round.objects.create(number=1, started_at=timezone.now(), state="applied")
    question = WhatIf.objects.create(asked_by=people["member"], asked_at=timezone.now(), question={})
    advice = Advice.objects.create(
        asked_by=people["operator"], asked_at=timezone.now(), question={"days": 7.0}, problem=MARK
    )
    compared(unused, waiting)
    make_correction(red, "bert", 3.0, by=people["admin"], reason=MARK)
    make_measurement(red, MARK, 3.0)
    line = ledger_write(
        Line(kind="bid", party="red", message=MARK), view="unused", person="user member", at=timezone.now()
    )
    second = make_vc("second", members=[red])
    offer = make_offer(shared, {"V100": 1})
    loan = make_loan(shared, second, {"V100": 1})
    rule = make_lend_rule(shared, {"V100": 1})
    account = make_account(shared, 5, reason=MARK)
    Allowance.objects.create(account=account, millicredits=1, every_seconds=60, next_at=timezone.now())
    token = Token.objects.create(user=people["member"], name=MARK, key="0123456789ab", digest=b"x" * 32)
    kept = {"sealed": b"x", "key_id": "x", "changed_at": timezone.now(), "changed_by": MARK}
    Secret.objects.create(tenant=red, name=MARK, **kept)
    Secret.objects.create(user=people["member"], name="mine", **kept)
    Invitation.objects.create(
        tenant=red,
        role=Role.VIEWER,
        email=f"{MARK}@example.org",
        key="abcdefabcdef",
        digest=b"x" * 32,
        invited_by=people["admin"],
        expires_at=timezone.now() + timedelta(days=1),
    )
    search = SavedSearch.objects.create(owner=people["member"], tenant=red, name=MARK, search="state=queued")
    JobTemplate.objects.create(owner=people["member"], tenant=red, name=MARK, spec={})
    webhook = make_webhook(red, title=MARK)
    delivery = make_delivery(webhook, body=MARK)
    window = window_create(
        reason="new fans",
        choice=Choice(nodes=["busy"]),
        starts_at=timezone.now() + timedelta(days=1),
        ends_at=timezone.now() + timedelta(days=2),
        actor="user operator",
    )
    # Nothing runs there that would be in a reservation's way.
    make_node("quiet", gpu_model="T4")
    reservation = Reservation.objects.create(
        name="paper",
        tenant=red,
        gpu_model="V100",
        gpus=1,
        nodes=["busy"],
        starts_at=timezone.now() + timedelta(days=3),
        ends_at=timezone.now() + timedelta(days=4),
        made_by="user operator",
        made_at=timezone.now(),
    )
    parameters = {
        "reservation_id": str(reservation.id),
        "window_id": str(window.id),
        "webhook_id": str(webhook.id),
        "delivery_id": str(delivery.id),
        "tenants.name": "red",
        "tenants.username": "member",
        "tenants.secret": MARK,
        "tenants.template": MARK,
        "secrets.name": "mine",
        "users.username": mia.username,
        "nodes.name": "spare",
        "serving-pools.name": unused_pool.name,
        "virtual-clusters.name": "unused",
        "gpu-models.name": "V100",
        "job_id": str(waiting.id),
        "search_id": str(search.id),
        "number": "1",
        "port": "notebook",
        "question_id": str(question.id),
        "advice_id": str(advice.id),
        "line_id": str(line.id),
        "offer_id": str(offer.id),
        "loan_id": str(loan.id),
        "rule_id": str(rule.id),
        "market.virtual_cluster": shared.name,
        "key": token.key,
        "digest": f"sha256:{archive.digest}",
        "attempt": str(attempt.id),
        "tenants.key": "abcdefabcdef",
    }
    return World(people, parameters)


def compared(virtual_cluster: VirtualCluster, job: Job) -> AnomalyReport:
    """A comparison with a private cluster that tells of a job of red's."""
    anomaly = {
        "job": job.id,
        "name": job.name,
        "tenant": "red",
        "gpus": 1,
        "submitted_at": iso(timezone.now()),
        "real_delay_seconds": 60.0,
        "private_delay_seconds": 0.0,
        "extra_seconds": 60.0,
        "hard_affinity": False,
        "cause": "other",
        "message": MARK,
        "round": 1,
    }
    return AnomalyReport.objects.create(
        virtual_cluster=virtual_cluster,
        state="done",
        asked_at=timezone.now(),
        hours=24,
        found={**nothing_found(), "anomalies": [anomaly]},
    )


def test_every_route_has_an_expectation_and_every_expectation_a_route():
    assert REAL - set(EXPECTED) == set(), "say in tests/api/expectations.py who may use these"
    assert set(EXPECTED) - REAL == set(), "these are gone"


def test_every_changing_route_is_tried_from_another_origin():
    for (method, route), statuses in EXPECTED.items():
        assert set(statuses) == set(COLUMNS) - ({"no csrf"} if method == "GET" else set()), (method, route)


def tried(world: World, who: str, method: str, route: str):
    """The answer to a request whose effects are undone."""
    if (method, route) == ("POST", "/api/v1/session"):
        # So many guesses at one name from one address would have to wait.
        forget_wrong_passwords()
    world.know(who)
    with transaction.atomic():
        response = world.send(who, method, route)
        transaction.set_rollback(True)
    return response


def family(route: str) -> str:
    """The first word after /api/v1/, or the route: routes that are tried in one world."""
    return route.removeprefix("/api/v1/").split("/")[0] or route


@pytest.mark.parametrize("of", sorted({family(route) for _, route in EXPECTED}))
def test_who_may(world: World, of: str):
    mistakes = {}
    for method, route in sorted(EXPECTED):
        if family(route) != of:
            continue
        answers = {who: tried(world, who, method, route) for who in EXPECTED[method, route]}
        for who, answer in answers.items():
            if answer.status_code != EXPECTED[method, route][who]:
                mistakes[method, route, who] = (answer.status_code, answer.content.decode()[:300])
            elif answer.status_code >= 400:
                is_error(answer, answer.status_code, answer.json()["code"])
            elif answer.status_code == 204:
                assert answer.content == b"", (method, route, who)
    assert mistakes == {}


#: Made below the answer's own path, so that what was made has no address of its own: several at once, and the
#: successor of a token.
_WITHOUT_ADDRESS = {
    "/api/v1/jobs/bulk",
    "/api/v1/tokens/<str:key>/rotate",
    "/api/v1/market/offers/<int:offer_id>/take",
}


def test_what_was_made_says_where_it_is(world: World):
    """By whoever may make it; where its address can be read, it is there."""
    missing = []
    for method, route in sorted(EXPECTED):
        who = next((one for one, status in EXPECTED[method, route].items() if status == 201), None)
        if method != "POST" or who is None or route in _WITHOUT_ADDRESS:
            continue
        world.know(who)
        with transaction.atomic():
            location = world.send(who, method, route).headers.get("Location", "")
            found = Caller(world.token(who)).send("GET", location, None) if location else None
            transaction.set_rollback(True)
        if found is None or found.status_code not in (200, 405):
            missing.append((route, who, location))
    assert missing == []


def scope_by_role(statuses: dict[str, int]) -> Scope | None:
    """The scope that a route needs by who may use it; None where that is no matter of roles."""
    refused = (401, 403, 404)
    roles = (("viewer", None), ("member", Scope.SUBMIT), ("admin", Scope.MANAGE), ("operator", Scope.OPERATE))
    return next((scope for role, scope in roles if statuses[role] not in refused), None)


def changing_routes() -> Iterator[tuple[str, str, Scope]]:
    """Method, route and declared scope of all that a user's token can be used for, but to read."""
    for route, view in routes():
        for method in CHANGING:
            statuses = EXPECTED.get((method, route), {"nobody": 404, "operator": 401})
            if view is not None and statuses["nobody"] == 401 and statuses["operator"] != 401:
                scopes = scopes_needed(view, method)
                assert len(scopes) == 1, f"say by `scope` what a token needs to {method} {route}"
                yield method, route, scopes[0]


def test_every_changing_route_needs_the_scope_of_those_who_may_use_it():
    for method, route, scope in changing_routes():
        wanted = OWN_SCOPES.get((method, route)) or scope_by_role(EXPECTED[method, route])
        assert scope == wanted, (method, route)


def test_a_token_does_what_its_scopes_say_and_nothing_else(world: World):
    """That of an operator, who is an admin here too: whatever is refused, it is for the token."""
    operator = world.people["operator"]
    Tenant.objects.get(name="red").memberships.create(user=operator, role=Role.ADMIN)
    for method, route, needed in changing_routes():
        where = (method, route)
        world.token("operator", {Scope.READ, needed})
        with transaction.atomic():
            alone = world.send("operator", method, route, scopes={Scope.READ, needed})
            transaction.set_rollback(True)
        assert alone.status_code == EXPECTED[where]["operator" if needed == Scope.OPERATE else "admin"], where
        if needed != Scope.READ:
            without = world.send("operator", method, route, scopes=set(Scope) - {needed})
            assert f"the scope {needed}" in is_error(without, 403, "not_allowed")["detail"], where


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_nothing_of_a_tenant_is_told_to_others(world: World, who: str):
    """Not even its name, but where it stood in the question: 'There is no tenant 'red', or ...'."""
    for method, route in sorted(EXPECTED):
        told = tried(world, who, method, route).content.decode()
        assert MARK not in told, (method, route)
        assert not re.search(r"\bred\b", told.replace("tenant 'red'", "")), (method, route, told[:2_000])


@pytest.mark.parametrize(
    "route",
    [
        "/api/v1/jobs",
        "/api/v1/jobs/export",
        "/api/v1/events",
        "/api/v1/failures",
        "/api/v1/throughputs",
        "/api/v1/throughputs/export",
        "/api/v1/jobs/<int:job_id>/throughputs",
        "/api/v1/jobs/<int:job_id>/events",
        "/api/v1/virtual-clusters/<str:name>/anomalies",
        "/api/v1/ledger",
        "/api/v1/ledger/export",
        "/api/v1/market/transfers",
        "/api/v1/market/transfers/export",
    ],
)
def test_the_same_is_told_to_those_who_may(world: World, route: str):
    """Otherwise the test above would hold for an API that tells nobody anything."""
    assert MARK in world.send("viewer", "GET", route).content.decode()


#: An instant with its zone, as any part of any answer writes it.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d|)")


def test_every_route_writes_instants_in_one_form(world: World):
    with_instants, otherwise = set(), {}
    for method, route in sorted(EXPECTED):
        statuses = EXPECTED[method, route].items()
        who = next((one for one, status in statuses if status in (200, 201, 202)), None)
        # The descriptions have examples of what people may write.
        if who is None or route in ("/api/schema", "/api/job-spec.schema.json"):
            continue
        content = tried(world, who, method, route).content.decode(errors="replace")
        found = list(_INSTANT.finditer(content))
        with_instants |= {route} if found else set()
        if others := [instant[0] for instant in found if instant[1] != "Z"]:
            otherwise[method, route] = others[:3]
    assert otherwise == {}
    assert len(with_instants) > 60


def test_other_methods_are_refused_in_the_same_format(world: World):
    for method in METHODS:
        for route in sorted({route for _, route in EXPECTED}):
            if (method, route) in EXPECTED:
                continue
            response = tried(world, "operator", method, route)
            assert response.status_code == 405, (method, route, response.content)
            if route.startswith("/api/v1/"):
                is_error(response, 405, "method_not_allowed")


def test_options_and_head_tell_nobody_anything(world: World):
    for _, route in sorted(EXPECTED):
        if route.startswith("/api/v1/"):
            for method in ("OPTIONS", "HEAD"):
                response = world.send("nobody", method, route)
                assert response.status_code in (200, 401, 405), (method, route)
                assert (
                    method == "HEAD" or response.status_code != 200 or MARK not in response.content.decode()
                )


def test_things_that_do_not_exist_answer_as_things_one_may_not_see(world: World):
    """Same status and same body, so that nobody learns which names are in use."""
    stranger = caller(world.people["stranger"])
    for there, absent in [("red", "nothing-here")]:
        answers = [stranger.get(f"/tenants/{name}").json() for name in (there, absent)]
        assert answers[0]["detail"].replace(there, absent) == answers[1]["detail"]
    job = world.parameters["job_id"]
    answers = [stranger.get(f"/jobs/{number}").json() for number in (job, "999999999")]
    assert answers[0]["detail"].replace(job, "999999999") == answers[1]["detail"]
