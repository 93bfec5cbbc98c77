"""A real agent process that speaks for all nodes of the tests' Slurm."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from nodeagent.batch.job_folder import BatchJobFolder, read
from nodeagent.batch.runtime import REMOTE_RUNNER
from tests.agent.builders import GPU_BYTES, PLATFORM
from tests.agent.fake_server import FakeServer
from tests.slurm.cluster import NODES, SlurmCluster


class SlurmAgent:
    """The process, and what it shares with the nodes."""

    def __init__(self, folder: Path, server: FakeServer, cluster: SlurmCluster) -> None:
        self.folder = folder
        self.server = server
        self.cluster = cluster
        self.process: asyncio.subprocess.Process | None = None
        configuration: dict[str, Any] = {
            "server_url": server.url,
            "work_folder": "shared",
            "checkpoint_folder": "checkpoints",
            "inventory": {"kind": "simulated"},
            "slurm": {
                "partition": "gpu",
                "nodes": {node: f"token-of-{node}" for node in NODES},
                "gpu_memory_bytes": GPU_BYTES,
                "every_seconds": 0.2,
            },
        }
        self.file = folder / "slurm.json"
        self.file.write_text(json.dumps(configuration))

    async def start(self) -> None:
        with (self.folder / "agent.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "nodeagent", "--config", str(self.file)),
                stderr=log,
                env={**os.environ, **self.cluster.environment, "PYTHONPATH": str(PLATFORM)},
            )
        server, nodes = self.server, set(NODES)
        await server.until(lambda: nodes <= server.inventories.keys() & server.sockets.keys())

    async def end(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        await self.process.wait()

    def batch_jobs(self, node: str) -> list[Path]:
        return list((self.folder / "shared" / node / "errands").glob("[0-9]*"))

    def job_folder(self, node: str, attempt: int) -> BatchJobFolder:
        return BatchJobFolder(str(self.folder / "shared" / node / "errands" / str(attempt)))

    def job(self, node: str, attempt: int) -> str:
        """Slurm's name of the attempt's job; "" before there is one."""
        return str(read(self.job_folder(node, attempt).job).get("name", ""))

    def states(self, node: str, attempt: int) -> list[str]:
        """What Slurm says of all jobs of that name."""
        return self.cluster.jobs().get(self.job(node, attempt), [])

    def remote_runner(self, node: str, attempt: int) -> list[str]:
        """The command that the job consists of."""
        return [
            sys.executable,
            "-I",
            "-c",
            REMOTE_RUNNER,
            self.job_folder(node, attempt).path,
            self.job(node, attempt),
        ]
