import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0013_metrics")]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="budget",
                        serialize=False,
                        to="tenants.tenant",
                    ),
                ),
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
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("message", models.UUIDField(default=uuid.uuid4)),
                ("topic", models.CharField(max_length=32)),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("delivered", "Delivered"),
                            ("given_up", "Given Up"),
                        ],
                        default="waiting",
                        max_length=9,
                    ),
                ),
                ("until", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("tries", models.PositiveIntegerField(default=0)),
                ("tried_at", models.DateTimeField(null=True)),
                ("seconds", models.FloatField(null=True)),
                ("status", models.PositiveIntegerField(null=True)),
                ("reply", models.CharField(blank=True, max_length=500)),
                ("problem", models.CharField(blank=True, max_length=300)),
            ],
        ),
        migrations.CreateModel(
            name="EmailNotice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("subject", models.CharField(max_length=200)),
                ("text", models.TextField()),
                ("mail", models.UUIDField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="NotificationSettings",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="notifications",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "jobs",
                    models.CharField(
                        choices=[
                            ("all", "All: start, end, failure, preemption"),
                            ("failures", "Failures, and jobs that seem stuck"),
                            ("none", "None, except where a job asks for it"),
                        ],
                        default="failures",
                        max_length=8,
                    ),
                ),
                ("tenants", models.BooleanField(default=True)),
                ("cluster", models.BooleanField(default=True)),
                ("mail_not_before", models.DateTimeField(null=True)),
                ("mail_failures", models.PositiveIntegerField(default=0)),
                ("mail_problem", models.CharField(blank=True, max_length=300)),
                ("confirmation_asked_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("url", models.CharField(max_length=500)),
                ("title", models.CharField(blank=True, max_length=120)),
                (
                    "topics",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), size=None
                    ),
                ),
                ("active", models.BooleanField(default=True)),
                ("seed", models.BinaryField(max_length=32)),
                ("old_seed", models.BinaryField(max_length=32, null=True)),
                ("old_seed_ends_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=80)),
                ("taken_until", models.DateTimeField(null=True)),
                ("held_until", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("problem", models.CharField(blank=True, max_length=300)),
            ],
        ),
        migrations.AddField(
            model_name="allocatedgpu",
            name="released_at",
            field=models.DateTimeField(null=True),
        ),
        # What happened before there were notices is told to nobody.
        migrations.AddField(
            model_name="event",
            name="told",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AlterField(
            model_name="event",
            name="told",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(
                    (
                        "kind__in",
                        (
                            "attempt.ended",
                            "attempt.stuck",
                            "attempt.trial_failed",
                            "budget.reached",
                            "job.cancelled",
                            "job.failed",
                            "job.started",
                            "job.succeeded",
                            "node.cordoned",
                            "node.lost",
                            "webhook.disabled",
                        ),
                    ),
                    ("told", False),
                ),
                fields=["id"],
                name="event_untold",
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gt", 0)), name="budget_is_positive"
            ),
        ),
        migrations.AddField(
            model_name="emailnotice",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="webhook",
            name="tenant",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tenants.tenant"
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="webhook",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="scheduler.webhook"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["webhook", "id"], name="delivery_waiting"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["webhook", "-id"], name="delivery_by_webhook"),
        ),
    ]
