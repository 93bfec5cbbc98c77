"""What the API says of throughputs, for its schema."""

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
    samples = serializers.IntegerField(help_text="Windows of about a minute.")
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
        help_text="Samples a second of the gang, relative to being alone beside a partner; 0: it does not run"
        " there; null: unknown.",
    )
    source = serializers.ChoiceField(choices=SOURCES, allow_null=True)  # type: ignore[assignment]  # taken off the class by the framework
    samples = serializers.IntegerField()
    confidence = serializers.FloatField(help_text="0 to 1.")
    relative = serializers.FloatField(allow_null=True, help_text="To the fastest of the row.")
    measured = ThroughputMeasurement(allow_null=True)
    declared = serializers.FloatField(allow_null=True, help_text="By the newest unfinished job of the class.")
    correction = ThroughputCorrection(allow_null=True)


class ThroughputRow(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField()
    application = serializers.CharField(help_text="For jobs that state none: `name:` and the job's name.")
    gpus = serializers.IntegerField(help_text="Size of the gang.")
    spread = serializers.BooleanField(help_text="On more nodes than needed.")
    partner = serializers.CharField(
        allow_blank=True,
        help_text="The application that shares all its GPUs; several have a plus between them; empty: none.",
    )
    gpu_limit = serializers.FloatField(
        help_text="What it may use of each GPU, as in a specification; 1: all. Below, it has parts of GPUs."
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
        child=serializers.CharField(), help_text="Models of the file that no node ever reported."
    )
    renamed = inline_serializer(
        "ThroughputRename",
        # `from` can not be the name of an attribute.
        {"from": serializers.CharField(), "to": serializers.CharField()},
        many=True,
        help_text="Names that no application can have; the first 100.",
    )
    changes = ThroughputChange(many=True, help_text="Added and changed; the first 200.")


class Interference(serializers.Serializer[Mapping[str, object]]):
    least_pairs = serializers.IntegerField(help_text="With fewer measured pairs nothing is predicted.")
    pairs = serializers.IntegerField(help_text="Pairs of applications that the rules were fitted on.")
    error = serializers.FloatField(
        allow_null=True,
        help_text="Mean difference between predicted and measured speeds of held-out pairs; 0 to 1.",
    )
    error_of_mean = serializers.FloatField(
        allow_null=True, help_text="The same if the mean of the measured speeds were predicted for all."
    )
    fitted_at = serializers.DateTimeField(allow_null=True)
    rules = serializers.ListField(
        child=serializers.CharField(), help_text="All of them, in words; the slowest pairs first."
    )


class JobModelThroughput(serializers.Serializer[Mapping[str, object]]):
    gpu_model = serializers.CharField()
    price_per_hour = serializers.FloatField()
    accepted = serializers.BooleanField()
    throughput = serializers.FloatField(allow_null=True, help_text="Samples a second of the gang.")
    relative = serializers.FloatField(allow_null=True, help_text="To the fastest model.")
    source = serializers.ChoiceField(choices=SOURCES, allow_null=True)  # type: ignore[assignment]  # taken off the class by the framework
    samples = serializers.IntegerField()
    confidence = serializers.FloatField()
    target_share = serializers.FloatField(
        allow_null=True,
        help_text="The part of its time that its policy aims at; null: none.",
    )
    received_seconds = serializers.FloatField(allow_null=True, help_text="Since decided_at.")
    received_share = serializers.FloatField(
        allow_null=True, help_text="The part of the time since decided_at."
    )
    attained_gpu_seconds = serializers.FloatField(help_text="In all, what runs now included.")
    attained_share = serializers.FloatField(allow_null=True)
    runs_now = serializers.BooleanField()


class JobProfile(serializers.Serializer[Mapping[str, object]]):
    """What the job makes of GPUs that it has alone; null: of that nothing is known."""

    utilisation = serializers.FloatField(
        allow_null=True, help_text="Part of the time in which the device computes."
    )
    memory_utilisation = serializers.FloatField(
        allow_null=True, help_text="Part of the time in which the device's memory is read or written."
    )
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="The most that it had of one device.")
    amp = serializers.BooleanField(allow_null=True, help_text="It trains with automatic mixed precision.")
    stages = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Seconds of one iteration on storage and CPUs, on the GPU, and on the network.",
    )
    is_own = serializers.BooleanField(help_text="Something of it is the job's own, and not of jobs like it.")


class JobThroughputs(serializers.Serializer[Mapping[str, object]]):
    job = serializers.IntegerField()
    tenant = serializers.CharField()
    application = serializers.CharField()
    gpus = serializers.IntegerField()
    view = serializers.CharField(help_text="Whose policy considers the job.")
    policy_plugin = ChosenPlugin()
    objective = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True, help_text="When targets were decided last.")
    models = JobModelThroughput(many=True)
    profile = JobProfile(
        allow_null=True,
        help_text="By which policies say who shares GPUs with it; null: neither the job nor one like it was"
        " measured alone, so that policies which go by profiles do not let it share.",
    )


class GpuSharer(serializers.Serializer[Mapping[str, object]]):
    """A job that has a shared GPU; the fields that identify it are null for a viewer who may not see it."""

    id = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)
    virtual_cluster = serializers.CharField(allow_null=True)
    request = serializers.FloatField(help_text="What it gets of the GPU whenever it can use it, 0 to 1.")
    limit = serializers.FloatField(help_text="What it never exceeds, 0 to 1.")
    memory_bytes = serializers.IntegerField(
        help_text="What it holds on the device, used or not; 0: not known."
    )
    memory_used_bytes = serializers.IntegerField(
        allow_null=True,
        help_text="What its processes occupied there at the newest reading; null: not measured.",
    )
    way = serializers.ChoiceField(
        choices=["part", "together", "turns"],
        help_text="`part`: it has a part of its own; `together`, `turns`: it and others have all of the GPU,"
        " at the same time or one after the other, frozen otherwise.",
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS], help_text="How the node holds it to its part; empty: not told yet."
    )
    slowdown = serializers.FloatField(
        allow_null=True,
        help_text="How many times as long as alone on whole GPUs it takes; null: not measured.",
    )


class SharedGpu(serializers.Serializer[Gpu]):
    id = serializers.IntegerField()
    node = serializers.CharField()
    index = serializers.IntegerField()
    gpu_model = serializers.CharField(allow_null=True)
    memory_bytes = serializers.IntegerField()
    in_use = serializers.FloatField(help_text="The sum of what its jobs request, 0 to 1.")
    jobs = GpuSharer(many=True)
