"""Archives of working folders, and the jobs that begin with them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0051_limits_of_users'),
        ('tenants', '0012_quota_resources'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Archive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('bytes', models.PositiveBigIntegerField()),
                ('files', models.PositiveIntegerField()),
                ('unpacked_bytes', models.PositiveBigIntegerField()),
                ('uploaded_at', models.DateTimeField()),
                ('used_at', models.DateTimeField()),
                ('removed_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='archives', to='tenants.tenant')),
                ('uploaded_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='archive',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduler.archive'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('archive__isnull', False)), fields=['archive'], name='job_by_archive'),
        ),
        migrations.AddIndex(
            model_name='archive',
            index=models.Index(condition=models.Q(('removed_at', None)), fields=['used_at'], name='archive_stored_by_use'),
        ),
        migrations.AddConstraint(
            model_name='archive',
            constraint=models.UniqueConstraint(fields=('tenant', 'digest'), name='archive_of_tenant_once'),
        ),
    ]
