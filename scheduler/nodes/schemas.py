"""Nodes and their GPUs as the API's schema describes them."""

from collections.abc import Mapping
from typing import get_args

from rest_framework import serializers

from nodeagent.isolation_levels import IsolationLevel
from nodeagent.messages import Enforcement
from scheduler.models.maintenance import WindowState
from scheduler.models.nodes import LoanState, NodeState, Verdict
from scheduler.wiring.schemas import Currency

ENFORCEMENTS = [word for word in get_args(Enforcement) if word]
ISOLATION_LEVELS = get_args(IsolationLevel)
NODE_STATES = [state.value for state in NodeState]
WINDOW_STATES = [state.value for state in WindowState]
LOAN_STATES = [state.value for state in LoanState if state.value]
VERDICTS = [verdict.value for verdict in Verdict]
GPU_STATES = ["free", "held", "planned"]


class Gpu(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    index = serializers.IntegerField()
    socket = serializers.IntegerField()
    switch = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    healthy = serializers.BooleanField()
    problem = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=GPU_STATES)
    in_use = serializers.FloatField(help_text="Fraction of the GPU that jobs hold, 0 to 1.")


class NodeCheck(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    message = serializers.CharField(allow_blank=True)
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the GPU that the check is about.")
    since = serializers.DateTimeField(help_text="When the present verdict began.")


class NodeWithdrawal(serializers.Serializer[Mapping[str, object]]):
    by = serializers.CharField(
        allow_blank=True,
        help_text="Who cordoned or drained it; `health` means the platform's health checks.",
    )
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    returns_itself = serializers.BooleanField(
        help_text="Whether the platform returns it to service when its checks pass again."
    )


class NodeLoan(serializers.Serializer[Mapping[str, object]]):
    pool = serializers.CharField(help_text="Serving pool that the node belongs to.")
    state = serializers.ChoiceField(
        choices=LOAN_STATES,
        help_text=(
            "`serving`: its pool uses it; `lent`: jobs may use it; `returning`: no new job starts on it."
        ),
    )
    by = serializers.CharField(allow_blank=True, help_text="Who last lent it or asked for it back.")
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(
        allow_null=True, help_text="When its pool gets it back, if it is lent for a fixed time."
    )
    return_by = serializers.DateTimeField(
        allow_null=True, help_text="When its pool gets it back, while it is returning."
    )


class NodeMaintenance(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField(help_text="Id of the maintenance window.")
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=WINDOW_STATES)
    starts_at = serializers.DateTimeField(
        help_text="When the window starts and the jobs left on its nodes are stopped."
    )
    ends_at = serializers.DateTimeField()


class Node(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    rack = serializers.CharField()
    gpu_model = serializers.CharField(
        allow_null=True, help_text="GPU model; null until its agent has reported."
    )
    address = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=NODE_STATES)
    cordoned = serializers.BooleanField()
    draining = serializers.BooleanField()
    drained = serializers.BooleanField()
    drain_deadline = serializers.DateTimeField(
        allow_null=True,
        help_text="When its jobs are moved away. Until then it accepts only jobs that will end before.",
    )
    withdrawn = NodeWithdrawal(
        allow_null=True,
        help_text="Why and by whom it is out of service; null if it is neither cordoned nor draining.",
    )
    loan = NodeLoan(
        allow_null=True, help_text="Its serving pool and loan; null: it belongs to no serving pool."
    )
    maintenance = NodeMaintenance(
        allow_null=True, help_text="The maintenance window that closes it now or next; null: none."
    )
    health = NodeCheck(many=True)
    isolation = serializers.DictField(
        child=serializers.BooleanField(),
        help_text="What is enforced on jobs there; `required`: no job starts without a sandbox or Landlock.",
    )
    isolation_level = serializers.ChoiceField(
        choices=ISOLATION_LEVELS,
        help_text=(
            "What isolates its jobs from other jobs and from the node. A job with an image also "
            "has its container."
        ),
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS],
        help_text="How parts of its GPUs are enforced; empty: not reported.",
    )
    cpus = serializers.FloatField()
    cpus_held = serializers.FloatField(help_text="CPUs that its jobs hold.")
    memory_bytes = serializers.IntegerField()
    memory_bytes_held = serializers.IntegerField(help_text="Memory that its jobs hold.")
    storage_bandwidth = serializers.FloatField(
        help_text=(
            "Read bandwidth of the storage that its jobs read from, in bytes per second; 0: not reported."
        )
    )
    cache_bytes = serializers.IntegerField(
        help_text="Size of its cache for data read from storage, in bytes."
    )
    agent_version = serializers.CharField(allow_blank=True)
    lease_expires_at = serializers.DateTimeField(allow_null=True)
    gpus = Gpu(many=True)
    version = serializers.IntegerField()


class AgentSetUp(serializers.Serializer[Mapping[str, object]]):
    file = serializers.CharField(help_text="Name of the configuration file that `command` reads.")
    command = serializers.CharField(help_text="Command that starts the agent in the folder of the file.")
    real = serializers.DictField(help_text="Content of the file for the machine's real GPUs, as JSON.")
    simulated = serializers.DictField(help_text="Content of the file for simulated GPUs, as JSON.")


class NodeWithToken(Node):
    token = serializers.CharField(help_text="Token of the node's agent, in this answer only.")
    agent = AgentSetUp(
        allow_null=True,
        help_text="How to start the node's agent. The files contain the token. null in a repeated answer.",
    )


class PartEnforcement(serializers.Serializer[Mapping[str, object]]):
    enforced = serializers.IntegerField(help_text="Number of GPUs on nodes that enforce parts of GPUs.")
    cooperative = serializers.IntegerField(
        help_text="Number of GPUs on nodes that enforce parts only for jobs which ask for their GPU time."
    )
    placement_only = serializers.IntegerField(help_text="Number of GPUs on nodes that do not enforce parts.")


class GpuModel(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpus_free = serializers.IntegerField()
    serving_gpus = serializers.IntegerField(
        help_text=(
            "GPUs on nodes of serving pools. The pools can ask for them back, so they cannot be guaranteed."
        )
    )
    nodes = serializers.IntegerField()
    part_enforcement = PartEnforcement()
    price_per_hour = serializers.FloatField(help_text="Price of one GPU for one hour.")
    currency = Currency()


class GpuModels(serializers.Serializer[Mapping[str, object]]):
    results = GpuModel(many=True)
