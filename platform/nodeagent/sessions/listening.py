"""Whose program listens at a port of this machine: the kernel's tables, and the processes of an attempt."""

from __future__ import annotations

import os

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.process.environment import stray_mark
from nodeagent.procfs import descendants, is_same_process, processes_with_setting

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"


def is_listened_at_by(port: int, folder: AttemptFolder, rank: int) -> bool:
    """Whether a process of the attempt listens at the port, so that nobody else can stand in for it."""
    sockets = {f"socket:[{inode}]" for inode in _listeners(port)}
    return bool(sockets) and any(_holds(pid, sockets) for pid in _processes_of(folder, rank))


def _listeners(port: int) -> set[str]:
    """Return the inodes of sockets that listen at the port, whatever address they are bound to."""
    found = set()
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _processes_of(folder: AttemptFolder, rank: int) -> list[int]:
    """Return those below the shim, and those in containers, which are the engine's children."""
    status = read_json(folder.status) or {}
    found = []
    if is_same_process(status.get("pid", 0), status.get("identity", "")):
        found = descendants(status["pid"])
    if any(replica["is_container"] for replica in status.get("replicas", [])):
        found += processes_with_setting(stray_mark(folder, rank))
    return found


def _holds(pid: int, sockets: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}") in sockets for name in os.listdir(folder))
    except OSError:
        return False  # It has ended meanwhile, or opened and closed something.
