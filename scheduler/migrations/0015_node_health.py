from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0014_notifications")]

    operations = []
