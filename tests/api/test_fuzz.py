"""Requests made up from the API's own description: no crash, and no answer that it does not describe."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scheduler.models import Job, Round, ServingPool
from tenants.models import Role, Scope
from tests.api.caller import forget_wrong_passwords, make_token
from tests.api.description import DESCRIPTION
from tests.scheduler.builders import make_attempt, make_job, make_node, make_tenant, make_user, make_vc

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

OPERATIONS = [(path, method) for path, item in DESCRIPTION["paths"].items() for method in item]
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
SCHEMA.app = get_wsgi_application()


#: Values for all parameters of paths, of things that are not there.
ANY = {
    **dict.fromkeys(("name", "port", "virtual_cluster", "key", "username", "secret", "template"), "none"),
    **dict.fromkeys(
        (
            "job_id",
            "line_id",
            "loan_id",
            "offer_id",
            "rule_id",
            "number",
            "reservation_id",
            "search_id",
            "window_id",
            "webhook_id",
        ),
        999,
    ),
    **dict.fromkeys(("advice_id", "question_id"), "00000000-0000-4000-8000-000000000000"),
    "delivery_id": 999,
    "digest": f"sha256:{'0' * 64}",
}
JSON = "application/json"
#: What no operation takes.
FOREIGN_TYPE = {"Content-Type": "text/plain"}
#: What none answers with.
FOREIGN_ANSWER = {"Accept": "image/png"}
FEW_EXAMPLES, MANY_EXAMPLES = 2, 60
#: Every day, one operation in so many is asked at all.
EVERY_DAY = 6


@pytest.fixture
def callers(db: None, one_connection: None, settings: Any) -> dict[str, dict[str, str]]:
    """The headers of all sorts of callers, in a small cluster where something runs and something waits."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    operator = make_user("operator", operator=True)
    member, stranger = make_user("member"), make_user("stranger")
    red = make_tenant("red", members={operator: Role.ADMIN, member: Role.MEMBER})
    shared = make_vc("shared", members=[red], guaranteed={"V100": 4})
    node = make_node("busy")
    ServingPool.objects.create(name="chat")
    job = make_job(tenant=red, virtual_cluster=shared, submitted_by=operator, grace_seconds=30)
    make_attempt(job, list(node.gpus.all()[:1]))
    make_job(tenant=red, virtual_cluster=shared, submitted_by=operator, grace_seconds=30)
    Round.objects.create(number=1, started_at=job.submitted_at, state="applied")
    browser = Client()
    browser.force_login(operator)
    tokens = {
        "operator": make_token(operator),
        "member": make_token(member),
        "stranger": make_token(stranger),
        "reader": make_token(operator, scopes=[Scope.READ]),
        "wrong": "alt_0123456789abcdef_nobody",
    }
    return {
        **{name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()},
        "nobody": {},
        "browser": {"Cookie": f"{django_settings.SESSION_COOKIE_NAME}={browser.session.session_key}"},
    }


def there(path: str) -> dict[str, Any]:
    """Parameters of the path that name something that exists."""
    names = {
        "tenants": "red",
        "nodes": "busy",
        "virtual-clusters": "shared",
        "gpu-models": "V100",
        "serving-pools": "chat",
    }
    # An empty name would be that of another route, or of none.
    known = {
        "name": names.get(path.split("/")[3], ANY["name"]),
        "username": "operator",
        "number": 1,
        "job_id": Job.objects.earliest("id").id,
    }
    return {name: value for name, value in known.items() if f"{{{name}}}" in path}


def ask(path: str, method: str, callers: dict[str, dict[str, str]], *, examples: int) -> None:
    """Send made-up requests to one operation, and see that each answer is one that it describes."""
    operation = SCHEMA[path][method]
    right, wrong = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
    strategies = [operation.as_strategy(right), operation.as_strategy(wrong)]
    if parameters := there(path):
        strategies.insert(0, operation.as_strategy(right, path_parameters=parameters))
    # Half of them get past the door.
    headers = st.one_of(st.just(callers["operator"]), st.sampled_from(list(callers.values())))

    @given(case=st.one_of(strategies), headers=headers)
    @hypothesis.settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def made_up(case: schemathesis.Case, headers: dict[str, str]) -> None:
        send(case, headers)

    made_up()


def send(case: schemathesis.Case, headers: dict[str, str]) -> None:
    if case.path == "/api/v1/session":
        forget_wrong_passwords()
    with transaction.atomic():
        case.call_and_validate(headers=headers, checks=CHECKS)
        transaction.set_rollback(True)


@pytest.mark.timeout(300)
def test_a_few_made_up_requests_to_operations_of_every_kind(callers: dict[str, dict[str, str]]):
    for path, method in OPERATIONS[::EVERY_DAY]:
        ask(path, method, callers, examples=FEW_EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_many_made_up_requests(path: str, method: str, callers: dict[str, dict[str, str]]):
    ask(path, method, callers, examples=MANY_EXAMPLES)


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_caller_is_told_what_is_described(all_of_them: bool, callers: dict[str, dict[str, str]]):
    """The refusals that come before anything is read: each caller at each operation, and every day two
    of them at each, in turn. All are in tests/api/test_every_route.py every day, but for what the
    description says."""
    operator = callers["operator"]
    kinds = [*callers.values(), operator | FOREIGN_TYPE, operator | FOREIGN_ANSWER]
    for number, (path, method) in enumerate(OPERATIONS):
        body = {"body": {}, "media_type": JSON} if "requestBody" in DESCRIPTION["paths"][path][method] else {}
        case = SCHEMA[path][method].Case(path_parameters={**ANY, **there(path)}, **body)
        two = (kinds[number % len(kinds)], kinds[(number + 4) % len(kinds)])
        for headers in kinds if all_of_them else two:
            send(case, headers)


@pytest.mark.parametrize("offset", ["+21:41", "-16:00", "+15:59"])
@pytest.mark.parametrize("path", ["audit", "ledger"])
def test_instants_of_any_offset_are_compared(path: str, offset: str, callers: dict[str, dict[str, str]]):
    """PostgreSQL takes none of 16 hours and more: this was answered with 500."""
    for instant, status in ((f"2026-05-24T10:59:22{offset}", 200), (f"0001-01-01T00:00:00{offset}", 400)):
        response = Client().get(f"/api/v1/{path}", {"since": instant}, headers=callers["operator"])
        assert response.status_code == status, response.content
