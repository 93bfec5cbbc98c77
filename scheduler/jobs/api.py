"""Jobs: submitted, listed, changed; what happened to one."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.lifecycle import AttemptState, JobState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobs import representations, schemas
from scheduler.jobs.representations import new_job
from scheduler.jobs.services import control as services
from scheduler.jobs.services.changing import job_change
from scheduler.jobs.services.leaving import leaving_foreseen, user_deactivate
from scheduler.jobs.services.requeueing import job_requeue
from scheduler.jobspec import did_you_mean
from scheduler.models.attempts import Attempt
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.selectors import events as event_selectors
from scheduler.models.selectors.jobs import dependencies_of, dependents_of, job_get, jobs_visible
from scheduler.telemetry.events import schemas as event_schemas
from scheduler.wiring.rest import CommaSeparatedChoices, CommaSeparatedIds, RepresentedList
from tenants.api.instants import InstantFilter
from tenants.errors import FieldError, Invalid, NotAllowed
from tenants.models import Role, Scope
from tenants.selectors import Viewer, tenant_get, viewer

_STATES = [(state.value, state.value) for state in JobState]


class JobFilter(filters.FilterSet):
    state = CommaSeparatedChoices(choices=_STATES, help_text="One or more states, separated by commas.")
    tenant = filters.CharFilter(field_name="tenant__name")
    virtual_cluster = filters.CharFilter(field_name="virtual_cluster__name")
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="Part of the name.")
    guarantee = filters.ChoiceFilter(
        method="by_guarantee", choices=[(GUARANTEED, GUARANTEED), (OPPORTUNISTIC, OPPORTUNISTIC)]
    )
    gpu_model = filters.CharFilter(method="by_gpu_model", help_text="Asks for this model, or is on it now.")
    submitted_by = filters.CharFilter(field_name="submitted_by__username")
    name = filters.CharFilter(field_name="name", help_text="The whole name.")
    label = filters.CharFilter(method="by_label", help_text='A label, "team=vision", or its name, "team".')
    id = CommaSeparatedIds(field_name="id", help_text="Numbers of jobs, separated by commas.")

    array = filters.NumberFilter(
        field_name="array_id", min_value=0, max_value=2**63 - 1, decimal_places=0, help_text="Its tasks."
    )
    fold = filters.BooleanFilter(
        method="unchanged", help_text="One row for each array: the first task under the other filters."
    )

    since = InstantFilter(method="by_since", help_text="Has not ended before.")
    until = InstantFilter(field_name="submitted_at", lookup_expr="lt", help_text="Was submitted before.")
    submitted_since = InstantFilter(field_name="submitted_at", lookup_expr="gte")
    submitted_until = InstantFilter(field_name="submitted_at", lookup_expr="lt")
    started_since = InstantFilter(field_name="started_at", lookup_expr="gte", help_text="By its first start.")
    started_until = InstantFilter(field_name="started_at", lookup_expr="lt")
    ended_since = InstantFilter(field_name="ended_at", lookup_expr="gte")
    ended_until = InstantFilter(field_name="ended_at", lookup_expr="lt")
    failure = filters.CharFilter(
        method="by_failure", help_text="A class of failures, such as import_error, of one of its attempts."
    )

    class Meta:
        model = Job
        fields: list[str] = []

    def unchanged(self, queryset: QuerySet[Job], name: str, value: bool) -> QuerySet[Job]:
        return queryset

    def filter_queryset(self, queryset: QuerySet[Job]) -> QuerySet[Job]:
        found: QuerySet[Job] = super().filter_queryset(queryset)
        if not self.form.cleaned_data.get("fold"):
            return found
        earlier = found.filter(array_id=OuterRef("array_id"), id__lt=OuterRef("id")).order_by()
        return found.filter(Q(array_id=None) | ~Exists(earlier))

    def by_label(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        key, has_value, text = value.partition("=")
        condition = {"labels__contains": {key: text}} if has_value else {"labels__has_key": key}
        return queryset.filter(**condition)

    def by_since(self, queryset: QuerySet[Job], name: str, value: datetime) -> QuerySet[Job]:
        return queryset.filter(Q(ended_at=None) | Q(ended_at__gte=value))

    def by_failure(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(id__in=Attempt.objects.filter(failure=value).values("job_id"))

    def by_guarantee(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(guaranteed=value == GUARANTEED)

    def by_gpu_model(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        on_it: Any = Attempt.objects.filter(job=OuterRef("pk"), allocation__gpu_model=value)
        on_it = on_it.exclude(state=AttemptState.ENDED)
        return queryset.filter(Q(gpu_models__contains=[value]) | Exists(on_it))


class Jobs(RepresentedList):
    """The jobs of the caller's tenants, the newest first; operators see all."""

    scope = Scope.SUBMIT
    queryset = Job.objects.none()
    serializer_class = schemas.Job
    filterset_class = JobFilter
    represent = staticmethod(representations.jobs)

    def get_queryset(self) -> QuerySet[Job]:
        return jobs_visible(viewer(self.request)).only("id")

    @extend_schema(request=schemas.JobSubmit, responses={201: schemas.Job})
    def post(self, request: Request) -> Response:
        """Submit a job. What could never run is refused, with the nearest that could."""
        tenant, spec = tenant_and_rest(request.data)
        job = services.job_submit(viewer=viewer(request), tenant=tenant, spec=spec)
        return Response(new_job(job), status=201)


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
            raise Invalid(f"{problems[0].field}: {problems[0].problem}.", problems[:100])
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
        """Count the visible jobs by state, under the same filters as the list."""
        jobs = self.filter_queryset(jobs_visible(viewer(request)))
        counts = {state.value: Count("id", filter=Q(state=state)) for state in JobState}
        return Response(jobs.aggregate(**counts))


