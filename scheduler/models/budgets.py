"""What a tenant, and a member of it, may use up in a month or a week, by GPU-hours or by cost; and what a
member may hold at once."""

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from tenants.models import Membership, Tenant


class BudgetUnit(models.TextChoices):
    GPU_HOURS = "gpu_hours", "GPU-hours of all models together"
    COST = "cost", "GPU-hours weighted by each model's price"


class BudgetPeriod(models.TextChoices):
    """Calendar periods by UTC; a week begins on Monday."""

    MONTH = "month"
    WEEK = "week"
    NONE = "none"


class BudgetAction(models.TextChoices):
    WARN = "warn", "Tell the tenant's admins, and go on"
    HOLD = "hold", "Start no more of its jobs until the next period; what runs goes on"


class Terms(models.Model):
    """What a person set, and below it what was found when the budget was last checked."""

    amount = models.FloatField()
    unit = models.CharField(max_length=9, choices=BudgetUnit.choices, default=BudgetUnit.GPU_HOURS)
    period = models.CharField(max_length=5, choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH)
    action = models.CharField(max_length=4, choices=BudgetAction.choices, default=BudgetAction.WARN)
    #: Nothing before this counts.
    starts_at = models.DateTimeField()

    #: The period that was checked last; without end when the period is "none".
    period_starts_at = models.DateTimeField()
    period_ends_at = models.DateTimeField(null=True)
    #: The highest of `budgets.services.THRESHOLDS` that was reported in it, in percent.
    told_percent = models.PositiveSmallIntegerField(default=0)
    #: All of it is used up, so that nothing may start when the action is "hold".
    is_spent = models.BooleanField(default=False)

    class Meta:
        abstract = True


class Budget(Terms):
    """A tenant's, set by an operator."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, primary_key=True, related_name="budget")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="budget_is_positive"),
        ]


class UserBudget(Terms):
    """A member's, set by an admin of the tenant. It counts the member's jobs there."""

    membership = models.OneToOneField(
        Membership, on_delete=models.CASCADE, primary_key=True, related_name="budget"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="user_budget_is_positive"),
        ]


class UserQuota(models.Model):
    """The most that a member's jobs hold at once in the tenant; null: no limit besides the tenant's."""

    membership = models.OneToOneField(
        Membership, on_delete=models.CASCADE, primary_key=True, related_name="quota"
    )
    gpus = models.PositiveIntegerField(null=True)
    cpus = models.FloatField(null=True, validators=[MinValueValidator(0)])
    memory_bytes = models.PositiveBigIntegerField(null=True)
