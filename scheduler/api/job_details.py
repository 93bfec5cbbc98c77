"""What hangs on one job: attempts, events, output, progress, and why it waits."""

from typing import Any

from django.conf import settings
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
from scheduler.core.lifecycle import AttemptState
from scheduler.models import Attempt, Event, Explanation, QueueOrder
from scheduler.rounds.forecasting import prediction_of
from scheduler.selectors import attempt_of, events_visible, job_get, log_chunks, log_is_full, progress_points
from tenants.selectors import viewer

POINTS_MOST = 500
_LARGEST = 2**31 - 1


class LogQuery(serializers.Serializer):
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=_LARGEST, help_text="Number; left out, the newest."
    )
    rank = serializers.IntegerField(default=0, min_value=0, max_value=_LARGEST)
    after = serializers.IntegerField(
        default=-1, min_value=-1, max_value=_LARGEST, help_text="The last sequence one has; -1 for none."
    )
    limit = serializers.IntegerField(default=100, min_value=1, max_value=1_000, help_text="Chunks at most.")


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
        return self.get_paginated_response(represent.events(self.paginate_queryset(self.get_queryset())))


class JobLogs(APIView):
    @extend_schema(parameters=[LogQuery], responses=schemas.LogPage)
    def get(self, request: Request, job_id: int) -> Response:
        """Read the output of one rank of one attempt, by the numbers of its chunks."""
        job = job_get(viewer(request), job_id)
        query = checked(LogQuery, request)
        attempt = attempt_of(job, query.get("attempt"))
        replicas = sum(task["replicas"] for task in job.spec["tasks"])
        answer = {
            "attempt": attempt.number if attempt else None,
            "rank": query["rank"],
            "ranks": list(range(replicas)),
            "chunks": [],
            "next_after": query["after"],
            "complete": False,
            "truncated": False,
        }
        if attempt is None:
            return Response(answer)
        found = list(log_chunks(attempt, rank=query["rank"], after=query["after"], limit=query["limit"] + 1))
        chunks = found[: query["limit"]]
        return Response(
            {
                **answer,
                "chunks": [
                    {"sequence": chunk.sequence, "at": represent.iso(chunk.at), "text": chunk.text}
                    for chunk in chunks
                ],
                "next_after": chunks[-1].sequence if chunks else query["after"],
                "complete": attempt.state == AttemptState.ENDED and len(found) == len(chunks),
                "truncated": log_is_full(
                    attempt, rank=query["rank"], limit_bytes=settings.CONFIG.log_bytes_per_attempt
                ),
            }
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
