"""Attempts as real processes: how they start, and all the ways in which they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.clock import boot_clock_seconds
from nodeagent.messages import GpuPart
from nodeagent.process import runtime
from nodeagent.process.ports import PORTS
from nodeagent.process.runtime import ProcessRuntime
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from tests.agent.builders import make_part, make_replica, python, shell
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, RuntimeNode, is_alive, others_work
from tests.patience import until_async

ROOT = Path(__file__).resolve().parents[2]

GRACE_SECONDS = 20.0
IGNORES_TERM = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid())
while True: time.sleep(600)
"""
HEARS_TERM = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked\\n"))
print("pid", os.getpid())
while True: time.sleep(600)
"""
SAVES_ON_TERM = """
import os, signal, sys, time
def save(*_):
    open("saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("pid", os.getpid())
while True: time.sleep(600)
"""
#: A child that leaves the session, so that no signal to the group reaches it, and outlives its parent.
ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if (pid := os.fork()) == 0:
        while True: time.sleep(600)
    print("escaped", pid)
    os._exit(0)
os.wait()
"""


class TestStart:
    async def test_a_command_that_ends_well(self, node: RuntimeNode) -> None:
        outcome = await node.run(make_part(shell("echo out; echo err >&2")))
        assert node.text() == "out\nerr\n"
        assert (outcome.exit_code, outcome.category, outcome.message) == (0, "", "")
        assert outcome.signal == ""
        assert outcome.started_at is not None
        assert outcome.ended_at is not None
        assert outcome.started_at <= outcome.ended_at

    async def test_the_job_gets_its_environment_and_nothing_of_the_agents(
        self, node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")
        user = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "RANK": "9", "BATCH": "64", "LANG": "C"}
        script = "import json, os; print(json.dumps({**os.environ, 'cwd': os.getcwd()}))"
        replica = python(script, rank=3, gpu_indexes=(1, 2), env=user)
        part = make_part(
            replica, attempt=5, world_size=4, master_address="10.0.0.9", master_port=2345, has_rank_zero=False
        )
        await node.run(part)
        environment = json.loads(node.text(5, 3))
        assert environment["CUDA_VISIBLE_DEVICES"] == "1,2"
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "1,2"
        assert (environment["RANK"], environment["NODE_RANK"], environment["LOCAL_RANK"]) == ("3", "3", "0")
        assert (environment["WORLD_SIZE"], environment["NNODES"]) == ("4", "4")
        assert environment["LOCAL_WORLD_SIZE"] == "1"
        assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("10.0.0.9", "2345")
        assert (environment["BATCH"], environment["LANG"]) == ("64", "C")
        assert (environment["ALLOT_JOB"], environment["ALLOT_ATTEMPT"]) == ("105", "5")
        assert environment["ALLOT_GPU_MODEL"] == "V100"
        assert (environment["ALLOT_NODE"], environment["ALLOT_TENANT"]) == ("node-1", "vision")
        assert Path(environment["ALLOT_CHECKPOINT_DIR"]).is_dir()
        assert environment["HOME"] == environment["cwd"]
        assert environment["ALLOT_RESTARTS"] == "0"
        assert "SECRET_OF_THE_AGENT" not in environment
        page = (ROOT / "docs" / "environment.md").read_text()
        # The first two are the test's; Python adds the third to its own.
        ours = environment.keys() - {"BATCH", "cwd", "LC_CTYPE"}
        assert [name for name in sorted(ours) if f"`{name}`" not in page] == []

    async def test_a_replica_without_a_gpu_sees_none(self, node: RuntimeNode) -> None:
        await node.run(make_part(shell('echo "[$CUDA_VISIBLE_DEVICES]"', gpu_indexes=())))
        assert node.text() == "[]\n"

    async def test_the_chosen_python_comes_first_on_the_path(self, tmp_path: Path) -> None:
        node = RuntimeNode(tmp_path)
        node.runtime.configuration = replace(node.configuration, python=sys.executable)
        await node.run(make_part(shell("command -v python")))
        assert os.path.dirname(node.text().strip()) == os.path.dirname(sys.executable)
        await node.clean_up()

    async def test_rank_zero_gets_a_port_of_its_own_that_is_free(self, node: RuntimeNode) -> None:
        script = (
            "import os, socket; socket.socket().bind(('', int(os.environ['MASTER_PORT']))); print('bound')"
        )
        first, second = make_part(python(script), attempt=1), make_part(python(script), attempt=2)
        await node.prepare(first)
        await node.prepare(second)
        assert node.ports[1] != node.ports[2]
        assert node.ports[1] in PORTS
        with pytest.raises(OSError, match="in use"), socket.socket() as taken:
            taken.bind(("", node.ports[1] or 0))
        node.runtime.start(first)
        await node.end_of(1)
        assert node.text(1) == "bound\n"

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            (("no-such-program", "x"), "no-such-program: command not found"),
            (("/etc",), "/etc: Permission denied"),
        ],
    )
    async def test_a_command_that_cannot_be_started(
        self, node: RuntimeNode, command: tuple[str, ...], message: str
    ) -> None:
        outcome = await node.run(make_part(make_replica(*command)))
        assert (outcome.exit_code, outcome.category, outcome.message) == (127, "start_failed", message)
        assert node.text() == f"[allotment] {message}\n"
        assert not node.started

    async def test_a_failure_is_told_without_the_colours_of_a_terminal(self, node: RuntimeNode) -> None:
        line = r"\033]0;title\007\033[1;31mValueError\033[0m: bad shape"
        outcome = await node.run(make_part(shell(f"printf '{line}\n' >&2; exit 1")))
        assert (outcome.category, outcome.message) == ("user_error", "ValueError: bad shape")
        assert outcome.last_lines == "ValueError: bad shape\n"
        assert "\x1b[1;31m" in node.text()

    async def test_an_environment_that_cannot_be_passed_on(self, node: RuntimeNode) -> None:
        outcome = await node.run(make_part(shell("true", env={"A": "a\0b"})))
        assert outcome.category == "start_failed"
        assert "embedded null byte" in outcome.message

    async def test_a_node_that_cannot_prepare_says_why(self, node: RuntimeNode) -> None:
        (Path(node.configuration.work_folder) / "attempts" / "1").write_text("in the way")
        await node.prepare(make_part())
        assert node.outcomes[1].category == "start_failed"
        assert "File exists" in node.outcomes[1].message

    async def test_a_process_is_not_given_two_parts_of_divided_gpus(
        self, node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            node.runtime.devices, "names", lambda indexes: {index: f"MIG-{index}" for index in indexes}
        )
        outcome = await node.run(make_part(make_replica(gpu_indexes=(0, 1))))
        assert (outcome.exit_code, outcome.category) == (None, "start_failed")
        assert "Rank 0 was given 2 parts of divided GPUs (MIG)" in outcome.message
        part = make_replica(gpu_indexes=(0,), gpu_part=GpuPart(request=500, limit=500))
        outcome = await node.run(make_part(part, attempt=2))
        assert (outcome.exit_code, outcome.category) == (None, "start_failed")
        assert "Rank 0 was given a part of an instance of a divided GPU (MIG)" in outcome.message

    async def test_output_is_kept_up_to_its_limit_and_the_job_goes_on(self, node: RuntimeNode) -> None:
        outcome = await node.run(
            make_part(shell("yes | head -c 300000; echo done > finished"), log_bytes=1000)
        )
        assert outcome.exit_code == 0
        assert len(node.text()) < 1100
        assert "Output limit of 1000 bytes reached" in node.text().splitlines()[-1]
        assert (Path(node.runtime.folder(1).work(0)) / "finished").exists()

    async def test_what_a_process_leaves_behind_ends_with_it(self, node: RuntimeNode) -> None:
        outcome = await node.run(make_part(python(ESCAPES)))
        assert outcome.exit_code == 0
        assert await node.line("escaped")
        assert not node.alive()


