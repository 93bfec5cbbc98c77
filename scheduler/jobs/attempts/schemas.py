"""Attempts and their progress as the API's schema describes them; `representations` makes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.core.failures.site_rules import Severity
from scheduler.core.failures.taxonomy import Layer
from scheduler.core.model.lifecycle import AttemptState, JobState, Outcome, StopCause
from scheduler.jobs.attempts.services.sensitivity import MARKS
from scheduler.jobspec import ELASTIC_MODES
from scheduler.nodes.schemas import ENFORCEMENTS

ATTEMPT_STATES = [state.value for state in AttemptState]


class PlacedGpu(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    index = serializers.IntegerField()
    part = serializers.FloatField(required=False, help_text="The part of it, below 1; left out: all of it.")


class PlacementPart(serializers.Serializer[Mapping[str, object]]):
    node = serializers.CharField()
    node_id = serializers.IntegerField()
    gpus = PlacedGpu(many=True)
    ranks = serializers.ListField(child=serializers.IntegerField())
    state = serializers.CharField()
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS], help_text="How the node holds these ranks to their parts of GPUs."
    )


class AttemptTurn(serializers.Serializer[Mapping[str, object]]):
    index = serializers.IntegerField(
        help_text="It runs while floor(Unix seconds / seconds) modulo count is this."
    )
    count = serializers.IntegerField()
    seconds = serializers.FloatField()


class ReplicaShare(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField()
    cpus = serializers.FloatField(help_text="That it has now; 0: no limit, or the job states it.")
    memory_bytes = serializers.IntegerField(help_text="Likewise.")
    proportional_cpus = serializers.FloatField(help_text="The part of its node that its GPUs are.")
    proportional_memory_bytes = serializers.IntegerField(help_text="Likewise.")


class AuxiliaryShare(serializers.Serializer[Mapping[str, object]]):
    replicas = ReplicaShare(many=True)
    message = serializers.CharField(
        allow_blank=True, help_text="Why some replica has less than its proportional share and needs it."
    )


class MatchedRule(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    severity = serializers.ChoiceField(choices=[severity.value for severity in Severity])
    advice = serializers.CharField(allow_blank=True, help_text="What the job's owner can do about it.")


class Attempt(serializers.Serializer[Mapping[str, object]]):
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
        help_text="Where those that share its GPUs take turns, frozen otherwise; null: it always runs.",
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS],
        help_text="How it is held to its parts of GPUs, where it is held least; empty: it has none, or its"
        " node has not reported.",
    )
    auxiliary = AuxiliaryShare(
        allow_null=True,
        help_text="CPUs and memory that its job leaves to the platform, as it has them now or had them last;"
        " null: its job states what it needs.",
    )
    exit_code = serializers.IntegerField(allow_null=True)
    signal = serializers.CharField(
        allow_blank=True,
        help_text="Name of the signal that ended the first replica that failed, such as SIGSEGV.",
    )
    category = serializers.CharField(allow_blank=True)
    failure = serializers.CharField(allow_blank=True, help_text="The class of its failure, if it failed.")
    matched_rule = MatchedRule(allow_null=True, help_text="Which of the site's rules its failure matched.")
    message = serializers.CharField(allow_blank=True)
    stop_cause = serializers.ChoiceField(
        choices=[cause.value for cause in StopCause],
        help_text="Why the platform stopped it. After `migrated` and `resized` the job goes on at once, on"
        " other GPUs or on another number of them: `message` says why.",
    )
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


class Failure(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField(help_text="The number of the attempt.")
    job = serializers.IntegerField()
    job_name = serializers.CharField()
    job_state = serializers.ChoiceField(
        choices=[state.value for state in JobState], help_text="Now: it may have been tried again."
    )
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    submitted_by = serializers.CharField()
    attempt = serializers.IntegerField(help_text="Its number.")
    failure = serializers.CharField(help_text="Class of the failure.")
    layer = serializers.ChoiceField(choices=[layer.value for layer in Layer])
    says = serializers.CharField(help_text="What the class means, in a few words.")
    message = serializers.CharField(allow_blank=True, help_text="The line of the output that decided.")
    rank = serializers.IntegerField(allow_null=True, help_text="Whose line that is; null: the job has one.")
    exit_code = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField(allow_blank=True, help_text="Name of the site's rule that it matched.")
    advice = serializers.CharField(allow_blank=True, help_text="What the job's owner can do about it.")
    gpu_model = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    ended_at = serializers.DateTimeField()


class ProgressPoint(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField()
    at = serializers.DateTimeField()
    step = serializers.IntegerField()
    samples = serializers.FloatField(allow_null=True)
    values = serializers.DictField(child=serializers.FloatField())


class Progress(serializers.Serializer[Mapping[str, object]]):
    points = ProgressPoint(many=True)


class ScalingAllocation(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(help_text="Its number.")
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField()
    nodes = serializers.IntegerField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True, help_text="null: it has them still.")
    why = serializers.CharField(allow_blank=True, help_text="Why it was resized to this; empty: it was not.")


class ScalingNow(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(help_text="Its number.")
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    batch_size = serializers.IntegerField(help_text="Samples of a whole iteration.")
    local_batch = serializers.IntegerField(help_text="Samples of one gradient of one replica.")
    accumulation = serializers.IntegerField(help_text="Gradients added up before the one that synchronises.")
    lr_factor = serializers.FloatField(help_text="By how much its learning rate is scaled.")
    overhead = serializers.FloatField(
        allow_null=True, help_text="What part of an iteration measuring and adapting take, as the job says."
    )
    noise_scale = serializers.FloatField(
        allow_null=True, help_text="Gradient noise scale, in samples: far larger batches waste samples."
    )
    efficiency = serializers.FloatField(
        allow_null=True, help_text="What a sample is worth, in samples at the initial batch: at most 1."
    )
    throughput = serializers.FloatField(allow_null=True, help_text="Samples per second.")
    is_measured = serializers.BooleanField(help_text="The throughput was measured so; otherwise predicted.")
    goodput = serializers.FloatField(allow_null=True, help_text="Throughput times efficiency.")
    speedup = serializers.FloatField(
        allow_null=True, help_text="Predicted for these GPUs and the best batch, relative to one replica."
    )


class ScalingPoint(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    goodput = serializers.FloatField()
    speedup = serializers.FloatField(help_text="Goodput relative to one replica.")
    efficiency = serializers.FloatField()
    batch_size = serializers.IntegerField()
    local_batch = serializers.IntegerField()
    accumulation = serializers.IntegerField()


class ScalingOnModel(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField()
    ways = serializers.IntegerField(help_text="Ways of running (nodes, replicas, batch) that were timed.")
    most_replicas = serializers.IntegerField()
    projected_from = serializers.CharField(
        allow_blank=True, help_text="The model from which its synchronisation is estimated; empty: its own."
    )
    error = serializers.FloatField(
        allow_null=True, help_text="The error of the fit: 0.1 is typically a tenth more or less."
    )


class ScalingEvidence(serializers.Serializer[Mapping[str, object]]):
    ways = serializers.IntegerField()
    iterations = serializers.FloatField(help_text="Iterations that were timed.")
    most_replicas = serializers.IntegerField(help_text="It is given at most twice as many, so far.")
    fitted_at = serializers.DateTimeField(allow_null=True)
    gpu_models = ScalingOnModel(many=True)


class JobScaling(serializers.Serializer[Mapping[str, object]]):
    is_elastic = serializers.BooleanField()
    mode = serializers.ChoiceField(choices=ELASTIC_MODES, allow_null=True)
    min_gpus = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Its own number.")
    max_gpus = serializers.IntegerField()
    allocations = ScalingAllocation(many=True, help_text="By attempt, the newest 100, oldest first.")
    has_earlier = serializers.BooleanField(help_text="There were more allocations before these.")
    now = ScalingNow(allow_null=True, help_text="null: the job has told nothing of its batch.")
    gpu_model = serializers.CharField(allow_null=True, help_text="That of the curve.")
    curve = ScalingPoint(many=True, help_text="Predicted, for at most 64 numbers of GPUs.")
    rests_on = ScalingEvidence(allow_null=True)


class SensitivityPoint(serializers.Serializer[Mapping[str, object]]):
    amount = serializers.FloatField(help_text="CPUs, or bytes of memory.")
    speed = serializers.FloatField(help_text="Relative to the others of the task, as its job states them.")
    marks = serializers.ListField(
        child=serializers.ChoiceField(choices=MARKS),
        help_text="now: the slowest replica has so much; proportional: the part of its node that its GPUs"
        " are; best: the least with which it is as fast as it can be.",
    )


class SensitivityShare(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField(help_text="The slowest replica of the task: the gang is as fast as that.")
    cpus = serializers.FloatField(help_text="0: no limit, or the job states it.")
    memory_bytes = serializers.IntegerField(help_text="Likewise.")
    speed = serializers.FloatField(help_text="With both of these: the slower of the two curves decides.")


class SensitivityMeasured(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField(help_text="Where; empty: it has not run.")
    trials = serializers.IntegerField(help_text="Amounts of CPUs that were tried.")
    is_over = serializers.BooleanField(help_text="Whether enough is known, so that nothing is tried.")


class TaskSensitivity(serializers.Serializer[Mapping[str, object]]):
    task = serializers.CharField()
    by_cpus = SensitivityPoint(
        many=True,
        help_text="On the line between two, no faster beyond the last; empty: it does not depend on it.",
    )
    by_memory = SensitivityPoint(many=True, help_text="Likewise.")
    now = SensitivityShare(allow_null=True, help_text="What it has now or had last; null: it has not run.")
    proportional = SensitivityShare(
        allow_null=True, help_text="The part of its node that its GPUs are; null: it has not run."
    )
    measured = SensitivityMeasured(
        allow_null=True, help_text="How the platform found the speeds by CPUs; null: the job states them."
    )


class JobSensitivity(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(
        allow_null=True, help_text="Whose CPUs and memory `now` and `proportional` are."
    )
    tasks = TaskSensitivity(
        many=True, help_text="Those that leave either to the platform and state a curve, or are measured."
    )
