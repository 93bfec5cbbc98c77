"""Jobs of one tenant that share GPUs share a Multi-Process Service; its daemon is a stand-in here."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.messages import DesiredPart
from nodeagent.process.mps import PROGRAM
from tests.agent.builders import make_part, python
from tests.agent.runtime_node import RuntimeNode, until

#: Takes `-f` and `quit` as the real one does, and leaves a mark in the shared memory that clients need.
DAEMON = f"""#!{sys.executable} -IS
import os, signal, sys
from pathlib import Path
control = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control")
if sys.argv[1:] == ["-f"]:
    Path("/dev/shm/service").write_text("served")
    control.with_name("made").write_text(str(os.getpid()))
    control.with_name("made").rename(control)
    signal.pause()
assert sys.stdin.read() == "quit\\n"
os.kill(int(control.read_text()), signal.SIGTERM)
"""
CLIENT = """
import os, time
from pathlib import Path
pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
print("service", Path(pipe, "control").read_text(), Path("/dev/shm/service").read_text(), flush=True)
time.sleep({seconds})
"""


@pytest.fixture
async def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeNode]:
    daemon = tmp_path / "bin" / PROGRAM
    daemon.parent.mkdir()
    daemon.write_text(DAEMON)
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", f"{daemon.parent}{os.pathsep}{os.environ['PATH']}")
    node = RuntimeNode(tmp_path, mps=True)
    if not node.runtime.isolated.has_sandbox or node.runtime.users is None:
        pytest.skip("jobs have no sandbox or no users of their own here")
    yield node
    await node.clean_up()


def sharing(
    attempt: int, *, tenant: str = "vision", seconds: float = 600, shares: bool = True
) -> DesiredPart:
    replica = python(CLIENT.format(seconds=seconds), gpu_indexes=(0,))
    return make_part(replica, attempt=attempt, tenant=tenant, shares_gpus=shares)


async def test_a_tenants_jobs_meet_in_one_service_that_ends_with_the_last(serving: RuntimeNode) -> None:
    assert serving.runtime.isolation["mps"]
    for attempt, tenant in ((1, "vision"), (2, "vision"), (3, "speech")):
        await serving.start(sharing(attempt, tenant=tenant))
    first, second, other = [(await serving.line("service", attempt)).split() for attempt in (1, 2, 3)]
    users = serving.runtime.users
    assert users is not None
    assert first == second != other
    assert first[1] == other[1] == "served", "through the memory that it needs"

    serving.restart()
    for attempt in (1, 2):
        assert serving.runtime.mps.service(users.number_of("vision")).processes()
        serving.runtime.stop(attempt, 0.0)
        await serving.end_of(attempt)
        serving.runtime.forget(attempt)
    await until(lambda: not serving.runtime.mps.service(users.number_of("vision")).processes())
    assert serving.runtime.mps.service(users.number_of("speech")).processes()
    serving.runtime.stop(3, 0.0)
    await serving.end_of(3)
    serving.runtime.forget(3)
    await until(lambda: not serving.runtime.mps.service(users.number_of("speech")).processes())


async def test_who_has_gpus_alone_uses_no_service(serving: RuntimeNode) -> None:
    outcome = await serving.run(sharing(1, seconds=0, shares=False))
    assert outcome.exit_code != 0
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'control'" in serving.text()


async def test_a_service_that_does_not_start_fails_the_attempt_and_says_so(serving: RuntimeNode) -> None:
    Path(serving.runtime.mps.program).write_text(f"#!{sys.executable} -IS\nraise SystemExit(1)\n")
    outcome = await serving.run(sharing(1))
    assert outcome.category == "start_failed"
    assert "nvidia-cuda-mps-control did not start" in outcome.message
