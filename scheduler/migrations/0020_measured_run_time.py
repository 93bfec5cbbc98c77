from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0019_trials")]

    operations = [
        migrations.AddField(model_name="job", name="pace", field=models.JSONField(null=True)),
    ]
