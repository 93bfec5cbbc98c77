"""Jobs, their attempts, rounds and events as the API's schema describes them; `represent` makes them."""

from rest_framework import serializers

from scheduler.api.job_spec_schemas import JobSpec
from scheduler.core.failures.site_rules import Severity
from scheduler.core.model.lifecycle import AttemptState, JobState, Outcome
from scheduler.core.model.plan import Tier
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.models.rounds import RoundState

JOB_STATES = [state.value for state in JobState]
ATTEMPT_STATES = [state.value for state in AttemptState]
ROUND_STATES = [state.value for state in RoundState]
PHASES = ["waiting", "held", "planned", "starting", "running", "stopping", "ended"]
GUARANTEES = [GUARANTEED, OPPORTUNISTIC]


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
        help_text="Where those that share its GPUs take turns, frozen otherwise; null: it always runs.",
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
