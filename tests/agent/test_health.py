"""The node's health checks: real folders and scripts, a driver that is played, and looks that hang."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.client import _clock_ahead
from nodeagent.configuration import Health
from nodeagent.devices.nvml import NvmlDevices
from nodeagent.health.checks import Monitor
from nodeagent.health.gpus import WARNED_SECONDS, GpuCheck
from nodeagent.health.node import ClockCheck, FolderCheck
from nodeagent.health.script import ScriptCheck
from nodeagent.messages import Finding, InventoryGpu
from nodeagent.procfs import processes_with_setting
from tests.agent.builders import make_configuration
from tests.agent.moved_clock import MovedClock
from tests.agent.test_inventory import FakeNvml, device
from tests.patience import until_async


class TestFolders:
    def look(self, folder: Path, least_free_bytes: int | None = 0) -> Finding:
        (finding,) = FolderCheck("work_folder", str(folder), "node-1", least_free_bytes).look()
        return finding

    def test_a_folder_is_ok_nearly_full_or_full_and_nothing_is_left_in_it(self, tmp_path: Path) -> None:
        free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
        assert self.look(tmp_path).verdict == "ok"
        assert self.look(tmp_path, free // 2).verdict == "warning"
        full = self.look(tmp_path, 2 * free)
        assert (full.verdict, f"{tmp_path} is full" in full.message) == ("failed", True)
        assert list(tmp_path.iterdir()) == []

    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Path]:
        """A real file system of one mebibyte."""
        command = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "tmpfs", str(tmp_path)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
        yield tmp_path
        subprocess.run(["umount", str(tmp_path)], check=True)

    def test_a_real_disk_fills_up_and_becomes_read_only(self, small_disk: Path) -> None:
        assert self.look(small_disk, None).verdict == "ok"
        with pytest.raises(OSError, match="No space"):
            (small_disk / "large").write_bytes(bytes(2 * 2**20))
        assert "is full" in self.look(small_disk, None).message
        (small_disk / "large").unlink()
        for number in range(62):
            (small_disk / str(number)).touch()
        assert "2% of the inodes" in self.look(small_disk, 0).message
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert self.look(small_disk).message == f"{small_disk} is read-only."

    def test_what_is_no_folder_has_failed(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        finding = self.look(tmp_path / "file" / "below")
        assert (finding.verdict, "cannot be written to: Not a directory" in finding.message) == (
            "failed",
            True,
        )


class TestScripts:
    #: Longer than any test takes.
    LIMIT_SECONDS = 1000.0

    def look(self, folder: Path, text: str) -> Finding:
        health = Health(script=("/bin/sh", "-c", text), timeout_seconds=self.LIMIT_SECONDS)
        (finding,) = ScriptCheck(replace(make_configuration(folder), health=health)).look()
        return finding

    @pytest.mark.parametrize(
        ("text", "verdict", "message"),
        [
            ("echo fine on $ALLOT_NODE; echo more", "ok", "fine on node-1"),
            ("echo link is slow >&2; exit 1", "warning", "link is slow"),
            ("echo fabric is down; exit 2", "failed", "fabric is down"),
            ("echo who knows; exit 3", "warning", "The script ended with 3, not 0, 1 or 2. who knows"),
            ("kill -9 $$", "warning", "The script ended with -9, not 0, 1 or 2."),
            ("yes | head -c 1000000; exit 2", "failed", "y"),
        ],
    )
    def test_the_exit_code_is_the_verdict(
        self, tmp_path: Path, text: str, verdict: str, message: str
    ) -> None:
        finding = self.look(tmp_path, text)
        assert (finding.verdict, finding.message) == (verdict, message)

    def test_a_script_that_is_not_there_takes_no_node_out_of_service(self, tmp_path: Path) -> None:
        health = Health(script=("/no/such/script",))
        (finding,) = ScriptCheck(replace(make_configuration(tmp_path), health=health)).look()
        assert (finding.verdict, "No such file" in finding.message) == ("warning", True)

    async def test_one_that_hangs_is_ended_with_all_that_it_started(
        self, clock: MovedClock, tmp_path: Path
    ) -> None:
        # One child in its group, one that has left the session and its parent.
        text = f"env > {tmp_path}/env; touch {tmp_path}/up; sleep 600 & "
        text += "setsid sh -c 'sleep 600 & sleep 600' & wait"
        looking = asyncio.create_task(asyncio.to_thread(self.look, tmp_path, text))
        await until_async((tmp_path / "up").exists)
        mark = mark_in(tmp_path / "env")
        await until_async(lambda: len(list(filter(sleeps, processes_with_setting(mark)))) == 3)

        def is_over() -> bool:
            clock.jump(self.LIMIT_SECONDS)  # Again, as it may not have begun to count.
            return looking.done()

        await until_async(is_over)
        finding = await looking
        assert (finding.verdict, finding.message) == ("failed", "The script did not end within 1000 s.")
        assert processes_with_setting(mark) == []

    def test_what_a_script_leaves_behind_is_ended_and_not_waited_for(self, tmp_path: Path) -> None:
        # It would go on for longer than a test may take.
        text = f"env > {tmp_path}/env; setsid sleep 600 & echo ok"
        assert self.look(tmp_path, text).message == "ok"
        assert processes_with_setting(mark_in(tmp_path / "env")) == []


def sleeps(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except OSError:
        return False  # It has ended meanwhile.


def mark_in(file: Path) -> str:
    (mark,) = [line for line in file.read_text().splitlines() if line.startswith("ALLOT_HEALTH_CHECK=")]
    return mark


@pytest.mark.parametrize(
    ("ahead", "verdict", "message"),
    [
        (None, "ok", ""),
        (-3.0, "ok", ""),
        (90.4, "warning", "The clock is 90 s ahead of the server's."),
        (-3_600.0, "warning", "The clock is 3600 s behind the server's."),
    ],
)
def test_a_wrong_clock_is_warned_of(ahead: float | None, verdict: str, message: str) -> None:
    (finding,) = ClockCheck(lambda: ahead).look()
    assert (finding.verdict, finding.message) == (verdict, message)


def test_the_servers_clock_is_read_from_its_answer() -> None:
    headers = [(b"server", b"x"), (b"Date", b"Sun, 22 Nov 2026 00:00:10 GMT")]
    assert _clock_ahead(headers, 1_795_305_600.0, 1_795_305_601.0) == pytest.approx(-10.0)
    assert _clock_ahead([(b"date", b"?")], 1.0, 2.0) is None


class Driver(FakeNvml):
    """Also reports errors, and why a device runs slowly."""

    nvmlEventTypeXidCriticalError = 8
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonSwThermalSlowdown = 0x20

    def __init__(self, *devices: dict[str, Any]) -> None:
        super().__init__(*devices)
        self.sets: list[list[int]] = []

    def nvmlEventSetCreate(self) -> list[int]:
        self.sets.append([])
        return self.sets[-1]

    def nvmlDeviceRegisterEvents(self, index: int, kind: int, events: list[int]) -> None:
        if self.devices[index].get("silent"):
            raise self.NVMLError("Not Supported")

    def nvmlEventSetWait_v2(self, events: list[int], milliseconds: int) -> Any:
        if not events:
            raise self.NVMLError("Timeout")
        return types.SimpleNamespace(eventData=events.pop(0))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, index: int) -> int:
        return int(self.answer(index, "throttled"))


class TestGpus:
    def test_what_the_driver_reports_becomes_a_verdict_on_that_device(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = Driver(*(device(index, throttled=1) for index in range(4)))
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        now = [100.0]
        check = GpuCheck(NvmlDevices(), clock=lambda: now[0])

        def verdicts() -> list[str]:
            return [finding.verdict for finding in check.look()]

        assert verdicts() == ["ok"] * 5
        # A job's own fault; one that needs a look; one that ends a device; a device too hot.
        driver.sets[0].append(31)
        driver.sets[1] += [31, 94]
        driver.sets[2] += [79, 31]
        driver.devices[3]["throttled"] = 0x41
        found = check.look()
        assert [finding.verdict for finding in found] == ["ok", "ok", "warning", "failed", "warning"]
        assert [finding.gpu for finding in found] == [None, 0, 1, 2, 3]
        assert found[3].message.startswith("Xid 79: it has fallen off the bus.")
        # What a device has got over is forgotten; what broke it is not.
        now[0] += WARNED_SECONDS
        driver.devices[3].update(throttled=0, ecc=2)
        assert verdicts() == ["ok", "ok", "ok", "failed", "failed"]

    def test_a_driver_that_says_little_is_believed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", Driver(device(0, silent=True)))
        assert [finding.verdict for finding in GpuCheck(NvmlDevices()).look()] == ["ok", "ok"]


class Played:
    """A check whose looks end when the test says so."""

    name = "driver"
    every_seconds = 10.0
    patience_seconds = 3.0

    def __init__(self, *findings: Finding) -> None:
        self.findings: Sequence[Finding] = findings
        self.go = threading.Event()
        self.looks = 0

    def look(self) -> Sequence[Finding]:
        self.looks += 1
        self.go.wait()
        return self.findings


def test_the_monitor_waits_for_no_check_and_judges_devices_by_them() -> None:
    broken = Finding(name="gpu-1", verdict="failed", message="Xid 79", gpu=1)
    check = Played(Finding(name="driver", verdict="ok"), broken)
    monitor = Monitor([check])
    gpus = [InventoryGpu(index=index, uuid=str(index), memory_bytes=1) for index in range(2)]

    def settle(now: float) -> bool:
        (state,) = monitor.states
        if state.thread is not None:
            state.thread.join()
        return monitor.step(now)

    assert not monitor.step(0.0)
    assert monitor.findings is None, "nothing is said before everything is known"
    check.go.set()
    assert settle(1.0)
    assert [(gpu.healthy, gpu.problem) for gpu in monitor.judged(gpus)] == [(True, ""), (False, "Xid 79")]
    check.go.clear()
    assert not monitor.step(10.0)
    assert monitor.step(13.0)
    assert monitor.findings == (
        Finding(name="driver", verdict="failed", message="No answer within 3 s."),
        broken,
    )
    assert not monitor.step(50.0)
    assert check.looks == 2, "who hangs is not asked again"
    check.findings = [Finding(name="driver", verdict="ok")]
    check.go.set()
    assert settle(51.0)
    assert monitor.judged(gpus) == tuple(gpus)


def test_a_check_that_breaks_down_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Played):
        def look(self) -> Sequence[Finding]:
            raise RuntimeError("oops")

    monitor = Monitor([Broken()])
    monitor.step(0.0)
    thread = monitor.states[0].thread
    assert thread is not None
    thread.join()
    assert monitor.step(1.0)
    assert monitor.findings is not None
    assert (monitor.findings[0].verdict, "oops" in monitor.findings[0].message) == ("warning", True)
