from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0019_trials")]

    operations = []
