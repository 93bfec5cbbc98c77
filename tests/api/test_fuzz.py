"""Requests made up from the API's own description: no crash, and no answer that it does not describe."""

from collections.abc import Iterator

import pytest
import schemathesis
import yaml
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scheduler.models import Round
from tenants.models import Role
from tests.api.caller import forget_wrong_passwords, make_token
from tests.api.test_schema import COMMITTED
from tests.scheduler.builders import make_attempt, make_job, make_node, make_tenant, make_user, make_vc

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

DESCRIPTION = yaml.load(COMMITTED.read_text(), Loader=yaml.CSafeLoader)
OPERATIONS = [(path, method) for path, item in DESCRIPTION["paths"].items() for method in item]
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
SCHEMA.app = get_wsgi_application()


@pytest.fixture
def one_connection() -> Iterator[None]:
    """The end of a request must not close the connection that holds the test's transaction."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture
def headers(db, one_connection: None, settings) -> dict[str, str]:
    """Those of an operator, in a small cluster where something runs and something waits."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    operator = make_user("operator", operator=True)
    red = make_tenant("red", members={operator: Role.ADMIN})
    shared = make_vc("shared", members=[red], guaranteed={"V100": 4})
    node = make_node("busy")
    job = make_job(tenant=red, virtual_cluster=shared, submitted_by=operator, grace_seconds=30)
    make_attempt(job, list(node.gpus.all()[:1]))
    make_job(tenant=red, virtual_cluster=shared, submitted_by=operator, grace_seconds=30)
    Round.objects.create(number=1, started_at=job.submitted_at, state="applied")
    return {"Authorization": f"Bearer {make_token(operator)}"}


def there(path: str) -> dict[str, str]:
    """Parameters of the path that name something that exists."""
    names = {"tenants": "red", "nodes": "busy", "virtual-clusters": "shared"}
    known = {"name": names.get(path.split("/")[3], ""), "username": "operator", "number": 1}
    return {name: value for name, value in known.items() if f"{{{name}}}" in path}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_made_up_requests(path: str, method: str, headers: dict[str, str]):
    operation = SCHEMA[path][method]
    right, wrong = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
    strategies = [operation.as_strategy(right), operation.as_strategy(wrong)]
    if parameters := there(path):
        strategies.append(operation.as_strategy(right, path_parameters=parameters))

    @given(case=st.one_of(strategies))
    @settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def made_up(case: schemathesis.Case) -> None:
        forget_wrong_passwords()
        with transaction.atomic():
            case.call_and_validate(headers=headers, checks=CHECKS)
            transaction.set_rollback(True)

    made_up()
