"""Maintenance windows, and the event that tells of one to those whose jobs it moves."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0052_archive'),
        ('tenants', '0012_quota_resources'),
    ]

    operations = [
        migrations.CreateModel(
            name='MaintenanceWindow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.CharField(max_length=300)),
                ('nodes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=63), size=None)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('made_by', models.CharField(max_length=80)),
                ('made_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('announced', 'Announced'), ('draining', 'Draining'), ('open', 'Open'), ('over', 'Over'), ('cancelled', 'Cancelled')], default='announced', max_length=9)),
            ],
        ),
        migrations.RemoveIndex(
            model_name='event',
            name='event_untold',
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('kind__in', ('attempt.ended', 'attempt.maintenance', 'attempt.stuck', 'attempt.trial_failed', 'budget.reached', 'job.cancelled', 'job.failed', 'job.started', 'job.succeeded', 'node.cordoned', 'node.lost', 'webhook.disabled')), ('told', False)), fields=['id'], name='event_untold'),
        ),
        migrations.AddIndex(
            model_name='maintenancewindow',
            index=models.Index(condition=models.Q(('state__in', ('announced', 'draining', 'open'))), fields=['starts_at'], name='window_active'),
        ),
        migrations.AddConstraint(
            model_name='maintenancewindow',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['announced', 'draining', 'open', 'over', 'cancelled'])), name='window_state_is_known'),
        ),
        migrations.AddConstraint(
            model_name='maintenancewindow',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='window_ends_after_start'),
        ),
    ]
