"""The objects of the API as its schema describes them. The objects themselves come from `represent`."""

from rest_framework import serializers

from scheduler.core.failures.site_rules import Severity
from scheduler.core.lifecycle import AttemptState, JobState, Outcome
from scheduler.core.plan import Tier
from scheduler.core.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobspec import NOTIFIED, TOPOLOGY_LEVELS, WATCHED_THEN
from scheduler.models.health import Verdict
from scheduler.models.inventory import NodeState
from scheduler.models.rounds import RoundState

JOB_STATES = [state.value for state in JobState]
ATTEMPT_STATES = [state.value for state in AttemptState]
NODE_STATES = [state.value for state in NodeState]
ROUND_STATES = [state.value for state in RoundState]
VERDICTS = [verdict.value for verdict in Verdict]
GPU_STATES = ["free", "held", "planned"]
PHASES = ["waiting", "held", "planned", "starting", "running", "stopping", "ended"]
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
    checkpoint = Checkpoint(required=False)
    throughput = serializers.DictField(child=serializers.FloatField(), required=False)
    labels = serializers.DictField(child=serializers.CharField(), required=False)


class JobSubmit(JobSpec):
    """A specification, and for whom."""

    tenant = serializers.CharField(required=False, help_text="Needed by members of several tenants.")


class BulkSubmit(serializers.Serializer):
    tenant = serializers.CharField(required=False)
    jobs = JobSpec(many=True, help_text="1 to 1,000 jobs; all are submitted, or none.")


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


class Reason(serializers.Serializer):
    code = serializers.CharField()
    tier = serializers.ChoiceField(choices=[tier.value for tier in Tier])
    message = serializers.CharField()
    blocking = serializers.DictField()
    needed = serializers.IntegerField(allow_null=True)
    available = serializers.IntegerField(allow_null=True)
    hint = serializers.CharField(allow_blank=True)


class PlacedGpu(serializers.Serializer):
    id = serializers.IntegerField()
    index = serializers.IntegerField()


class PlacementPart(serializers.Serializer):
    node = serializers.CharField()
    node_id = serializers.IntegerField()
    gpus = PlacedGpu(many=True)
    ranks = serializers.ListField(child=serializers.IntegerField())
    state = serializers.CharField()


class AttemptTurn(serializers.Serializer):
    index = serializers.IntegerField(
        help_text="It runs while floor(Unix seconds / seconds) modulo count is this."
    )
    count = serializers.IntegerField()
    seconds = serializers.FloatField()


class MatchedRule(serializers.Serializer):
    name = serializers.CharField()
    severity = serializers.ChoiceField(choices=[severity.value for severity in Severity])
    advice = serializers.CharField(allow_blank=True, help_text="What the job's owner can do about it.")


class Attempt(serializers.Serializer):
    id = serializers.IntegerField()
    number = serializers.IntegerField()
    is_trial = serializers.BooleanField(
        help_text="On a few GPUs, to see whether the job works, before all of them are taken for it."
    )
    state = serializers.ChoiceField(choices=ATTEMPT_STATES)
    outcome = serializers.ChoiceField(choices=["", *(outcome.value for outcome in Outcome)])
    gpu_model = serializers.CharField()
    placement = PlacementPart(many=True)
    turn = AttemptTurn(
        allow_null=True,
        help_text="Where those that share its GPUs run one at a time, frozen otherwise; null: it always runs.",
    )
    exit_code = serializers.IntegerField(allow_null=True)
    category = serializers.CharField(allow_blank=True)
    failure = serializers.CharField(allow_blank=True, help_text="The class of its failure, if it failed.")
    matched_rule = MatchedRule(allow_null=True, help_text="Which of the site's rules its failure matched.")
    message = serializers.CharField(allow_blank=True)
    stop_cause = serializers.CharField(allow_blank=True)
    preempted_by = serializers.ListField(child=serializers.IntegerField())
    lost_seconds = serializers.FloatField(
        allow_null=True, help_text="Work that its end threw away, as far as is known; null: none, or unknown."
    )
    planned_at = serializers.DateTimeField()
    starting_at = serializers.DateTimeField(allow_null=True)
    running_at = serializers.DateTimeField(allow_null=True)
    stopping_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    throughput = serializers.FloatField(allow_null=True, help_text="Samples per second.")
    step = serializers.IntegerField(allow_null=True)
    total_steps = serializers.IntegerField(allow_null=True)


