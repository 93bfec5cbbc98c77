from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0022_agent_service")]

    operations = [
        migrations.AddField(
            model_name="agentservice",
            name="since",
            field=models.DateTimeField(null=True),
        ),
    ]
