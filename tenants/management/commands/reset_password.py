"""Give a user a new password when no operator can sign in to do it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.errors import ApplicationError
from tenants.services import password_reset


class Command(BaseCommand):
    help = "Give a user a random password and print it. The user's API tokens end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--keep-tokens", action="store_true", help="Keep the user's API tokens valid.")

    def handle(self, *args: Any, username: str, keep_tokens: bool, **options: Any) -> None:
        try:
            password = password_reset(by="reset_password", username=username, end_tokens=not keep_tokens)
        except ApplicationError as error:
            raise CommandError(error.message) from None
        self.stdout.write(password)
