"""Maintenance windows as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.nodes.schemas import WINDOW_STATES


class MaintenanceJob(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()


class MaintenanceWindow(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    reason = serializers.CharField()
    state = serializers.ChoiceField(
        choices=WINDOW_STATES,
        help_text=(
            "`draining`: it has started, and jobs are still leaving. `open`: no job is left on its nodes."
        ),
    )
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    nodes = serializers.ListField(child=serializers.CharField())
    jobs = MaintenanceJob(many=True, help_text="Jobs on its nodes that you may see, the first 100 by id.")
    job_count = serializers.IntegerField(help_text="Number of jobs on its nodes that you may see.")
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
