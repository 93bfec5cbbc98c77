"""Keep what a user was allowed when a POST was first answered: its repeat needs that, too."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0003_location")]

    operations = [
        # An answer without them would be repeated to anyone who has its key.
        migrations.RunSQL("DELETE FROM controlplane_idempotentanswer", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="idempotentanswer", name="rights", field=models.JSONField(default=list)
        ),
    ]
