"""Jobs in containers, by a real podman and an image made of busybox."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.configuration import Containers, Limits
from nodeagent.folder import AttemptFolder
from nodeagent.frames import OUTPUT
from nodeagent.messages import Replica
from nodeagent.process import container
from nodeagent.sessions.visit import Command
from nodeagent.shim.freezing import CONTAINER_FREEZE_SECONDS
from nodeagent.shim.main import CONTAINER_KILL_MARGIN_SECONDS
from tests.agent.builders import make_configuration, make_part, make_replica
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, RuntimeNode, settled
from tests.patience import until_async

IMAGE = "localhost/allotment-test:busybox"
APPLETS = ("cat", "echo", "grep", "head", "id", "ls", "sh", "sleep", "touch", "yes")
#: What machines that forbid root to raise limits, and kernels without nftables, need.
FLAGS = ("--runtime", "runc", "--ulimit", "nproc=1000:1000")
SAVES = "trap 'touch $ALLOT_CHECKPOINT_DIR/saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    podman, runc, busybox = (shutil.which(name) for name in ("podman", "runc", "busybox"))
    if os.geteuid() != 0 or podman is None or runc is None or busybox is None:
        pytest.skip("needs root, podman, runc and a static busybox: apt install podman runc busybox-static")
    root = tmp_path_factory.mktemp("image")
    for folder in ("bin", "tmp", "etc"):
        (root / folder).mkdir()
    shutil.copy(busybox, root / "bin")
    for name in APPLETS:
        (root / "bin" / name).symlink_to("busybox")
    tree = subprocess.run(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    imported = subprocess.run([podman, "import", "-", IMAGE], input=tree, capture_output=True, check=False)
    run = [podman, "run", "--rm", "--pull", "never", "--network", "none", "--ulimit", "nofile=1024:1024"]
    trial = subprocess.run([*run, *FLAGS, IMAGE, "echo"], capture_output=True, text=True, check=False)
    if imported.returncode or trial.returncode:
        pytest.skip(f"podman does not work here: {trial.stderr}")
    yield Containers(images=("localhost/allotment-test:",), pull="never", network="none", flags=FLAGS)
    subprocess.run([podman, "rmi", "--force", IMAGE], capture_output=True, check=False)


@pytest.fixture
async def node(tmp_path: Path, containers: Containers) -> AsyncIterator[RuntimeNode]:
    limits = Limits(processes=24, disk_bytes=8 * 2**20)
    node = RuntimeNode(tmp_path, containers=containers, limits=limits)
    assert node.runtime.isolation["container"], node.runtime.containers.problem
    yield node
    await node.clean_up()
    assert left(node) == ""


def left(node: RuntimeNode) -> str:
    """The containers of this node that the engine still knows."""
    names = ["--all", "--format", "{{.Names}}", "--filter", f"name={node.runtime.containers.unique}"]
    return subprocess.run(["podman", "ps", *names], capture_output=True, text=True, check=True).stdout


def inside(script: str, **changes: Any) -> Replica:
    return make_replica("sh", "-c", script, image=IMAGE, **changes)


async def test_an_engine_that_hangs_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it has started goes on, as the monitor of a container does, and keeps its output open."""
    monkeypatch.setattr(container, "ANSWER_SECONDS", 0.2)
    await container.order(["sh", "-c", "sleep 60 & exec sleep 600"])
    assert "timed out" in caplog.text


async def test_a_command_in_its_image_with_its_folders_environment_and_rights(node: RuntimeNode) -> None:
    script = """
    echo $ALLOT_JOB $CUDA_VISIBLE_DEVICES $WORD $PATH; id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status
    touch /x /bin/x 2>/dev/null; ls /usr /work 2>/dev/null; ls /proc | grep -c '^[0-9]'
    for path in . /tmp $TMPDIR $ALLOT_CHECKPOINT_DIR; do touch $path/mine || exit 1; done
    echo '{"step": 1}' >> $ALLOT_PROGRESS; exit 7
    """
    outcome = await node.run(make_part(inside(script, env={"WORD": "two words", "LD_PRELOAD": "/x.so"})))
    lines = node.text().splitlines()
    assert (outcome.exit_code, outcome.category) == (7, "user_error")
    assert lines[0] == "101 0 two words /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert node.configuration.users is not None
    assert int(lines[1]) >= node.configuration.users.first
    assert lines[2].split() == ["CapEff:", "0" * 16]
    assert lines[3].split() == ["NoNewPrivs:", "1"]
    assert int(lines[4]) < 10
    folder = node.runtime.folder(1)
    assert (Path(folder.work(0)) / "mine").exists()
    assert Path(folder.progress(0)).read_text() == '{"step": 1}\n'


async def test_a_stop_lets_it_save_and_a_new_agent_finds_it(node: RuntimeNode) -> None:
    await node.start(make_part(inside(SAVES)))
    await node.line("up")
    (adopted,) = node.restart()
    assert adopted.part.phase == "running"
    node.runtime.stop(1, 10.0)
    assert (await node.end_of()).category == "stopped"
    assert (Path(node.configuration.checkpoint_folder) / "101" / "saved").exists()
    assert left(node) == ""


