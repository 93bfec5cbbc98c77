"""Jobs and their specification as the API's schema describes them."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import Direction
from rest_framework import serializers

from scheduler.core.model.awaited import WHEN
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import Tier
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobs.attempts.schemas import Attempt
from scheduler.jobs.services.actions import Action
from scheduler.jobs.services.changing import CHANGEABLE
from scheduler.jobspec.schema import definitions, json_schema
from scheduler.models.jobs import DependencyState
from scheduler.nodes.schemas import NodeMaintenance
from tenants.api.strict import StrictSerializer

JOB_STATES = [state.value for state in JobState]
ACTIONS = [action.value for action in Action]


@require_safe
def job_spec_schema(request: HttpRequest) -> JsonResponse:
    """Answer with the JSON Schema of job specifications. It needs no token, since editors fetch it."""
    return JsonResponse(json_schema(request.build_absolute_uri()))


class JobSpec(serializers.Serializer[Mapping[str, object]]):
    """A job specification. Its fields are declared in `scheduler.jobspec`; here they are only described."""


class JobSubmit(JobSpec):
    """A specification, and for whom."""


class JobChange(JobSpec):
    """Fields of the specification that get another value; labels are replaced as a whole."""


class _JobSpecSchema(OpenApiSerializerExtension):
    """Describes specifications by their JSON Schema: as they are written in requests, else in normal form."""

    target_class = JobSpec
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        return type(self.target).__name__

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        is_request = direction == "request"
        suffix = "Request" if is_request else ""
        schemas = {
            name: _as_openapi(schema, suffix) for name, schema in definitions(normal=not is_request).items()
        }
        whole: dict[str, Any] = schemas.pop("JobSpec")
        for name, schema in schemas.items():
            component = ResolvedComponent(
                name=name + suffix, type=ResolvedComponent.SCHEMA, object=name + suffix, schema=schema
            )
            auto_schema.registry.register_on_missing(component)
        if isinstance(self.target, JobChange):
            whole["properties"] = {name: whole["properties"][name] for name in CHANGEABLE}
            del whole["required"]
        if isinstance(self.target, JobSubmit):
            tenant = {
                "type": "string",
                "description": ("Tenant of the job. Required if you are a member of several."),
            }
            whole["properties"] = {"tenant": tenant, **whole["properties"]}
        return whole


def _as_openapi(schema: Any, suffix: str) -> Any:
    """Return a JSON Schema as OpenAPI 3.0 writes it: `nullable` for null, no siblings of `$ref`."""
    if isinstance(schema, list):
        return [_as_openapi(each, suffix) for each in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {
        key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "examples", "x-flag")
    }
    # Generators of clients know no default that is an object or a list. It is the empty one, as without it.
    if isinstance(converted.get("default"), dict | list):
        del converted["default"]
    if isinstance(converted.get("type"), list):
        types = [each for each in converted["type"] if each != "null"]
        is_nullable = len(types) < len(converted["type"])
        converted |= {"type": types[0]} if len(types) == 1 else {"anyOf": [{"type": each} for each in types]}
        if len(types) > 1:
            del converted["type"]
        if is_nullable:
            converted["nullable"] = True
    if "enum" in converted:
        converted["enum"] = [each for each in converted["enum"] if each is not None]
    converted = {key: _as_openapi(value, suffix) for key, value in converted.items()}
    if "examples" in schema:
        converted["example"] = schema["examples"][0]
    if "$ref" in schema:
        reference = {"$ref": schema["$ref"].replace("#/$defs/", "#/components/schemas/") + suffix}
        return {**converted, "allOf": [reference]} if converted else reference
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each != {"type": "null"}]
        if len(others) < len(schema["anyOf"]):
            converted["nullable"] = True
        kind = "allOf" if len(others) == 1 else "anyOf"
        converted[kind] = [_as_openapi(each, suffix) for each in others]
    return converted


class BulkSubmit(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(required=False)
    jobs = JobSpec(many=True, help_text="1 to 1,000 jobs; all are submitted, or none.")


class JobsAction(StrictSerializer):
    action = serializers.ChoiceField(choices=ACTIONS)
    filter = serializers.DictField(
        child=serializers.CharField(max_length=100_000),
        help_text="At least one of the filters of GET /jobs, such as state, label or id.",
    )
    priority = serializers.IntegerField(
        required=False, allow_null=True, help_text="For an update: the new priority."
    )
    labels = serializers.DictField(
        child=serializers.CharField(allow_null=True, max_length=1_000),
        required=False,
        help_text="For an update: labels to set. null removes a label; other labels stay.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Change nothing; return how many jobs match.")
    most = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        help_text="Refuse the request if more jobs than this match.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("priority", "labels") if attrs.get(name) not in (None, {})]
        is_update = attrs["action"] == Action.UPDATE
        if is_update and not given:
            raise serializers.ValidationError({"priority": "is missing: an update sets priority or labels"})
        if given and not is_update:
            raise serializers.ValidationError({given[0]: "belongs to the action update alone"})
        return attrs


class ActionRefusal(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField()
    message = serializers.CharField()


class JobsActionAnswer(serializers.Serializer[Mapping[str, object]]):
    jobs = serializers.IntegerField(
        help_text="Number of jobs changed or being changed; in a dry run, that would be."
    )
    remaining = serializers.IntegerField(
        help_text="Number of further jobs that match; repeat the request for them."
    )
    refused = ActionRefusal(many=True, help_text="Jobs that were not changed, at most 20.")
    queued = serializers.IntegerField(
        allow_null=True, help_text="In a dry run: number of these jobs that wait."
    )
    running = serializers.IntegerField(
        allow_null=True, help_text="In a dry run: number of these jobs that run."
    )


class ShortJob(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    virtual_cluster = serializers.CharField()
    gpus = serializers.IntegerField()
    state = serializers.ChoiceField(choices=JOB_STATES)


class BulkSubmitAnswer(serializers.Serializer[Mapping[str, object]]):
    jobs = ShortJob(many=True)


PHASES = ["waiting", "held", "planned", "starting", "running", "stopping", "ended"]
GUARANTEES = [GUARANTEED, OPPORTUNISTIC]


class Reason(serializers.Serializer[Mapping[str, object]]):
    code = serializers.CharField()
    tier = serializers.ChoiceField(choices=[tier.value for tier in Tier])
    message = serializers.CharField()
    blocking = serializers.DictField()
    needed = serializers.IntegerField(allow_null=True)
    available = serializers.IntegerField(allow_null=True)
    hint = serializers.CharField(allow_blank=True)


class ArrayTask(serializers.Serializer[Mapping[str, object]]):
    number = serializers.IntegerField(help_text="Number of the array, which is the number of its first task.")
    index = serializers.IntegerField()
    size = serializers.IntegerField(help_text="Number of tasks in the array.")
    at_most = serializers.IntegerField(
        allow_null=True, help_text="Maximum number of tasks that run at once; null: unlimited."
    )


class JobCode(serializers.Serializer[Mapping[str, object]]):
    archive = serializers.CharField(allow_null=True, help_text="SHA-256 digest of the uploaded archive.")
    git = serializers.CharField(allow_null=True)
    commit = serializers.CharField(allow_null=True)
    bytes = serializers.IntegerField(allow_null=True, help_text="Size of the uploaded archive, in bytes.")
    files = serializers.IntegerField(allow_null=True)
    unpacked_bytes = serializers.IntegerField(allow_null=True)
    is_removed = serializers.BooleanField(
        help_text="Whether the archive was deleted because no job needed it any more."
    )


class JobMaintenance(NodeMaintenance):
    node = serializers.CharField(help_text="The job's node that closes first.")


class Job(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    submitted_by = serializers.CharField()
    state = serializers.ChoiceField(choices=JOB_STATES)
    phase = serializers.ChoiceField(choices=PHASES)
    guarantee = serializers.ChoiceField(choices=GUARANTEES)
    priority = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_models = serializers.ListField(
        child=serializers.CharField(), help_text="Accepted GPU models; empty: any."
    )
    spec = JobSpec()
    submitted_at = serializers.DateTimeField()
    eligible_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Earliest start: its `begin`, or the end of its back-off after a failure.",
    )
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(
        allow_null=True, help_text="Time by which it should end; null: no deadline."
    )
    attempts = serializers.IntegerField(help_text="Number of attempts started so far.")
    attempt = Attempt(allow_null=True, help_text="The running attempt, or else the newest.")
    guarantee_lapsed = serializers.BooleanField(
        help_text=(
            "Whether it goes on as an opportunistic job because the cells that it ran on no longer exist."
        )
    )
    reasons = Reason(many=True, help_text="Reasons why it waits, most decisive first.")
    position = serializers.IntegerField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    preemptions = serializers.IntegerField()
    service_gpu_seconds = serializers.FloatField()
    labels = serializers.DictField(child=serializers.CharField())
    cancelling = serializers.BooleanField()
    held = serializers.BooleanField()
    code = JobCode(allow_null=True, help_text="Initial content of its working folders; null: empty.")
    maintenance = JobMaintenance(
        allow_null=True,
        help_text="The maintenance window that first closes one of its nodes; null: none is announced.",
    )
    array = ArrayTask(allow_null=True, help_text="The array that it is a task of, and its index there.")
    serves = serializers.IntegerField(
        allow_null=True,
        help_text="Number of the job that it makes batches for, if it is an input worker.",
    )
    version = serializers.IntegerField()


class Dependency(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField()
    name = serializers.CharField()
    job_state = serializers.ChoiceField(choices=JOB_STATES)
    when = serializers.ChoiceField(
        choices=WHEN, help_text="What the other job must do before this one may start."
    )
    state = serializers.ChoiceField(
        choices=[state.value for state in DependencyState],
        help_text="State of the dependency. never: the other job ended in another state.",
    )


class JobDependencies(serializers.Serializer[Mapping[str, object]]):
    waits_for = Dependency(many=True, help_text="Jobs that it waits for, or waited for.")
    awaited_by = Dependency(many=True, help_text="Jobs that wait for it, the latest 100.")
    awaited_by_count = serializers.IntegerField(help_text="Total number of jobs that wait for it.")


class InputWorker(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField(
        help_text="Number of the worker's own job, which has its output and events."
    )
    state = serializers.ChoiceField(choices=JOB_STATES)
    started_at = serializers.DateTimeField(allow_null=True)
    node = serializers.CharField(allow_null=True, help_text="Node that it runs on; null: it has not started.")


class JobInputWorkers(serializers.Serializer[Mapping[str, object]]):
    desired = serializers.IntegerField(help_text="Number of input workers that should run now.")
    running = serializers.IntegerField()
    connected = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "Number of workers connected to the trainer, as its newest progress line reports; "
            "null: no progress line yet."
        ),
    )
    stall = serializers.FloatField(
        allow_null=True,
        help_text="Fraction of time that the trainer waited for batches, as that line reports.",
    )
    skipped = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "Batches of a shared stream that the trainer missed because it was too slow; null: "
            "it shares no stream, or no progress line reports them."
        ),
    )
    problem = serializers.CharField(allow_blank=True, help_text="Why fewer workers run than desired.")
    workers = InputWorker(many=True, help_text="Workers that have not ended.")


class JobCounts(serializers.Serializer[Mapping[str, object]]):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


HOLD, CANCEL = "hold", "cancel"


class Deactivation(StrictSerializer):
    jobs = serializers.ChoiceField(
        choices=[HOLD, CANCEL],
        default=HOLD,
        help_text=(
            "hold: running jobs go on, waiting jobs are held until they are released. cancel: "
            "all jobs are cancelled."
        ),
    )
    dry_run = serializers.BooleanField(
        default=False, help_text="Change nothing; return what would happen to the jobs."
    )


class Leaving(serializers.Serializer[Mapping[str, object]]):
    running = serializers.IntegerField(help_text="Number of jobs that go on to their end.")
    held = serializers.IntegerField(help_text="Number of waiting jobs that are held until they are released.")
    cancelled = serializers.IntegerField(help_text="Number of jobs that were cancelled or are being stopped.")
    remaining = serializers.IntegerField(
        help_text="Number of running jobs still to cancel; repeat the request for them."
    )