class Job(serializers.Serializer):
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
    version = serializers.IntegerField()


class JobCounts(serializers.Serializer):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class Prediction(serializers.Serializer):
    starts_at = serializers.DateTimeField(help_text="Expected start.")
    earliest = serializers.DateTimeField(help_text="If jobs run as short as is likely.")
    latest = serializers.DateTimeField(
        allow_null=True, help_text="If every job uses its whole time limit; null: more than 30 days ahead."
    )
    assumption = serializers.CharField(help_text='"if jobs run as long as ...".')
    position = serializers.IntegerField(allow_null=True, help_text="In its queue; null: it starts at once.")
    made_at = serializers.DateTimeField()
    round = serializers.IntegerField()


class Why(serializers.Serializer):
    state = serializers.ChoiceField(choices=JOB_STATES)
    reasons = Reason(many=True)
    position = serializers.IntegerField(allow_null=True)
    queue_length = serializers.IntegerField(allow_null=True)
    round = serializers.IntegerField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    prediction = Prediction(allow_null=True)
    no_prediction = serializers.CharField(allow_blank=True, help_text="Why there is no prediction.")


class ProgressPoint(serializers.Serializer):
    attempt = serializers.IntegerField()
    at = serializers.DateTimeField()
    step = serializers.IntegerField()
    samples = serializers.FloatField(allow_null=True)
    values = serializers.DictField(child=serializers.FloatField())


class Progress(serializers.Serializer):
    points = ProgressPoint(many=True)


class Gpu(serializers.Serializer):
    id = serializers.IntegerField()
    index = serializers.IntegerField()
    socket = serializers.IntegerField()
    switch = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    healthy = serializers.BooleanField()
    problem = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=GPU_STATES)


class NodeCheck(serializers.Serializer):
    name = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    message = serializers.CharField(allow_blank=True)
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the one GPU that it is about.")
    since = serializers.DateTimeField(help_text="When the verdict became what it is.")


class NodeWithdrawn(serializers.Serializer):
    by = serializers.CharField(
        allow_blank=True, help_text="Who cordoned or drains it; `health` is the platform."
    )
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    returns_itself = serializers.BooleanField(help_text="The platform uncordons it when it is well again.")


class Node(serializers.Serializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    rack = serializers.CharField()
    gpu_model = serializers.CharField(allow_null=True, help_text="Null until its agent has reported.")
    address = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=NODE_STATES)
    cordoned = serializers.BooleanField()
    draining = serializers.BooleanField()
    drained = serializers.BooleanField()
    drain_deadline = serializers.DateTimeField(
        allow_null=True,
        help_text="When its jobs are moved away; until then it takes only what will have ended.",
    )
    withdrawn = NodeWithdrawn(allow_null=True, help_text="Null while it is neither cordoned nor draining.")
    health = NodeCheck(many=True)
    isolation = serializers.DictField(child=serializers.BooleanField())
    cpus = serializers.FloatField()
    memory_bytes = serializers.IntegerField()
    agent_version = serializers.CharField(allow_blank=True)
    lease_expires_at = serializers.DateTimeField(allow_null=True)
    gpus = Gpu(many=True)
    version = serializers.IntegerField()


class NodeWithToken(Node):
    token = serializers.CharField(help_text="For the node's agent; shown only now.")


class Overrun(serializers.Serializer):
    since = serializers.DateTimeField()
    message = serializers.CharField()


