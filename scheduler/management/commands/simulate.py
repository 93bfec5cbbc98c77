"""`manage.py simulate --celery`: a sweep whose runs are spread over the platform's Celery workers.

Without --celery a simulation needs no settings; `manage.py` then does not come here.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from celery import current_app
from django.conf import settings
from django.core.management.base import BaseCommand

from scheduler.core.sim.result import Result
from scheduler.simulation.command import main
from scheduler.simulation.result_files import case_to_json, result_in
from scheduler.simulation.sweep import Case, Failed

TASK = "scheduler.tasks.simulate_case"
POLL_SECONDS = 0.2


class Command(BaseCommand):
    help = __doc__

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand everything behind the command's name on: the simulator has its own parser."""
        sys.exit(main(argv[2:], run_elsewhere=run_on_workers))


def run_on_workers(cases: Sequence[Case]) -> Iterator[tuple[int, Result | Failed]]:
    """Send every case to a worker; yield results as their files appear in a folder that all of them see."""
    home = settings.ALLOT_HOME
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=home.absolute()) as name:
        folder = Path(name)
        waiting = set(range(len(cases)))
        for place, case in enumerate(cases):
            current_app.send_task(TASK, [case_to_json(case), str(folder / str(place))])
        while waiting:
            for place in sorted(waiting):
                if (result := result_in(str(folder / str(place)))) is not None:
                    waiting.discard(place)
                    yield place, result
            time.sleep(POLL_SECONDS)
