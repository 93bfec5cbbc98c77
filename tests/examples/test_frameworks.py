"""examples/sklearn and examples/pytorch, where their libraries are: interrupted, they end the same."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS, until

# Importing these libraries alone takes seconds.
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STOPPED_BY_SIGTERM = 128 + signal.SIGTERM

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed: extra `examples`"
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch"
)


class Run:
    """The ranks of one attempt of an example."""

    def __init__(self, script: str, folder: Path, attempt: int, *options: str, world_size: int = 1) -> None:
        self.progress = folder.with_name(f"{folder.name}-progress-{attempt}")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLES / script), *options],
                env={
                    "PATH": os.environ["PATH"],
                    "ALLOT_ATTEMPT": str(attempt),
                    "ALLOT_CHECKPOINT_DIR": str(folder),
                    "ALLOT_PROGRESS": str(self.progress),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "RANK": str(rank),
                    "LOCAL_RANK": "0",
                    "WORLD_SIZE": str(world_size),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(world_size)
        ]

    def stop_after_some_progress(self) -> str:
        """Send SIGTERM to all ranks half-way; return rank 0's output."""

        def has_progressed() -> bool:
            assert self.processes[0].poll() is None, self.processes[0].communicate()[0]
            return self.progress.exists() and self.progress.read_text().count("\n") >= 3

        until(has_progressed, seconds=2 * PATIENCE_SECONDS)
        for process in self.processes:
            process.terminate()
        outputs = self.finish()
        assert [process.returncode for process in self.processes] == [STOPPED_BY_SIGTERM] * len(outputs), (
            outputs
        )
        return outputs[0]

    def finish(self) -> list[str]:
        return [process.communicate(timeout=2 * PATIENCE_SECONDS)[0] for process in self.processes]

    def result(self) -> str:
        outputs = self.finish()
        assert [process.returncode for process in self.processes] == [0] * len(outputs), outputs
        return outputs[0].splitlines()[-1]


@needs_sklearn
def test_scikit_learn_ends_with_the_same_coefficients(tmp_path: Path) -> None:
    undisturbed = Run("sklearn/train.py", tmp_path / "undisturbed", 1, "--epochs", "2")
    first = Run("sklearn/train.py", tmp_path / "job", 1, "--epochs", "2", "--step-seconds", "0.005")
    assert "stopped at step" in first.stop_after_some_progress()
    again = Run("sklearn/train.py", tmp_path / "job", 2, "--epochs", "2")
    assert again.result() == undisturbed.result()


@needs_torch
def test_pytorch_ends_with_the_same_weights_and_may_change_its_number_of_ranks(tmp_path: Path) -> None:
    undisturbed = Run("pytorch/train.py", tmp_path / "undisturbed", 1, "--epochs", "3")
    paced = ("--epochs", "3", "--step-seconds", "0.02")
    first = Run("pytorch/train.py", tmp_path / "job", 1, *paced)
    assert "stopped at step" in first.stop_after_some_progress()
    again = Run("pytorch/train.py", tmp_path / "job", 2, "--epochs", "3")
    expected = undisturbed.result()
    assert again.result() == expected

    pair = Run("pytorch/train.py", tmp_path / "elastic", 1, *paced, world_size=2)
    found = re.search(r"stopped at step (\d+)", pair.stop_after_some_progress())
    assert found, "both ranks stop at one step"
    alone = Run("pytorch/train.py", tmp_path / "elastic", 2, "--epochs", "3")
    (output,) = alone.finish()
    assert f"going on from step {found[1]}\n" in output
    # Sums in another order: the same up to rounding, and so the same accuracy or nearly.
    assert accuracy_in(output.splitlines()[-1]) == pytest.approx(accuracy_in(expected), abs=0.01)


def accuracy_in(result: str) -> float:
    found = re.search(r"accuracy ([\d.]+),", result)
    assert found, result
    return float(found[1])


@needs_torch
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_an_adaptive_run_goes_on_with_another_number_of_ranks_and_ends_as_well(
    tmp_path: Path, optimiser: str
) -> None:
    kind = ("--optimiser", optimiser, "--steps", "600")
    fixed = Run("pytorch/adaptive.py", tmp_path / "fixed", 1, *kind, "--fixed")
    pair = Run("pytorch/adaptive.py", tmp_path / "job", 1, *kind, "--step-seconds", "0.02", world_size=2)
    found = re.search(r"stopped at step (\d+)", pair.stop_after_some_progress())
    assert found, "both ranks stop at one step"
    alone = Run("pytorch/adaptive.py", tmp_path / "job", 2, *kind)
    (output,) = alone.finish()
    assert f"going on from step {found[1]}\n" in output
    assert accuracy_in(output.splitlines()[-1]) == pytest.approx(accuracy_in(fixed.result()), abs=0.03)
    lines = [json.loads(line) for line in alone.progress.read_text().splitlines()]
    assert lines[-1]["batch_size"] > lines[-1]["initial_batch"] == 64
    assert lines[0]["samples"] > 0
