from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0065_progress_thinning")]

    operations = [
        migrations.AddField(
            model_name="attemptpart",
            name="is_queued",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="attemptpart",
            name="left_queue_at",
            field=models.DateTimeField(null=True),
        ),
    ]
