"""The cluster as a whole, as the API's schema describes it."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.core.building_blocks.auxiliary_division import DIVISIONS
from scheduler.jobspec import WATCHED_THEN
from scheduler.virtual_clusters.schemas import Overrun
from scheduler.wiring.schemas import ChosenPlugin


class ClusterSettings(serializers.Serializer[Mapping[str, object]]):
    spare_policy_plugin = ChosenPlugin()
    spare_placer_plugin = ChosenPlugin()
    auxiliary = serializers.ChoiceField(
        choices=list(DIVISIONS),
        help_text="How a node's CPUs and memory are divided among jobs that leave them to the platform.",
    )
    currency = serializers.CharField(
        allow_blank=True,
        help_text="Currency of prices and costs as an ISO 4217 code; empty: cost units without a currency.",
    )
    preemptions_per_round = serializers.IntegerField(
        allow_null=True,
        help_text="Maximum number of jobs that policies preempt in one scheduling round; null: unlimited.",
    )
    backoff_seconds = serializers.FloatField(
        help_text="Seconds for which a job gets no spare GPUs after an early preemption; doubles each time."
    )
    most_backoff_seconds = serializers.FloatField(help_text="Maximum of this back-off, in seconds.")
    idle_gpus_seconds = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Seconds of idle GPUs after which a job counts as stuck, unless its specification "
            "states otherwise; null: never."
        ),
    )
    idle_gpus_below_percent = serializers.FloatField(
        help_text="A GPU counts as idle below this utilisation, in percent."
    )
    idle_gpus_then = serializers.ChoiceField(choices=WATCHED_THEN, help_text="What happens to the job then.")
    overrun = Overrun(
        allow_null=True,
        help_text="Set while a cheap fallback policy decides because the chosen policy takes too long.",
    )


class GpuCounts(serializers.Serializer[Mapping[str, object]]):
    total = serializers.IntegerField()
    healthy = serializers.IntegerField()
    held = serializers.IntegerField()
    planned = serializers.IntegerField()
    free = serializers.IntegerField()


class UnfinishedCounts(serializers.Serializer[Mapping[str, object]]):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()


class NodeCounts(serializers.Serializer[Mapping[str, object]]):
    ready = serializers.IntegerField()
    lost = serializers.IntegerField()
    cordoned = serializers.IntegerField()


class NewestRound(serializers.Serializer[Mapping[str, object]]):
    number = serializers.IntegerField()
    at = serializers.DateTimeField()


class Cluster(serializers.Serializer[Mapping[str, object]]):
    gpus = GpuCounts()
    by_model = serializers.DictField(child=GpuCounts())
    jobs = UnfinishedCounts()
    nodes = NodeCounts()
    round = NewestRound(allow_null=True)


class UsagePoint(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField()
    total = serializers.IntegerField()
    held = serializers.IntegerField()
    by_tenant = serializers.DictField(child=serializers.IntegerField())


class Usage(serializers.Serializer[Mapping[str, object]]):
    points = UsagePoint(many=True)


class FragmentationPoint(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField()
    idle = serializers.FloatField(help_text="Number of GPUs that are free and accept jobs.")
    fragmented = serializers.FloatField(
        help_text="Number of these GPUs that a task of the usual workload cannot use, on average."
    )


class FragmentedKind(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.FloatField(help_text="GPUs of a replica on one node; below 1: a part of one GPU.")
    cpus = serializers.FloatField()
    gpu_models = serializers.ListField(
        child=serializers.CharField(), help_text="Accepted GPU models; empty: any."
    )
    frequency = serializers.FloatField(help_text="Its fraction of all replicas, 0 to 1.")
    usable = serializers.FloatField(help_text="Number of idle GPUs that such a replica can use.")


class FragmentedNode(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    idle = serializers.FloatField()
    fragmented = serializers.FloatField()


class FragmentationNow(FragmentationPoint):
    causes = serializers.DictField(
        child=serializers.FloatField(),
        help_text=(
            "Fragmented GPUs by what is missing for replicas: gpus, cpus, gpus_and_cpus, model, "
            "no_gpu (the replica needs no GPU), no_gpu_no_cpus."
        ),
    )
    kinds = FragmentedKind(many=True)
    nodes = FragmentedNode(many=True)


class Fragmentation(serializers.Serializer[Mapping[str, object]]):
    points = FragmentationPoint(many=True)
    newest = FragmentationNow(allow_null=True)
