import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0016_restraint")]

    operations = [
        migrations.CreateModel(
            name='PortPass',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('port', models.CharField(max_length=63)),
                ('session_key', models.CharField(blank=True, max_length=40)),
                ('key', models.CharField(max_length=16, unique=True)),
                ('digest', models.BinaryField(max_length=32)),
                ('is_ticket', models.BooleanField(default=True)),
                ('expires_at', models.DateTimeField()),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.attempt')),
                ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.token')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('rank', models.PositiveIntegerField()),
                ('port', models.CharField(blank=True, max_length=63)),
                ('command', models.CharField(blank=True, max_length=500)),
                ('address', models.CharField(max_length=120)),
                ('opened_at', models.DateTimeField()),
                ('joined_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('exit_code', models.PositiveSmallIntegerField(null=True)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to='scheduler.attempt')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.node')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['user'], name='session_open'), models.Index(fields=['attempt', '-opened_at'], name='session_by_attempt')],
            },
        ),
    ]
