"""Many jobs at a time: submitted, counted, exported, changed."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count, Q
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.lifecycle import JobState
from scheduler.jobs import representations, schemas
from scheduler.jobs.api import tenant_and_rest
from scheduler.jobs.filters import JobFilter, jobs_matching
from scheduler.jobs.services import control as services
from scheduler.jobs.services.actions import Action, Changes, jobs_act, jobs_open_to
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.wiring.exports import FILE_ANSWERS, AnyFile, FileQuery, Kind, exported
from tenants.errors import FieldError, Invalid, NotAllowed
from tenants.models import Role, Scope
from tenants.selectors import Viewer, tenant_get, viewer

_UNFINISHED = ("queued", "running")


class JobsBulk(APIView):
    scope = Scope.SUBMIT
    is_heavy = True

    @extend_schema(request=schemas.BulkSubmit, responses={201: schemas.BulkSubmitAnswer})
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 jobs, all or none."""
        tenant, rest = tenant_and_rest(request.data)
        specs = rest.pop("jobs", None)
        problems = [FieldError(str(name)[:80], "is not a field here", "tenant, jobs") for name in rest]
        if not isinstance(specs, list):
            problems.append(FieldError("jobs", "is not a list" if specs else "is missing", "a list of jobs"))
        if problems:
            raise Invalid.of(*problems[:100])
        jobs = services.jobs_submit_bulk(viewer=viewer(request), tenant=tenant, specs=specs)
        return Response({"jobs": [_short(job) for job in jobs]}, status=201)


def _short(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "virtual_cluster": job.virtual_cluster.name,
        "gpus": job.gpus,
        "state": job.state,
    }


class JobsCounts(GenericAPIView[Job]):
    queryset = Job.objects.none()
    filterset_class = JobFilter
    pagination_class = None

    @extend_schema(responses=schemas.JobCounts, filters=True)
    def get(self, request: Request) -> Response:
        """Count the visible jobs by state, with the filters of the list."""
        jobs = self.filter_queryset(jobs_visible(viewer(request)))
        counts = {state.value: Count("id", filter=Q(state=state)) for state in JobState}
        return Response(jobs.aggregate(**counts))


#: The columns of the export.
EXPORTED = {
    "id": Kind.INTEGER,
    "name": Kind.TEXT,
    "tenant": Kind.TEXT,
    "virtual_cluster": Kind.TEXT,
    "submitted_by": Kind.TEXT,
    "state": Kind.TEXT,
    "guarantee": Kind.TEXT,
    "priority": Kind.INTEGER,
    "gpus": Kind.INTEGER,
    "gpu_models": Kind.PARTS,
    "labels": Kind.PARTS,
    "submitted_at": Kind.INSTANT,
    "started_at": Kind.INSTANT,
    "ended_at": Kind.INSTANT,
    "attempts": Kind.INTEGER,
    "preemptions": Kind.INTEGER,
    "service_gpu_seconds": Kind.DECIMAL,
    "exit_code": Kind.INTEGER,
    "message": Kind.TEXT,
}


class JobsExport(GenericAPIView[Job]):
    is_heavy = True
    queryset = Job.objects.none()
    filterset_class = JobFilter
    query_serializer = FileQuery
    content_negotiation_class = AnyFile
    pagination_class = None

    @extend_schema(parameters=[FileQuery], responses=FILE_ANSWERS, filters=True)
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export the jobs as CSV or Parquet, oldest first. At most the newest 100,000 are exported; the file
        states if there are more.
        """
        jobs = self.filter_queryset(jobs_visible(viewer(request)))
        return exported(request, "jobs", jobs.only("id"), EXPORTED, _represented)


def _represented(jobs: Sequence[Job]) -> Iterable[dict[str, Any]]:
    return representations.jobs([job.id for job in jobs])


class JobsActions(APIView):
    scope = Scope.SUBMIT
    is_heavy = True
    repeats_safely = True

    @extend_schema(request=schemas.JobsAction, responses={200: schemas.JobsActionAnswer})
    def post(self, request: Request) -> Response:
        """Cancel, hold, release, requeue or update all jobs that match a filter, or only count them.

        All matching jobs that wait are cancelled at once. Any other action changes at most 200 jobs in one
        request: repeat it while `remaining` is more than 0 and `jobs` is not 0.
        """
        given = schemas.JobsAction(data=request.data)
        given.is_valid(raise_exception=True)
        by, body = viewer(request), given.validated_data
        action = Action(body["action"])
        changes = Changes(priority=body.get("priority"), labels=body.get("labels", {}))
        jobs = jobs_matching(by, body["filter"], where="filter")
        _require_member(by, body["filter"].get("tenant"))
        if body["dry_run"]:
            found = jobs_open_to(action, changes, jobs, by)
            states = found.aggregate(**{state: Count("id", filter=Q(state=state)) for state in _UNFINISHED})
            return Response({"jobs": sum(states.values()), "remaining": 0, "refused": [], **states})
        done = jobs_act(viewer=by, action=action, changes=changes, jobs=jobs, most=body.get("most"))
        return Response(
            {
                "jobs": done.jobs,
                "remaining": done.remaining,
                "refused": [{"job": one.job, "message": one.message} for one in done.refused],
                "queued": None,
                "running": None,
            }
        )


def _require_member(by: Viewer, tenant: str | None) -> None:
    if tenant is not None:
        by.require(tenant_get(by, tenant), Role.MEMBER)
    elif not by.is_operator and not any(by.may(one, Role.MEMBER) for one in by.roles):
        raise NotAllowed("A viewer cannot change jobs; an admin of the tenant can make you a member.")
