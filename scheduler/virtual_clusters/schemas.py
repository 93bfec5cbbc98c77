"""Virtual clusters and the policies that they can use, as the API's schema describes them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from scheduler.models.virtual_clusters import OVERCOMMIT
from scheduler.wiring.schemas import ChosenPlugin
from tenants.models import SHARING

LONGEST_WAIT_HELP = (
    "Seconds of waiting after which GPUs are reserved for a job whatever the policy prefers; 0: never."
)
SHARING_HELP = (
    "Whether policies may let its jobs share GPUs. `never`: no; `measured`: only jobs "
    "whose sharing was measured and works well; `free`: also jobs that were not measured "
    "together."
)


OVERCOMMIT_HELP = (
    "Whether opportunistic jobs get CPUs and memory that its guaranteed jobs asked for "
    "and are not expected to use. `never`: no; `predicted`: by the predicted peak of "
    "each node."
)
MARGIN_HELP = "Fraction of each node's CPUs and memory that is kept free even so, 0 to 0.9."


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
        # A word of the language, so it cannot be written as the others are.
        return {**super().get_fields(), "from": serializers.CharField()}


class Overrun(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField()
    message = serializers.CharField()


class OvercommitViolations(serializers.Serializer[Mapping[str, object]]):
    samples = serializers.IntegerField(
        help_text=(
            "Number of times that its guaranteed jobs were measured on a node that lends what "
            "they do not use."
        )
    )
    exceeded = serializers.IntegerField(
        help_text=(
            "Number of these times that they used more than was reserved for them: their "
            "predicted peak and the margin."
        )
    )
    rate = serializers.FloatField(help_text="`exceeded` divided by `samples`.")


class VirtualCluster(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    policy_plugin = ChosenPlugin()
    placer_plugin = ChosenPlugin()
    default_time_limit_seconds = serializers.FloatField()
    sharing = serializers.ChoiceField(choices=SHARING, help_text=SHARING_HELP)
    min_run_seconds = serializers.FloatField(
        help_text="Minimum run time in seconds before a policy may stop, move or resize an attempt."
    )
    reclaim_min_run_seconds = serializers.FloatField(
        help_text=(
            "Minimum run time in seconds before a guarantee may reclaim the GPUs of an opportunistic attempt."
        )
    )
    longest_wait_seconds = serializers.FloatField(help_text=LONGEST_WAIT_HELP)
    overcommit = serializers.ChoiceField(choices=OVERCOMMIT, help_text=OVERCOMMIT_HELP)
    overcommit_margin = serializers.FloatField(help_text=MARGIN_HELP)
    overcommit_violations = OvercommitViolations(
        allow_null=True,
        help_text="Mispredictions in the last seven days; null: no prediction was made in them.",
    )
    guaranteed = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Guaranteed GPUs by model now: its own, minus those lent, plus those borrowed.",
    )
    own_guaranteed = serializers.DictField(
        child=serializers.IntegerField(), help_text="GPUs that it owns, by model."
    )
    lent = OutgoingLoan(many=True)
    borrowed = IncomingLoan(many=True)
    cells = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Number of owned cells by type; empty if its GPUs are divided by counts.",
    )
    pinned = serializers.DictField(
        child=serializers.CharField(), help_text="Addresses of pinned cells by name."
    )
    members = VirtualClusterMember(
        many=True, help_text="Members that are the caller's tenants; operators see all."
    )
    other_members = serializers.IntegerField(help_text="Number of further tenants that are members.")
    usage = serializers.DictField(child=GpuModelUsage())
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    has_targets = serializers.BooleanField(
        help_text="Whether its policy sets a target share of each GPU model for each job."
    )
    overrun = Overrun(
        allow_null=True,
        help_text="Set while a cheap fallback policy decides because its own policy takes too long.",
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