class JobDetail(APIView):
    scope = Scope.SUBMIT

    @extend_schema(responses=schemas.Job)
    def get(self, request: Request, job_id: int) -> Response:
        """One job, with its newest attempt and the reasons why it waits."""
        job = job_get(viewer(request), job_id)
        return Response(representations.jobs([job.id])[0])

    @extend_schema(request=schemas.JobChange, responses=schemas.Job)
    def patch(self, request: Request, job_id: int) -> Response:
        """Change a job that has not ended. 409 for what can not be changed while it has GPUs."""
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
        """Which other jobs it waits for, and which wait for it."""
        job = job_get(viewer(request), job_id)
        dependents, count = dependents_of(job)
        return Response(
            {
                "waits_for": [representations.dependency(row, row.awaited) for row in dependencies_of(job)],
                "awaited_by": [representations.dependency(row, row.job) for row in dependents],
                "awaited_by_count": count,
            }
        )


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
        """End a waiting job, or tell a running one to stop. 409 when it has ended otherwise already."""
        return _action(request, job_id, services.job_cancel)


class JobsCancel(APIView):
    scope = Scope.SUBMIT

    @extend_schema(
        operation_id="jobs_cancel_many",
        request=schemas.BulkCancel,
        responses={200: schemas.BulkCancelAnswer},
    )
    def post(self, request: Request) -> Response:
        """Cancel all jobs under a filter that have not ended, or only say how many these are."""
        given = schemas.BulkCancel(data=request.data)
        given.is_valid(raise_exception=True)
        by, body = viewer(request), given.validated_data
        jobs = _filtered(by, body["filter"])
        if body["dry_run"]:
            found = services.jobs_to_cancel(by, jobs)
            states = found.aggregate(**{state: Count("id", filter=Q(state=state)) for state in _UNFINISHED})
            return Response({"jobs": sum(states.values()), "remaining": 0, **states})
        done = services.jobs_cancel(viewer=by, jobs=jobs, most=body.get("most"))
        return Response({"jobs": done.jobs, "remaining": done.remaining, "queued": None, "running": None})


