"""Django's `migrate`, run as the role that owns the tables where there is one (decision 0031)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.postgresql.base import DatabaseWrapper

from controlplane import database_roles, server_urls

#: Numbers that a restored database leaves out: more than were handed out since any dump was made.
SKIPPED = 1_000_000
_SKIP = """
SELECT count(setval(format('%%I.%%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + %s))
FROM pg_sequences WHERE schemaname = %s AND data_type = 'bigint'::regtype
"""


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--restored",
            action="store_true",
            help="The database comes from a dump (docs/backups.md): new jobs and attempts get numbers far"
            " beyond those in it. Nodes and checkpoint folders may know later ones.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        url = settings.CONFIG.migration_database_url
        only_shows = options["check_unapplied"] or options["plan"]
        restored = options.pop("restored") and not only_shows
        if not url:
            super().handle(*args, **options)
            self._skip_numbers(restored)
            self._warn_of_superuser()
            return
        with _connected_to(url):
            super().handle(*args, **options)
            self._skip_numbers(restored)
            if not only_shows:
                application = settings.DATABASES[DEFAULT_DB_ALIAS]["USER"]
                database_roles.grant(connections[DEFAULT_DB_ALIAS], application)
        self._warn_of_superuser()

    def _skip_numbers(self, restored: bool) -> None:
        """Let no new job have the number, and with it the checkpoints, of one that the dump does not hold."""
        if not restored:
            return
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(_SKIP, [SKIPPED, database_roles.SCHEMA])
        self.stdout.write(f"New numbers of jobs and attempts begin {SKIPPED:,} after the last of the dump.")

    def _warn_of_superuser(self) -> None:
        """A superuser in the application's place can read the server's files and end every guard."""
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute("SELECT current_user FROM pg_roles WHERE rolname = current_user AND rolsuper")
            for (name,) in cursor.fetchall():
                self.stderr.write(
                    f"DATABASE_URL's role {name} is a superuser. "
                    "`manage.py prepare_database` makes one that is not.",
                    self.style.WARNING,
                )


@contextmanager
def _connected_to(url: str) -> Iterator[None]:
    """Let the default connection be another one, without a pool, for the length of the block."""
    database = server_urls.database(url)
    application = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = DatabaseWrapper(application.settings_dict | database, DEFAULT_DB_ALIAS)
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS].close()
        connections[DEFAULT_DB_ALIAS] = application
