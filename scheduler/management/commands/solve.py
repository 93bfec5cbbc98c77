"""`manage.py solve`; it needs no settings and no database, so `manage.py` usually does not come here."""

import sys

from django.core.management.base import BaseCommand

from scheduler.simulation.solve_command import main


class Command(BaseCommand):
    help = __doc__

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand everything behind the command's name on: it has its own parser."""
        sys.exit(main(argv[2:]))
