"""What admins of a tenant allow its members: a quota and a budget of each."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

_MEMBERSHIP = {
    "on_delete": django.db.models.deletion.CASCADE,
    "primary_key": True,
    "serialize": False,
    "to": "tenants.membership",
}


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0050_input_workers"), ("tenants", "0012_quota_resources")]

    operations = [
        migrations.CreateModel(
            name="UserQuota",
            fields=[
                ("membership", models.OneToOneField(related_name="quota", **_MEMBERSHIP)),
                ("gpus", models.PositiveIntegerField(null=True)),
                (
                    "cpus",
                    models.FloatField(null=True, validators=[django.core.validators.MinValueValidator(0)]),
                ),
                ("memory_bytes", models.PositiveBigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="UserBudget",
            fields=[
                ("amount", models.FloatField()),
                (
                    "unit",
                    models.CharField(
                        choices=[
                            ("gpu_hours", "GPU-hours of all models together"),
                            ("cost", "GPU-hours weighted by each model's price"),
                        ],
                        default="gpu_hours",
                        max_length=9,
                    ),
                ),
                (
                    "period",
                    models.CharField(
                        choices=[("month", "Month"), ("week", "Week"), ("none", "None")],
                        default="month",
                        max_length=5,
                    ),
                ),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("warn", "Tell the tenant's admins, and go on"),
                            ("hold", "Start no more of its jobs until the next period; what runs goes on"),
                        ],
                        default="warn",
                        max_length=4,
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("period_starts_at", models.DateTimeField()),
                ("period_ends_at", models.DateTimeField(null=True)),
                ("told_percent", models.PositiveSmallIntegerField(default=0)),
                ("is_spent", models.BooleanField(default=False)),
                ("membership", models.OneToOneField(related_name="budget", **_MEMBERSHIP)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0)), name="user_budget_is_positive"
                    )
                ],
            },
        ),
    ]
