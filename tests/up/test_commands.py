"""The process that runs management commands for `manage.py up`."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from controlplane.up.commands import commands
from controlplane.up.console import StartError
from tests.patience import PATIENCE_SECONDS, until_async

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}",
    "DJANGO_SETTINGS_MODULE": "controlplane.settings_offline",
}


async def test_a_command_that_fails_costs_only_itself(tmp_path: Path) -> None:
    async with commands(ENVIRONMENT, ROOT, tmp_path / "log") as server:
        with pytest.raises(StartError, match="Unknown command: 'no_such'"):
            await server.run("no_such")
        assert await server.run("check") == []


async def test_a_command_that_does_not_return_ends_with_the_block(tmp_path: Path) -> None:
    started = tmp_path / "started"
    waits = f"import os, signal; open({str(started)!r}, 'w').write(str(os.getpid())); signal.pause()"

    async def start_and_leave() -> int:
        async with commands(ENVIRONMENT, ROOT, tmp_path / "log") as server:
            asking = asyncio.create_task(server.run("shell", "--command", waits))
            await until_async(lambda: started.exists() and started.read_text())
            asking.cancel()
            return int(started.read_text())

    assert not psutil.pid_exists(await asyncio.wait_for(start_and_leave(), PATIENCE_SECONDS))
