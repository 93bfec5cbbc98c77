from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0012_quota_resources")]

    operations = [
        # Users who are there know the page.
        migrations.AddField(
            model_name="user",
            name="saw_tour",
            field=models.BooleanField(default=False, db_default=True),
        ),
        migrations.AlterField(
            model_name="user",
            name="saw_tour",
            field=models.BooleanField(default=False, db_default=False),
        ),
    ]
