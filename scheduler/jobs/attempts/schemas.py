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
    part = serializers.FloatField(
        required=False, help_text="Part of the GPU, below 1. Default: the whole GPU."
    )


class PlacementPart(serializers.Serializer[Mapping[str, object]]):
    node = serializers.CharField()
    node_id = serializers.IntegerField()
    gpus = PlacedGpu(many=True)
    ranks = serializers.ListField(child=serializers.IntegerField())
    state = serializers.CharField()
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS], help_text="How the node enforces these ranks' parts of GPUs."
    )


class AttemptTurn(serializers.Serializer[Mapping[str, object]]):
    index = serializers.IntegerField(
        help_text=(
            "Position of its turn: it runs while floor(Unix seconds / seconds) modulo count equals this."
        )
    )
    count = serializers.IntegerField()
    seconds = serializers.FloatField()


class ReplicaShare(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField()
    cpus = serializers.FloatField(help_text="CPUs that it has now; 0: no limit, or the job states them.")
    memory_bytes = serializers.IntegerField(help_text="Likewise.")
    proportional_cpus = serializers.FloatField(
        help_text=(
            "Its proportional share: the same fraction of the node's CPUs as its GPUs are of the node's GPUs."
        )
    )
    proportional_memory_bytes = serializers.IntegerField(help_text="Likewise.")


class AuxiliaryShare(serializers.Serializer[Mapping[str, object]]):
    replicas = ReplicaShare(many=True)
    message = serializers.CharField(
        allow_blank=True, help_text="Why a replica has less than the proportional share that it needs."
    )


class MatchedRule(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    severity = serializers.ChoiceField(choices=[severity.value for severity in Severity])
    advice = serializers.CharField(allow_blank=True, help_text="What the job's owner can do about it.")


class Attempt(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    number = serializers.IntegerField()
    is_trial = serializers.BooleanField(
        help_text="Whether it is a trial: a short run on a few GPUs before the whole gang starts."
    )
    state = serializers.ChoiceField(choices=ATTEMPT_STATES)
    outcome = serializers.ChoiceField(choices=["", *(outcome.value for outcome in Outcome)])
    gpu_model = serializers.CharField()
    placement = PlacementPart(many=True)
    turn = AttemptTurn(
        allow_null=True,
        help_text=(
            "Its turn, if the jobs that share its GPUs run one after the other and are frozen in "
            "between. null: it always runs."
        ),
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS],
        help_text=(
            "How its parts of GPUs are enforced, at the node with the weakest enforcement. "
            "Empty: it has no parts, or its node has not reported."
        ),
    )
    auxiliary = AuxiliaryShare(
        allow_null=True,
        help_text=(
            "The CPUs and memory that the platform chose for it, now or last. null: the job "
            "states what it needs."
        ),
    )
    exit_code = serializers.IntegerField(allow_null=True)
    signal = serializers.CharField(
        allow_blank=True,
        help_text="Name of the signal that ended the first replica that failed, such as SIGSEGV.",
    )
    category = serializers.CharField(allow_blank=True)
    failure = serializers.CharField(allow_blank=True, help_text="Failure class, if it failed.")
    matched_rule = MatchedRule(allow_null=True, help_text="Name of the site's rule that its failure matched.")
    message = serializers.CharField(allow_blank=True)
    stop_cause = serializers.ChoiceField(
        choices=[cause.value for cause in StopCause],
        help_text=(
            "Why the platform stopped it. After `migrated` and `resized` the job goes on at "
            "once, on other GPUs or on another number of GPUs; `message` states why."
        ),
    )
    preempted_by = serializers.ListField(child=serializers.IntegerField())
    lost_seconds = serializers.FloatField(
        allow_null=True, help_text="Work lost at its end, in seconds; null: none, or unknown."
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
    id = serializers.IntegerField(help_text="Id of the attempt.")
    job = serializers.IntegerField()
    job_name = serializers.CharField()
    job_state = serializers.ChoiceField(
        choices=[state.value for state in JobState],
        help_text="State of the job now; it may have been retried since.",
    )
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    submitted_by = serializers.CharField()
    attempt = serializers.IntegerField(help_text="Number of the attempt.")
    failure = serializers.CharField(help_text="Failure class.")
    layer = serializers.ChoiceField(choices=[layer.value for layer in Layer])
    says = serializers.CharField(help_text="Meaning of the class, in a few words.")
    message = serializers.CharField(allow_blank=True, help_text="Line of the output that decided the class.")
    rank = serializers.IntegerField(
        allow_null=True, help_text="Rank that wrote this line; null if the job has only one."
    )
    exit_code = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField(allow_blank=True, help_text="Name of the site's rule that matched.")
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
    attempt = serializers.IntegerField(help_text="Number of the attempt.")
    gpus = serializers.FloatField(help_text="Number of its GPUs; a part of a GPU counts as a part.")
    gpu_model = serializers.CharField()
    nodes = serializers.IntegerField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(
        allow_null=True, help_text="End of the allocation; null: it still has it."
    )
    why = serializers.CharField(
        allow_blank=True, help_text="Why it was resized to this; empty if it was not resized."
    )


class ScalingNow(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(help_text="Number of the attempt.")
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    batch_size = serializers.IntegerField(help_text="Samples in one iteration of all replicas.")
    local_batch = serializers.IntegerField(help_text="Samples in one gradient of one replica.")
    accumulation = serializers.IntegerField(
        help_text="Number of gradients accumulated before the one that synchronises."
    )
    lr_factor = serializers.FloatField(help_text="Factor by which its learning rate is scaled.")
    overhead = serializers.FloatField(
        allow_null=True,
        help_text="Fraction of an iteration spent on measuring and adapting, as the job reports.",
    )
    noise_scale = serializers.FloatField(
        allow_null=True, help_text="Gradient noise scale, in samples; much larger batches waste samples."
    )
    efficiency = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Statistical efficiency: the worth of a sample relative to one at the initial batch "
            "size, at most 1."
        ),
    )
    throughput = serializers.FloatField(allow_null=True, help_text="Samples per second.")
    is_measured = serializers.BooleanField(
        help_text="Whether the throughput was measured; otherwise it is predicted."
    )
    goodput = serializers.FloatField(allow_null=True, help_text="Throughput times efficiency.")
    speedup = serializers.FloatField(
        allow_null=True,
        help_text="Predicted speedup on these GPUs with the best batch size, relative to one replica.",
    )


class ScalingPoint(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    goodput = serializers.FloatField()
    speedup = serializers.FloatField(help_text="Predicted goodput relative to one replica.")
    efficiency = serializers.FloatField()
    batch_size = serializers.IntegerField()
    local_batch = serializers.IntegerField()
    accumulation = serializers.IntegerField()


class ScalingOnModel(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField()
    ways = serializers.IntegerField(help_text="Number of timed configurations (nodes, replicas, batch size).")
    most_replicas = serializers.IntegerField()
    projected_from = serializers.CharField(
        allow_blank=True,
        help_text="GPU model from which its synchronisation time is estimated; empty: this model.",
    )
    error = serializers.FloatField(
        allow_null=True,
        help_text="Error of the fit; 0.1 means that predictions are typically off by a tenth.",
    )


class ScalingEvidence(serializers.Serializer[Mapping[str, object]]):
    ways = serializers.IntegerField()
    iterations = serializers.FloatField(help_text="Number of timed iterations.")
    most_replicas = serializers.IntegerField(
        help_text="Largest number of replicas it ran with; so far it gets at most twice as many."
    )
    fitted_at = serializers.DateTimeField(allow_null=True)
    gpu_models = ScalingOnModel(many=True)


class JobScaling(serializers.Serializer[Mapping[str, object]]):
    is_elastic = serializers.BooleanField()
    mode = serializers.ChoiceField(choices=ELASTIC_MODES, allow_null=True)
    min_gpus = serializers.IntegerField()
    gpus = serializers.FloatField(
        help_text="Number of GPUs that its specification states; a part of a GPU counts as a part."
    )
    max_gpus = serializers.IntegerField()
    allocations = ScalingAllocation(
        many=True, help_text="Its allocations by attempt: the newest 100, oldest first."
    )
    has_earlier = serializers.BooleanField(help_text="Whether there were more allocations before these.")
    now = ScalingNow(
        allow_null=True,
        help_text="Its batch size and efficiency now; null: the job has not reported its batch size.",
    )
    gpu_model = serializers.CharField(allow_null=True, help_text="GPU model of the curve.")
    curve = ScalingPoint(many=True, help_text="Predicted speedup, for at most 64 numbers of GPUs.")
    rests_on = ScalingEvidence(allow_null=True)


class SensitivityPoint(serializers.Serializer[Mapping[str, object]]):
    amount = serializers.FloatField(help_text="Number of CPUs, or bytes of memory.")
    speed = serializers.FloatField(
        help_text="Speed relative to the other points of the task, as its job states it."
    )
    marks = serializers.ListField(
        child=serializers.ChoiceField(choices=MARKS),
        help_text=(
            "now: what the slowest replica has. proportional: the same fraction as its GPUs are "
            "of the node's GPUs. best: the smallest amount at full speed."
        ),
    )


class SensitivityShare(serializers.Serializer[Mapping[str, object]]):
    rank = serializers.IntegerField(
        help_text="Rank of the task's slowest replica, which determines the speed of the gang."
    )
    cpus = serializers.FloatField(help_text="CPUs; 0: no limit, or the job states them.")
    memory_bytes = serializers.IntegerField(help_text="Likewise.")
    speed = serializers.FloatField(
        help_text="Relative speed with these CPUs and memory; the slower of the two curves decides."
    )


class SensitivityMeasured(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField(help_text="GPU model on which it was measured; empty: it has not run.")
    trials = serializers.IntegerField(help_text="Numbers of CPUs that were tried.")
    is_over = serializers.BooleanField(help_text="Whether the measurement is complete.")


class TaskSensitivity(serializers.Serializer[Mapping[str, object]]):
    task = serializers.CharField()
    by_cpus = SensitivityPoint(
        many=True,
        help_text=(
            "Points of the curve: linear between two, constant beyond the last. Empty: the speed "
            "does not depend on it."
        ),
    )
    by_memory = SensitivityPoint(many=True, help_text="Likewise.")
    now = SensitivityShare(allow_null=True, help_text="Its share now, or last; null: it has not run.")
    proportional = SensitivityShare(
        allow_null=True,
        help_text=(
            "Its proportional share: the same fraction of the node as its GPUs are of the node's "
            "GPUs; null: it has not run."
        ),
    )
    measured = SensitivityMeasured(
        allow_null=True,
        help_text="How the platform measured the speeds by CPUs; null: the job states them.",
    )


class JobSensitivity(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(
        allow_null=True, help_text="Attempt that `now` and `proportional` refer to."
    )
    tasks = TaskSensitivity(
        many=True,
        help_text="Tasks that leave CPUs or memory to the platform, and that state a curve or are measured.",
    )
