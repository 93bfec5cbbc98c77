"""`manage.py cells check FILE --nodes-from-database`: the part of the command that needs the platform.

Without that option a file is checked by itself, and `manage.py` does not come here.
"""

import sys

from django.core.management.base import BaseCommand

from scheduler.simulation.cells_command import main
from scheduler.virtual_clusters.cells.services import problems_now


class Command(BaseCommand):
    help = __doc__

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand everything behind the command's name on: it has its own parser."""
        sys.exit(main(argv[2:], further=problems_now))
