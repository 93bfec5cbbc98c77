"""Job specifications, and what is said of them, as the API's schema describes them."""

from rest_framework import serializers

from scheduler.core.lifecycle import JobState
from scheduler.core.snapshot import DOWNGRADE, GUARANTEED, OPPORTUNISTIC, PREEMPT
from scheduler.jobspec import NOTIFIED, TOPOLOGY_LEVELS, WATCHED_THEN
from scheduler.jobspec.candidates import MAX_NODES
from tenants import SECRET_SCOPES
from tenants.api.strict import StrictSerializer

JOB_STATES = [state.value for state in JobState]
GUARANTEES = [GUARANTEED, OPPORTUNISTIC]


class Resources(serializers.Serializer):
    gpu = serializers.IntegerField(min_value=1, max_value=16, help_text="GPUs of each replica, on one node.")
    gpu_model = serializers.JSONField(
        required=False, help_text='"any", a model, or a list of models with the preferred first.'
    )
    cpu = serializers.FloatField(required=False, min_value=0)
    memory = serializers.JSONField(required=False, help_text='Bytes, or a size such as "4GiB".')


class Task(serializers.Serializer):
    name = serializers.CharField(max_length=63)
    replicas = serializers.IntegerField(required=False, min_value=1, max_value=256, default=1)
    resources = Resources()
    command = serializers.JSONField(help_text="A list of words, or one line for the shell.")
    env = serializers.DictField(child=serializers.CharField(), required=False)


class Topology(serializers.Serializer):
    level = serializers.ChoiceField(choices=TOPOLOGY_LEVELS)
    required = serializers.BooleanField(required=False, default=False)


class Retry(serializers.Serializer):
    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=20, default=3)
    attempts = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=20),
        required=False,
        help_text="Attempts that failures of a class or layer leave the job (docs/failures.md).",
    )
    matching = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=20),
        required=False,
        help_text="The same by a text that occurs in the failure's message.",
    )


class IdleGpus(serializers.Serializer):
    seconds = serializers.JSONField(help_text="For so long: like time_limit, at least 60 s.")
    below_percent = serializers.FloatField(
        required=False, default=5.0, min_value=0.1, max_value=100, help_text="All its GPUs were less busy."
    )


class Watch(serializers.Serializer):
    silent = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="After so long without a progress line: like time_limit; null: it need not tell any.",
    )
    then = serializers.ChoiceField(
        choices=WATCHED_THEN, required=False, default="warn", help_text="stop: and try it again."
    )
    idle_gpus = IdleGpus(
        required=False, allow_null=True, help_text="Or when its GPUs did nothing; null: as is usual here."
    )


class Trial(serializers.Serializer):
    """Rank 0 alone runs first, and must do well, before the whole gang is started."""

    seconds = serializers.JSONField(
        help_text='It passes that runs for so long, or tells of a step before: like time_limit, at most "1h".'
    )
    gpus = serializers.IntegerField(required=False, min_value=1, default=1)


class Notify(serializers.Serializer):
    email = serializers.ListField(
        child=serializers.ChoiceField(choices=[(word, word) for word in NOTIFIED]),
        help_text="Of what the job's owner gets e-mail, whatever his settings say; []: of nothing.",
    )


class Elastic(serializers.Serializer):
    min_gpus = serializers.IntegerField(
        min_value=1, help_text="It can run on so few, with fewer replicas of its only task."
    )


class Checkpoint(serializers.Serializer):
    grace_seconds = serializers.IntegerField(required=False, min_value=0, max_value=600, default=30)


class Port(serializers.Serializer):
    """Where people visit a program of the job; it finds the number in $ALLOT_PORT_<NAME>."""

    name = serializers.CharField(max_length=32)
    port = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1_024,
        max_value=65_535,
        help_text="The number, for a program that can not be told one; null: the node chooses.",
    )


class SecretUse(serializers.Serializer):
    """A secret that all processes of the job get, by its name. As text alone: the variable of that name."""

    name = serializers.CharField(max_length=63)
    env = serializers.CharField(
        required=False, allow_null=True, max_length=128, help_text="The variable in which it comes; or file."
    )
    file = serializers.CharField(
        required=False, allow_null=True, max_length=63, help_text="The file in $ALLOT_SECRETS_DIR; or env."
    )
    scope = serializers.ChoiceField(
        required=False,
        allow_null=True,
        choices=SECRET_SCOPES,
        help_text="Whose it is; null: the submitter's own if he has one of that name, else the tenant's.",
    )


