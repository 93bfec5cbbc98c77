"""Attempts and their progress as the API's schema describes them; `representations` makes them."""

from rest_framework import serializers

from scheduler.core.failures.site_rules import Severity
from scheduler.core.model.lifecycle import AttemptState, Outcome

ATTEMPT_STATES = [state.value for state in AttemptState]


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


class ProgressPoint(serializers.Serializer):
    attempt = serializers.IntegerField()
    at = serializers.DateTimeField()
    step = serializers.IntegerField()
    samples = serializers.FloatField(allow_null=True)
    values = serializers.DictField(child=serializers.FloatField())


class Progress(serializers.Serializer):
    points = ProgressPoint(many=True)
