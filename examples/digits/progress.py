"""What a person reads in the log, and what the platform reads from the progress file."""

import json
import time
from pathlib import Path

# Reports go by time, not by step: a fast run does not flood the log, a slow one does not fall silent.
REPORT_SECONDS = 1.0


class Progress:
    """Prints readable lines and appends one JSON line per report to `$ALLOT_PROGRESS`, if there is one."""

    def __init__(self, path: Path | None, *, batch: int, total_steps: int) -> None:
        self._stream = path.open("a", buffering=1) if path else None
        self._batch = batch
        self._total_steps = total_steps
        self._last_report = float("-inf")

    @property
    def due(self) -> bool:
        return time.monotonic() - self._last_report >= REPORT_SECONDS

    def report(self, *, step: int, loss: float, accuracy: float) -> None:
        """`loss` is the batch's mean, `accuracy` that over the test images."""
        self._last_report = time.monotonic()
        say(f"step {step}/{self._total_steps}  loss {loss:.4f}  test accuracy {accuracy:.4f}")
        if self._stream is not None:
            line = {
                "step": step,
                "samples": step * self._batch,
                "loss": loss,
                "accuracy": accuracy,
                "total_steps": self._total_steps,
            }
            self._stream.write(json.dumps(line) + "\n")


def say(text: str) -> None:
    """A log line, visible at once even when stdout is a file or a pipe."""
    print(text, flush=True)
