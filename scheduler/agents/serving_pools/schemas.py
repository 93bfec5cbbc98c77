"""Serving pools as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers


class ServingPool(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    return_seconds = serializers.FloatField(help_text="Maximum time for a return, in seconds.")
    nodes_needed = serializers.DictField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Number of nodes that the pool keeps, by time of day in UTC; null: nodes are lent by name.",
    )
    needed_now = serializers.IntegerField(allow_null=True)
    serving = serializers.IntegerField(help_text="Number of nodes that it uses itself.")
    lent = serializers.IntegerField(help_text="Number of nodes lent to jobs.")
    returning = serializers.IntegerField(help_text="Number of nodes asked back that jobs still use.")


class NodeAskedBack(serializers.Serializer[Mapping[str, object]]):
    node = serializers.CharField()
    stops = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Numbers of the jobs that are stopped and go on elsewhere.",
    )
    shrinks = serializers.ListField(
        child=serializers.IntegerField(), help_text="Numbers of the jobs that go on with fewer replicas."
    )


class NodesAskedBack(serializers.Serializer[Mapping[str, object]]):
    results = NodeAskedBack(many=True)
