"""Reservations as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.models.reservations import ReservationState


class Reservation(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField(help_text="Name that jobs give as `reservation` in their specification.")
    state = serializers.ChoiceField(choices=[state.value for state in ReservationState])
    tenant = serializers.CharField()
    user = serializers.CharField(
        allow_null=True, help_text="User whose jobs may use it; null: all users of the tenant."
    )
    virtual_cluster = serializers.CharField(
        allow_null=True,
        help_text="Virtual cluster whose jobs may use it; null: all virtual clusters of the tenant.",
    )
    gpu_model = serializers.CharField()
    gpus = serializers.IntegerField(help_text="Number of GPUs asked for; its nodes may have more.")
    nodes = serializers.ListField(child=serializers.CharField(), help_text="Names of its nodes.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    note = serializers.CharField()
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
