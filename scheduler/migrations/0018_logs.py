from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0017_terminals")]

    operations = []