class TestStop:
    async def test_the_job_may_save_its_work(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(SAVES_ON_TERM)))
        await node.line("pid")
        node.runtime.stop(1, 600.0)
        outcome = await node.end_of()
        assert (outcome.category, outcome.exit_code) == ("stopped", 0)
        assert (Path(node.runtime.folder(1).work(0)) / "saved").exists()

    async def test_one_that_ignores_sigterm_is_killed_after_its_grace(
        self, clock: MovedClock, node: RuntimeNode
    ) -> None:
        await node.start(make_part(python(HEARS_TERM), grace_seconds=600.0))
        pid = await node.pid("pid")
        asked = boot_clock_seconds()
        node.runtime.stop(1, GRACE_SECONDS)
        await node.line("asked")
        clock.stop_at(asked + GRACE_SECONDS - 0.1)
        await others_work()
        assert is_alive(pid)
        clock.jump(GRACE_SECONDS)
        outcome = await node.end_of()
        assert (outcome.category, outcome.exit_code) == ("stopped", 128 + signal.SIGKILL)
        assert outcome.signal == "SIGKILL"
        assert not is_alive(pid)

    async def test_a_second_stop_can_shorten_the_grace(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(IGNORES_TERM)))
        await node.line("pid")
        node.runtime.stop(1, 600.0)
        node.runtime.stop(1, 0.0)
        assert (await node.end_of()).category == "stopped"

    async def test_the_child_of_a_shell_keeps_its_grace(self, node: RuntimeNode) -> None:
        # The shell dies of SIGTERM at once; the program it started is the one with work to save.
        script = SAVES_ON_TERM.replace("def save(*_):", "def save(*_):\n    time.sleep(0.1)")
        await node.start(make_part(shell(f"{sys.executable} -u -c '{script}'; true")))
        await node.line("pid")
        node.runtime.stop(1, 600.0)
        await node.end_of()
        assert (Path(node.runtime.folder(1).work(0)) / "saved").exists()

    async def test_a_failure_does_not_wait_for_what_it_left_behind(self, node: RuntimeNode) -> None:
        outcome = await node.run(make_part(python(ESCAPES + "\nsys.exit(2)"), grace_seconds=600.0))
        assert outcome.exit_code == 2
        assert await node.line("escaped")
        assert not node.alive()

    async def test_processes_that_left_the_group_die_too(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(ESCAPES + "\nwhile True: time.sleep(600)")))
        escaped = await node.pid("escaped")
        assert is_alive(escaped)
        node.runtime.stop(1, 0.2)
        await node.end_of()
        assert not is_alive(escaped)

    async def test_a_suspended_process_can_be_stopped(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(SAVES_ON_TERM)))
        pid = await node.pid("pid")
        os.kill(pid, signal.SIGSTOP)
        node.runtime.stop(1, 600.0)
        assert (await node.end_of()).exit_code == 0

    async def test_a_stop_right_after_the_start_is_heard(self, node: RuntimeNode) -> None:
        for attempt in range(1, 6):
            desired = make_part(shell("sleep 600"), attempt=attempt)
            await node.prepare(desired)
            node.runtime.start(desired)
            if attempt > 1:
                await until_async(lambda at=attempt: os.path.exists(node.runtime.folder(at).status))
            node.runtime.stop(attempt, 0.0)
        for attempt in range(1, 6):
            assert (await node.end_of(attempt)).category == "stopped"

    async def test_one_replica_that_fails_ends_the_others(self, node: RuntimeNode) -> None:
        failing = shell(
            "until [ -e ../0/up ]; do sleep 0.01; done; echo 'ValueError: no data'; exit 3", rank=1
        )
        script = SAVES_ON_TERM.replace("while True", "open('up', 'w').close()\nwhile True")
        outcome = await node.run(make_part(python(script), failing))
        assert (outcome.exit_code, outcome.category) == (3, "user_error")
        assert outcome.message == "Rank 1: ValueError: no data"
        assert [replica["exit_code"] for replica in node.status()["replicas"]] == [0, 3]

    async def test_one_replica_that_is_done_does_not_end_the_others(self, node: RuntimeNode) -> None:
        part = make_part(shell("true"), shell("sleep 0.2; echo end", rank=1))
        assert (await node.run(part)).exit_code == 0
        assert node.text(1, 1) == "end\n"

    async def test_leaving_is_not_the_same_as_being_asked(self, node: RuntimeNode) -> None:
        await node.start(make_part(shell("sleep 600")))
        node.runtime.stop(1, 600.0, is_leaving=True)
        assert (await node.end_of()).category == "lost"


