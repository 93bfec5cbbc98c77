"""Tokens get scopes, an end, a successor, and tell when and from where they were first and last used."""

import django.contrib.postgres.fields
import django.db.models.deletion
import tenants.models
from django.db import migrations, models

# What a token could do until now it still can, and those that were made for ever end in 90 days.
AS_BEFORE = """
UPDATE tenants_token SET
    scopes = CASE
        WHEN read_only THEN ARRAY['read']
        WHEN u.is_operator THEN ARRAY['read', 'submit', 'manage', 'operate']
        ELSE ARRAY['read', 'submit', 'manage']
    END,
    expires_at = COALESCE(expires_at, now() + interval '90 days')
FROM tenants_user u WHERE u.id = user_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ('tenants', '0004_secrets'),
    ]

    operations = [
        migrations.AddField(
            model_name='token',
            name='scopes',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=10), default=tenants.models.every_scope, size=None),
        ),
        migrations.AddField(
            model_name='token',
            name='first_used_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='token',
            name='first_used_from',
            field=models.GenericIPAddressField(null=True),
        ),
        migrations.AddField(
            model_name='token',
            name='last_used_from',
            field=models.GenericIPAddressField(null=True),
        ),
        migrations.AddField(
            model_name='token',
            name='replaced_by',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaces', to='tenants.token'),
        ),
        migrations.RunSQL(AS_BEFORE, migrations.RunSQL.noop),
        migrations.RemoveField(
            model_name='token',
            name='read_only',
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.CheckConstraint(condition=models.Q(('scopes__contained_by', ['read', 'submit', 'manage', 'operate']), ('scopes__contains', ['read'])), name='scopes_are_known'),
        ),
    ]
