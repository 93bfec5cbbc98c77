from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0063_job_template")]

    operations = [
        migrations.AddIndex(
            model_name="progresspoint",
            index=models.Index(fields=["attempt", "at"], name="progress_by_time"),
        ),
    ]
