"""Lists `up` among the commands. Run by its name, it starts before Django does: see `manage.py`."""

import argparse

from django.core.management.base import BaseCommand, CommandParser

from controlplane.up.main import add_arguments, run


class Command(BaseCommand):
    help = "Run the whole platform on this machine: databases, web, worker, beat, a demonstration cluster."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def handle(self, **options: object) -> None:
        status = run(argparse.Namespace(**options))
        if status:
            raise SystemExit(status)
