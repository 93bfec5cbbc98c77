"""What the API says of virtual clusters and of the policies they can use, for its schema."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from scheduler.models.virtual_clusters import OVERCOMMIT
from scheduler.wiring.schemas import ChosenPlugin
from tenants.models import SHARING

LONGEST_WAIT_HELP = (
    "Once a job has waited for longer, GPUs are reserved for it whatever the policy prefers; 0: never."
)
SHARING_HELP = (
    "Whether policies may let its jobs share GPUs: `never`; `measured`: those that were measured to get"
    " along; `free`: also those that were not measured."
)


OVERCOMMIT_HELP = (
    "Whether opportunistic jobs may have the CPUs and the memory that its guaranteed jobs asked for and are"
    " not expected to use: `never`; `predicted`: by the predicted peak of each node."
)
MARGIN_HELP = "The part of each node's CPUs and memory that is kept free all the same, 0 to 0.9."


class GpuModelUsage(serializers.Serializer[Mapping[str, object]]):
    guaranteed_in_use = serializers.IntegerField()
    opportunistic_in_use = serializers.IntegerField()


class VirtualClusterMember(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField()
    weight = serializers.FloatField()


class Lot(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.DictField(child=serializers.IntegerField())
    cells = serializers.DictField(child=serializers.IntegerField())


class OutgoingLoan(serializers.Serializer[Mapping[str, object]]):
    loan = serializers.IntegerField()
    to = serializers.CharField()
    lot = Lot()
    ends_at = serializers.DateTimeField()


class IncomingLoan(serializers.Serializer[Mapping[str, object]]):
    loan = serializers.IntegerField()
    lot = Lot()
    ends_at = serializers.DateTimeField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A word of the language, so it can not be written as the others are.
        return {**super().get_fields(), "from": serializers.CharField()}


class Overrun(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField()
    message = serializers.CharField()


class OvercommitViolations(serializers.Serializer[Mapping[str, object]]):
    samples = serializers.IntegerField(
        help_text="How often its guaranteed jobs were measured on a node that lends what they do not use."
    )
    exceeded = serializers.IntegerField(
        help_text="How often those of the node used more than was kept for them: their peak and the margin."
    )
    rate = serializers.FloatField(help_text="The second as a part of the first.")


class VirtualCluster(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    policy_plugin = ChosenPlugin()
    placer_plugin = ChosenPlugin()
    default_time_limit_seconds = serializers.FloatField()
    sharing = serializers.ChoiceField(choices=SHARING, help_text=SHARING_HELP)
    min_run_seconds = serializers.FloatField(
        help_text="An attempt that has run for less is not stopped, moved or resized by a policy."
    )
    reclaim_min_run_seconds = serializers.FloatField(
        help_text="Nor is an opportunistic one for GPUs that others are guaranteed."
    )
    longest_wait_seconds = serializers.FloatField(help_text=LONGEST_WAIT_HELP)
    overcommit = serializers.ChoiceField(choices=OVERCOMMIT, help_text=OVERCOMMIT_HELP)
    overcommit_margin = serializers.FloatField(help_text=MARGIN_HELP)
    overcommit_violations = OvercommitViolations(
        allow_null=True, help_text="In the last seven days; null: nothing was predicted in them."
    )
    guaranteed = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="GPUs by model that it may rely on now: its own, less what is lent, and what is borrowed.",
    )
    own_guaranteed = serializers.DictField(
        child=serializers.IntegerField(), help_text="GPUs by model that it owns."
    )
    lent = OutgoingLoan(many=True)
    borrowed = IncomingLoan(many=True)
    cells = serializers.DictField(
        child=serializers.IntegerField(), help_text="Owned cells by type; empty when GPUs are only counted."
    )
    pinned = serializers.DictField(child=serializers.CharField(), help_text="Addresses of cells by name.")
    members = VirtualClusterMember(many=True, help_text="The caller's own tenants'; all for operators.")
    other_members = serializers.IntegerField(help_text="How many more tenants are members.")
    usage = serializers.DictField(child=GpuModelUsage())
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    has_targets = serializers.BooleanField(
        help_text="Whether its policy means each job to have a share of each GPU model."
    )
    overrun = Overrun(
        allow_null=True, help_text="While a cheap policy decides, since its own takes too long."
    )
    version = serializers.IntegerField()


class PluginParameter(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    type = serializers.CharField()
    default = serializers.JSONField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField())


class Plugin(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    summary = serializers.CharField()
    parameters = PluginParameter(many=True)


class Plugins(serializers.Serializer[Mapping[str, object]]):
    policies = Plugin(many=True)
    placers = Plugin(many=True)
