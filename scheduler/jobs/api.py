"""Endpoints that submit, list and change jobs, and show their history."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs import representations, schemas
from scheduler.jobs.filters import SORT_KEY, JobListFilter
from scheduler.jobs.representations import new_job
from scheduler.jobs.services import control as services
from scheduler.jobs.services.changing import job_change
from scheduler.jobs.services.requeueing import job_requeue
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.selectors import events as event_selectors
from scheduler.models.selectors.jobs import dependencies_of, dependents_of, job_get, jobs_visible
from scheduler.telemetry.events import schemas as event_schemas
from scheduler.wiring.rest import RepresentedList
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.errors import FieldError, Invalid
from tenants.models import Role, Scope
from tenants.selectors import viewer


class Jobs(RepresentedList):
    """List the jobs of the caller's tenants, newest first unless `sort` is given; operators see all."""

    scope = Scope.SUBMIT
    queryset = Job.objects.none()
    serializer_class = schemas.Job
    filterset_class = JobListFilter
    represent = staticmethod(representations.jobs)

    @property
    def ordering(self) -> str:
        """Return the column of the pages from the checked parameter."""
        sort = self.request.query_params.get("sort")
        if not sort:
            return "-id"
        return f"-{SORT_KEY}" if sort.startswith("-") else SORT_KEY

    def get_queryset(self) -> QuerySet[Job]:
        return jobs_visible(viewer(self.request)).only("id")

    @extend_schema(request=schemas.JobSubmit, responses={201: schemas.Job})
    def post(self, request: Request) -> Response:
        """Submit a job. A job that could never run is refused; the error names the nearest that could."""
        tenant, spec = tenant_and_rest(request.data)
        job = services.job_submit(viewer=viewer(request), tenant=tenant, spec=spec)
        return created(request, new_job(job), job.id)


class JobDetail(Edited):
    scope = Scope.SUBMIT
    edition = ("id", "version")

    @extend_schema(responses=schemas.Job)
    def get(self, request: Request, job_id: int) -> Response:
        """Get one job, with its newest attempt and the reasons why it waits."""
        job = job_get(viewer(request), job_id)
        return Response(representations.jobs([job.id])[0])

    @extend_schema(request=schemas.JobChange, responses=schemas.Job)
    def patch(self, request: Request, job_id: int) -> Response:
        """Change a job that has not ended. 409 for fields that cannot change while it has GPUs."""
        by = viewer(request)
        job = job_get(by, job_id)
        by.require(job.tenant, Role.MEMBER)
        if not isinstance(request.data, Mapping):
            raise Invalid("The body is not an object.", [FieldError("body", "is not an object", "an object")])
        job_change(viewer=by, job=job, changes=dict(request.data))
        return Response(representations.jobs([job.id])[0])


class JobDependencies(APIView):
    @extend_schema(responses=schemas.JobDependencies)
    def get(self, request: Request, job_id: int) -> Response:
        """List the jobs that a job waits for, and the jobs that wait for it."""
        job = job_get(viewer(request), job_id)
        dependents, count = dependents_of(job)
        return Response(
            {
                "waits_for": [representations.dependency(row, row.awaited) for row in dependencies_of(job)],
                "awaited_by": [representations.dependency(row, row.job) for row in dependents],
                "awaited_by_count": count,
            }
        )


class JobInputWorkers(APIView):
    @extend_schema(responses=schemas.JobInputWorkers)
    def get(self, request: Request, job_id: int) -> Response:
        """Show the input workers of a job, and how long its trainer waits for them."""
        return Response(representations.input_workers(job_get(viewer(request), job_id)))


def _action(request: Request, job_id: int, service: Callable[..., None]) -> Response:
    by = viewer(request)
    job = job_get(by, job_id)
    by.require(job.tenant, Role.MEMBER)
    service(job_id=job.id, actor=by.actor)
    return Response(representations.jobs([job.id])[0])


class JobCancel(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Cancel a job: end it if it waits, stop it if it runs. 409 if it has already ended otherwise."""
        return _action(request, job_id, services.job_cancel)


class JobHold(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Hold a waiting job: it starts only after it is released."""
        return _action(request, job_id, services.job_hold)


class JobRelease(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Release a held job, so that it can start."""
        return _action(request, job_id, services.job_release)


class JobRequeue(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Requeue a running job: it writes a checkpoint, stops and waits again. 409 if it is not running."""
        return _action(request, job_id, job_requeue)


def tenant_and_rest(body: Any) -> tuple[str | None, dict[str, Any]]:
    """Take the tenant out of a body; the services check the rest."""
    if not isinstance(body, Mapping):
        raise Invalid("The body is not an object.", [FieldError("body", "is not an object", "an object")])
    rest = dict(body)
    tenant = rest.pop("tenant", None)
    if tenant is not None and not isinstance(tenant, str):
        raise Invalid("tenant: is not text.", [FieldError("tenant", "is not text", "the name of a tenant")])
    return tenant, rest


class JobEvents(ListAPIView[Any]):
    """List the events of a job, newest first."""

    queryset = Event.objects.none()
    serializer_class = event_schemas.Event

    def get_queryset(self) -> QuerySet[Event]:
        by = viewer(self.request)
        return event_selectors.events_visible(by).filter(job_id=job_get(by, self.kwargs["job_id"]).id)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(event_selectors.events(page or (), viewer(request)))
