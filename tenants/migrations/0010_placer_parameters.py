from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0009_invitations")]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="placer_parameters",
            field=models.JSONField(default=dict),
        ),
    ]
