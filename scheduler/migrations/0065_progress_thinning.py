from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0064_progress_by_time")]

    operations = [
        migrations.CreateModel(
            name="ProgressThinning",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                ("job_id", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=Q(id=1), name="progress_thinning_is_one_row")],
            },
        ),
    ]
