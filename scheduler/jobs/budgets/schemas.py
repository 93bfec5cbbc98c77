"""Use of GPUs as the API's schema describes it."""

from collections.abc import Mapping

from rest_framework import serializers

from scheduler.jobs.budgets.selectors import GROUPINGS
from scheduler.models.budgets import UserBudget, UserQuota
from scheduler.wiring.exports import FileQuery
from scheduler.wiring.schemas import Currency
from tenants.api.strict import StrictSerializer
from tenants.api.tenants import MOST_CPUS, MOST_MEMORY_BYTES
from tenants.models import Membership


class Held(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.DictField(
        child=serializers.FloatField(), help_text="By GPU model; parts of GPUs count as such."
    )
    cpus = serializers.FloatField(
        help_text="As the jobs state them; what they leave to the platform is none."
    )
    memory_bytes = serializers.IntegerField(help_text="Likewise.")


class UserQuotaInput(StrictSerializer):
    gpus = serializers.IntegerField(
        min_value=0,
        max_value=1_000_000,
        default=None,
        allow_null=True,
        help_text="GPUs of all models together; null: no limit besides the tenant's. So the next two.",
    )
    cpus = serializers.FloatField(min_value=0, max_value=MOST_CPUS, default=None, allow_null=True)
    memory_bytes = serializers.IntegerField(
        min_value=0, max_value=MOST_MEMORY_BYTES, default=None, allow_null=True
    )


class UserQuotaState(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField(allow_null=True)
    cpus = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    held = Held(help_text="By the member's jobs in the tenant.")


class UserQuotaLines(serializers.ModelSerializer[UserQuota]):
    class Meta:
        model = UserQuota
        fields = ["gpus", "cpus", "memory_bytes"]
        read_only_fields = fields


class UserBudgetTerms(serializers.ModelSerializer[UserBudget]):
    is_spent = serializers.BooleanField(help_text="All of it was used up when it was last looked at.")

    class Meta:
        model = UserBudget
        fields = ["amount", "unit", "period", "action", "starts_at", "is_spent"]
        read_only_fields = fields


class LimitsOfUser(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username")
    quota = UserQuotaLines(allow_null=True, default=None)
    budget = UserBudgetTerms(allow_null=True, default=None)

    class Meta:
        model = Membership
        fields = ["username", "quota", "budget"]
        read_only_fields = fields


class UsageQuery(serializers.Serializer[Mapping[str, object]]):
    by = serializers.CharField(
        default="tenant", help_text=f"One or more groupings, separated by commas: {', '.join(GROUPINGS)}."
    )
    since = serializers.DateTimeField(required=False, help_text="Left out: the first of this month, by UTC.")
    until = serializers.DateTimeField(required=False, help_text="Left out, or later than that: now.")
    tenant = serializers.CharField(default="")
    user = serializers.CharField(
        default="", help_text="Who submitted; of others only for admins of their tenant."
    )
    virtual_cluster = serializers.CharField(default="")
    gpu_model = serializers.CharField(default="")


class UsageFileQuery(UsageQuery, FileQuery):
    """What usage is asked for, and as what file."""


class UsageTotal(serializers.Serializer[Mapping[str, object]]):
    jobs = serializers.IntegerField(help_text="That had GPUs in this time.")
    gpu_hours = serializers.FloatField(help_text="Parts of GPUs, and turns on them, count as such.")
    guaranteed_gpu_hours = serializers.FloatField(
        help_text="Those on GPUs that the virtual cluster was guaranteed; the others were idle ones, lent."
    )
    opportunistic_gpu_hours = serializers.FloatField()
    wasted_gpu_hours = serializers.FloatField(
        help_text="Those of attempts that failed or were lost with their node, and of work that was thrown"
        " away when an attempt was stopped."
    )
    cost = serializers.FloatField(help_text="At the present prices of the GPU models.")
    currency = Currency()


class UsageRow(UsageTotal):
    tenant = serializers.CharField(required=False, help_text="Where it is grouped by; so the next five.")
    user = serializers.CharField(required=False)
    virtual_cluster = serializers.CharField(required=False)
    gpu_model = serializers.CharField(required=False)
    application = serializers.CharField(required=False, help_text="Or the job's name, where it says none.")
    day = serializers.DateField(required=False, help_text="By UTC.")
    entitled_gpu_hours = serializers.FloatField(
        allow_null=True,
        help_text="What the present guarantee of the virtual cluster, for all its tenants, amounts to in this"
        " time; null: not grouped by virtual cluster, or by more than GPU model and day.",
    )


class UsageReport(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    by = serializers.ListField(child=serializers.ChoiceField(choices=GROUPINGS))
    rows = UsageRow(many=True)
    total = UsageTotal()
