"""How a node keeps jobs from each other and from itself: by which means, as which user, and what happens if
it cannot.

Namespaces by bubblewrap where they can be made, else Landlock, else nothing; `isolation_levels` has the
order. Where the agent is root a job is always its tenant's user, whatever else holds.
"""

from __future__ import annotations

import os
import stat

from nodeagent.configuration import Configuration
from nodeagent.isolation_levels import IsolationLevel
from nodeagent.process.landlock import Landlock
from nodeagent.process.sandbox import Sandbox
from nodeagent.process.users import Users, closed_folder
from nodeagent.shim.cgroups import Cgroups


class Isolation:
    """What was found out when the agent began; nothing of it changes by itself."""

    def __init__(self, configuration: Configuration, attempts: str) -> None:
        """`attempts`: the folder of the attempts, which their users have to get to."""
        self.configuration = configuration
        self.is_root = os.geteuid() == 0
        self.sandbox = Sandbox(configuration)
        self.has_sandbox = not self.sandbox.problem
        self.landlock = None if self.has_sandbox else Landlock(configuration)
        self.has_landlock = self.landlock is not None and not self.landlock.problem
        self.users = self._find_users(attempts)
        self.problem = self._find_problem()

    @property
    def level(self) -> IsolationLevel:
        if self.has_sandbox:
            return "sandbox"
        return "landlock" if self.has_landlock else "none"

    @property
    def jobs_are_root(self) -> bool:
        return self.is_root and self.users is None

    def enforced(self, cgroups: Cgroups) -> dict[str, bool]:
        """Return what is really enforced on jobs without an image, as inventories say it."""
        keeps_signals = self.landlock is not None and self.landlock.keeps_signals
        return {
            "cpu": "cpu" in cgroups.folders,
            "memory": "memory" in cgroups.folders,
            # Without groups the kernel counts a user's processes, but never root's.
            "processes": "pids" in cgroups.folders or not self.jobs_are_root,
            "open_files": True,
            "disk": self.configuration.limits.disk_bytes is not None,
            "sandbox": self.has_sandbox,
            "landlock": self.has_landlock,
            "signals": self.has_sandbox or self.users is not None or (self.has_landlock and keeps_signals),
            "user": self.users is not None,
            "required": self.configuration.sandbox == "required",
        }

    def warning(self) -> str:
        """Return what the operator of the node should know of its isolation; "" when it is at its best."""
        if self.problem:
            return f"No job starts here. {self.problem}"
        if self.has_sandbox:
            return ""
        if self.has_landlock:
            return f"Jobs are kept apart by Landlock alone. {self.sandbox.problem}"
        who = "as root" if self.jobs_are_root else "as the agent's user"
        if self.users is not None:
            who = "with a user account for each tenant"
        return f"Only the user keeps jobs apart: they run {who}. {self.sandbox.problem}"

    def _find_users(self, attempts: str) -> Users | None:
        """Return who jobs run as; None when they run as the agent does."""
        configuration = self.configuration
        if not self.is_root or configuration.users is None:
            return None
        folder = configuration.checkpoint_folder
        os.makedirs(folder, mode=0o711, exist_ok=True)
        if not self.has_sandbox:
            for path in (configuration.work_folder, folder, attempts):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o111)  # Others pass through.
        return Users(folder, configuration.users)

    def _find_problem(self) -> str:
        """Return why jobs without an image do not run here; "" when they do."""
        configuration = self.configuration
        if configuration.sandbox == "required" and not (self.has_sandbox or self.has_landlock):
            found = f"{self.sandbox.problem} {self.landlock.problem if self.landlock is not None else ''}"
            return f'Nothing isolates jobs here (sandbox: "required"). {found}'
        if self.users is not None and not self.has_sandbox:
            for path in (configuration.work_folder, configuration.checkpoint_folder):
                if closed := closed_folder(path):
                    return (
                        f"Tenants' users cannot get to {path}: {closed} is closed to them. Name a folder"
                        " elsewhere, or install bubblewrap."
                    )
        return ""
