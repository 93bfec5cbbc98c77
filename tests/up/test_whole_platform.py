"""`manage.py up` as a person uses it: demonstration, kill -9, second start, Ctrl-C; nothing stays."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from controlplane.embedded import ports
from controlplane.embedded.postgres import Postgres
from controlplane.embedded.redis import Redis
from controlplane.embedded.running import running
from tests.agent.runtime_node import is_alive
from tests.e2e.installation import ROOT, Installation
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import command_of
from tests.servers import PASSWORD, copy_template


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Installation]:
    platform = Installation(home=tmp_path / "a home", port=ports.pick())
    yield platform
    platform.stop()


SAID_LAST = {
    "worker": "Warm shutdown",
    "redis": "User requested shutdown",
    "postgres": "received fast shutdown request",
}


def processes_of(home: Path) -> list[psutil.Process]:
    """Everything that runs on behalf of this home: by its command, its environment or its folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            is_ours = any(str(home) in word for word in words) or process.cwd().startswith(str(home))
            if is_ours or process.environ().get("ALLOT_HOME") == str(home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def names(processes: list[psutil.Process]) -> str:
    return "\n".join(" ".join(words) for process in processes if (words := command_of(process)))


def printed(platform: Installation) -> str:
    return (platform.home.parent / "up.log").read_text()


def last_lines(platform: Installation) -> dict[str, str]:
    """What the supervisor wrote into each child's log at its end: how it ended."""
    logs = [log for log in (platform.home / "logs").glob("*.log") if log.stem != "setup"]
    return {log.stem: log.read_text().splitlines()[-1] for log in logs}


def test_the_demonstration_starts_again_at_once_after_kill_9_and_ctrl_c_ends_it_all(
    platform: Installation,
) -> None:
    platform.start()
    text = printed(platform)
    assert re.search(r"✓ \d+ node agents", text)
    assert f"Allotment runs at  {platform.url}" in text
    assert len(platform.password) >= 10
    # What keeps its jobs apart is said, and is something: on a machine that has neither none runs.
    assert re.search(r"Jobs: (in a sandbox|kept to their files by Landlock), (as|with) ", text)
    shows_the_demonstration(platform)

    first = processes_of(platform.home)
    assert platform.supervisor is not None
    assert platform.supervisor.pid in [process.pid for process in first]
    platform.supervisor.kill()
    platform.supervisor.wait()
    start = len(printed(platform))
    platform.start()
    assert "(as printed at the first start)" in printed(platform)[start:]
    until(lambda: not any(is_alive(process.pid) for process in first), lambda: names(first))
    shows_the_demonstration(platform)

    platform.supervisor.send_signal(signal.SIGINT)
    assert platform.supervisor.wait(timeout=2 * PATIENCE_SECONDS) == 0
    left = processes_of(platform.home)
    assert not left, names(left)
    # They end because they are asked to. On a machine busy enough some are killed all the same: that is said.
    ended = last_lines(platform)
    assert {"beat", "web", "worker", "redis", "postgres", "v100-a1"} <= ended.keys()
    for name, line in ended.items():
        assert "ended" in line, (name, line)
        was_late = f"{name} did not end within" in printed(platform)[start:]
        assert was_late or "SIGKILL" not in line, (name, line)
    for name, said in SAID_LAST.items():
        assert said in (platform.home / "logs" / f"{name}.log").read_text()


def shows_the_demonstration(platform: Installation) -> None:
    """Sign in, and see that its nodes are there and its jobs run."""
    platform.sign_in()

    def nodes() -> list[dict[str, Any]]:
        return platform.call("GET", "nodes?page_size=200")["results"]

    # Whether they still count as there after kill -9 depends on how long the start took.
    until(lambda: {node["state"] for node in nodes()} == {"ready"}, lambda: printed(platform))
    assert len(nodes()) == 7
    assert sum(len(node["gpus"]) for node in nodes()) >= 28
    assert len({node["gpu_model"] for node in nodes()}) == 3
    assert httpx.get(f"{platform.url}/readyz").json()["status"] == "ok"
    until(lambda: platform.call("GET", "cluster")["jobs"]["running"] > 0, lambda: printed(platform))


@pytest.mark.slow
def test_with_servers_of_ones_own_no_embedded_one_is_started(tmp_path: Path) -> None:
    copy_template(tmp_path / "own-postgres")
    postgres = Postgres(tmp_path / "own-postgres", password=PASSWORD, port=ports.pick(), durable=False)
    redis = Redis(tmp_path / "own-redis", password="r", port=ports.pick())
    home, port = tmp_path / "home", ports.pick()
    with running(postgres), running(redis), (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-demo", "--home", str(home), "--port", str(port)],
            cwd=ROOT,
            env=os.environ
            | {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url}
            | {"ALLOT_MIGRATION_DATABASE_URL": postgres.owner_url},
            stdout=output,
        )
        try:
            said = (tmp_path / "output").read_text
            until(
                lambda: "Allotment runs at" in said() or process.poll() is not None,
                said,
                seconds=2 * PATIENCE_SECONDS,
            )
            assert httpx.get(f"http://127.0.0.1:{port}/readyz").json()["status"] == "ok"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=PATIENCE_SECONDS)
        assert "PostgreSQL" not in said()
        assert "Redis" not in said()
        assert not (home / "postgres").exists()
        assert not (home / "redis").exists()
        assert f"DATABASE_URL={postgres.url}\n" in (home / "env").read_text()