class TestLease:
    """What the end of a lease does where it does not freeze; `test_lapse.py` has the rest."""

    @pytest.fixture
    async def node(self, clock: MovedClock, tmp_path: Path) -> AsyncIterator[RuntimeNode]:
        node = RuntimeNode(tmp_path, freeze_seconds=0.0)
        yield node
        await node.clean_up()

    async def test_everything_is_dead_by_the_deadline(self, clock: MovedClock, node: RuntimeNode) -> None:
        await node.start(
            make_part(python(IGNORES_TERM), python(ESCAPES, rank=1), grace_seconds=GRACE_SECONDS)
        )
        pid = await node.pid("pid")
        await until_async(lambda: "escaped" in node.text(1, 1))
        deadline = node.renew_lease()
        clock.stop_at(deadline - KILL_MARGIN_SECONDS - 0.1)
        await others_work()
        assert is_alive(pid)
        clock.stop_at(deadline - KILL_MARGIN_SECONDS)
        outcome = await node.end_of()
        assert boot_clock_seconds() < deadline
        assert not node.alive()
        assert outcome.category == "lost"
        assert "lost contact" in outcome.message

    async def test_a_job_may_save_its_work_before_the_deadline(
        self, clock: MovedClock, node: RuntimeNode
    ) -> None:
        await node.start(make_part(python(SAVES_ON_TERM), grace_seconds=GRACE_SECONDS))
        await node.line("pid")
        clock.stop_at(node.renew_lease() - KILL_MARGIN_SECONDS - GRACE_SECONDS)
        assert (await node.end_of()).category == "lost"
        assert (Path(node.runtime.folder(1).work(0)) / "saved").exists()

    async def test_a_lease_moved_forward_in_time_lets_it_go_on(
        self, clock: MovedClock, node: RuntimeNode
    ) -> None:
        part = make_part(shell("echo begin; until [ -e end ]; do sleep 0.01; done"))
        await node.start(part)
        await node.line("begin")
        first = node.renew_lease()
        node.renew_lease(2 * LEASE_SECONDS)
        clock.go_on_from(first + 1.0)
        await others_work()
        Path(node.runtime.folder(1).work(0), "end").touch()
        outcome = await node.end_of()
        assert (outcome.category, node.text()) == ("", "begin\n")

    async def test_nothing_starts_when_the_lease_is_over(self, node: RuntimeNode) -> None:
        node.renew_lease(0.0)
        outcome = await node.run(make_part(shell("echo ran")))
        assert (outcome.category, node.text()) == ("lost", "")


