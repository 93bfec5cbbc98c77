"""What node agents ask, in plain views with a fixed message each and no user; how operators empty a node."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.http import FileResponse, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nodeagent.messages import LogBatch, MessageError, SecretsRequest, decode, encode
from scheduler.agents.services.draining import node_drain
from scheduler.agents.services.reports import report_apply, report_read
from scheduler.jobs.archives.api import ARCHIVE_TYPE
from scheduler.jobs.archives.services import archive_for_node
from scheduler.jobs.attempts.services.secrets import secrets_hand_out
from scheduler.jobspec.fields import is_storable
from scheduler.models.nodes import Node
from scheduler.models.selectors.nodes import node_get
from scheduler.nodes import representations, schemas
from scheduler.nodes.services.isolation import NodeRefusal
from scheduler.nodes.services.managing import node_of_token
from scheduler.telemetry.logs.services.storing import logs_append
from scheduler.wiring.clock import database_now
from tenants.api.problems import error_response
from tenants.api.strict import StrictSerializer
from tenants.audit.source import source
from tenants.errors import FieldError, Invalid
from tenants.models import Scope
from tenants.selectors import viewer
from tenants.times import iso

T = TypeVar("T")


def _endpoint(
    read: Callable[[Any], T], apply: Callable[[Node, T], Any]
) -> Callable[[HttpRequest], JsonResponse]:
    @csrf_exempt
    def view(request: HttpRequest) -> JsonResponse:
        if request.method != "POST":
            return error_response("method_not_allowed", "Only POST.", 405)
        node = _node_of(request)
        if node is None:
            return _not_signed_in()
        try:
            message = read(_json_of(request))
        except RecursionError:
            return error_response("malformed", "The JSON is nested too deeply.", 400)
        except ValueError as error:
            return error_response("malformed", str(error), 400)
        try:
            return JsonResponse(encode(apply(node, message)))
        except NodeRefusal as error:
            return error_response("node_refused", str(error), 403)
        except MessageError as error:
            # Any other ValueError is a fault of the server: it is logged, and the agent asks again.
            return error_response("malformed", str(error), 400)

    return view


def _json_of(request: HttpRequest) -> Any:
    """Return what an agent sent; raise ValueError, or MessageError for text that no column can hold."""
    text = request.body.decode()
    value = json.loads(text)
    # Written out, what cannot be stored is not UTF-8: it comes only as an escape, which few reports have.
    if "\\u" in text:
        _require_storable(value, "", "")
    return value


#: Fields of free text, in which zero bytes are replaced where it is stored.
_FREE_TEXT = frozenset({"text", "last_lines", "message"})


def _require_storable(value: Any, name: str, where: str) -> None:
    if isinstance(value, str):
        if not is_storable(value.replace("\0", "") if name in _FREE_TEXT else value):
            raise MessageError(f"{where}: must hold neither a zero byte nor half a surrogate pair")
    elif isinstance(value, dict):
        for field, item in value.items():
            _require_storable(field, "", f"a name in {where or 'the message'}")
            _require_storable(item, field, f"{where}.{field}" if where else field)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _require_storable(item, name, f"{where}.{index}")


@csrf_exempt
def _code(request: HttpRequest, attempt: int) -> HttpResponseBase:
    """Answer with the archive of an attempt that is to run on the node that asks."""
    if request.method != "GET":
        return error_response("method_not_allowed", "Only GET.", 405)
    node = _node_of(request)
    if node is None:
        return _not_signed_in()
    path = archive_for_node(node, attempt)
    try:
        file = None if path is None else path.open("rb")
    except FileNotFoundError:
        file = None
    if file is None:
        return error_response("not_found", f"There is no archive of attempt {attempt} for this node.", 404)
    return FileResponse(file, content_type=ARCHIVE_TYPE)


def _node_of(request: HttpRequest) -> Node | None:
    """Return the node whose token was sent; None: that of no node."""
    node = node_of_token(request.headers.get("Authorization", "").removeprefix("Bearer "))
    if node is not None:
        source().is_by("node", f"node {node.name}")
        # As the framework does for users: this decides whose turns a request takes.
        request.auth = node  # type: ignore[attr-defined]
    return node


def _not_signed_in() -> JsonResponse:
    return error_response("not_signed_in", "Send this node's token: Authorization: Bearer altn_...", 401)


urlpatterns = [
    path("sync", _endpoint(report_read, report_apply), name="agent-sync"),
    path("logs", _endpoint(partial(decode, LogBatch), logs_append), name="agent-logs"),
    path("secrets", _endpoint(partial(decode, SecretsRequest), secrets_hand_out), name="agent-secrets"),
    path("code/<int:attempt>", _code, name="agent-code"),
]


LONGEST_DRAIN_SECONDS = 366 * 86_400


class DrainInput(StrictSerializer):
    deadline_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=LONGEST_DRAIN_SECONDS,
        help_text="Seconds from now until the jobs are moved away; 0: at once.",
    )
    until = serializers.DateTimeField(
        required=False, help_text="Time at which the jobs are moved away, instead of deadline_seconds."
    )
    why = serializers.CharField(required=False, allow_blank=True, max_length=300, default="")


class NodeDrain(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=DrainInput, responses={200: schemas.Node})
    def post(self, request: Request, name: str) -> Response:
        """Drain a node: move its jobs away, each with its grace period, at once or at a deadline. For
        operators.

        Until the deadline its jobs go on, and only jobs that will end before it start there.
        """
        by = viewer(request)
        by.require_operator()
        node = node_get(name)
        given = DrainInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        node_drain(node=node, actor=by.actor, why=body["why"], deadline=_deadline(body))
        return Response(representations.nodes([node.id])[0])


def _deadline(body: Mapping[str, Any]) -> datetime | None:
    """Return the deadline by which the node is to be drained; None: at once."""
    now, seconds = database_now(), body.get("deadline_seconds")
    until: datetime | None = body.get("until")
    if until is None:
        return now + timedelta(seconds=seconds) if seconds else None
    expected = "an instant in the future, at most a year away"
    if seconds is not None:
        problem = FieldError("until", "cannot be used with deadline_seconds", "one of the two")
    elif not now < until <= now + timedelta(seconds=LONGEST_DRAIN_SECONDS):
        problem = FieldError("until", f"{iso(until)} is not in the future, or too far ahead", expected)
    else:
        return until
    raise Invalid.of(problem)
