"""What a job may open where there is no sandbox: the same list, kept by Landlock instead of by namespaces.

Jobs see the machine as it is, so what all of them could write, such as /tmp, none may. Where the agent is
not root, all tenants' jobs are its user: then shared memory and Unix sockets are refused too, by which
they could reach each other and what else this user runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from nodeagent.configuration import Configuration
from nodeagent.folder import AttemptFolder
from nodeagent.process.sandbox import NOT_ASKED_FOR, RESOLVER, SYSTEM, is_below, readable_folders
from nodeagent.programs import problem_found, program
from nodeagent.shim.landlock import SCOPES_SINCE, interface_version
from nodeagent.shim.seccomp import is_known_processor

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
#: Where programs share memory, and terminals: open to all processes of the same user.
OF_A_USER = ("/dev/shm", "/dev/pts", "/dev/ptmx")
PROCESSES = "/proc"
#: What every process may list that is not confined.
FORBIDDEN = "/dev"
TRIAL_SECONDS = 10.0
TRIAL = program("nodeagent.shim.landlock")


class Landlock:
    """Says what each attempt may open; `problem` says why that cannot be enforced."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.shares_user = os.geteuid() != 0
        self.problem = self._find_problem()

    @property
    def keeps_signals(self) -> bool:
        """Whether jobs can signal no process of their own user outside."""
        return interface_version() >= SCOPES_SINCE

    def rules(
        self,
        folder: AttemptFolder,
        checkpoints: str,
        ranks: Sequence[int],
        device_files: Iterable[str],
        shared: Iterable[str],
        secrets: str = "",
    ) -> dict[str, Any]:
        """Return what the shim makes an attempt's confinement of (`shim/landlock.py`).

        `secrets`: the folder that the shim makes for the attempt's, "" when it is given none.
        """
        writable = [folder.works, folder.temporary, checkpoints, *shared]
        writable += [folder.progress(rank) for rank in ranks]
        rules = self._rules(writable, [*DEVICES, *device_files], is_alone=len(ranks) == 1)
        if os.path.exists(folder.trainers):
            rules["readable"].append(folder.trainers)
        if secrets:
            rules["readable"].append(os.path.join(secrets, "files"))
        return rules

    def _rules(self, writable: Sequence[str], devices: Sequence[str], *, is_alone: bool) -> dict[str, Any]:
        configuration = self.configuration
        own = (configuration.file, configuration.work_folder, configuration.checkpoint_folder)
        hidden = [os.path.realpath(path) for path in own if path]
        readable = [RESOLVER, PROCESSES]
        for path in (*SYSTEM, *readable_folders(configuration)):
            readable += _without(os.path.realpath(path), hidden)
        return {
            "readable": readable,
            "writable": [*writable, *([] if self.shares_user else OF_A_USER)],
            "devices": list(devices),
            "is_alone": is_alone,
            "shares_user": self.shares_user,
        }

    def _find_problem(self) -> str:
        if self.configuration.sandbox == "off":
            return NOT_ASKED_FOR
        if interface_version() == 0:
            return "This kernel has no Landlock, or does not let it be used."
        if self.shares_user and not is_known_processor():
            return f"Landlock alone does not keep one user's jobs apart on {os.uname().machine}."
        rules = json.dumps(self._rules([], DEVICES, is_alone=True))
        argv = [sys.executable, "-I", "-S", "-c", TRIAL, rules, FORBIDDEN]
        return problem_found(argv, name="Landlock", fails="does not work here", seconds=TRIAL_SECONDS)


def _without(path: str, hidden: Sequence[str]) -> list[str]:
    """Return the path, or what is in it but for what is hidden, since a rule opens all below a folder."""
    if any(is_below(path, other) for other in hidden):
        return []
    if not any(is_below(other, path) for other in hidden):
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return []
    below = [os.path.join(path, name) for name in names]
    # A rule about a link would be about what it leads to.
    return [found for one in below if not os.path.islink(one) for found in _without(one, hidden)]