class TestDeaths:
    async def test_a_killed_shim_takes_everything_with_it(self, node: RuntimeNode) -> None:
        await node.start(
            make_part(python(ESCAPES + "\nprint('pid', os.getpid())\nwhile True: time.sleep(600)"))
        )
        pid, escaped = await node.pid("pid"), await node.pid("escaped")
        os.kill(node.status()["pid"], signal.SIGKILL)
        outcome = await node.end_of()
        # Nobody saw how its processes ended: that must not look like success.
        assert (outcome.exit_code, outcome.category) == (137, "lost")
        assert not is_alive(pid)
        assert not is_alive(escaped)

    async def test_a_shim_that_hangs_is_killed_by_the_agent(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(IGNORES_TERM)))
        pid = await node.pid("pid")
        os.kill(node.status()["pid"], signal.SIGSTOP)
        node.runtime.kill(1)
        assert (await node.end_of()).category == "lost"
        assert not is_alive(pid)

    async def test_a_process_killed_from_outside_is_the_users_matter(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(IGNORES_TERM)))
        os.kill(await node.pid("pid"), signal.SIGKILL)
        outcome = await node.end_of()
        assert (outcome.exit_code, outcome.category) == (137, "user_error")
        assert "SIGKILL" in outcome.message
        assert outcome.signal == "SIGKILL"