_UNFINISHED = ("queued", "running")


def _filtered(by: Viewer, given: Mapping[str, str]) -> QuerySet[Job]:
    """Return the visible jobs under a filter; one that says nothing, or too much, would meet other jobs."""
    known = list(JobFilter.get_filters())  # type: ignore[no-untyped-call]
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        field = f"filter.{unknown[0][:80]}" if unknown else "filter"
        problem = f"is not a filter{did_you_mean(unknown[0], known)}" if unknown else "is empty"
        expected = f"{'one' if unknown else 'one or more'} of: {', '.join(known)}"
        raise Invalid(f"{field}: {problem}.", [FieldError(field, problem, expected)])
    if "tenant" in given:
        by.require(tenant_get(by, given["tenant"]), Role.MEMBER)
    elif not by.is_operator and not any(by.may(one, Role.MEMBER) for one in by.roles):
        raise NotAllowed("A viewer can not cancel jobs; an admin of the tenant can make you a member.")
    chosen = JobFilter(data=given, queryset=jobs_visible(by))
    if not chosen.is_valid():  # type: ignore[no-untyped-call]
        problems = [
            FieldError(f"filter.{name}", str(said), "")
            for name, errors in chosen.errors.items()
            for said in errors
        ]
        raise Invalid(f"{problems[0].field}: {problems[0].problem}", problems)
    found: QuerySet[Job] = chosen.qs
    return found


class JobHold(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Keep a waiting job from starting."""
        return _action(request, job_id, services.job_hold)


class JobRelease(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Let a held job be considered again."""
        return _action(request, job_id, services.job_release)


class JobRequeue(APIView):
    scope = Scope.SUBMIT

    @extend_schema(request=None, responses={200: schemas.Job})
    def post(self, request: Request, job_id: int) -> Response:
        """Stop a running job, checkpoint included, and let it wait again. 409 when it does not run."""
        return _action(request, job_id, job_requeue)


def tenant_and_rest(body: Any) -> tuple[str | None, dict[str, Any]]:
    """Take the tenant out of a body; the rest is for others to check."""
    if not isinstance(body, Mapping):
        raise Invalid("The body is not an object.", [FieldError("body", "is not an object", "an object")])
    rest = dict(body)
    tenant = rest.pop("tenant", None)
    if tenant is not None and not isinstance(tenant, str):
        raise Invalid("tenant: is not text.", [FieldError("tenant", "is not text", "the name of a tenant")])
    return tenant, rest


class JobEvents(ListAPIView[Any]):
    """What happened to a job, the newest first."""

    queryset = Event.objects.none()
    serializer_class = event_schemas.Event

    def get_queryset(self) -> QuerySet[Event]:
        by = viewer(self.request)
        return event_selectors.events_visible(by).filter(job_id=job_get(by, self.kwargs["job_id"]).id)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.get_paginated_response(
            event_selectors.events(self.paginate_queryset(self.get_queryset()) or (), viewer(request))
        )


class UserDeactivate(APIView):
    scope = Scope.OPERATE

    @extend_schema(
        request=schemas.Deactivation,
        responses={200: schemas.Leaving},
        examples=[
            OpenApiExample(
                "Only say what would become of the jobs", value={"dry_run": True}, request_only=True
            )
        ],
    )
    def post(self, request: Request, username: str) -> Response:
        """Deactivate a user: sign-ins and tokens end at once. For operators.

        Running jobs go on and waiting jobs are held until somebody releases them, unless all are cancelled.
        """
        by = viewer(request)
        by.require_operator()
        given = schemas.Deactivation(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        do = leaving_foreseen if body["dry_run"] else user_deactivate
        return Response(asdict(do(by=by, username=username, cancel=body["jobs"] == schemas.CANCEL)))
