import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0012_failures")]

    operations = [
        migrations.CreateModel(
            name='NodeMetrics',
            fields=[
                ('seconds', models.PositiveSmallIntegerField(choices=[(10, 'Reading'), (60, 'Minute'), (900, 'Quarter')])),
                ('at', models.DateTimeField()),
                ('readings', models.PositiveIntegerField(default=1)),
                ('simulated', models.BooleanField()),
                ('values', models.JSONField()),
                ('pk', models.CompositePrimaryKey('node_id', 'seconds', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='metrics', to='scheduler.node')),
            ],
            options={
                'indexes': [models.Index(fields=['seconds', 'at', 'node'], name='node_metrics_by_time')],
            },
        ),
        migrations.CreateModel(
            name='PartMetrics',
            fields=[
                ('seconds', models.PositiveSmallIntegerField(choices=[(10, 'Reading'), (60, 'Minute'), (900, 'Quarter')])),
                ('at', models.DateTimeField()),
                ('readings', models.PositiveIntegerField(default=1)),
                ('simulated', models.BooleanField()),
                ('values', models.JSONField()),
                ('pk', models.CompositePrimaryKey('part_id', 'seconds', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('part', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='metrics', to='scheduler.attemptpart')),
            ],
            options={
                'indexes': [models.Index(fields=['seconds', 'at', 'part'], name='part_metrics_by_time')],
            },
        ),
    ]