class TestRestart:
    async def test_a_new_agent_adopts_what_runs(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(SAVES_ON_TERM)))
        pid = await node.pid("pid")
        (adopted,) = node.restart()
        assert adopted.part.phase == "running"
        assert adopted.part.desired.attempt == 1
        node.runtime.stop(1, 600.0)
        assert (await node.end_of()).category == "stopped"
        assert not is_alive(pid)

    async def test_what_is_adopted_is_watched_once(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(SAVES_ON_TERM)))
        node.restart()
        shim, later = node.runtime.shims[1], asyncio.Event()
        asyncio.get_running_loop().call_later(3 * runtime.CLEAR_AGAIN_SECONDS, later.set)
        await later.wait()
        assert node.runtime.shims[1] is shim
        node.runtime.stop(1, 600.0)
        await node.end_of()

    async def test_what_ended_meanwhile_is_told(self, node: RuntimeNode) -> None:
        await node.start(make_part(shell("until [ -e end ]; do sleep 0.01; done; exit 4")))
        shim = node.status()["pid"]
        node.runtime.close()
        Path(node.runtime.folder(1).work(0), "end").touch()
        await until_async(lambda: node.status()["is_final"])
        node.runtime = ProcessRuntime(node.configuration, node.note)
        assert len(node.runtime.recover()) == 1
        assert (await node.end_of()).exit_code == 4
        await until_async(lambda: not is_alive(shim))

    async def test_a_shim_that_died_meanwhile_is_cleaned_up_after(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(ESCAPES + "\nwhile True: time.sleep(600)")))
        escaped = await node.pid("escaped")
        node.runtime.close()
        os.kill(node.status()["pid"], signal.SIGKILL)
        node.runtime = ProcessRuntime(node.configuration, node.note)
        node.runtime.recover()
        assert (await node.end_of()).category == "lost"
        assert not is_alive(escaped)

    async def test_a_shim_that_only_just_started_is_not_doubled(self, node: RuntimeNode) -> None:
        desired = make_part(shell("echo begin; sleep 0.2"))
        await node.prepare(desired)
        node.runtime.start(desired)
        node.restart()  # Before the shim has written anything.
        outcome = await node.end_of()
        assert node.text() in ("begin\n", "")
        assert outcome.category == ("" if node.text() else "lost")

    async def test_a_second_shim_does_nothing(self, node: RuntimeNode) -> None:
        desired = make_part(shell("echo begin; sleep 0.2"))
        await node.start(desired)
        node.restart()
        other = RuntimeNode.__new__(RuntimeNode)
        other.__dict__.update(node.__dict__, outcomes={}, started=set())
        other.runtime = ProcessRuntime(node.configuration, other.note)
        other.runtime.start(desired)
        await node.end_of()
        assert (await other.end_of()).exit_code == 0
        assert node.text() == "begin\n"
        other.runtime.close()

    async def test_what_another_version_started_can_still_be_stopped(self, node: RuntimeNode) -> None:
        await node.start(make_part(python(SAVES_ON_TERM), grace_seconds=7.0))
        await node.line("pid")
        Path(node.runtime.folder(1).part).write_text('{"wish": {"attempt": 1, "of_another_version": true}}')
        (adopted,) = node.restart()
        desired = adopted.part.desired
        assert (desired.attempt, desired.grace_seconds, desired.has_rank_zero) == (1, 7.0, True)
        node.runtime.stop(1, desired.grace_seconds)
        assert (await node.end_of()).category == "stopped"

    async def test_what_was_ready_still_is(self, node: RuntimeNode) -> None:
        await node.prepare(make_part(go=False))
        (adopted,) = node.restart()
        assert adopted.part.phase == "ready"
        assert adopted.part.master_port == node.ports[1]

    async def test_half_a_preparation_is_thrown_away(self, node: RuntimeNode) -> None:
        folder = node.runtime.attempts / "1"
        folder.mkdir()
        (folder / "part.json").write_text('{"wish": {"att')
        assert node.restart() == []
        await until_async(lambda: not folder.exists())

    async def test_forgetting_leaves_nothing(self, node: RuntimeNode) -> None:
        await node.run(make_part(shell("mkdir -p a/b; touch a/b/c; chmod 0 a")))
        node.runtime.forget(1)
        await until_async(lambda: not list(node.runtime.attempts.iterdir()))
        assert node.restart() == []


