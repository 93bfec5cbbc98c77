"""Make the database and its two roles, as an administrator of the server."""

import os
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane import database_roles, server_urls

VARIABLE = "ALLOT_ADMIN_DATABASE_URL"


class Command(BaseCommand):
    help = (
        "Create the database, its owner (ALLOT_MIGRATION_DATABASE_URL) and the application's role "
        f"(DATABASE_URL), as the administrator of {VARIABLE}. May be run again; then run `migrate`."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        administrator = os.environ.get(VARIABLE, "")
        config = settings.CONFIG
        if not config.migration_database_url:
            raise CommandError(
                "ALLOT_MIGRATION_DATABASE_URL: not set; it names the role that owns the tables."
            )
        try:
            server_urls.database(administrator)
            database_roles.prepare(administrator, config.migration_database_url, config.database_url)
        except (ValueError, psycopg.Error) as error:
            raise CommandError(f"{VARIABLE}: {str(error).strip()}") from None
