"""Test data for the node agent: desired parts, configurations, real agents."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.configuration import (
    Configuration,
    InventoryConfiguration,
    SimulatedGpu,
    read_configurations,
)
from nodeagent.folder import AttemptFolder
from nodeagent.lease import read_lease
from nodeagent.machine import ALIVE, AttemptExited
from nodeagent.messages import DesiredPart, Replica, encode
from nodeagent.process.environment import stray_mark
from nodeagent.process.runtime import ProcessRuntime
from nodeagent.process.users import closed_folder
from nodeagent.procfs import processes_with_setting
from tests.patience import PATIENCE_SECONDS, until_async

PLATFORM = Path(__file__).resolve().parents[2] / "platform"
GPU_BYTES = 16 * 2**30


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in a file that speaks for one node."""
    (only,) = read_configurations(path)
    return only


def make_replica(*command: str, rank: int = 0, **changes: Any) -> Replica:
    values: dict[str, Any] = {
        "rank": rank,
        "task": "worker",
        "gpu_indexes": (rank,),
        "command": command or ("true",),
    }
    return Replica(**{**values, **changes})


def make_part(*replicas: Replica, attempt: int = 1, **changes: Any) -> DesiredPart:
    """Return a desired part that runs the replicas at once; one that does nothing when none are given."""
    values: dict[str, Any] = {
        "attempt": attempt,
        "job": 100 + attempt,
        "number": 1,
        "name": "example",
        "tenant": "vision",
        "gpu_model": "V100",
        "replicas": replicas or (make_replica(),),
        "world_size": len(replicas) or 1,
        "go": True,
        "stop": False,
        "grace_seconds": 5.0,
        "has_rank_zero": True,
    }
    return DesiredPart(**{**values, **changes})


def shell(script: str, rank: int = 0, **changes: Any) -> Replica:
    return make_replica("sh", "-c", script, rank=rank, **changes)


def python(script: str, rank: int = 0, interpreter: str = sys.executable, **changes: Any) -> Replica:
    return make_replica(interpreter, "-I", "-S", "-u", "-c", script, rank=rank, **changes)


def everybodys_python() -> str:
    """An interpreter that other users get to: this one may be in root's own folder."""
    if not closed_folder(sys.executable):
        return sys.executable
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


def make_configuration(
    folder: Path, *, node: str = "node-1", server_url: str = "http://127.0.0.1:1"
) -> Configuration:
    gpus = tuple(SimulatedGpu(index=index, memory_bytes=GPU_BYTES, socket=index // 2) for index in range(4))
    inventory = InventoryConfiguration(
        kind="simulated", gpu_model="V100", gpus=gpus, cpus=16.0, memory_bytes=64 * 2**30
    )
    return Configuration(
        server_url=server_url,
        node=node,
        token=f"token-of-{node}",
        work_folder=str(folder / node),
        checkpoint_folder=str(folder / "checkpoints"),
        inventory=inventory,
    )


class AgentProcess:
    """A real agent in a process of its own."""

    def __init__(self, folder: Path, server_url: str, node: str = "node-1", **changes: Any) -> None:
        self.configuration = replace(make_configuration(folder, node=node, server_url=server_url), **changes)
        self.file = folder / f"{node}.json"
        self.file.write_text(json.dumps(encode(self.configuration)))
        self.log = folder / f"{node}.log"
        self.attempts = Path(self.configuration.work_folder) / "attempts"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "nodeagent",
                "--config",
                str(self.file),
                *arguments,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(PLATFORM)},
            )

    async def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    async def clean_up(self) -> None:
        """End what a killed agent left running, and leave nothing of it on the machine."""
        ended: set[int] = set()
        runtime = ProcessRuntime(
            self.configuration,
            lambda event: ended.add(event.attempt) if isinstance(event, AttemptExited) else None,
        )
        alive = {found.part.desired.attempt for found in runtime.recover() if found.part.phase in ALIVE}

        def all_ended() -> bool:
            for attempt in alive - ended:
                runtime.kill(attempt)
            return not alive - ended

        await until_async(all_ended)
        runtime.close()

    def let_end(self, job: int) -> None:
        """Make the file that a job of the test waits for."""
        (Path(self.configuration.checkpoint_folder) / str(job) / "end").touch()

    def lease_deadline(self) -> float:
        """When the lease ends that the server gave it last, by the boot clock."""
        deadline = read_lease(str(self.attempts.parent / "lease"))
        assert deadline is not None
        return deadline

    def is_over(self, attempt: int) -> bool:
        """Whether the shim has written its last word."""
        status = self.attempts / str(attempt) / "status.json"
        return status.exists() and bool(json.loads(status.read_text())["is_final"])

    def is_frozen(self, attempt: int) -> bool:
        """Whether it stands still since the lease ended."""
        return (self.attempts / str(attempt) / "frozen").exists()

    def lines(self, attempt: int) -> list[str]:
        """What rank 0 wrote."""
        log = self.attempts / str(attempt) / "rank-0.log"
        return log.read_text().splitlines() if log.exists() else []

    def output_under_way(self, attempt: int) -> list[int]:
        """The ends of the chunks of rank 0 that were sent and not yet confirmed."""
        journal = json.loads((self.attempts / str(attempt) / "rank-0.sent").read_text())
        return list(journal["ends"])

    def processes(self, attempt: int) -> list[int]:
        """The live processes of rank 0."""
        folder = AttemptFolder(str(self.attempts / str(attempt)))
        return processes_with_setting(stray_mark(folder, 0))

    def shim_pid(self, attempt: int) -> int:
        status = json.loads((self.attempts / str(attempt) / "status.json").read_text())
        return int(status["pid"])
