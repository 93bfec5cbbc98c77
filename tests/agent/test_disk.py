"""How much disk a job can take beyond its limit, whatever it makes to be looked at slowly."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.configuration import Limits
from nodeagent.shim import disk
from nodeagent.shim.disk import DiskMeter
from tests.agent.builders import everybodys_python, make_part, python
from tests.agent.runtime_node import RuntimeNode

MIB = 2**20
LIMIT = 100 * MIB


class Disk:
    """A file system of which the free space is told, and a job's folder in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.free_bytes, self.now, self.looks = folder, 1000 * MIB, 0.0, 0
        monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=self.free_bytes, f_frsize=1))
        self.meter = DiskMeter(str(folder), LIMIT, lambda: [])
        look = self.meter._look

        def counted() -> Iterator[int]:
            self.looks += 1
            yield from look()

        monkeypatch.setattr(self.meter, "_look", counted)

    def write(self, count: int) -> None:
        """Let the job write so much, without the test writing it too."""
        with (self.folder / "big").open("ab") as file:
            os.posix_fallocate(file.fileno(), file.tell(), count)
        self.free_bytes -= count

    def step(self, seconds: float) -> bool:
        self.now += seconds
        return self.meter.step(self.now)


@pytest.fixture
def rests_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind very many files: the next look comes in an hour, unless there is a cause."""
    monkeypatch.setattr(disk, "LOOK_SECONDS", 3600.0)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rests_long: None) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_it_is_looked_at_once_when_so_much_space_went_that_the_limit_may_be_passed(stand_in: Disk) -> None:
    assert not stand_in.step(0)
    stand_in.write(99 * MIB)
    assert not stand_in.step(10)
    assert stand_in.looks == 1
    stand_in.write(2 * MIB)
    assert stand_in.step(10)
    assert stand_in.looks == 2


def test_what_others_write_costs_a_look_and_no_more(stand_in: Disk) -> None:
    stand_in.write(50 * MIB)
    assert not stand_in.step(0)
    for looks in range(2, 5):
        stand_in.free_bytes -= 51 * MIB
        assert not stand_in.step(10)
        assert stand_in.looks == looks
    stand_in.write(51 * MIB)
    assert stand_in.step(10)


def test_the_nearer_the_limit_the_sooner_it_is_looked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rests_long: None
) -> None:
    monkeypatch.setattr(disk, "FASTEST_BYTES_PER_SECOND", 10 * MIB)
    near = Disk(tmp_path, monkeypatch)
    near.step(0)
    assert near.meter.next_at == 10.0
    near.write(90 * MIB)
    near.step(10)
    assert near.meter.next_at - near.now == pytest.approx(1.0)
    near.write(10 * MIB)
    near.step(1)
    assert near.meter.next_at - near.now == pytest.approx(disk.SHORTEST_SECONDS)


def test_a_quarter_beyond_the_limit_there_is_no_time_left(stand_in: Disk) -> None:
    stand_in.step(0)
    stand_in.write(110 * MIB)
    assert stand_in.step(10)
    assert not stand_in.meter.is_far_beyond()
    stand_in.write(16 * MIB)
    assert stand_in.meter.is_far_beyond()


#: Writes on, 64 MiB a second, and will not hear of ending.
WRITES_ON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{first}
file, began, count = open("big", "wb"), time.monotonic(), 0
while True:
    file.write(bytes(2**20))
    file.flush()
    count += 1
    time.sleep(max(0.0, began + count / 64 - time.monotonic()))
"""
CHILDREN = """
for _ in range(400):
    if os.fork() == 0:
        signal.pause()
"""
FILES = """
os.mkdir("many")
for number in range(30_000):
    open(f"many/{number}", "w").close()
"""


@pytest.fixture
async def small_disk() -> AsyncIterator[Callable[..., Any]]:
    """A node with a limit of 128 MiB, in a folder to which every user gets."""
    with tempfile.TemporaryDirectory(prefix="allotment-disk-") as name:
        os.chmod(name, 0o711)
        if shutil.disk_usage(name).free < 2**31:
            pytest.fail("these tests need 2 GiB of free space")
        node = RuntimeNode(Path(name), limits=Limits(disk_bytes=128 * MIB))
        yield node
        await node.clean_up()


@pytest.mark.parametrize("first", ["", CHILDREN, FILES], ids=["alone", "among children", "among files"])
async def test_a_job_that_writes_on_is_ended_soon_after_its_limit(
    small_disk: RuntimeNode, first: str
) -> None:
    part = make_part(python(WRITES_ON.format(first=first), interpreter=everybodys_python()))
    outcome = await small_disk.run(part)
    assert outcome.category == "out_of_disk"
    written = sum(path.stat().st_size for path in Path(small_disk.runtime.folder(1).path).rglob("big"))
    # A quarter beyond, and a second in which a busy machine lets nothing else run.
    assert 128 * MIB < written < 1.25 * 128 * MIB + 64 * MIB


#: Deletes 96 MiB a second of a file that is there when it says so.
DELETES = """
import os, sys, time
file, size = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 768
os.posix_fallocate(file, 0, size * 2**20)
print("ready", flush=True)
began, count = time.monotonic(), 0
while count < size:
    count += 1
    os.ftruncate(file, (size - count) * 2**20)
    time.sleep(max(0.0, began + count / 96 - time.monotonic()))
"""


async def test_what_others_delete_meanwhile_buys_it_no_time(small_disk: RuntimeNode) -> None:
    """The free space grows all the while, so only looking at the job's own files shows what it wrote."""
    part = make_part(python(WRITES_ON.format(first=""), interpreter=everybodys_python()))
    with tempfile.NamedTemporaryFile() as ballast:
        command = [sys.executable, "-c", DELETES, ballast.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as others:
            assert others.stdout is not None
            assert others.stdout.readline() == "ready\n"
            outcome = await small_disk.run(part)
            others.kill()
    assert outcome.category == "out_of_disk"
    written = sum(path.stat().st_size for path in Path(small_disk.runtime.folder(1).path).rglob("big"))
    assert 128 * MIB < written < 1.25 * 128 * MIB + 64 * MIB
