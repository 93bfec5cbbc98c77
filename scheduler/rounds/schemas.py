"""Rounds as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.models.rounds import RoundState

ROUND_STATES = [state.value for state in RoundState]


class RoundTimings(serializers.Serializer[Mapping[str, object]]):
    snapshot = serializers.FloatField()
    decide = serializers.FloatField()
    apply = serializers.FloatField()


class DroppedAction(serializers.Serializer[Mapping[str, object]]):
    kind = serializers.CharField()
    jobs = serializers.ListField(child=serializers.IntegerField())
    why = serializers.CharField()
    position = serializers.IntegerField(
        required=False, help_text="For actions of the market: position in the round's list."
    )


class Round(serializers.Serializer[Mapping[str, object]]):
    number = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    state = serializers.ChoiceField(choices=ROUND_STATES)
    degraded = serializers.DictField(child=serializers.CharField())
    timings_ms = RoundTimings()
    started = serializers.IntegerField()
    kept = serializers.IntegerField()
    stopped = serializers.IntegerField()
    moved = serializers.IntegerField(help_text="Number of stopped jobs that go on elsewhere (migrations).")
    dropped = DroppedAction(many=True)
    waiting = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)


class RoundAction(serializers.Serializer[Mapping[str, object]]):
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
        child=serializers.CharField(),
        help_text="Views for which a cheap fallback policy decided because their own took too long.",
    )
