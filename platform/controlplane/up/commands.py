"""The other end of `commands_server`: run management commands in one Django process."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from controlplane.embedded.spawn import Spawn
from controlplane.up.child import describe_status
from controlplane.up.console import StartError

ANSWER_BYTES = 1024 * 1024
TAIL_BYTES = 3_000


class Commands:
    """A started `commands_server`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def run(self, *command: str) -> list[dict[str, Any]]:
        """Run one management command; the JSON objects among the lines that it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        title = f"`manage.py {' '.join(command)}`"
        if not line:
            ended = describe_status(await self._process.wait())
            raise StartError(f"{title} {ended}.{self._tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise StartError(f"{title} failed: {answer['error']}{self._tail()}")
        return [json.loads(text) for text in answer["output"].splitlines() if text.startswith("{")]

    def _tail(self) -> str:
        said = self._log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").splitlines()
        return "".join(f"\n    {line}" for line in said) + (f"\n  All of it: {self._log}" if said else "")


@contextlib.asynccontextmanager
async def commands(environment: dict[str, str], cwd: Path, log: Path) -> AsyncIterator[Commands]:
    """A commands server for the length of the block."""
    spawn = Spawn(
        argv=[sys.executable, "-m", "controlplane.up.commands_server"],
        cwd=cwd,
        environment=environment,
        death_signal=signal.SIGKILL,
    )
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *spawn.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=ANSWER_BYTES,
            **spawn.options(),
        )
    try:
        yield Commands(process, log)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
