"""A Celery worker that ends takes its pool along, and the process in which policies compute.

While it works, its tasks share a connection to the database.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_SECONDS, until
from tests.processes import children_of, user_seconds_of
from tests.up.asking_worker import ask
from tests.up.busy_worker import never_end
from tests.up.computing_worker import compute
from tests.up.test_supervisor import is_alive

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def a_worker(app: str, said: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Celery worker of tests.up, which writes to `said`; kill it at the end."""
    with said.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", f"tests.up.{app}", "worker", *options],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])},
            stdout=output,
            stderr=output,
        )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def alone_on(queue: str) -> list[str]:
    """Return the options of a worker with one process that serves one queue and speaks to no other."""
    return ["--concurrency", "1", "--queues", queue, "--without-gossip", "--without-mingle"]


def test_a_busy_pool_ends_with_its_worker(redis_url: str, tmp_path: Path) -> None:
    said, started = tmp_path / "output", tmp_path / "started"
    with a_worker("busy_worker", said, "--concurrency", "2") as worker:
        never_end.delay(str(started))
        until(
            lambda: started.exists() or worker.poll() is not None,
            said.read_text,
            seconds=3 * PATIENCE_SECONDS,
        )
        pool = children_of(worker.pid)
        assert len(pool) == 2
    until(lambda: not any(is_alive(process.pid) for process in pool), said.read_text)


@pytest.mark.parametrize(("jobs", "how"), [(20, signal.SIGTERM), (4_000, signal.SIGKILL)])
def test_the_process_that_computes_ends_with_its_worker(
    redis_url: str, tmp_path: Path, jobs: int, how: signal.Signals
) -> None:
    """Asked to end when the task is done, and killed in the middle of a computation."""
    said, told = tmp_path / "output", tmp_path / "told"
    queue = f"computing-{jobs}"
    with a_worker("computing_worker", said, *alone_on(queue)) as worker:
        compute.apply_async((str(told), jobs), queue=queue)
        until(
            lambda: told.exists() or worker.poll() is not None, said.read_text, seconds=3 * PATIENCE_SECONDS
        )
        pool, child = map(int, told.read_text().split())
        busy = psutil.Process(child)
        before = user_seconds_of(busy)
        if how == signal.SIGKILL:
            until(lambda: user_seconds_of(busy) > before + 0.05, said.read_text)
        worker.send_signal(how)
        worker.wait(PATIENCE_SECONDS)
    until(lambda: not is_alive(pool) and not is_alive(child), said.read_text)


@pytest.mark.usefixtures("_postgres_server")
def test_tasks_use_one_connection_until_it_breaks(redis_url: str, tmp_path: Path) -> None:
    """Signing in to the database again for each task would cost more than most tasks do."""
    said, told = tmp_path / "output", tmp_path / "told"

    def answers() -> list[str]:
        return told.read_text().splitlines() if told.exists() else []

    with a_worker("asking_worker", said, *alone_on("asking")) as worker:
        for ends in (False, False, True, False, False):
            ask.apply_async((str(told),), {"ends": ends}, queue="asking")
        until(
            lambda: len(answers()) == 5 or worker.poll() is not None,
            said.read_text,
            seconds=3 * PATIENCE_SECONDS,
        )
    first, second, third, fourth, fifth = answers()
    assert first == second == third
    assert third not in (fourth, fifth)
