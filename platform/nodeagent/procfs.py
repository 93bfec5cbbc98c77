"""Processes as Linux shows them: their identity, their parents, and how to end them all.

Imported by the shim, so it imports nearly nothing: a shim has to be up within milliseconds.
"""

from __future__ import annotations

import errno
import os
from functools import cache

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CAPABILITIES_MOST = 64


def prctl(option: int, value: int, pointer: Any = 0) -> None:
    """Call prctl(2), `pointer` being one of ctypes; raise OSError when the kernel refuses."""
    if _kernel().prctl(option, value, pointer, 0, 0) != 0:
        raise _refused("prctl")


def drop_capability_bounds() -> None:
    """Let no program this process becomes have any capability, not even as root; needs CAP_SETPCAP."""
    for capability in range(CAPABILITIES_MOST):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL:  # That is: this kernel has no more of them.
                raise
            return


def enter_namespace(descriptor: int) -> None:
    """Call setns(2) on an open file of /proc/PID/ns; raise OSError when the kernel refuses."""
    if _kernel().setns(descriptor, 0) != 0:
        raise _refused("setns")


@cache
def _kernel() -> Any:
    import ctypes  # Costs milliseconds and memory the agent itself need not spend.

    return ctypes.CDLL(None, use_errno=True)


def _refused(call: str) -> OSError:
    import ctypes

    return OSError(ctypes.get_errno(), f"{call} refused")


def process_identity(pid: int) -> str:
    """Return what distinguishes this process from a later one with the same number; "" when there is none.

    That is the boot's identity and the start time in clock ticks since that boot.
    """
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return ""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}-{fields[19]}"


def is_same_process(pid: int, identity: str) -> bool:
    """Whether the process that had this identity still lives."""
    return bool(identity) and process_identity(pid) == identity


class ProcessTree:
    """All live processes as they are when something is first asked; reading them costs some 20 us each."""

    def __init__(self) -> None:
        self._stats: dict[int, list[str]] | None = None
        self._children: dict[int, list[int]] = {}

    def below(self, root: int) -> list[int]:
        """Return every process below `root`, whatever session or group it moved to."""
        self._stats_by_pid()
        found, pending = [], [root]
        while pending:
            below = self._children.get(pending.pop(), [])
            found += below
            pending += below
        return found

    def cpu_seconds(self, pids: Iterable[int]) -> float | None:
        """Return what these processes, and children they waited for, have used; None when none lives."""
        stats = self._stats_by_pid()
        ticks = [sum(map(int, stats[pid][11:15])) for pid in pids if pid in stats]
        return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None

    def _stats_by_pid(self) -> dict[int, list[str]]:
        if self._stats is None:
            self._stats = {pid: fields for pid in _processes() if (fields := _stat(pid)) is not None}
            for pid, fields in self._stats.items():
                self._children.setdefault(int(fields[1]), []).append(pid)
        return self._stats


def descendants(root: int) -> list[int]:
    """Return every live process below `root`, whatever session or group it moved to."""
    return ProcessTree().below(root)


def is_below(pid: int, root: int) -> bool:
    """Whether a process lives and `root` is one of its ancestors; cheaper than to read all of them."""
    while pid > 1 and (fields := _stat(pid)) is not None:
        pid = int(fields[1])
        if pid == root:
            return True
    return False


def is_stopped(pid: int) -> bool:
    """Whether a process does nothing until SIGCONT, or is dead."""
    fields = _stat(pid)
    return fields is None or fields[0] in "TtZX"


def resident_bytes(pid: int) -> int:
    """Return the memory a process occupies, what it shares included; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def occupies_more(pids: Iterable[int], limit_bytes: int) -> bool:
    """Whether processes occupy more memory than that, what several of them share counted once."""
    pids = list(pids)
    if sum(map(resident_bytes, pids)) <= limit_bytes:
        return False  # As nearly always; the other way costs the kernel a walk through all their pages.
    return sum(map(_proportional_bytes, pids)) > limit_bytes


def _proportional_bytes(pid: int) -> int:
    """Return the memory a process occupies, what it shares divided by the number of those who share it."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return resident_bytes(pid)


def processes_with_setting(setting: str, *users: int) -> list[int]:
    """Return live processes that have this NAME=value in their environment: of these users, or else of all.

    Every program can give itself any setting, so only the user shows that it is not another tenant's.
    """
    found = []
    for pid in _processes():
        try:
            if users and os.stat(f"/proc/{pid}").st_uid not in users:
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue  # It ended, or is another user's and so not ours.
        if setting.encode() in environment.split(b"\0"):
            found.append(pid)
    return found


def processes_of_namespace(member: int) -> list[int]:
    """Return the live processes in the PID namespace of a process; none where that is this process's own."""
    namespace = _namespace(member)
    if namespace in ("", _namespace(os.getpid())):
        return []
    return [pid for pid in _processes() if _namespace(pid) == namespace]


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""  # It ended, or is another user's.


def argument_area() -> tuple[int, int]:
    """Return the addresses where this process's arguments begin and end; zeros when they are unknown."""
    fields = _stat(os.getpid())
    return (0, 0) if fields is None else (int(fields[45]), int(fields[46]))


def kernel_oom_kills() -> int:
    """How many processes this kernel has killed for want of memory since it booted."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass  # Hidden in some containers: then nothing can be said.
    return 0


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before it may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None
