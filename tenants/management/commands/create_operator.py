"""Create a user who may manage the platform, before any user can sign in."""

import getpass
import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.errors import ApplicationError
from tenants.models import User
from tenants.services import user_create


class Command(BaseCommand):
    help = "Create an operator, and print one JSON line: username, and password unless you typed it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", required=True)
        parser.add_argument("--email", default="")
        parser.add_argument(
            "--if-missing",
            action="store_true",
            help="do nothing but name the first operator when there is one already",
        )
        parser.add_argument(
            "--print-password",
            action="store_true",
            help="make a random password and print it, instead of asking for one",
        )

    def handle(self, **options: Any) -> None:
        if options["if_missing"]:
            existing = User.objects.filter(is_operator=True, is_active=True).order_by("pk").first()
            if existing is not None:
                self._answer(existing.username, None)
                return
        password = None if options["print_password"] else _read_password()
        try:
            _, generated = user_create(
                by="create_operator",
                username=options["username"],
                email=options["email"],
                password=password,
                is_operator=True,
            )
        except ApplicationError as error:
            raise CommandError(error.message) from None
        self._answer(options["username"], generated)

    def _answer(self, username: str, password: str | None) -> None:
        self.stdout.write(json.dumps({"username": username, "password": password}))


def _read_password() -> str:
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Again: "):
        raise CommandError("The two passwords differ.")
    return password
