import django.contrib.postgres.indexes
from django.db import migrations, models

import tenants.models

OLD_ENTRIES = """
UPDATE tenants_auditentry e SET
    of_tenant = e.tenant_id,
    tenant_name = coalesce((SELECT name FROM tenants_tenant t WHERE t.id = e.tenant_id), ''),
    kind = CASE WHEN e.actor LIKE 'user %' THEN 'user' ELSE 'system' END,
    object_kind = left(split_part(e.action, '.', 1), 32)
"""

# Retention alone deletes entries, by `audit_prune`, and none that is younger than 30 days. Where the application
# has a role of its own, that may not delete any by itself; the trigger says so to everybody else. The id of an
# entry is drawn after its transaction got a number, so that a reader who has looked for the transactions under
# way knows that no entry with a lower id is still to come (`tenants.audit.reading`).
TRIGGERS = """
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE stack text;
BEGIN
    GET DIAGNOSTICS stack = PG_CONTEXT;
    IF TG_OP = 'DELETE' AND stack LIKE '%function audit_prune(timestamp with time zone,integer) line%' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit log is for good: % is refused', TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER is_append_only BEFORE UPDATE OR DELETE ON tenants_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER is_never_truncated BEFORE TRUNCATE ON tenants_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

CREATE FUNCTION audit_prune(until timestamptz, most int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE pruned int;
BEGIN
    IF until > clock_timestamp() - interval '30 days' THEN
        RAISE EXCEPTION 'entries of the audit log are kept for 30 days at least'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    DELETE FROM tenants_auditentry WHERE id IN (
        SELECT id FROM tenants_auditentry WHERE at < until ORDER BY at LIMIT most
    );
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;

CREATE FUNCTION audit_takes_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    RETURN NULL;
END $$;
CREATE TRIGGER takes_number BEFORE INSERT ON tenants_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_takes_number();
"""
NO_TRIGGERS = """
DROP TRIGGER is_append_only ON tenants_auditentry;
DROP TRIGGER is_never_truncated ON tenants_auditentry;
DROP TRIGGER takes_number ON tenants_auditentry;
DROP FUNCTION audit_is_append_only(), audit_prune(timestamptz, int), audit_takes_number();
"""


class Migration(migrations.Migration):
    dependencies = [
        ('tenants', '0005_token_scopes'),
    ]

    operations = [
        migrations.RemoveIndex(model_name='auditentry', name='audit_by_tenant'),
        migrations.AddField('auditentry', 'of_tenant', models.BigIntegerField(null=True)),
        migrations.AddField('auditentry', 'tenant_name', models.CharField(blank=True, db_default='', max_length=63)),
        migrations.AddField('auditentry', 'kind', models.CharField(default='system', max_length=8), preserve_default=False),
        migrations.AddField('auditentry', 'token', models.CharField(blank=True, db_default='', max_length=16)),
        migrations.AddField('auditentry', 'address', models.GenericIPAddressField(null=True)),
        migrations.AddField('auditentry', 'request', models.CharField(blank=True, db_default='', max_length=200)),
        migrations.AddField('auditentry', 'outcome', models.CharField(choices=[('done', 'Done'), ('refused', 'Refused')], db_default='done', max_length=7)),
        migrations.AddField('auditentry', 'object_kind', models.CharField(blank=True, db_default='', max_length=32)),
        migrations.AddField('auditentry', 'object_id', models.CharField(blank=True, db_default='', max_length=64)),
        migrations.RunSQL(OLD_ENTRIES, migrations.RunSQL.noop),
        migrations.RemoveField('auditentry', 'tenant'),
        migrations.RenameField('auditentry', 'of_tenant', 'tenant_id'),
        migrations.RenameField('auditentry', 'tenant_name', 'tenant'),
        migrations.AlterField('auditentry', 'at', models.DateTimeField(db_default=tenants.models.ClockTimestamp())),
        migrations.AlterField('auditentry', 'action', models.CharField(max_length=48)),
        migrations.AlterField('auditentry', 'subject', models.CharField(blank=True, db_default='', max_length=160)),
        migrations.AddIndex('auditentry', models.Index(fields=['tenant_id', '-id'], name='audit_by_tenant')),
        migrations.AddIndex('auditentry', models.Index(fields=['actor', '-id'], name='audit_by_actor')),
        migrations.AddIndex('auditentry', models.Index(fields=['action', '-id'], name='audit_by_action')),
        migrations.AddIndex('auditentry', models.Index(fields=['subject', '-id'], name='audit_by_subject')),
        migrations.AddIndex('auditentry', models.Index(condition=models.Q(('object_id', ''), _negated=True), fields=['object_id', '-id'], name='audit_by_object')),
        migrations.AddIndex('auditentry', models.Index(fields=['address', '-id'], name='audit_by_address')),
        migrations.AddIndex('auditentry', models.Index(condition=models.Q(('outcome', 'refused')), fields=['-id'], name='audit_refused')),
        migrations.AddIndex('auditentry', models.Index(fields=['at'], name='audit_by_time')),
        migrations.AddIndex('auditentry', django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(models.F('after'), name='jsonb_path_ops'), condition=models.Q(('after__has_key', 'ids')), name='audit_by_one_of_many')),
        migrations.AddConstraint('auditentry', models.UniqueConstraint(condition=models.Q(('action', 'token.first-use')), fields=('object_id', 'address'), name='one_first_use')),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