class TestLimits:
    @pytest.fixture(autouse=True)
    def _needs_control_groups(self, node: RuntimeNode) -> None:
        if not node.runtime.isolation["memory"]:
            pytest.skip("control groups are not permitted here")

    async def test_more_memory_than_asked_for_ends_it(self, node: RuntimeNode) -> None:
        replica = python(
            "print('filling'); x = bytearray(200 * 2**20); print('filled')", memory_bytes=64 * 2**20
        )
        outcome = await node.run(make_part(replica))
        assert (outcome.category, outcome.exit_code) == ("out_of_memory", 137)
        assert "more memory than it asked for (64 MiB)" in outcome.message
        assert "filled\n" not in node.text()

    async def test_groups_are_made_and_removed(self, node: RuntimeNode) -> None:
        script = "cat /proc/self/cgroup; until [ -e end ]; do sleep 0.01; done"
        await node.start(make_part(shell(script, cpus=0.5, memory_bytes=2**26)))
        group = node.runtime.cgroups.group("attempt-1-rank-0")
        name = "cpu.max" if group.is_unified else "cpu.cfs_quota_us"
        assert (Path(group.paths["cpu"]) / name).read_text().split()[0] == "50000"
        Path(node.runtime.folder(1).work(0), "end").touch()
        await node.end_of()
        assert "attempt-1-rank-0" in node.text()
        assert not os.path.exists(group.paths["cpu"])
        assert not os.path.exists(group.paths["memory"])

    async def test_limits_change_while_it_runs_and_what_is_in_use_stays(self, node: RuntimeNode) -> None:
        """It frees its memory when a file appears; the agent's next life remembers the limits."""
        script = "import os, time; x = bytearray(96 * 2**20); print('filled')\n"
        script += "while not os.path.exists('free'): time.sleep(0.02)\ndel x; print('freed'); time.sleep(600)"
        replica = python(script, cpus=0.5, memory_bytes=2**28)
        await node.start(make_part(replica))
        await until_async(lambda: "filled" in node.text())
        group = node.runtime.cgroups.group("attempt-1-rank-0")
        cpus, memory = (
            ("cpu.max", "memory.max") if group.is_unified else ("cpu.cfs_quota_us", "memory.limit_in_bytes")
        )

        def limits() -> tuple[str, int]:
            quota = (Path(group.paths["cpu"]) / cpus).read_text().split()[0]
            return quota, int((Path(group.paths["memory"]) / memory).read_text())

        assert limits() == ("50000", 2**28)
        changed = make_part(replace(replica, cpus=1.5, memory_bytes=2**26))
        node.runtime.change_limits(changed)
        assert limits() == ("150000", 2**28)
        (Path(node.runtime.folder(1).work(0)) / "free").touch()
        await until_async(lambda: limits() == ("150000", 2**26))
        node.runtime.stop(1, 0.0)
        await node.end_of()
        assert node.runtime.limits.pending == {}

    async def test_without_permission_it_runs_unlimited(self, node: RuntimeNode) -> None:
        node.runtime.cgroups.remove()
        node.runtime.cgroups.folders = {}
        assert (await node.run(make_part(shell("true", cpus=1.0, memory_bytes=2**20)))).exit_code == 0
        isolation = node.runtime.isolation
        assert (isolation["cpu"], isolation["memory"]) == (False, False)


@pytest.mark.parametrize("changes", [{}, {"sandbox": "off", "users": None}], ids=["sandboxed", "as its user"])
async def test_a_shared_input_worker_sees_trainers_come_and_go(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Also where its sandbox has the file mounted; and there it can write nothing itself."""
    node = RuntimeNode(tmp_path, **changes)
    script = """import os, time
path, seen = os.environ["ALLOT_INPUT_TRAINERS_FILE"], ""
try:
    open(path, "a").close()
    print("writable")
except OSError as error:
    print("read-only")
while True:
    text = open(path).read()
    if text.endswith("\\n") and text != seen:
        seen = text
        print("serves", text.strip())
    time.sleep(0.02)
"""
    await node.start(make_part(python(script), trainers="10.0.0.1:7070"))
    await node.line("serves 10.0.0.1:7070")
    assert ("read-only" in node.text().splitlines()) == (not changes)
    node.runtime.name_trainers(1, "10.0.0.1:7070,10.0.0.2:7070")
    await node.line("serves 10.0.0.1:7070,10.0.0.2:7070")
    node.runtime.stop(1, 0.0)
    await node.end_of()
    node.runtime.name_trainers(99, "10.0.0.1:7070")  # It has ended: nothing happens.
    await node.clean_up()
