"""What a tenant may use up in a month or a week, by GPU-hours or by cost."""

from django.db import models
from django.db.models import Q

from tenants.models import Tenant


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


class Budget(models.Model):
    """An operator's word, and below it what was found when the budget was last looked at."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, primary_key=True, related_name="budget")
    amount = models.FloatField()
    unit = models.CharField(max_length=9, choices=BudgetUnit.choices, default=BudgetUnit.GPU_HOURS)
    period = models.CharField(max_length=5, choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH)
    action = models.CharField(max_length=4, choices=BudgetAction.choices, default=BudgetAction.WARN)
    #: Nothing before this counts.
    starts_at = models.DateTimeField()

    #: The period that was looked at last; without end when the period is "none".
    period_starts_at = models.DateTimeField()
    period_ends_at = models.DateTimeField(null=True)
    #: The highest of `budgets.services.THRESHOLDS` that was told of in it, in percent.
    told_percent = models.PositiveSmallIntegerField(default=0)
    #: All of it is used up, so that nothing may start when the action is "hold".
    is_spent = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="budget_is_positive"),
        ]
