"""In which prices and costs are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0061_lists_of_jobs")]

    operations = [
        migrations.AddField(
            model_name="clustersettings",
            name="currency",
            field=models.CharField(db_default="", default="", max_length=3),
        ),
    ]
