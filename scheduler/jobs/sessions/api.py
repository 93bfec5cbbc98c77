"""Sessions inside a job, and tickets for the pages of its programs. Sessions themselves are WebSockets."""

from collections.abc import Mapping

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.job_pages import NoPages, page_address
from scheduler.jobs.sessions.services.port_passes import ticket_issue
from scheduler.models.selectors.jobs import job_get
from scheduler.models.sessions import Session
from tenants.errors import Conflict
from tenants.models import Scope
from tenants.selectors import viewer


class SessionSerializer(serializers.ModelSerializer[Session]):
    user = serializers.CharField(source="user.username")
    attempt = serializers.IntegerField(source="attempt.number")
    node = serializers.CharField(source="node.name")
    port = serializers.CharField(help_text="Name or number of the port; empty: a command.")
    command = serializers.CharField(help_text="Command that runs; empty: a shell.")

    class Meta:
        model = Session
        fields = [
            "id",
            "user",
            "attempt",
            "rank",
            "node",
            "port",
            "command",
            "opened_at",
            "ended_at",
            "exit_code",
        ]


class PageAddress(serializers.Serializer[Mapping[str, object]]):
    url = serializers.CharField(help_text="Link for one browser; it works once, within one minute.")


class JobSessions(ListAPIView[Session]):
    """List shells and port connections into a job in the last 30 days, newest first."""

    queryset = Session.objects.none()
    serializer_class = SessionSerializer

    def get_queryset(self) -> QuerySet[Session]:
        job = job_get(viewer(self.request), self.kwargs["job_id"])
        return Session.objects.filter(attempt__job=job).select_related("user", "attempt", "node")


class JobPortOpen(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: PageAddress})
    def post(self, request: Request, job_id: int, port: str) -> Response:
        """Create a one-time link to the web pages that a program of the job serves."""
        session = getattr(request._request, "session", None)
        job, ticket = ticket_issue(
            viewer=viewer(request),
            job_id=job_id,
            port=port,
            session_key=(session.session_key or "") if session is not None else "",
        )
        try:
            url = page_address(request._request, job_id=job.id, port=port, ticket=ticket)
        except NoPages as error:
            raise Conflict(str(error)) from None
        return Response({"url": url})
