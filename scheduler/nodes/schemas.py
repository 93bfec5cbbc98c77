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
    in_use = serializers.FloatField(help_text="What of it jobs hold, 0 to 1.")


class NodeCheck(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    message = serializers.CharField(allow_blank=True)
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the one GPU that it is about.")
    since = serializers.DateTimeField(help_text="When the verdict became what it is.")


class NodeWithdrawal(serializers.Serializer[Mapping[str, object]]):
    by = serializers.CharField(
        allow_blank=True, help_text="Who cordoned or drains it; `health` is the platform."
    )
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    returns_itself = serializers.BooleanField(help_text="The platform uncordons it when it is well again.")


class NodeLoan(serializers.Serializer[Mapping[str, object]]):
    pool = serializers.CharField(help_text="The serving pool whose node it is.")
    state = serializers.ChoiceField(
        choices=LOAN_STATES,
        help_text="`serving`: its pool has it; `lent`: jobs may use it; `returning`: nothing new starts.",
    )
    by = serializers.CharField(allow_blank=True, help_text="Who lent it or asked it back last.")
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(
        allow_null=True, help_text="While it is lent for a time: when its pool has it back."
    )
    return_by = serializers.DateTimeField(
        allow_null=True, help_text="While it is returning: when its pool has it back."
    )


class NodeMaintenance(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField(help_text="The maintenance window.")
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=WINDOW_STATES)
    starts_at = serializers.DateTimeField(help_text="When the jobs that are left on its nodes are stopped.")
    ends_at = serializers.DateTimeField()


class Node(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    rack = serializers.CharField()
    gpu_model = serializers.CharField(allow_null=True, help_text="Null until its agent has reported.")
    address = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=NODE_STATES)
    cordoned = serializers.BooleanField()
    draining = serializers.BooleanField()
    drained = serializers.BooleanField()
    drain_deadline = serializers.DateTimeField(
        allow_null=True,
        help_text="When its jobs are moved away; until then it takes only what will have ended.",
    )
    withdrawn = NodeWithdrawal(allow_null=True, help_text="Null while it is neither cordoned nor draining.")
    loan = NodeLoan(allow_null=True, help_text="Null: it is the cluster's own, of no serving pool.")
    maintenance = NodeMaintenance(
        allow_null=True, help_text="The window that closes it, now or next; null: there is none."
    )
    health = NodeCheck(many=True)
    isolation = serializers.DictField(
        child=serializers.BooleanField(),
        help_text="What is enforced on jobs there; `required`: none starts without a sandbox or Landlock.",
    )
    isolation_level = serializers.ChoiceField(
        choices=ISOLATION_LEVELS,
        help_text="What keeps its jobs from others' and the node; a job with an image has its container.",
    )
    enforcement = serializers.ChoiceField(
        choices=["", *ENFORCEMENTS],
        help_text="How jobs are held to their parts of its GPUs; empty: the node has not said.",
    )
    cpus = serializers.FloatField()
    cpus_held = serializers.FloatField(help_text="By the jobs there, as rounds count them.")
    memory_bytes = serializers.IntegerField()
    memory_bytes_held = serializers.IntegerField(help_text="By the jobs there, as rounds count it.")
    storage_bandwidth = serializers.FloatField(
        help_text="Bytes a second of the storage that its jobs read from; 0: it does not say."
    )
    cache_bytes = serializers.IntegerField(help_text="Bytes of what was read that stay in its cache.")
    agent_version = serializers.CharField(allow_blank=True)
    lease_expires_at = serializers.DateTimeField(allow_null=True)
    gpus = Gpu(many=True)
    version = serializers.IntegerField()


class AgentSetUp(serializers.Serializer[Mapping[str, object]]):
    file = serializers.CharField(help_text="Name of the configuration file, as `command` has it.")
    command = serializers.CharField(help_text="Starts the agent, in the folder of the file.")
    real = serializers.DictField(help_text="Content of the file for the GPUs of the machine, as JSON.")
    simulated = serializers.DictField(help_text="Content of the file for simulated GPUs, as JSON.")


class NodeWithToken(Node):
    token = serializers.CharField(help_text="For the node's agent; shown only now.")
    agent = AgentSetUp(
        allow_null=True,
        help_text="How to start the node's agent; the files hold the token. null in a repeated answer.",
    )


class PartEnforcement(serializers.Serializer[Mapping[str, object]]):
    enforced = serializers.IntegerField(help_text="GPUs on nodes that hold jobs to their parts.")
    cooperative = serializers.IntegerField(help_text="GPUs on nodes that hold jobs which ask for their time.")
    placement_only = serializers.IntegerField(help_text="GPUs on nodes that hold no job to its part.")


class GpuModel(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpus_free = serializers.IntegerField()
    serving_gpus = serializers.IntegerField(
        help_text="Those on nodes of serving pools, which may ask them back: they cannot be guaranteed."
    )
    nodes = serializers.IntegerField()
    part_enforcement = PartEnforcement()
    price_per_hour = serializers.FloatField(help_text="The price of one GPU for an hour.")
    currency = Currency()


class GpuModels(serializers.Serializer[Mapping[str, object]]):
    results = GpuModel(many=True)
