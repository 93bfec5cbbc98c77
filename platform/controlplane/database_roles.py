"""Two roles for one database: the owner migrates it, the application reads and writes its rows.

The application's role owns nothing. So an attacker who makes the server run any SQL can neither drop a
table nor switch off a trigger, and so cannot change what is append-only (decision 0031).
"""

from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from controlplane import server_urls

Connection = psycopg.Connection[tuple[Any, ...]]
#: Schema of all tables.
SCHEMA = "public"
# An identity's sequence belongs to its table and follows it.
_RELATIONS_OF_OTHERS = """
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                          WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
           c.oid::regclass::text
      FROM pg_class c
     WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
       AND c.relowner <> %(owner)s::regrole
       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i', 'e'))
 UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text
      FROM pg_proc p
     WHERE p.pronamespace = %(schema)s::regnamespace AND p.proowner <> %(owner)s::regrole
       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""


def prepare(administrator_url: str, owner_url: str, application_url: str) -> None:
    """Make the database and both roles as the URLs name them, or change what is there to that.

    The administrator may create roles and databases. Tables that an earlier version made as another role
    become the owner's; rights on them are given by `grant`, after migrations.
    """
    owner, application = server_urls.database(owner_url), server_urls.database(application_url)
    if owner["NAME"] != application["NAME"]:
        raise ValueError(f"the owner's database is {owner['NAME']}, the application's {application['NAME']}")
    administrator = make_conninfo(administrator_url, dbname="postgres")
    with closing(psycopg.connect(administrator, autocommit=True)) as connection:
        for role in (owner, application):
            _role(connection, role["USER"], role["PASSWORD"])
        _database(connection, owner["NAME"], owner["USER"], application["USER"])
    shared = make_conninfo(administrator_url, dbname=owner["NAME"])
    with closing(psycopg.connect(shared)) as connection, connection:
        _take_over(connection, owner["USER"])


def grant(connection: Any, application: str) -> None:
    """Let a role read and write the rows of all tables. `connection` is the owner's, of psycopg or Django."""
    role, schema = sql.Identifier(application), sql.Identifier(SCHEMA)
    with connection.cursor() as cursor:
        for statement in (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
            # The application may not change which migrations were run.
            "REVOKE INSERT, UPDATE, DELETE ON {schema}.django_migrations FROM {role}",
            # Nor may it rewrite who did what; retention is a function of the owner's.
            "REVOKE UPDATE, DELETE ON {schema}.tenants_auditentry FROM {role}",
        ):
            cursor.execute(sql.SQL(statement).format(schema=schema, role=role))


def _role(connection: Connection, name: str, password: str) -> None:
    role = sql.Identifier(name)
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {}").format(role))
    # As a hash, so that no log of the server can hold the password itself.
    secret = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    connection.execute(
        sql.SQL("ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD {}").format(
            role, sql.Literal(secret)
        )
    )


def _database(connection: Connection, name: str, owner: str, application: str) -> None:
    database, role = sql.Identifier(name), sql.Identifier(owner)
    # A role that is no superuser may hand things only to a role that it is a member of.
    if connection.info.parameter_status("is_superuser") != "on":
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))
    else:
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(application))
    )


def _take_over(connection: Connection, owner: str) -> None:
    connection.execute(
        sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(sql.Identifier(SCHEMA), sql.Identifier(owner))
    )
    others = connection.execute(_RELATIONS_OF_OTHERS, {"schema": SCHEMA, "owner": owner}).fetchall()
    for kind, name in others:
        # Names from the catalogue, quoted by it.
        statement = f"ALTER {kind} {name} OWNER TO {{}}"
        connection.execute(sql.SQL(statement).format(sql.Identifier(owner)))
