"""Jobs as the API's schema describes them; `representations` makes them."""

from rest_framework import serializers

from scheduler.attempts.schemas import Attempt
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import Tier
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobs.spec_schemas import JobSpec

JOB_STATES = [state.value for state in JobState]

PHASES = ["waiting", "held", "planned", "starting", "running", "stopping", "ended"]
GUARANTEES = [GUARANTEED, OPPORTUNISTIC]


class Reason(serializers.Serializer):
    code = serializers.CharField()
    tier = serializers.ChoiceField(choices=[tier.value for tier in Tier])
    message = serializers.CharField()
    blocking = serializers.DictField()
    needed = serializers.IntegerField(allow_null=True)
    available = serializers.IntegerField(allow_null=True)
    hint = serializers.CharField(allow_blank=True)


class Job(serializers.Serializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    submitted_by = serializers.CharField()
    state = serializers.ChoiceField(choices=JOB_STATES)
    phase = serializers.ChoiceField(choices=PHASES)
    guarantee = serializers.ChoiceField(choices=GUARANTEES)
    priority = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_models = serializers.ListField(child=serializers.CharField(), help_text="Empty: any.")
    spec = JobSpec()
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(
        allow_null=True, help_text="When it should have ended; null: whenever."
    )
    attempts = serializers.IntegerField(help_text="Attempts started so far.")
    attempt = Attempt(allow_null=True, help_text="The one that runs, else the newest.")
    guarantee_lapsed = serializers.BooleanField(
        help_text="It runs on as an opportunistic job, since the cells it ran on are no more."
    )
    reasons = Reason(many=True, help_text="Why it waits, the most decisive first.")
    position = serializers.IntegerField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    preemptions = serializers.IntegerField()
    service_gpu_seconds = serializers.FloatField()
    labels = serializers.DictField(child=serializers.CharField())
    cancelling = serializers.BooleanField()
    held = serializers.BooleanField()
    version = serializers.IntegerField()


class JobCounts(serializers.Serializer):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()
