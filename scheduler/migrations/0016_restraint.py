import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0015_node_health")]

    operations = [
        migrations.CreateModel(
            name='Restraint',
            fields=[
                ('virtual_cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='restraint', serialize=False, to='tenants.virtualcluster')),
                ('min_run_seconds', models.FloatField(default=0.0)),
                ('reclaim_min_run_seconds', models.FloatField(default=0.0)),
            ],
        ),
        migrations.AddField(
            model_name='clustersettings',
            name='preemptions_per_round',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='clustersettings',
            name='backoff_seconds',
            field=models.FloatField(default=30.0),
        ),
        migrations.AddField(
            model_name='clustersettings',
            name='most_backoff_seconds',
            field=models.FloatField(default=600.0),
        ),
        migrations.AddField(
            model_name='job',
            name='short_runs',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='job',
            name='may_borrow_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='preemption_cost_seconds',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='allocation',
            name='slice_seconds',
            field=models.FloatField(null=True),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('preemption_cost_seconds__isnull', False)), fields=['virtual_cluster', '-id'], name='job_preemption_costs'),
        ),
    ]
