"""Where the demonstration's jobs have their folders and programs if the project lies where only root gets to.

A sandbox shows jobs what is below a closed folder, such as /root. Where none can be made, jobs are users of
their tenants' all the same, and what they need has to be where these get to.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

import allot

ELSEWHERE = Path("/var/lib/allotment")
CHECK_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFolders:
    """Below `data` are working folders and checkpoints; the others are what jobs run."""

    data: Path
    examples: Path
    python: Path


def usual_folders(home: Path) -> JobFolders:
    """Return the folders of an installation whose demonstration is in `home`."""
    return JobFolders(data=home, examples=settings.EXAMPLES_FOLDER, python=Path(sys.executable))


def reachable_folders(home: Path, configuration: Path) -> JobFolders:
    """Return the usual folders, or folders that every user can enter where that matters.

    `configuration`: that of one of the agents, which decides whether a sandbox works.
    """
    usual = usual_folders(home)
    if os.geteuid() != 0 or (is_open(home) and is_open(usual.python)) or _has_sandbox(configuration):
        return usual
    folder = ELSEWHERE / f"{zlib.crc32(str(home).encode()):08x}"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if is_open(usual.python) and is_open(Path(sys.base_prefix)) and is_open(usual.examples):
        return JobFolders(data=folder, examples=usual.examples, python=usual.python)
    return JobFolders(data=folder, examples=folder / "examples", python=_copy_programs(folder))


def is_open(path: Path) -> bool:
    """Whether every user may pass through all folders above it."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in Path(os.path.realpath(path)).parents)


def _has_sandbox(configuration: Path) -> bool:
    argv = [sys.executable, "-m", "nodeagent", "--config", str(configuration), "--check"]
    check = subprocess.run(argv, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    return bool(json.loads(check.stdout)["isolation_level"] == "sandbox")


def _copy_programs(folder: Path) -> Path:
    """Copy what jobs run, once for each installation of packages; return the copy's interpreter."""
    prefix, base = Path(sys.prefix), Path(sys.base_prefix)
    environment, marker = folder / "environment", folder / "copied"
    python = environment / "bin" / "python"
    installed = prefix / ".installed"
    version = f"{prefix} {installed.stat().st_mtime_ns if installed.exists() else 0}"
    if not marker.exists() or marker.read_text() != version:
        marker.unlink(missing_ok=True)
        for name in ("environment", "python", "examples"):
            shutil.rmtree(folder / name, ignore_errors=True)
        _copy(prefix, environment)
        _copy(settings.EXAMPLES_FOLDER, folder / "examples")
        packages = next(environment.glob("lib/python3*/site-packages"))
        if not (packages / "allot").exists():  # Installed editable, that is.
            _copy(Path(allot.__file__).parent, packages / "allot")
        if not is_open(base):
            _copy(base, folder / "python")
            _move_environment(environment, base, folder / "python")
        marker.write_text(version)
    return python


def _copy(source: Path, target: Path) -> None:
    """Copy a folder by second names of its files where one file system allows that."""
    shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _move_environment(environment: Path, base: Path, copied: Path) -> None:
    """Let a virtual environment be one of the copy of the Python that it was made from."""
    settings_file = environment / "pyvenv.cfg"
    text = settings_file.read_text().replace(str(base), str(copied))
    settings_file.unlink()  # It may be a second name of the original.
    settings_file.write_text(text)
    for link in (environment / "bin").iterdir():
        if link.is_symlink() and os.readlink(link).startswith(f"{base}/"):
            target = os.readlink(link).replace(str(base), str(copied))
            link.unlink()
            link.symlink_to(target)
