"""The lease of a node as a file: moved on though the disk is full, and never read half."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.folder import write_json
from nodeagent.lease import read_lease, write_lease
from tests.agent.builders import everybodys_python, make_part, python
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, RuntimeNode
from tests.patience import until_async

DEADLINES = st.floats(min_value=1.0, max_value=1e9)
#: Room for the attempt of a test.
DISK_BYTES = 8 * 2**20


@given(DEADLINES, DEADLINES)
def test_the_newest_deadline_is_read_to_a_millisecond(first: float, second: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lease")
        assert read_lease(path) is None
        for deadline in (first, second):
            write_lease(path, deadline)
            assert deadline - 0.0011 <= (read_lease(path) or 0.0) <= deadline


@given(DEADLINES, DEADLINES, st.data())
def test_half_a_write_is_no_deadline(first: float, second: float, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lease")
        texts = []
        for deadline in (first, second):
            write_lease(str(path), deadline)
            texts.append(path.read_bytes())
        old, new = texts
        cut = data.draw(st.integers(0, len(new)))
        for torn in (new[:cut] + old[cut:], old[:cut] + new[cut:]):
            path.write_bytes(torn)
            assert torn in texts or read_lease(str(path)) is None


def test_versions_that_know_a_number_only_read_it_and_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    write_json(str(path), 1234.5678)
    assert read_lease(str(path)) == 1234.5678
    write_lease(str(path), 98765.4321)
    assert float(json.loads(path.read_text())) == pytest.approx(98765.432, abs=1e-3)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own, which every user gets to."""
    with tempfile.TemporaryDirectory(prefix="allotment-lease-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=711", "none", name]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("no file system can be mounted here")
        yield Path(name)
        subprocess.run(["umount", "--lazy", name], check=True)


@pytest.fixture
async def node(clock: MovedClock, small_disk: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(small_disk, sandbox="off")
    yield node
    (small_disk / "ballast").unlink(missing_ok=True)
    await node.clean_up()


def fill(disk: Path) -> None:
    """Leave no room for one more byte in a file that is new."""
    with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))
    with pytest.raises(OSError, match="No space"):
        write_json(str(disk / "new"), 1.0)


#: Touches a file elsewhere: its output is lost once the disk is full.
TOUCHES = """
import os, time
while True:
    os.utime({path!r})
    time.sleep(0.01)
"""


@pytest.fixture
def touched() -> Iterator[Path]:
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0o666)
        yield Path(file.name)


async def test_jobs_go_on_though_the_disk_of_the_work_folder_is_full(
    clock: MovedClock, node: RuntimeNode, small_disk: Path, touched: Path
) -> None:
    async def goes_on() -> None:
        before = touched.stat().st_mtime_ns
        await until_async(lambda: touched.stat().st_mtime_ns > before)

    script = TOUCHES.format(path=str(touched))
    await node.start(make_part(python(script, interpreter=everybodys_python())))
    await goes_on()
    fill(small_disk)
    for _ in range(3):
        deadline = node.renew_lease(2 * LEASE_SECONDS)
        assert node.runtime.lease_deadline() == pytest.approx(deadline, abs=1e-3)
        clock.jump(LEASE_SECONDS)
        await goes_on()
    # An agent that starts again finds its job, and moves the lease on as before.
    (found,) = node.restart()
    assert found.part.desired.attempt == 1
    node.renew_lease(3 * LEASE_SECONDS)
    clock.jump(2 * LEASE_SECONDS)
    await goes_on()
    assert not node.runtime.is_frozen(1)
    assert node.outcomes == {}
