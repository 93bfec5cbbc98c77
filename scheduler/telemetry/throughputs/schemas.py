"""Throughputs as the API's schema describes them."""

from collections.abc import Mapping

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from scheduler.core.perf.throughput import Source
from scheduler.models.nodes import Gpu
from scheduler.nodes.schemas import ENFORCEMENTS
from scheduler.wiring.schemas import ChosenPlugin

SOURCES = [(source.value, source.value) for source in Source]
LAYOUTS = [("csv", "csv"), ("gavel", "gavel")]


class ThroughputMeasurement(serializers.Serializer[Mapping[str, object]]):
    average = serializers.FloatField()
    deviation = serializers.FloatField()
    samples = serializers.IntegerField(help_text="Number of measured windows of about one minute.")
    updated_at = serializers.DateTimeField()


class ThroughputCorrection(serializers.Serializer[Mapping[str, object]]):
    value = serializers.FloatField()
    reason = serializers.CharField(allow_blank=True)
    by = serializers.CharField()
    at = serializers.DateTimeField()


class ThroughputCell(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField()
    value = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Samples per second of the gang; beside a partner, speed relative to running alone. "
            "0: it does not run there; null: unknown."
        ),
    )
    source = serializers.ChoiceField(choices=SOURCES, allow_null=True)  # type: ignore[assignment]  # taken off the class by the framework
    samples = serializers.IntegerField()
    confidence = serializers.FloatField(help_text="Confidence, 0 to 1.")
    relative = serializers.FloatField(
        allow_null=True, help_text="Value relative to the fastest model of the row."
    )
    measured = ThroughputMeasurement(allow_null=True)
    declared = serializers.FloatField(
        allow_null=True, help_text="Value that the newest unfinished job of the class declares."
    )
    correction = ThroughputCorrection(allow_null=True)


class ThroughputRow(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField()
    application = serializers.CharField(
        help_text="Name of the application; for jobs that state none, `name:` and the job's name."
    )
    gpus = serializers.IntegerField(help_text="Number of GPUs of the gang.")
    spread = serializers.BooleanField(help_text="Whether the gang is on more nodes than needed.")
    partner = serializers.CharField(
        allow_blank=True,
        help_text="The application that shares all its GPUs; several are joined by +; empty: none.",
    )
    gpu_limit = serializers.FloatField(
        help_text="Part of each GPU that it may use, as in a specification; 1: whole GPUs."
    )
    may_correct = serializers.BooleanField()
    throughputs = ThroughputCell(many=True)


class ThroughputChange(serializers.Serializer[Mapping[str, object]]):
    application = serializers.CharField()
    gpu_model = serializers.CharField()
    gpus = serializers.IntegerField()
    spread = serializers.BooleanField()
    partner = serializers.CharField(allow_blank=True)
    before = serializers.FloatField(allow_null=True)
    after = serializers.FloatField()


class ThroughputImport(serializers.Serializer[Mapping[str, object]]):
    dry_run = serializers.BooleanField()
    layout = serializers.ChoiceField(choices=LAYOUTS)
    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    unknown_models = serializers.ListField(
        child=serializers.CharField(), help_text="GPU models in the file that no node ever reported."
    )
    renamed = inline_serializer(
        "ThroughputRename",
        # `from` cannot be the name of an attribute.
        {"from": serializers.CharField(), "to": serializers.CharField()},
        many=True,
        help_text="Application names that were invalid and therefore changed, the first 100.",
    )
    changes = ThroughputChange(many=True, help_text="Added and changed values, the first 200.")


class Interference(serializers.Serializer[Mapping[str, object]]):
    least_pairs = serializers.IntegerField(help_text="Minimum number of measured pairs for a prediction.")
    pairs = serializers.IntegerField(
        help_text="Number of pairs of applications to which the rules were fitted."
    )
    error = serializers.FloatField(
        allow_null=True,
        help_text="Mean absolute difference between predicted and measured speeds of held-out pairs, 0 to 1.",
    )
    error_of_mean = serializers.FloatField(
        allow_null=True,
        help_text="The same difference if the mean measured speed were predicted for all pairs.",
    )
    fitted_at = serializers.DateTimeField(allow_null=True)
    rules = serializers.ListField(
        child=serializers.CharField(), help_text="All rules as text, slowest pairs first."
    )


class JobModelThroughput(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField()
    price_per_hour = serializers.FloatField()
    accepted = serializers.BooleanField()
    throughput = serializers.FloatField(allow_null=True, help_text="Samples per second of the gang.")
    relative = serializers.FloatField(allow_null=True, help_text="Throughput relative to the fastest model.")
    source = serializers.ChoiceField(choices=SOURCES, allow_null=True)  # type: ignore[assignment]  # taken off the class by the framework
    samples = serializers.IntegerField()
    confidence = serializers.FloatField()
    target_share = serializers.FloatField(
        allow_null=True,
        help_text="Fraction of its time that its policy aims at on this model; null: none.",
    )
    received_seconds = serializers.FloatField(allow_null=True, help_text="Seconds received since decided_at.")
    received_share = serializers.FloatField(
        allow_null=True, help_text="Fraction of the time since decided_at that it received."
    )
    attained_gpu_seconds = serializers.FloatField(
        help_text="Total GPU-seconds received, including the running attempt."
    )
    attained_share = serializers.FloatField(allow_null=True)
    runs_now = serializers.BooleanField()


class JobProfile(serializers.Serializer[Mapping[str, object]]):
    """How the job uses GPUs that it has alone; null: unknown."""

    utilisation = serializers.FloatField(
        allow_null=True, help_text="Fraction of time in which the device computes."
    )
    memory_utilisation = serializers.FloatField(
        allow_null=True, help_text="Fraction of time in which the device's memory is read or written."
    )
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Maximum memory that it used on one device, in bytes."
    )
    amp = serializers.BooleanField(
        allow_null=True, help_text="Whether it trains with automatic mixed precision."
    )
    stages = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Seconds of one iteration in three stages: storage and CPUs, GPU, network.",
    )
    is_own = serializers.BooleanField(
        help_text="Whether part of it was measured on this job, not only on jobs like it."
    )


