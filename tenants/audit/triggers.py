"""The triggers by which the database itself writes the log, so that no service and no raw SQL can forget it.

They are made again after migrations, from `tenants.audit.tables` and the models as they are then: a developer
who adds a model adds a line there, and no migration. One statement records all made and removed rows, from
the statement's transition table. Changed rows are recorded one by one, but only where something audited
changed, by a condition that PostgreSQL itself checks: a heartbeat or a round costs a comparison of
columns.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.migrations.executor import MigrationExecutor
from django.db.transaction import atomic

from tenants.audit.tables import AUDITED, SECRET, AuditedTable

log = logging.getLogger(__name__)

#: A statement that makes or removes more rows than this makes one entry for all of them.
MOST_ENTRIES_OF_ONE_STATEMENT = 20
#: The most ids that such an entry names.
_MOST_IDS = 1_000
#: Longer texts and lists are cut in an entry.
_VALUE_CHARACTERS = 2_000
#: What stands for a secret, of which only the fact of a change is recorded.
CHANGED_SECRET = "(changed; not shown)"
#: By what people call the things that rows point to.
_NAMES = {
    "tenants.User": "username",
    "tenants.Tenant": "name",
    "tenants.Token": "key",
    "tenants.VirtualCluster": "name",
    "scheduler.Node": "name",
    "scheduler.GpuModel": "name",
}
_PREFIX = "audit_"
_COLUMNS = (
    "kind, actor, token, address, request, action, outcome, object_kind, object_id, subject, tenant_id,"
    " tenant, before, after"
)

_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION audit_source(
    OUT kind text, OUT actor text, OUT token text, OUT address inet, OUT request text
) STABLE LANGUAGE plpgsql AS $$
DECLARE told jsonb := nullif(current_setting('allot.source', true), '')::jsonb;
BEGIN
    IF told IS NOT NULL THEN
        kind := told->>'kind'; actor := told->>'actor'; token := told->>'token';
        address := nullif(told->>'address', '')::inet; request := told->>'request';
    ELSE
        token := ''; address := inet_client_addr(); request := '';
        IF current_setting('application_name') = 'allotment' THEN
            kind := 'system'; actor := 'system';
        ELSE
            kind := 'database'; actor := left('database role ' || session_user, 80);
            request := left(current_setting('application_name'), 200);
        END IF;
    END IF;
END $$;
CREATE OR REPLACE FUNCTION audit_bounded(told jsonb) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$
    SELECT CASE WHEN length(told::text) <= {_VALUE_CHARACTERS} THEN told ELSE (
        SELECT jsonb_object_agg(key, CASE WHEN length(value::text) <= {_VALUE_CHARACTERS} THEN value ELSE
            to_jsonb(
                left(value::text, {_VALUE_CHARACTERS}) || '... (' || length(value::text) || ' characters)'
            ) END)
        FROM jsonb_each(told)
    ) END
$$;
CREATE OR REPLACE FUNCTION audit_differing(one jsonb, other jsonb) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$
    SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each(one)
    WHERE value IS DISTINCT FROM other -> key
$$;
"""


def expected_version() -> str:
    """Name of the triggers that the code asks for."""
    return hashlib.sha256("\n".join(_definitions()).encode()).hexdigest()[:16]


