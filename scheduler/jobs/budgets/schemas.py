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
        child=serializers.FloatField(), help_text="GPUs held by model; a part of a GPU counts as a part."
    )
    cpus = serializers.FloatField(
        help_text="CPUs held, as the jobs state them; CPUs that a job leaves to the platform do not count."
    )
    memory_bytes = serializers.IntegerField(help_text="Likewise.")


class UserQuotaInput(StrictSerializer):
    gpus = serializers.IntegerField(
        min_value=0,
        max_value=1_000_000,
        default=None,
        allow_null=True,
        help_text="Maximum number of GPUs of all models together; null: no limit besides the tenant's.",
    )
    cpus = serializers.FloatField(min_value=0, max_value=MOST_CPUS, default=None, allow_null=True)
    memory_bytes = serializers.IntegerField(
        min_value=0, max_value=MOST_MEMORY_BYTES, default=None, allow_null=True
    )


class UserQuotaState(serializers.Serializer[Mapping[str, object]]):
    gpus = serializers.IntegerField(allow_null=True)
    cpus = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    held = Held(help_text="What the member's jobs in the tenant hold now.")


class UserQuotaLines(serializers.ModelSerializer[UserQuota]):
    class Meta:
        model = UserQuota
        fields = ["gpus", "cpus", "memory_bytes"]
        read_only_fields = fields


class UserBudgetTerms(serializers.ModelSerializer[UserBudget]):
    is_spent = serializers.BooleanField(help_text="Whether it was used up at the last check.")

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
        default="tenant", help_text=f"Groupings, separated by commas: {', '.join(GROUPINGS)}."
    )
    since = serializers.DateTimeField(
        required=False, help_text="Start of the period. Default: the first of this month, in UTC."
    )
    until = serializers.DateTimeField(
        required=False, help_text="End of the period, not included. Default and latest value: now."
    )
    tenant = serializers.CharField(default="")
    user = serializers.CharField(
        default="",
        help_text="Only jobs that this user submitted. Other users' jobs: only for admins of their tenant.",
    )
    virtual_cluster = serializers.CharField(default="")
    gpu_model = serializers.CharField(default="")


class UsageFileQuery(UsageQuery, FileQuery):
    """What usage is asked for, and as what file."""


class UsageTotal(serializers.Serializer[Mapping[str, object]]):
    jobs = serializers.IntegerField(help_text="Number of jobs that had GPUs in this period.")
    gpu_hours = serializers.FloatField(
        help_text="GPU-hours; parts of GPUs and turns on them count in proportion."
    )
    guaranteed_gpu_hours = serializers.FloatField(
        help_text="GPU-hours on GPUs guaranteed to the virtual cluster. The others were on idle GPUs."
    )
    opportunistic_gpu_hours = serializers.FloatField()
    wasted_gpu_hours = serializers.FloatField(
        help_text=(
            "GPU-hours of attempts that failed or were lost with their node, and of work lost "
            "when attempts were stopped."
        )
    )
    cost = serializers.FloatField(help_text="Cost at the present prices of the GPU models.")
    currency = Currency()


class UsageRow(UsageTotal):
    tenant = serializers.CharField(
        required=False,
        help_text="Set if the rows are grouped by it; the same holds for the next five fields.",
    )
    user = serializers.CharField(required=False)
    virtual_cluster = serializers.CharField(required=False)
    gpu_model = serializers.CharField(required=False)
    application = serializers.CharField(
        required=False, help_text="Name of the application, or of the job if it states none."
    )
    day = serializers.DateField(required=False, help_text="Day in UTC.")
    entitled_gpu_hours = serializers.FloatField(
        allow_null=True,
        help_text=(
            "GPU-hours that the virtual cluster's present guarantee amounts to in this period, "
            "for all its tenants. null: the rows are not grouped by virtual cluster, or also by "
            "other things than GPU model and day."
        ),
    )


class UsageReport(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    by = serializers.ListField(child=serializers.ChoiceField(choices=GROUPINGS))
    rows = UsageRow(many=True)
    total = UsageTotal()
