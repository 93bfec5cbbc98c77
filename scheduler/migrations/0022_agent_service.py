from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0021_no_index_twice")]

    operations = [
        migrations.CreateModel(
            name="AgentService",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
