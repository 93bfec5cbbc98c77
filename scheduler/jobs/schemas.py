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
    """Answer with the JSON Schema of job specifications. Anybody may ask: editors do, without a token."""
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
            tenant = {"type": "string", "description": "Needed by members of several tenants."}
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
        required=False, allow_null=True, help_text="For an update: their new priority."
    )
    labels = serializers.DictField(
        child=serializers.CharField(allow_null=True, max_length=1_000),
        required=False,
        help_text="For an update: labels to set; null removes one, and the others stay.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only say how many there are.")
    most = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, help_text="Refuse when more match than this."
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
    jobs = serializers.IntegerField(help_text="Changed, or under way; or that would be.")
    remaining = serializers.IntegerField(help_text="That match too: ask again for them.")
    refused = ActionRefusal(many=True, help_text="Jobs that were left as they are, at most 20.")
    queued = serializers.IntegerField(allow_null=True, help_text="For a dry run: how many of them wait.")
    running = serializers.IntegerField(allow_null=True, help_text="For a dry run: how many of them run.")


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
    number = serializers.IntegerField(help_text="The array's number: that of its first task.")
    index = serializers.IntegerField()
    size = serializers.IntegerField(help_text="How many tasks the array has.")
    at_most = serializers.IntegerField(allow_null=True, help_text="Tasks that run at once; null: any number.")


class JobCode(serializers.Serializer[Mapping[str, object]]):
    archive = serializers.CharField(allow_null=True, help_text="The digest of what was uploaded.")
    git = serializers.CharField(allow_null=True)
    commit = serializers.CharField(allow_null=True)
    bytes = serializers.IntegerField(allow_null=True, help_text="Size of the archive that was uploaded.")
    files = serializers.IntegerField(allow_null=True)
    unpacked_bytes = serializers.IntegerField(allow_null=True)
    is_removed = serializers.BooleanField(help_text="No job needed the archive any more; it is not there.")


class JobMaintenance(NodeMaintenance):
    node = serializers.CharField(help_text="The node of the job that closes first.")


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
    gpu_models = serializers.ListField(child=serializers.CharField(), help_text="Empty: any.")
    spec = JobSpec()
    submitted_at = serializers.DateTimeField()
    eligible_at = serializers.DateTimeField(
        allow_null=True, help_text="It does not start before this: its begin, or back-off after a failure."
    )
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(
        allow_null=True, help_text="When it should have ended; null: whenever."
    )
    attempts = serializers.IntegerField(help_text="Attempts started so far.")
    attempt = Attempt(allow_null=True, help_text="The one that runs, else the newest.")
    guarantee_lapsed = serializers.BooleanField(
        help_text="It runs on as an opportunistic job, since the cells it ran on are no more."
    )
    reasons = Reason(many=True, help_text="Why it waits, the most decisive first.")
    position = serializers.IntegerField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    preemptions = serializers.IntegerField()
    service_gpu_seconds = serializers.FloatField()
    labels = serializers.DictField(child=serializers.CharField())
    cancelling = serializers.BooleanField()
    held = serializers.BooleanField()
    code = JobCode(allow_null=True, help_text="What its working folders begin with; null: nothing.")
    maintenance = JobMaintenance(
        allow_null=True, help_text="The window that closes a node of it first; null: none is announced."
    )
    array = ArrayTask(allow_null=True, help_text="The array of a task, and its place there.")
    serves = serializers.IntegerField(
        allow_null=True,
        help_text="The job for which it makes batches, if the platform started it as an input worker.",
    )
    version = serializers.IntegerField()


class Dependency(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField()
    name = serializers.CharField()
    job_state = serializers.ChoiceField(choices=JOB_STATES)
    when = serializers.ChoiceField(choices=WHEN, help_text="What is awaited of the job that is waited for.")
    state = serializers.ChoiceField(
        choices=[state.value for state in DependencyState],
        help_text="never: the job that is waited for ended otherwise.",
    )


class JobDependencies(serializers.Serializer[Mapping[str, object]]):
    waits_for = Dependency(many=True, help_text="The jobs that it waits for, or waited for.")
    awaited_by = Dependency(many=True, help_text="The jobs that wait for it, the latest 100 of them.")
    awaited_by_count = serializers.IntegerField(help_text="How many these are in all.")


class InputWorker(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField(help_text="The worker's own number: its output and its past are there.")
    state = serializers.ChoiceField(choices=JOB_STATES)
    started_at = serializers.DateTimeField(allow_null=True)
    node = serializers.CharField(allow_null=True, help_text="Where it is; null: nowhere yet.")


class JobInputWorkers(serializers.Serializer[Mapping[str, object]]):
    desired = serializers.IntegerField(help_text="How many there are to be now.")
    running = serializers.IntegerField()
    connected = serializers.IntegerField(
        allow_null=True, help_text="To its trainer, by its newest progress line; null: there is none yet."
    )
    stall = serializers.FloatField(
        allow_null=True, help_text="Part of the time that its trainer waited for batches, by that line."
    )
    skipped = serializers.IntegerField(
        allow_null=True,
        help_text="Batches of a shared stream that its trainer was too slow for; null: it shares none, or no"
        " progress line says.",
    )
    problem = serializers.CharField(allow_blank=True, help_text="Why fewer are started than desired.")
    workers = InputWorker(many=True, help_text="Those that have not ended.")


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
        help_text="hold: running jobs go on, waiting ones are held until released; cancel: all end.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only say what would become of the jobs.")


class Leaving(serializers.Serializer[Mapping[str, object]]):
    running = serializers.IntegerField(help_text="Jobs that go on to their end.")
    held = serializers.IntegerField(help_text="Jobs that wait, and start only once they are released.")
    cancelled = serializers.IntegerField(help_text="Jobs that ended, or were told to stop.")
    remaining = serializers.IntegerField(help_text="Running jobs left to cancel: ask again.")