async def test_one_that_ignores_sigterm_is_killed_and_a_dead_shim_leaves_nothing(node: RuntimeNode) -> None:
    for attempt in (1, 2):
        await node.start(make_part(inside(DEAF), attempt=attempt))
        await node.line("up", attempt)
    node.runtime.stop(1, 0.1)
    os.kill(node.status(2)["pid"], signal.SIGKILL)
    assert (await node.end_of(1)).exit_code == 128 + signal.SIGKILL
    assert (await node.end_of(2)).category == "lost"
    assert not node.alive(1) + node.alive(2)
    await until_async(lambda: left(node) == "")


async def test_without_a_lease_it_stands_still_goes_on_and_is_killed_as_it_stands(
    clock: MovedClock, node: RuntimeNode
) -> None:
    async def stands_still(deadline: float) -> str:
        clock.stop_at(deadline - CONTAINER_KILL_MARGIN_SECONDS - CONTAINER_FREEZE_SECONDS / 2)
        await until_async(lambda: node.runtime.is_frozen(1) or node.outcomes)
        before = await settled(node.text)
        assert node.outcomes == {}
        return before

    await node.start(make_part(inside("trap 'echo asked' TERM; while :; do echo on; sleep 0.1; done")))
    await node.line("on")
    before = await stands_still(node.renew_lease())
    deadline = node.renew_lease(LEASE_SECONDS, 1)
    await until_async(lambda: len(node.text()) > len(before) + 100)
    await stands_still(deadline)
    node.runtime.stop(1, 20.0)
    assert (await node.end_of()).category == "stopped"
    assert "asked" not in node.text()
    await until_async(lambda: left(node) == "")


async def test_its_limits_hold(node: RuntimeNode) -> None:
    bomb = "i=0; while [ $i -lt 100 ]; do sleep 600 & i=$((i+1)); done; echo all"
    await node.run(make_part(inside(bomb), attempt=1))
    assert "all" not in node.text(1)
    greedy = inside("x=$(yes | head -c 200000000); echo filled", memory_bytes=64 * 2**20)
    assert (await node.run(make_part(greedy, attempt=2))).category == "out_of_memory"
    full = inside("head -c 64000000 /dev/zero > big; sleep 600")
    assert (await node.run(make_part(full, attempt=3))).category == "out_of_disk"


async def test_what_cannot_be_started_says_why(node: RuntimeNode) -> None:
    images = {1: "localhost/allotment-test:none", 2: "docker.io/library/evil", 3: "dir:/etc"}
    for attempt, image in images.items():
        await node.run(make_part(make_replica("true", image=image), attempt=attempt))
        assert node.outcomes[attempt].category == "start_failed"
    assert "could not be started" in node.outcomes[1].message
    assert "allowed are those that begin with localhost/allotment-test:" in node.outcomes[2].message


async def test_a_node_without_containers_starts_no_image(tmp_path: Path) -> None:
    node = RuntimeNode(tmp_path)
    outcome = await node.run(make_part(make_replica("true", image=IMAGE)))
    assert (outcome.category, node.runtime.isolation["container"]) == ("start_failed", False)
    assert outcome.message.startswith("This node runs no containers.")
    await node.clean_up()


def test_real_devices_are_named_to_the_engine(tmp_path: Path) -> None:
    from nodeagent.process.container import Containers as Engine
    from nodeagent.process.container import environment_file

    configuration = make_configuration(tmp_path)
    engine = Engine(configuration, "allotment-node-1")
    engine.policy = Containers(images=("team/",))
    replica = make_replica("true", image="team/torch", cpus=1.5, memory_bytes=1000)
    folder = AttemptFolder(str(tmp_path / "1"))
    run = engine.commands(folder, "/checkpoints/7", make_part(replica), replica, 450_001, ["GPU-7"])["run"]
    assert run[run.index("--device") + 1] == "nvidia.com/gpu=GPU-7"
    assert (run[run.index("--cpus") + 1], run[run.index("--memory") + 1]) == ("1.5", "1000")
    assert run[-2:] == ["team/torch", "true"]
    assert environment_file({"A": "1", "B": "x y"}) == "A=1\nB=x y\n"
    with pytest.raises(OSError, match="several lines"):
        environment_file({"A": "1\nLD_PRELOAD=/x"})


async def test_a_guest_is_in_the_container_and_has_no_more_rights(node: RuntimeNode) -> None:
    facts = "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; ls / | head -3"
    await node.start(make_part(inside(f"({facts}) > facts; echo up; while :; do sleep 1; done")))
    await node.line("up")
    folder = node.runtime.folder(1)
    request = {"rank": 0, "command": ["sh", "-c", f"{facts}; exit 5"], "terminal": None, "type": "dumb"}
    command = await Command.start(folder, request)
    code = await command.exit_code()
    assert (code, await command.outputs[OUTPUT].read(4096)) == (5, Path(folder.work(0), "facts").read_bytes())
    await command.close()
    stays = await Command.start(folder, request | {"command": ["sh"], "terminal": [24, 80]})
    await stays.write(b"echo $((6*7)); sleep 99\n")
    told = b""
    while b"42" not in told:
        told += await stays.outputs[OUTPUT].read(99)
    node.runtime.stop(1, 0.5)
    await node.end_of()
    await stays.close()
