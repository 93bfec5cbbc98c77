"""A Celery worker that is killed takes its pool along."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.up.busy_worker import never_end
from tests.up.test_supervisor import is_alive
from tests.up.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_a_busy_pool_ends_with_its_worker(redis_url: str, tmp_path: Path) -> None:
    said, started = tmp_path / "output", tmp_path / "started"
    with said.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tests.up.busy_worker", "worker", "--concurrency", "2"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])},
            stdout=output,
            stderr=output,
        )
    try:
        never_end.delay(str(started))
        wait_until(lambda: started.exists() or worker.poll() is not None, said.read_text, 60)
        pool = psutil.Process(worker.pid).children()
        assert len(pool) == 2
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: not any(is_alive(process.pid) for process in pool), said.read_text)
