"""Giving up root, when we have it: what is kept, and that it is no more than needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded.spawn import Spawn, unprivileged_account

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")


def run(code: str, *arguments: str) -> str:
    spawn = Spawn([sys.executable, "-c", code, *arguments], cwd=Path("/"), account=unprivileged_account())
    process = spawn.popen(output=subprocess.PIPE)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output.decode()
    return output.decode().strip()


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A program in a folder that is closed to everybody but root, as in a clone below a private one."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_programs_in_closed_folders_are_found(closed: Path) -> None:
    """initdb looks for the server by access(2), which forgets capabilities unless told otherwise."""
    assert run("import os, sys; print(os.access(sys.argv[1], os.X_OK))", str(closed)) == "True"


def test_nothing_can_be_written_where_root_alone_may(closed: Path) -> None:
    assert run("import os, sys; print(os.geteuid() != 0, os.access(sys.argv[1], os.W_OK))", str(closed)) == (
        "True False"
    )
    tries = "import sys\ntry: open(sys.argv[1], 'a')\nexcept PermissionError: print('refused')"
    assert run(tries, str(closed)) == "refused"


def test_only_the_right_to_read_is_kept() -> None:
    status = run("print(open('/proc/self/status').read())")
    kept = {line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff"))}
    assert len(kept) == 1
    assert int(kept.pop(), 16).bit_count() == 1
