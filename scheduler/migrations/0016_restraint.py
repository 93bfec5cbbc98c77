from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0015_node_health")]

    operations = []
