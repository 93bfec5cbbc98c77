"""Serving pools as the API's schema describes them."""

from collections.abc import Mapping

from rest_framework import serializers


class ServingPool(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    return_seconds = serializers.FloatField(help_text="How long a return takes at most.")
    nodes_needed = serializers.DictField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Nodes that it needs itself by time of day in UTC; null: nodes are lent by name.",
    )
    needed_now = serializers.IntegerField(allow_null=True)
    serving = serializers.IntegerField(help_text="Nodes that it has.")
    lent = serializers.IntegerField(help_text="Nodes that jobs may use.")
    returning = serializers.IntegerField(help_text="Nodes that were asked back and that jobs still use.")


class NodeAskedBack(serializers.Serializer[Mapping[str, object]]):
    node = serializers.CharField()
    stops = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of the jobs that are stopped, and go on elsewhere."
    )
    shrinks = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of the jobs that go on with fewer workers."
    )


class NodesAskedBack(serializers.Serializer[Mapping[str, object]]):
    results = NodeAskedBack(many=True)
