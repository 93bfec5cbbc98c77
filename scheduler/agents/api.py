"""The node agents' three endpoints. Plain views: a fixed message each, and no user to think of."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from nodeagent.messages import LogBatch, MessageError, SecretsRequest, decode, encode
from scheduler.agents.services.reports import report_apply, report_read
from scheduler.attempts.services.secrets import secrets_hand_out
from scheduler.logs.services.storing import logs_append
from scheduler.nodes.models import Node
from scheduler.nodes.services.isolation import NodeRefusal
from scheduler.nodes.services.managing import node_of_token
from tenants.audit.source import source

T = TypeVar("T")


def _endpoint(
    read: Callable[[Any], T], apply: Callable[[Node, T], Any]
) -> Callable[[HttpRequest], JsonResponse]:
    @csrf_exempt
    def view(request: HttpRequest) -> JsonResponse:
        if request.method != "POST":
            return _error(405, "method_not_allowed", "Only POST.")
        node = node_of_token(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if node is None:
            return _error(401, "not_signed_in", "Send this node's token: Authorization: Bearer altn_...")
        source().is_by("node", f"node {node.name}")
        # As the framework does with who signed in: it is known by this whose turns his requests are.
        request.auth = node  # type: ignore[attr-defined]
        try:
            return JsonResponse(encode(apply(node, read(json.loads(request.body)))))
        except RecursionError:
            return _error(400, "malformed", "The JSON is nested too deeply.")
        except NodeRefusal as error:
            return _error(403, "node_refused", str(error))
        except (MessageError, ValueError) as error:
            return _error(400, "malformed", str(error))

    return view


def _error(status: int, code: str, message: str) -> JsonResponse:
    return JsonResponse({"error": code, "message": message, "fields": []}, status=status)


urlpatterns = [
    path("sync", _endpoint(report_read, report_apply), name="agent-sync"),
    path("logs", _endpoint(partial(decode, LogBatch), logs_append), name="agent-logs"),
    path("secrets", _endpoint(partial(decode, SecretsRequest), secrets_hand_out), name="agent-secrets"),
]
