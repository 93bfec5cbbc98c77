"""examples/images as its users run it: workers and the trainer killed, it ends with the same weights."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import yaml

from scheduler.jobspec import parse
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import signal_process

IMAGES = Path(__file__).resolve().parents[2] / "examples" / "images"
STEPS = 40


def start(folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, str(IMAGES / "train.py"), "--folder", str(folder.parent / "pictures")),
            *("--pictures", "40", "--steps", str(STEPS), *options),
        ],
        env={"PATH": os.environ["PATH"], "ALLOT_CHECKPOINT_DIR": str(folder), "OMP_NUM_THREADS": "1"}
        | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_whoever_is_killed_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    undisturbed, _ = start(tmp_path / "undisturbed", "--workers", "1").communicate(timeout=PATIENCE_SECONDS)
    expected = undisturbed.splitlines()[-1]
    assert expected.startswith(f"done after {STEPS} steps: ")

    disturbed = start(tmp_path / "disturbed", "--step-seconds", "0.2")
    assert disturbed.stdout is not None
    workers = disturbed.stdout.readline().removeprefix("workers: ").split()
    progress = tmp_path / "disturbed" / "progress.jsonl"
    until(
        lambda: disturbed.poll() is not None or (progress.exists() and progress.stat().st_size),
        "its progress",
    )
    assert signal_process(int(workers[0]))
    disturbed.terminate()
    output, _ = disturbed.communicate(timeout=PATIENCE_SECONDS)
    assert disturbed.returncode == 128 + signal.SIGTERM, output
    again = start(tmp_path / "disturbed")
    output, _ = again.communicate(timeout=PATIENCE_SECONDS)
    assert again.returncode == 0, output
    assert "going on from step" in output
    assert output.splitlines()[-1] == expected


def test_workers_of_the_platform_make_the_same_batches(tmp_path: Path) -> None:
    own, _ = start(tmp_path / "own", "--workers", "1").communicate(timeout=PATIENCE_SECONDS)
    job = parse(yaml.safe_load((IMAGES / "workers.yaml").read_text()))
    assert job.input_workers is not None
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    # What the node says to both.
    secret = {"ALLOT_INPUT_SECRET": "a secret of this test"}
    trainer = start(tmp_path / "fetched", "--workers", "0", ALLOT_PORT_INPUT_WORKERS=port, **secret)
    said = {
        "ALLOT_EXAMPLES": str(IMAGES.parent),
        "ALLOT_INPUT_TRAINERS": f"127.0.0.1:{port}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    workers = [subprocess.Popen(job.input_workers.command, env=said | secret) for _ in range(2)]
    fetched, _ = trainer.communicate(timeout=PATIENCE_SECONDS)
    assert trainer.returncode == 0, fetched
    assert fetched.splitlines()[-1] == own.splitlines()[-1]
    assert [worker.wait(PATIENCE_SECONDS) for worker in workers] == [0, 0]
