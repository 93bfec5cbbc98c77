"""Events: members see those of their tenants, operators all."""

import re
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from scheduler.models.selectors import events as selectors
from scheduler.models.selectors.events import events_visible
from scheduler.telemetry.events import schemas
from tenants.errors import FieldError, Invalid
from tenants.rights import SignIn
from tenants.selectors import Viewer, viewer

STREAM_TYPE = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
#: Jobs of one name whose events are looked for: a name that a nightly script gives has thousands.
MOST_JOBS = 1000


class EventFilter(filters.FilterSet):
    job = filters.NumberFilter(field_name="job_id", min_value=0, max_value=2**63 - 1, decimal_places=0)
    job_name = filters.CharFilter(
        method="by_job_name",
        help_text=f"Only events of jobs with this whole name; of these jobs the newest {MOST_JOBS:,}.",
    )
    node = filters.CharFilter(method="by_node", help_text="Only events of this node.")
    tenant = filters.CharFilter(field_name="tenant__name")
    kind = filters.CharFilter(
        field_name="kind",
        lookup_expr="startswith",
        help_text='Only this kind, or kinds that begin with this text, such as "job." or "node.lost".',
    )

    class Meta:
        model = Event
        fields: list[str] = []

    def by_job_name(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        newest = Job.objects.filter(name=value).order_by("-id")
        return queryset.filter(job_id__in=newest.values("id")[:MOST_JOBS])

    def by_node(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        return queryset.filter(node_id__in=Node.objects.filter(name=value).values("id"))


class Events(ListAPIView[Any]):
    """List events, newest first: of jobs of the caller's tenants, of nodes and of virtual clusters."""

    queryset = Event.objects.none()
    serializer_class = schemas.Event
    filterset_class = EventFilter

    def get_queryset(self) -> QuerySet[Event]:
        return events_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(selectors.events(page or (), viewer(request)))


class EventStream(StreamingHttpResponse):
    """An endless answer: the server sends `rows` as they are written (`controlplane.event_stream`).

    `after`: the id of the last event that the caller has; None: only what is written from now on.
    """

    def __init__(self, by: Viewer, sign_in: SignIn, rows: QuerySet[Event], after: int | None) -> None:
        # Without our own server nothing would ever end it.
        super().__init__((), content_type=f"{STREAM_TYPE}; charset=utf-8")
        # A proxy that collects answers would hold each event back.
        self.headers["X-Accel-Buffering"] = "no"
        self.viewer = by
        self.sign_in = sign_in
        self.rows = rows
        self.after = after


class StreamRenderer(JSONRenderer):
    """Lets callers accept an event stream. What it renders are the errors, which are JSON."""

    media_type = STREAM_TYPE
    format = "stream"


class FollowEvents(GenericAPIView[Any]):
    queryset = Event.objects.none()
    filterset_class = EventFilter
    pagination_class = None
    renderer_classes: ClassVar[list[type[BaseRenderer]]] = [JSONRenderer, StreamRenderer]  # type: ignore[misc]

    def get_queryset(self) -> QuerySet[Event]:
        return events_visible(viewer(self.request))

    @extend_schema(
        filters=True,
        parameters=[
            OpenApiParameter(
                LAST_EVENT_ID,
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description=(
                    "The last `id` received; the stream continues after it. Default: the stream starts "
                    "with the next event."
                ),
            )
        ],
        responses={(200, STREAM_TYPE): OpenApiResponse(OpenApiTypes.STR)},
    )
    def get(self, request: Request) -> EventStream:
        """Stream events as Server-Sent Events, by id, as they are written.

        A broken stream is resumed with `Last-Event-ID` and loses no event. The stream ends with an event
        `end` that states why.
        """
        rows = self.filter_queryset(self.get_queryset())
        by = viewer(request)
        return EventStream(by, SignIn.of(by, request.session.session_key), rows, _after(request))


def _after(request: Request) -> int | None:
    text = request.headers.get(LAST_EVENT_ID)
    if text is None:
        return None
    expected = "the `id` that came last on this stream"
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise _wrong(f"{text[:80]!r} is not the id of an event", expected)
    if int(text) > (last := selectors.last_given_out()):
        raise _wrong(f"{text} does not exist yet: the last event is {last}", expected)
    return int(text)


def _wrong(problem: str, expected: str) -> Invalid:
    return Invalid(f"{LAST_EVENT_ID}: {problem}.", [FieldError(LAST_EVENT_ID, problem, expected)])
