"""Rows of the dashboard's map as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.jobs.attempts.schemas import ATTEMPT_STATES
from scheduler.jobs.schemas import GUARANTEES, JOB_STATES
from scheduler.nodes.schemas import GPU_STATES, LOAN_STATES, NODE_STATES, WINDOW_STATES


class MapGpu(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    index = serializers.IntegerField()
    healthy = serializers.BooleanField()
    problem = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=GPU_STATES)
    in_use = serializers.FloatField(help_text="Fraction of the GPU that jobs hold, 0 to 1.")


class MapLoan(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(choices=LOAN_STATES)


class MapMaintenance(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(choices=WINDOW_STATES)


class MapNode(serializers.Serializer[Mapping[str, object]]):
    """What the map shows of a node. Each field is that of the whole node."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    rack = serializers.CharField()
    gpu_model = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=NODE_STATES)
    cordoned = serializers.BooleanField()
    draining = serializers.BooleanField()
    drained = serializers.BooleanField()
    drain_deadline = serializers.DateTimeField(allow_null=True)
    loan = MapLoan(allow_null=True)
    maintenance = MapMaintenance(allow_null=True)
    gpus = MapGpu(many=True)
    version = serializers.IntegerField()


class MapPlacedGpu(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    part = serializers.FloatField(
        required=False, help_text="Part of the GPU, below 1. Default: the whole GPU."
    )


class MapPart(serializers.Serializer[Mapping[str, object]]):
    state = serializers.CharField()
    gpus = MapPlacedGpu(many=True)


class MapAttempt(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(choices=ATTEMPT_STATES)
    running_at = serializers.DateTimeField(allow_null=True)
    placement = MapPart(many=True)


class MapJob(serializers.Serializer[Mapping[str, object]]):
    """What the map and the tiles show of a job. Each field is that of the whole job."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=JOB_STATES)
    guarantee = serializers.ChoiceField(choices=GUARANTEES)
    gpus = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    attempt = MapAttempt(allow_null=True, help_text="Its attempt that has not ended; null: none.")
    position = serializers.IntegerField(allow_null=True)
    held = serializers.BooleanField()
    version = serializers.IntegerField()