class ClusterSettings(serializers.Serializer):
    spare_policy = serializers.CharField()
    spare_placer = serializers.CharField()
    preemptions_per_round = serializers.IntegerField(
        allow_null=True, help_text="Jobs that policies may take GPUs from in a round; null: any number."
    )
    backoff_seconds = serializers.FloatField(
        help_text="How long a job may not borrow after it was preempted too early; twice as long each time."
    )
    most_backoff_seconds = serializers.FloatField(help_text="But never longer than this.")
    idle_gpus_seconds = serializers.FloatField(
        allow_null=True,
        help_text="When a job counts as stuck whose GPUs do nothing, unless it says otherwise; null: never.",
    )
    idle_gpus_below_percent = serializers.FloatField(help_text="A GPU that is less busy does nothing.")
    idle_gpus_then = serializers.ChoiceField(choices=WATCHED_THEN, help_text="What is done then.")
    overrun = Overrun(
        allow_null=True, help_text="While a cheap policy decides, since the chosen one takes too long."
    )


class GpuModel(serializers.Serializer):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpus_free = serializers.IntegerField()
    nodes = serializers.IntegerField()
    price_per_hour = serializers.FloatField(help_text="Of one GPU, in whatever unit operators reckon in.")


class GpuModels(serializers.Serializer):
    results = GpuModel(many=True)


class GpuCounts(serializers.Serializer):
    total = serializers.IntegerField()
    healthy = serializers.IntegerField()
    held = serializers.IntegerField()
    planned = serializers.IntegerField()
    free = serializers.IntegerField()


class UnfinishedCounts(serializers.Serializer):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()


class NodeCounts(serializers.Serializer):
    ready = serializers.IntegerField()
    lost = serializers.IntegerField()
    cordoned = serializers.IntegerField()


class NewestRound(serializers.Serializer):
    number = serializers.IntegerField()
    at = serializers.DateTimeField()


class Cluster(serializers.Serializer):
    gpus = GpuCounts()
    by_model = serializers.DictField(child=GpuCounts())
    jobs = UnfinishedCounts()
    nodes = NodeCounts()
    round = NewestRound(allow_null=True)


class UsagePoint(serializers.Serializer):
    at = serializers.DateTimeField()
    total = serializers.IntegerField()
    held = serializers.IntegerField()
    by_tenant = serializers.DictField(child=serializers.IntegerField())


class Usage(serializers.Serializer):
    points = UsagePoint(many=True)


class RoundTimings(serializers.Serializer):
    snapshot = serializers.FloatField()
    decide = serializers.FloatField()
    apply = serializers.FloatField()


class Dropped(serializers.Serializer):
    kind = serializers.CharField()
    jobs = serializers.ListField(child=serializers.IntegerField())
    why = serializers.CharField()
    position = serializers.IntegerField(
        required=False, help_text="Of deeds in the market: which of the round's."
    )


class Round(serializers.Serializer):
    number = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    state = serializers.ChoiceField(choices=ROUND_STATES)
    degraded = serializers.DictField(child=serializers.CharField())
    timings_ms = RoundTimings()
    started = serializers.IntegerField()
    kept = serializers.IntegerField()
    stopped = serializers.IntegerField()
    dropped = Dropped(many=True)
    waiting = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)


class RoundAction(serializers.Serializer):
    kind = serializers.CharField()
    jobs = serializers.ListField(child=serializers.IntegerField())
    virtual_cluster = serializers.CharField()
    guaranteed = serializers.BooleanField()
    gpu_model = serializers.CharField(allow_null=True)
    gpus = serializers.ListField(child=serializers.IntegerField())
    cause = serializers.CharField(allow_blank=True)
    preempted_by = serializers.ListField(child=serializers.IntegerField())
    message = serializers.CharField(allow_blank=True)


class RoundDetail(Round):
    actions = RoundAction(many=True)
    overran = serializers.ListField(
        child=serializers.CharField(), help_text="Views that a cheap policy served: theirs took too long."
    )


class Event(serializers.Serializer):
    """`from` and `to` are states; null ids: the thing has no such."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    subject = serializers.CharField()
    subject_id = serializers.IntegerField()
    to = serializers.CharField(allow_blank=True)
    actor = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    data = serializers.DictField()
    job = serializers.IntegerField(allow_null=True)
    node = serializers.IntegerField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        # A word of Python's, so it can not be declared above.
        return {**super().get_fields(), "from": serializers.CharField(allow_blank=True)}
