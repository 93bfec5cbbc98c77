"""Events as the API's schema describes them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers


class Event(serializers.Serializer[Mapping[str, object]]):
    """An event. `from` and `to` are states. An id is null if the event does not concern such an object."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    subject = serializers.CharField()
    subject_id = serializers.IntegerField()
    to = serializers.CharField(allow_blank=True)
    actor = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    data = serializers.DictField()  # type: ignore[assignment]  # taken off the class by the framework
    job = serializers.IntegerField(allow_null=True)
    job_name = serializers.CharField(allow_null=True)
    node = serializers.IntegerField(allow_null=True)
    node_name = serializers.CharField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A word of Python's, so it cannot be declared above.
        return {**super().get_fields(), "from": serializers.CharField(allow_blank=True)}