def installed_version() -> str:
    """Name of the triggers that are there; empty: none are, so that changes go unnoticed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT obj_description(to_regclass('tenants_auditentry'), 'pg_class')")
        (comment,) = cursor.fetchone()
    return comment or ""


def install(**_: Any) -> None:
    """Make the triggers as the code asks for them; after migrations, once all are applied."""
    if connection.vendor != "postgresql" or installed_version() == expected_version():
        return
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return
    with atomic(), connection.cursor() as cursor:
        _remove_all(cursor)
        for definition in _definitions():
            cursor.execute(definition)
        cursor.execute(f"COMMENT ON TABLE tenants_auditentry IS '{expected_version()}'")


def remove(*, plan: Any = (), **_: Any) -> None:
    """Before migrations, take the triggers away: PostgreSQL changes no type of a column that one reads."""
    if plan and connection.vendor == "postgresql":
        with atomic(), connection.cursor() as cursor:
            _remove_all(cursor)
            cursor.execute("SELECT to_regclass('tenants_auditentry')")
            if cursor.fetchone()[0]:
                cursor.execute("COMMENT ON TABLE tenants_auditentry IS NULL")


def _remove_all(cursor: Any) -> None:
    cursor.execute(
        "SELECT t.tgname, t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid"
        " WHERE starts_with(f.proname, %s) AND starts_with(t.tgname, %s)",
        [f"{_PREFIX}of_", _PREFIX],
    )
    for trigger, table in cursor.fetchall():
        cursor.execute(f"DROP TRIGGER {trigger} ON {table}")


def audited_models() -> Iterator[tuple[type[models.Model], AuditedTable]]:
    known = {model._meta.label: model for model in apps.get_models(include_auto_created=True)}
    for label, audited in AUDITED.items():
        yield known[label], audited


def columns_of(
    model: type[models.Model], audited: AuditedTable
) -> tuple[list[models.Field[object, object]], list[models.Field[object, object]]]:
    """Return the columns that are recorded, and those of which only the fact of a change is."""
    recorded, secret = [], []
    for column in model._meta.concrete_fields:
        if column.primary_key and not column.is_relation:
            continue
        if _is_secret(column, audited):
            if column.column not in audited.left_out:
                secret.append(column)
        elif column.column not in audited.left_out:
            recorded.append(column)
    return recorded, secret


def _is_secret(column: models.Field[object, object], audited: AuditedTable) -> bool:
    if column.column in audited.hidden or isinstance(column, models.BinaryField):
        return True
    return bool(SECRET.search(column.column or "")) and column.column not in audited.shown


def _definitions() -> Iterator[str]:
    yield _FUNCTIONS
    for model, audited in audited_models():
        yield from _of_table(model, audited)


def _of_table(model: type[models.Model], audited: AuditedTable) -> Iterator[str]:
    table, function = model._meta.db_table, f"{_PREFIX}of_{model._meta.db_table}"
    recorded, secret = columns_of(model, audited)
    watched = [field.column for field in recorded if field.column not in audited.unwatched]
    watched += [field.column for field in secret]
    changed = " OR ".join(
        [f"old.{column} IS DISTINCT FROM new.{column}" for column in watched] + [f"({audited.watched_when})"]
    )
    yield _function(function, model, audited, recorded, secret)
    for event, rows in (("INSERT", "NEW"), ("DELETE", "OLD")):
        yield (
            f"CREATE TRIGGER {_PREFIX}{event.lower()} AFTER {event} ON {table}"
            f" REFERENCING {rows} TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
    yield (
        f"CREATE TRIGGER {_PREFIX}update AFTER UPDATE ON {table} FOR EACH ROW WHEN ({changed})"
        f" EXECUTE FUNCTION {function}()"
    )
    yield (
        f"CREATE TRIGGER {_PREFIX}truncate AFTER TRUNCATE ON {table} FOR EACH STATEMENT"
        f" EXECUTE FUNCTION {function}()"
    )


def _function(
    function: str,
    model: type[models.Model],
    audited: AuditedTable,
    recorded: list[models.Field[object, object]],
    secret: list[models.Field[object, object]],
) -> str:
    what, slug = audited.what, action_word(audited.what)
    key = f"r.{model._meta.pk.column}"
    state = _object(recorded, "r")
    marks = " || ".join(
        f"CASE WHEN old.{one.column} IS DISTINCT FROM new.{one.column}"
        f" THEN '{{\"{one.name}\": \"{CHANGED_SECRET}\"}}'::jsonb ELSE '{{}}' END"
        for one in secret
    )
    action = " ".join(f"WHEN {when} THEN '{slug}.{name}'" for name, when in audited.changes.items())
    action = f"CASE {action} ELSE '{slug}.change' END" if action else f"'{slug}.change'"
    name, most = f"({audited.name})::text", MOST_ENTRIES_OF_ONE_STATEMENT
    source = "s.kind, s.actor, s.token, s.address, s.request"
    single = f"'{what}', {key}::text, coalesce(left({name}, 160), ''), t.id, coalesce(t.name, '')"
    tenant = f"LEFT JOIN tenants_tenant t ON t.id = {audited.tenant}"
    many = f"""jsonb_build_object('count', count(*), 'ids', (array_agg({key} ORDER BY {key}))[:{_MOST_IDS}],
                'names', (array_agg({name} ORDER BY {key}))[:{most}])"""

    def rows(verb: str, columns: str) -> str:
        """Record rows that were made or removed; `columns` has a place for what they hold."""
        return f"""
        IF (SELECT count(*) FROM (SELECT FROM given LIMIT {most + 1}) few) > {most} THEN
            INSERT INTO tenants_auditentry ({_COLUMNS})
            SELECT {source}, '{slug}.{verb}', 'done', '{what}', '', count(*) || ' of them', t.id,
                coalesce(t.name, ''), {columns.format(many)}
            FROM given r CROSS JOIN audit_source() s {tenant} WHERE {audited.only}
            GROUP BY {source}, t.id, t.name;
        ELSE
            INSERT INTO tenants_auditentry ({_COLUMNS})
            SELECT {source}, '{slug}.{verb}', 'done', {single}, {columns.format(f"audit_bounded({state})")}
            FROM given r CROSS JOIN audit_source() s {tenant} WHERE {audited.only} ORDER BY {key};
        END IF;"""

    return f"""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    was jsonb; became jsonb; r {model._meta.db_table}%ROWTYPE;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        r := old; was := {state};
        r := new; became := {state};
        INSERT INTO tenants_auditentry ({_COLUMNS})
        SELECT {source}, {action}, 'done', {single},
            audit_bounded(audit_differing(was, became)),
            audit_bounded(audit_differing(became, was){" || " + marks if marks else ""})
        FROM audit_source() s {tenant};
    ELSIF TG_OP = 'TRUNCATE' THEN
        INSERT INTO tenants_auditentry ({_COLUMNS})
        SELECT {source}, '{slug}.remove', 'done', '{what}', '', 'all of them', NULL, '', NULL, NULL
        FROM audit_source() s;
    ELSIF TG_OP = 'INSERT' THEN{rows("create", "NULL, {}")}
    ELSE{rows("remove", "{}, NULL")}
    END IF;
    RETURN NULL;
END $$"""


def action_word(what: str) -> str:
    """How actions on such things begin: "virtual-cluster"."""
    return what.lower().replace(" ", "-")


def _object(fields: list[models.Field[object, object]], row: str) -> str:
    pairs = ", ".join(f"'{field.name}', {_value(field, row)}" for field in fields)
    return f"jsonb_build_object({pairs})"


def _value(field: models.Field[object, object], row: str) -> str:
    """The column, or what people call the thing that it points to."""
    column = f"{row}.{field.column}"
    target = field.related_model._meta if field.related_model is not None else None
    if target is None or target.label not in _NAMES:
        return column
    name = f"SELECT o.{_NAMES[target.label]} FROM {target.db_table} o WHERE o.{target.pk.column} = {column}"
    return f"coalesce(({name}), {column}::text)"
