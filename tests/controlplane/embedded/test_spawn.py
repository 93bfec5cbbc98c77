"""Giving up root, when we have it: nothing is kept, and what lies in closed folders is still found."""

import os
import subprocess
from pathlib import Path

import pytest

from controlplane.embedded import spawn
from controlplane.embedded.spawn import Spawn, unprivileged_account
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
NOTHING = "0000000000000000"


def run(script: str, *, needs: list[Path] | None = None) -> str:
    started = Spawn(["/bin/sh", "-c", script], Path("/"), account=unprivileged_account(), needs=needs or [])
    process = started.popen(output=subprocess.PIPE)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output.decode()
    return output.decode().strip()


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder below one that is closed to everybody but root, as in a clone below a private one."""
    folder = tmp_path / "closed"
    (folder / "needed").mkdir(parents=True)
    (folder / "other").mkdir()
    folder.chmod(0o700)
    (folder / "needed" / "program").write_text("#!/bin/sh\necho it runs\n")
    (folder / "needed" / "program").chmod(0o755)
    return folder


def test_programs_in_closed_folders_are_found(closed: Path) -> None:
    needed = closed / "needed"
    assert run(f"cd '{needed}' && test -x ./program && '{needed}/program'", needs=[needed]) == "it runs"


def test_nothing_else_of_a_closed_folder_is_there(closed: Path) -> None:
    assert run(f"ls '{closed}'", needs=[closed / "needed"]) == "needed"
    assert sorted(path.name for path in closed.iterdir()) == ["needed", "other"], "but for others it is"


def test_nothing_of_root_is_kept(closed: Path) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in run("cat /proc/self/status", needs=[closed / "needed"]).splitlines()
        if ":\t" in line
    )
    kept = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert set(kept.values()) == {NOTHING}, kept
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()
    assert "0" not in status["Gid"].split()


def test_only_the_right_to_read_is_kept_where_nothing_can_be_mounted(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in most containers. A program that reads everywhere is still found, and writes nowhere else."""
    monkeypatch.setattr(spawn, "CLONE_NEWNS", -1)  # an argument that unshare(2) refuses
    script = (
        f"'{closed}/needed/program' && ! touch '{closed}/needed/x' 2>&- && grep CapEff: /proc/self/status"
    )
    said, capabilities = run(script, needs=[closed / "needed"]).splitlines()
    assert said == "it runs"
    assert int(capabilities.split()[1], 16).bit_count() == 1
