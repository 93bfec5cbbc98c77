from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0013_metrics")]

    operations = []
