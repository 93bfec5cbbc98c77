"""Reservations of nodes, and the events that tell of them."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0054_overcommitment'),
        ('tenants', '0012_quota_resources'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('gpu_model', models.CharField(max_length=63)),
                ('gpus', models.PositiveIntegerField()),
                ('nodes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=63), size=None)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('note', models.CharField(blank=True, max_length=300)),
                ('made_by', models.CharField(max_length=80)),
                ('made_at', models.DateTimeField()),
                ('cancelled_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.RemoveIndex(
            model_name='event',
            name='event_untold',
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('kind__in', ('attempt.ended', 'attempt.maintenance', 'attempt.reserved', 'attempt.stuck', 'attempt.trial_failed', 'budget.reached', 'job.cancelled', 'job.failed', 'job.started', 'job.succeeded', 'node.cordoned', 'node.lost', 'reservation.changed', 'webhook.disabled')), ('told', False)), fields=['id'], name='event_untold'),
        ),
        migrations.AddField(
            model_name='reservation',
            name='tenant',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant'),
        ),
        migrations.AddField(
            model_name='reservation',
            name='user',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='reservation',
            name='virtual_cluster',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.virtualcluster'),
        ),
        migrations.AddIndex(
            model_name='reservation',
            index=models.Index(condition=models.Q(('cancelled_at', None)), fields=['ends_at'], name='reservation_lasting'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='reservation_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(('gpus__gt', 0)), name='reservation_is_positive'),
        ),
    ]
