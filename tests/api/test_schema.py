"""The API's description is complete. tests/test_generated.py holds the committed copy to the code."""

import re
from typing import Any

import pytest

from tests.api.caller import caller
from tests.api.description import DESCRIPTION
from tests.api.expectations import EXPECTED
from tests.scheduler.builders import make_user

#: Asked by nobody yet, to whom no stored answer could belong.
PUBLIC = ("/api/v1/session", "/api/v1/invitations/look", "/api/v1/invitations/join")


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return DESCRIPTION


@pytest.fixture(scope="module")
def operations(description: dict[str, Any]) -> dict[tuple[str, str], dict]:
    """(method, path) -> operation."""
    paths = description["paths"]
    return {(method, path): operation for path, item in paths.items() for method, operation in item.items()}


@pytest.mark.django_db
@pytest.mark.parametrize("accepted", ["application/json", "application/vnd.oai.openapi+json"])
def test_the_server_answers_with_it(accepted: str, description: dict[str, Any]):
    answer = caller(make_user("mia")).get("/api/schema", headers={"Accept": accepted})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, accepted)
    assert answer.headers["Content-Disposition"] == 'inline; filename="allotment-openapi.json"'
    assert answer.json() == description


def test_every_route_is_described(operations):
    described = {(method.upper(), path) for method, path in operations}
    routes = {
        (method, re.sub(r"<\w+:(\w+)>", r"{\1}", route))
        for method, route in EXPECTED
        if route.startswith("/api/v1/")
    }
    assert described == routes


def test_operation_ids_read_like_names_and_are_unique(operations):
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(ids) == len(set(ids))
    assert {"jobs_list", "jobs_create", "jobs_get", "jobs_cancel", "tenants_quota_set"} <= set(ids)


def test_every_operation_says_what_it_does(operations):
    assert [key for key, one in operations.items() if not one.get("description")] == []


def test_every_error_has_the_one_format(operations):
    for key, operation in operations.items():
        errors = {status: one for status, one in operation["responses"].items() if int(status) >= 400}
        assert "400" in errors, key
        for status, response in errors.items():
            reference = response["content"]["application/problem+json"]["schema"]["$ref"]
            assert reference == "#/components/schemas/Error", (key, status)


def test_every_post_by_somebody_takes_an_idempotency_key(operations):
    for (method, path), operation in operations.items():
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        takes = method == "post" and path not in PUBLIC
        assert ("Idempotency-Key" in names) == takes, (method, path)


@pytest.mark.parametrize("path", ["/ledger/{line_id}/replay", "/jobs/{job_id}/logs/download"])
def test_reads_that_depend_on_a_state_say_so(operations, path):
    assert "409" in operations["get", f"/api/v1{path}"]["responses"]
