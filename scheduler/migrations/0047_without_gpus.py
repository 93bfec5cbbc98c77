"""Jobs without GPUs: an allocation names the nodes of its replicas, and a part what it takes of its node."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0046_attempt_failed")]

    operations = [
        migrations.AddField(model_name="allocation", name="nodes", field=models.JSONField(null=True)),
        migrations.AddField(
            model_name="attemptpart", name="cpus", field=models.FloatField(db_default=0, default=0)
        ),
        migrations.AddField(
            model_name="attemptpart",
            name="memory_bytes",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        # The column is of numbers that are not negative.
        migrations.RemoveConstraint(model_name="job", name="job_has_gpus"),
    ]
