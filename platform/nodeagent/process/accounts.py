"""The entries of a job's user in /etc/passwd and /etc/group, as its sandbox shows these files.

A tenant's user is a number that no machine has a name for, and ssh, whoami and MPI end without one. The home
of the agent's own user is outside of the sandbox. So the job's entry comes first; the machine's own follow.
"""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

from nodeagent.folder import AttemptFolder

PASSWD, GROUP = "/etc/passwd", "/etc/group"
SHELL = "/bin/sh"


def account_files(folder: AttemptFolder, user: int | None, tenant: str, home: str) -> dict[str, str]:
    """Write the files into the attempt's folder; return where each is, by where the job looks for it.

    `user`: user and group number of the job; None: it runs as the agent's user.
    """
    number, group = (os.geteuid(), os.getegid()) if user is None else (user, user)
    user_name, group_name = _names(number, group, tenant) if user is None else (tenant, tenant)
    entries = {
        PASSWD: (folder.passwd, f"{user_name}:x:{number}:{group}:{tenant}:{home}:{SHELL}"),
        GROUP: (folder.group, f"{group_name}:x:{group}:"),
    }
    written = {}
    for place, (path, entry) in entries.items():
        if os.path.exists(place):  # Else there is nothing to mount it on.
            file = Path(path)
            file.write_bytes(entry.encode() + b"\n" + Path(place).read_bytes())
            file.chmod(0o644)
            written[place] = path
    return written


def _names(number: int, group: int, tenant: str) -> tuple[str, str]:
    try:
        user_name = pwd.getpwuid(number).pw_name
    except KeyError:
        user_name = tenant
    try:
        return user_name, grp.getgrgid(group).gr_name
    except KeyError:
        return user_name, tenant
