"""The platform's Celery app with a task that computes in the solver's process, for `test_pool`."""

import os
from pathlib import Path

from controlplane.celery import app
from scheduler.core.solvers.solving import solve
from tests.core.solvers.instances import large_instance


@app.task
def compute(told: str, jobs: int) -> None:
    """Write the numbers of this process and of the solver's; then compute, for ever with many jobs."""
    # Django is set up by the worker, after it has loaded this module.
    from scheduler.rounds.run import solver
    from scheduler.rounds.solver import TimeLeft

    solver().run(TimeLeft(30, 30), solve, large_instance(20))
    written = Path(f"{told}.part")
    written.write_text(f"{os.getpid()} {solver().child}")
    written.rename(told)
    solver().run(TimeLeft(600, 30), solve, large_instance(jobs), "hierarchical_fifo")
