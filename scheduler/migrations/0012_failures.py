import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0011_market'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='failure',
            field=models.CharField(blank=True, default='', max_length=40),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name='attempt',
            name='stop_cause',
            field=models.CharField(blank=True, choices=[('', 'None'), ('preempted', 'Preempted'), ('migrated', 'Migrated'), ('drained', 'Drained'), ('cancelled', 'Cancelled'), ('time_limit', 'Time Limit'), ('part_failed', 'Part Failed'), ('node_lost', 'Node Lost'), ('gang_timeout', 'Gang Timeout'), ('stuck', 'Stuck')], max_length=12),
        ),
        migrations.AddField(
            model_name='job',
            name='avoid_nodes',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None),
        ),
    ]
