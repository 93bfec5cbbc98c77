"""Keep the path of a new object, for the answer to a repeated POST."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0002_readiness")]

    operations = [
        migrations.AddField(
            model_name="idempotentanswer",
            name="location",
            # The database's own default: rows are made by hand-written SQL.
            field=models.CharField(blank=True, db_default="", max_length=500),
        )
    ]
