"""Seal the secrets of jobs by the newest key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants.sealing import SealError
from tenants.secrets import keyring, reseal_all


class Command(BaseCommand):
    help = (
        "Seal all secrets by the first key of ALLOT_SECRETS_KEYS; the other keys can be removed afterwards."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count, current = reseal_all(), keyring().current
        except SealError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Secrets sealed again: {count}. All are sealed by the key {current}.")
