"""The token of a GPU that the process shares with others: asked for before a step, given back after it.

The node holds one token a GPU and lets its holder run for a while, its quota (docs/gpu-sharing.md).
`ALLOT_GPU_TOKEN` names a socket where this process asks; without it, or without an answer there, nothing
waits. What this process launched on the GPU is waited for before the token is given back.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping

VARIABLE = "ALLOT_GPU_TOKEN"
MESSAGE_BYTES = 256
#: The time of a step is the longest of this many.
STEPS_SEEN = 20
MICROSECONDS = 1e6


class GpuToken:
    """One process's way to the token. Not for those that wait for one another: they could wait for ever."""

    def __init__(self, line: socket.socket | None) -> None:
        self._line = line
        self._is_held = False
        self._quota_ends_at = 0.0
        self._step_began_at: float | None = None
        self._steps: deque[float] = deque(maxlen=STEPS_SEEN)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> GpuToken:
        """Connect as the environment states; where that fails, the token holds nothing back."""
        path = environment.get(VARIABLE)
        if not path:
            return cls(None)
        line = None
        try:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # A path may be longer than a socket's address.
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
            try:
                line.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            finally:
                os.close(folder)
        except OSError:
            if line is not None:
                line.close()
            return cls(None)
        return cls(line)

    def take(self) -> None:
        """Return when this process may run: at once while its quota lasts."""
        self._end_step()
        if self._line is not None and not (self._is_held and time.monotonic() < self._quota_ends_at):
            _finish_launched()
            self._say(ask=True)
            self._hear()
        self._step_began_at = time.monotonic()

    def give_back(self) -> None:
        """Let others have the GPU: nothing is computed on it for a while."""
        self._end_step()
        if self._line is not None and self._is_held:
            _finish_launched()
            self._is_held = False
            self._say(**{"return": True})

    def close(self) -> None:
        self.give_back()
        self._lose()

    def _end_step(self) -> None:
        if self._step_began_at is not None:
            self._steps.append(time.monotonic() - self._step_began_at)
            self._step_began_at = None

    def _say(self, **message: object) -> None:
        assert self._line is not None
        if self._steps:
            message["burst"] = int(max(self._steps) * MICROSECONDS)
        try:
            self._line.send(json.dumps(message).encode())
        except OSError:
            self._lose()

    def _hear(self) -> None:
        """Wait for the quota; go on without it if the other side no longer answers."""
        if self._line is None:
            return
        try:
            quota = json.loads(self._line.recv(MESSAGE_BYTES))["quota"]
        except (OSError, ValueError, KeyError, TypeError):
            self._lose()
            return
        self._is_held = True
        self._quota_ends_at = time.monotonic() + quota / MICROSECONDS

    def _lose(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line, self._is_held = None, False


def _finish_launched() -> None:
    """Wait for what PyTorch launched on the GPU, if it is used at all; it is not imported here."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):  # The step itself will say what is wrong.
            torch.cuda.synchronize()
