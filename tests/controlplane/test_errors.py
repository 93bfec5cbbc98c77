"""One format for every error, wherever it arises."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis.exceptions
from django.db import OperationalError
from django.http import Http404
from rest_framework import serializers

from controlplane.errors import FRAMEWORK, describe
from nodeagent.messages import PROTOCOL
from scheduler.core.model.errors import InvalidTransition
from scheduler.models import Node
from tenants import tokens
from tenants.api.problems import TITLES
from tenants.api.strict import StrictSerializer
from tenants.errors import ApplicationError, FieldError, Invalid, TooManyRequests
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_user

ROOT = Path(__file__).resolve().parents[2]


class Part(StrictSerializer):
    name = serializers.CharField(max_length=5)
    gpus = serializers.IntegerField(min_value=1, max_value=16)


class Whole(StrictSerializer):
    colour = serializers.ChoiceField(choices=["red", "blue"])
    parts = Part(many=True)
    limits = serializers.DictField(child=serializers.IntegerField(min_value=0), required=False)


def wrong(data) -> dict[str, tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        Whole(data=data).is_valid(raise_exception=True)
    return {error.field: (error.problem, error.expected) for error in caught.value.fields}


def test_each_wrong_field_says_what_would_be_right():
    assert wrong(
        {"colour": "green", "parts": [{"name": "a", "gpus": 1}, {"name": "toolong", "gpus": 17}]}
    ) == {
        "colour": ('"green" is not a valid choice.', "one of red, blue"),
        "parts.1.name": ("is too long", "text of 1 to 5 characters"),
        "parts.1.gpus": (
            "is too large",
            "a whole number from 1 to 16",
        ),
    }


def test_missing_unknown_and_ill_typed_fields():
    fields = wrong({"colour": "red", "colur": "red", "parts": [{"gpus": "1"}], "limits": {"V100": True}})
    assert fields == {
        "colur": ("is not a field here", "an object with the fields colour, parts, limits"),
        "parts.0.name": ("is missing", "text of 1 to 5 characters"),
        "parts.0.gpus": ("'1' has the wrong type", "a whole number from 1 to 16"),
        "limits.V100": ("'True' has the wrong type", "a whole number of at least 0"),
    }


def test_sentences_of_the_framework_are_replaced_by_our_words():
    class Window(StrictSerializer):
        part = Part()
        at = serializers.DateTimeField()
        on = serializers.DateField()
        names = serializers.ListField(allow_empty=False)

    with pytest.raises(Invalid) as caught:
        Window(data={"part": "fifo", "at": "soon", "on": "today", "names": []}).is_valid(raise_exception=True)
    assert {error.field: (error.problem, error.expected) for error in caught.value.fields} == {
        "part": ("is not an object", "an object with the fields name, gpus"),
        "at": ("is not a date and time", "a date and time such as 2026-12-01T18:00:00Z"),
        "on": ("is not a date", "a date such as 2026-12-01"),
        "names": ("is empty", "a list"),
    }


@pytest.mark.parametrize("data", [[], "text", 5, None])
def test_a_body_of_the_wrong_shape_is_about_the_body(data):
    assert set(wrong(data)) == {"body"}


def test_plain_serializers_have_the_same_format():
    """Also lists of items, whose details changed shape in version 3.18 of the framework."""

    class Item(serializers.Serializer):
        gpus = serializers.IntegerField()

    items = Item(data=[{"gpus": 1}, {"gpus": "x"}], many=True)
    items.is_valid()
    status, body, _ = describe(serializers.ValidationError(items.errors))
    assert (status, body["code"]) == (400, "invalid")
    assert [field["field"] for field in body["fields"]] == ["1.gpus"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ApplicationError("no"), 400, "invalid"),
        (Http404(), 404, "not_found"),
        (InvalidTransition("job", 7, "succeeded", "cancelled"), 409, "conflict"),
        (OperationalError("connection refused, password=hunter2"), 503, "unavailable"),
        (redis.exceptions.ConnectionError("refused"), 503, "unavailable"),
    ],
)
def test_exceptions_of_every_layer_have_a_status(error, status, code):
    answered, body, _ = describe(error)
    assert (answered, body["code"]) == (status, code)
    assert "hunter2" not in body["detail"]


def test_too_many_requests_say_how_long_to_wait():
    status, _, headers = describe(TooManyRequests("slow down", retry_after_seconds=17))
    assert (status, headers) == (429, {"Retry-After": "17"})


def test_an_unforeseen_exception_is_logged_under_the_id_that_is_told(caplog):
    with caplog.at_level(logging.ERROR):
        status, body, _ = describe(ZeroDivisionError("secret detail"))
    assert (status, body["code"]) == (500, "internal")
    error_id = body["detail"].split()[-1].rstrip(".")
    assert "secret detail" not in json.dumps(body)
    [record] = [record for record in caplog.records if error_id in record.getMessage()]
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("given", "is_kept"), [("ci-run_17.a", True), ("two\nlines", False), ("x" * 65, False), ("", False)]
)
def test_an_answer_names_its_request(client, given: str, is_kept: bool):
    answered = client.get("/api/v1/nothing", headers={"X-Request-ID": given}).headers["X-Request-ID"]
    assert (answered == given) == is_kept
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", answered)


def test_an_unforeseen_exception_is_logged_under_the_name_of_its_request(caplog, client, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError

    client.raise_request_exception = False
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr("django.urls.resolvers.URLResolver.resolve", fail)
        answer = client.get("/api/v1/jobs", headers={"X-Request-ID": "trace-17"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "trace-17" in answer.json()["detail"]
    assert any("trace-17" in record.getMessage() for record in caplog.records)


def test_field_errors_keep_their_three_parts():
    _, body, _ = describe(Invalid("gpus: is 0", [FieldError("gpus", "is 0", "1 to 16")]))
    assert body["fields"] == [{"field": "gpus", "problem": "is 0", "expected": "1 to 16"}]


@pytest.mark.django_db
def test_unknown_paths_below_the_api_answer_in_json():
    for path in ("/api", "/api/v1/nothing", "/api/v2/jobs", "/api/v1/tenants/", "/static/missing.js"):
        client = Caller().client
        client.handler.enforce_csrf_checks = True
        is_error(client.get(path), 404, "not_found")
        is_error(client.post(path, {}, content_type="application/json"), 404, "not_found")


@pytest.mark.django_db
def test_what_the_framework_refuses_has_the_format_too():
    ann = caller(make_user(operator=True))
    is_error(ann.post("/tenants", b"{not json"), 400, "malformed")
    is_error(ann.put("/tenants", {}), 405, "method_not_allowed")
    plain = ann.client.post("/api/v1/tenants", "name=x", content_type="text/plain", headers=ann.headers)
    is_error(plain, 415, "unsupported_media_type")
    is_error(ann.get("/tenants", headers={"Accept": "text/csv"}), 406, "not_acceptable")
    is_error(ann.get("/tenants", headers={"Host": "evil.example"}), 400, "malformed")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/api/v1/tenants", "/readyz", "/api/agent/v1/sync"])
def test_a_host_that_is_none_of_ours_is_refused_without_a_traceback(path, caplog):
    with caplog.at_level(logging.INFO):
        is_error(Caller().client.get(path, headers={"Host": "evil.example"}), 400, "malformed")
    assert [record for record in caplog.records if record.exc_info] == []


def _reported(**fields: str) -> str:
    """Return a report of one attempt that has these fields, each given as JSON."""
    given = "".join(f', "{name}": {value}' for name, value in fields.items())
    return f'{{"protocol": 1, "boot": "b", "generation": 0, "parts": [{{"attempt": 1{given}}}]}}'


def an_agent() -> Caller:
    """The agent of a new node."""
    secret = tokens.new_secret(tokens.NODE_PREFIX)
    node = make_node(gpus=1)
    Node.objects.filter(id=node.id).update(token_key=secret.key, token_digest=secret.digest)
    return Caller(secret.text)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/agent/v1/sync", "/api/agent/v1/logs"])
def test_deep_json_of_an_agent_is_malformed(path):
    agent = an_agent()
    is_error(agent.post(path, b"[" * 100_000), 400, "malformed")
    is_error(agent.post(path, b'{"protocol":' * 100_000), 400, "malformed")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "path", "message"),
    [
        ("a name in parts.0.progress.0.values", "sync", _reported(progress=r'[{"values": {"\ud800": 1}}]')),
        ("a name in parts.0.progress.0.values", "sync", _reported(progress=r'[{"values": {"a\u0000": 1}}]')),
        ("parts.0.last_lines", "sync", _reported(last_lines=r'"\udfff"')),
        ("parts.0.message", "sync", _reported(message=r'"\ud800"')),
        ("boot", "sync", r'{"protocol": 1, "boot": "\u0000"}'),
        ("chunks.0.text", "logs", r'{"attempt": 1, "rank": 0, "chunks": [{"text": "\udc00"}]}'),
    ],
)
def test_text_of_an_agent_that_no_database_can_hold_is_malformed(field, path, message):
    answer = an_agent().post(f"/api/agent/v1/{path}", message.encode())
    is_error(answer, 400, "malformed")
    assert answer.json()["detail"].startswith(f"{field}: must hold neither a zero byte nor")


@pytest.mark.django_db
def test_zero_bytes_in_what_agents_tell_of_jobs_and_checks_are_replaced():
    agent, node = an_agent(), Node.objects.get()
    attempt = make_attempt(make_job(), gpus_of(node), state="starting")
    ended = {"state": "exited", "exit_code": 1, "message": "a\0b", "last_lines": "a\0b"}
    check = {"name": "script", "verdict": "warning", "message": "a\0b"}
    report = {"protocol": PROTOCOL, "boot": node.boot, "generation": 0, "findings": [check]}
    report["parts"] = [{"attempt": attempt.id, **ended}]
    assert agent.post("/api/agent/v1/sync", report).status_code == 200
    assert (attempt.parts.get().message, node.checks.get().message) == ("a b", "a b")


@pytest.mark.django_db
def test_a_value_error_of_the_server_is_not_blamed_on_the_message_of_an_agent(monkeypatch, caplog):
    def breaks(*_, **__):
        raise ValueError("a fault of ours")

    monkeypatch.setattr("scheduler.agents.services.reports.desired_parts", breaks)
    agent = an_agent()
    agent.client.raise_request_exception = False
    report = {"protocol": PROTOCOL, "boot": "life-1", "generation": 0}
    is_error(agent.post("/api/agent/v1/sync", report), 500, "internal")
    assert "a fault of ours" in caplog.text
    is_error(agent.post("/api/agent/v1/sync", {**report, "generation": "none"}), 400, "malformed")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "body",
    [
        rb'{"name": "a\u0000b"}',
        rb'{"name": "\ud800"}',
        b"[" * 100_000,
        b'{"name": NaN}',
        b"\xff\xfe",
        b'{"name": 1e999}',
    ],
)
def test_json_that_no_database_can_hold_is_malformed(body):
    ann = caller(make_user(operator=True))
    response = ann.post("/tenants", body)
    assert response.status_code == 400, response.content
    assert response.json()["code"] in ("malformed", "invalid")


@pytest.mark.django_db
def test_an_escaped_backslash_before_u0000_is_text():
    ann = caller(make_user(operator=True))
    response = ann.post("/tenants", rb'{"name": "red", "title": "the escape \\u0000"}')
    assert response.status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/tenants/a%00b", "/tenants?cursor=%00"])
def test_nul_in_the_address_is_malformed(path):
    is_error(caller(make_user()).get(path), 400, "malformed")


@pytest.mark.django_db
def test_nul_in_a_cookie_is_malformed():
    """Cookies have octal escapes, and the session's key is looked up in the database."""
    nobody = Caller()
    is_error(nobody.get("/session", headers={"Cookie": r'allot_session="aaaaaaaaa\000"'}), 400, "malformed")


def test_each_code_has_a_title_and_a_place_in_the_docs():
    """`type` leads there: a code without either would be answered with a dead reference."""
    documented = set(re.findall(r'<a id="(\w+)">', (ROOT / "docs/api/README.md").read_text()))
    kinds = [ApplicationError, *_all_kinds(ApplicationError)]
    raised = {kind.code for kind in kinds} | {code for _, code, _ in FRAMEWORK}
    assert raised <= TITLES.keys() == documented


def _all_kinds(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _all_kinds(each)


@pytest.mark.django_db
def test_an_error_is_a_problem_of_rfc_9457(client):
    answer = client.get("/api/v1/jobs/7")
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code == 401
    assert problem["type"] == "/docs/api/index.html#not_signed_in"
    assert problem["title"]
    assert problem["detail"]