class JobThroughputs(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField()
    tenant = serializers.CharField()
    application = serializers.CharField()
    gpus = serializers.IntegerField()
    view = serializers.CharField(help_text='The virtual cluster whose policy considers the job, or "spare".')
    policy_plugin = ChosenPlugin()
    objective = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True, help_text="When targets were last computed.")
    models = JobModelThroughput(many=True)
    profile = JobProfile(
        allow_null=True,
        help_text=(
            "Profile by which policies choose the jobs that share GPUs with it. null: neither it "
            "nor a similar job was measured alone, so such policies do not let it share."
        ),
    )


class GpuSharer(serializers.Serializer[Mapping[str, object]]):
    """A job on a shared GPU. Fields that identify it are null for viewers who may not see it."""

    id = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)
    virtual_cluster = serializers.CharField(allow_null=True)
    request = serializers.FloatField(help_text="Fraction of the GPU that it can always use, 0 to 1.")
    limit = serializers.FloatField(help_text="Fraction of the GPU that it never exceeds, 0 to 1.")
    memory_bytes = serializers.IntegerField(
        help_text="Device memory that it holds, used or not, in bytes; 0: unknown."
    )
    memory_used_bytes = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "Device memory that its processes used at the latest reading, in bytes; null: not measured."
        ),
    )
    way = serializers.ChoiceField(
        choices=["part", "together", "turns"],
        help_text=(
            "How it shares. `part`: it has a part of its own. `together`: it and others use the "
            "whole GPU at the same time. `turns`: they use it one after the other and are frozen "
            "in between."
        ),
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS], help_text="How the node enforces its part; empty: not reported yet."
    )
    slowdown = serializers.FloatField(
        allow_null=True,
        help_text="Run time relative to running alone on whole GPUs, such as 1.2; null: not measured.",
    )


class SharedGpu(serializers.Serializer[Gpu]):
    id = serializers.IntegerField()
    node = serializers.CharField()
    index = serializers.IntegerField()
    gpu_model = serializers.CharField(allow_null=True)
    memory_bytes = serializers.IntegerField()
    in_use = serializers.FloatField(help_text="Sum of its jobs' requests, 0 to 1.")
    jobs = GpuSharer(many=True)
