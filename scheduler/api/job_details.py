"""What hangs on one job: attempts, events, progress, and why it waits."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler import represent
from scheduler.api import schemas
from scheduler.api.lists import RepresentedList
from scheduler.models import Attempt, Event, Explanation, QueueOrder
from scheduler.rounds.forecasting import prediction_of
from scheduler.selectors import events_visible, job_get, progress_points
from tenants.selectors import viewer

POINTS_MOST = 500
_LARGEST = 2**31 - 1


class ProgressQuery(serializers.Serializer):
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=_LARGEST, help_text="Number; left out, all attempts."
    )


class JobAttempts(RepresentedList):
    """The attempts of a job, the newest first."""

    queryset = Attempt.objects.none()
    serializer_class = schemas.Attempt
    represent = staticmethod(represent.attempts)

    def get_queryset(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(job=job_get(viewer(self.request), self.kwargs["job_id"]))


class JobEvents(ListAPIView):
    """What happened to a job, the newest first."""

    queryset = Event.objects.none()
    serializer_class = schemas.Event

    def get_queryset(self) -> QuerySet[Event]:
        by = viewer(self.request)
        return events_visible(by).filter(job_id=job_get(by, self.kwargs["job_id"]).id)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.get_paginated_response(
            represent.events(self.paginate_queryset(self.get_queryset()), viewer(request))
        )


class JobProgress(APIView):
    @extend_schema(parameters=[ProgressQuery], responses=schemas.Progress)
    def get(self, request: Request, job_id: int) -> Response:
        """Return the job's progress lines, evenly thinned to at most 500."""
        job = job_get(viewer(request), job_id)
        number = checked(ProgressQuery, request).get("attempt")
        points = [
            {
                "attempt": point.attempt.number,
                "at": represent.iso(point.at),
                "step": point.step,
                "samples": point.samples,
                "values": point.values,
            }
            for point in progress_points(job, number=number, most=POINTS_MOST)
        ]
        return Response({"points": points})


class JobWhy(APIView):
    @extend_schema(responses=schemas.Why)
    def get(self, request: Request, job_id: int) -> Response:
        """Say why the job waits, the most decisive reason first, where it stands in its queue, and when it
        will probably start."""
        job = job_get(viewer(request), job_id)
        explanation = Explanation.objects.filter(job=job).first()
        reasons = represent.reasons_of(job)
        order = QueueOrder.objects.filter(view=represent.view_of(job)).first()
        position = represent.positions_of([job]).get(job.id) if job.state == "queued" else None
        return Response(
            {
                "state": job.state,
                "reasons": reasons,
                "position": position,
                "queue_length": len(order.jobs) if order and position else None,
                "round": explanation.round_number if explanation and reasons else None,
                "decided_at": represent.iso(explanation.decided_at) if explanation and reasons else None,
                **prediction_of(job),
            }
        )


def checked(kind: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    """Return a request's query parameters, checked."""
    serializer = kind(data=request.query_params)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data
