"""Input workers that the platform starts: jobs that serve an attempt of another, and how many there are to be."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0049_saved_search")]

    operations = [
        migrations.CreateModel(
            name="InputPool",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="input_pool",
                        serialize=False,
                        to="scheduler.attempt",
                    ),
                ),
                ("trainers", models.JSONField(default=dict)),
                ("is_open", models.BooleanField(default=True)),
                ("desired", models.PositiveIntegerField()),
                ("requested", models.PositiveIntegerField()),
                ("requested_since", models.DateTimeField()),
                ("connected", models.PositiveIntegerField(null=True)),
                ("stall", models.FloatField(null=True)),
                ("problem", models.CharField(blank=True, default="", max_length=300)),
            ],
        ),
        migrations.AddIndex(
            model_name="inputpool",
            index=models.Index(condition=Q(is_open=True), fields=["attempt"], name="input_pool_open"),
        ),
        migrations.AddField(
            model_name="job",
            name="serves",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="input_workers",
                to="scheduler.attempt",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=Q(serves__isnull=False), fields=["serves", "id"], name="job_by_served"
            ),
        ),
    ]