class Nodes(serializers.Serializer):
    """Where the job is started, by the names of nodes."""

    only = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        max_length=MAX_NODES,
        help_text="On these alone; []: on all.",
    )
    avoid = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        max_length=MAX_NODES,
        help_text="On none of these.",
    )


class JobSpec(serializers.Serializer):
    """What a job asks for. Of a job with one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas`
    and `env` may stand here instead of in `tasks`."""

    name = serializers.CharField(max_length=63)
    virtual_cluster = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Left out: the one that is the tenant's alone, or the only one it can use.",
    )
    priority = serializers.IntegerField(required=False, min_value=-100, max_value=100, default=0)
    guarantee = serializers.ChoiceField(required=False, choices=GUARANTEES, default=GUARANTEED)
    tasks = Task(many=True, required=False)
    image = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Container image in which all tasks run, on nodes that allow it; null: on the node itself.",
    )
    topology = Topology(required=False, allow_null=True)
    elastic = Elastic(required=False, allow_null=True)
    time_limit = serializers.JSONField(
        required=False, help_text='Seconds, or "30m", "2h", "1d12h"; null: none.'
    )
    estimate = serializers.JSONField(
        required=False,
        help_text="How long it will probably run, like time_limit and not longer; null: unknown.",
    )
    deadline = serializers.JSONField(
        required=False,
        help_text="Within what time of its submission it should have ended, like time_limit; null: whenever.",
    )
    application = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=63,
        help_text='Kind of training job, such as "resnet50": jobs of one kind are taken to run alike.',
    )
    search = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=63,
        help_text="Jobs of a tenant that name the same search are one app to policies that are fair to apps.",
    )
    nodes = Nodes(required=False, allow_null=True, help_text="Left out or null: on any node.")
    pinned_cell = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="A pinned cell of the virtual cluster: the job, which must be guaranteed, runs there only.",
    )
    on_reclaim = serializers.ChoiceField(
        choices=[PREEMPT, DOWNGRADE],
        required=False,
        allow_null=True,
        help_text="When its guarantee is taken, by others of its virtual cluster or by a change: it"
        " stops, or runs on as opportunistic. Null: it stops for the former and runs on after the latter.",
    )
    skew = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=1,
        help_text="Largest tensor's part of the model: a skewed gang suffers when it is spread.",
    )
    retry = Retry(required=False)
    watch = Watch(required=False, allow_null=True)
    trial = Trial(required=False, allow_null=True)
    notify = Notify(required=False, allow_null=True)
    ports = Port(many=True, required=False)
    notebook = serializers.BooleanField(
        required=False, write_only=True, help_text="Short for a port of the name notebook."
    )
    secrets = SecretUse(many=True, required=False)
    checkpoint = Checkpoint(required=False)
    throughput = serializers.DictField(child=serializers.FloatField(), required=False)
    labels = serializers.DictField(child=serializers.CharField(), required=False)


class JobSubmit(JobSpec):
    """A specification, and for whom."""

    tenant = serializers.CharField(required=False, help_text="Needed by members of several tenants.")


class BulkSubmit(serializers.Serializer):
    tenant = serializers.CharField(required=False)
    jobs = JobSpec(many=True, help_text="1 to 1,000 jobs; all are submitted, or none.")


class BulkCancel(StrictSerializer):
    filter = serializers.DictField(
        child=serializers.CharField(max_length=100_000),
        help_text="At least one of the filters of GET /jobs, such as state, label or id.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only say how many there are.")
    most = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, help_text="Refuse when more match than this."
    )


class BulkCancelled(serializers.Serializer):
    jobs = serializers.IntegerField(help_text="Cancelled or told to stop; or that would be.")
    remaining = serializers.IntegerField(help_text="That match and run still: ask again for them.")
    queued = serializers.IntegerField(allow_null=True, help_text="Of a dry run: of them wait.")
    running = serializers.IntegerField(allow_null=True, help_text="Of a dry run: of them run.")


class ShortJob(serializers.Serializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    virtual_cluster = serializers.CharField()
    gpus = serializers.IntegerField()
    state = serializers.ChoiceField(choices=JOB_STATES)


class BulkSubmitted(serializers.Serializer):
    jobs = ShortJob(many=True)


class FieldProblem(serializers.Serializer):
    field = serializers.CharField()
    problem = serializers.CharField()
    expected = serializers.CharField(allow_blank=True)


class CheckAnswer(serializers.Serializer):
    ok = serializers.BooleanField()
    fields = FieldProblem(many=True)  # type: ignore[assignment]
    warnings = serializers.ListField(child=serializers.CharField())
    normalised = JobSpec(allow_null=True)
    gpus = serializers.IntegerField()
    message = serializers.CharField()
