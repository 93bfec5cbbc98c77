from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0018_logs")]

    operations = [
        migrations.CreateModel(
            name="FailureRules",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rules", models.JSONField(default=list)),
                ("changed_at", models.DateTimeField()),
                ("changed_by", models.CharField(max_length=200)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="failure_rules_are_one_row")
                ],
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="is_trial",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="attempt",
            name="matched_rule",
            field=models.JSONField(null=True),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="stop_cause",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "None"),
                    ("preempted", "Preempted"),
                    ("migrated", "Migrated"),
                    ("drained", "Drained"),
                    ("cancelled", "Cancelled"),
                    ("time_limit", "Time Limit"),
                    ("part_failed", "Part Failed"),
                    ("node_lost", "Node Lost"),
                    ("gang_timeout", "Gang Timeout"),
                    ("stuck", "Stuck"),
                    ("idle_gpus", "Idle Gpus"),
                    ("trial_over", "Trial Over"),
                ],
                max_length=12,
            ),
        ),
        migrations.AddField(
            model_name="clustersettings",
            name="idle_gpus_seconds",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="clustersettings",
            name="idle_gpus_below_percent",
            field=models.FloatField(default=5.0),
        ),
        migrations.AddField(
            model_name="clustersettings",
            name="idle_gpus_then",
            field=models.CharField(default="warn", max_length=4),
        ),
    ]
