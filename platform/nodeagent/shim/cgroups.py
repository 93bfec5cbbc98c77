"""Limits of CPU, memory and processes by control groups, version 1 or 2, as far as this machine lets us.

The agent looks once what is permitted (`find_cgroups`); each shim makes one group per replica. Where
nothing is permitted jobs run without limits and the node's inventory says so. Imported by the shim,
so it imports nearly nothing.
"""

from __future__ import annotations

import os
import signal

CPU_PERIOD_MICROSECONDS = 100_000
#: The least quota the kernel takes.
CPU_QUOTA_LEAST_MICROSECONDS = 1_000
#: Version 1 counts CPU time by a controller of its own; in version 2 there is none of that name.
#: In version 2 every group can be frozen; in version 1 that is one more controller.
CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "pids", "freezer"})
#: Memory falls to a limit only while no more than this part of it is in use.
MEMORY_IN_USE_SHARE = 0.95
MICROSECOND, NANOSECOND = 1e-6, 1e-9


class Cgroups:
    """The folders under which groups may be made, by controller; in version 2 it is one folder."""

    def __init__(self, *, is_unified: bool, folders: dict[str, str]) -> None:
        self.is_unified = is_unified
        self.folders = folders

    def group(self, name: str) -> CgroupOfReplica:
        return CgroupOfReplica(
            self.is_unified, {kind: os.path.join(path, name) for kind, path in self.folders.items()}
        )

    def remove(self) -> None:
        """Remove the folders themselves, when no group is left in them."""
        for path in set(self.folders.values()):
            _remove(path)


class CgroupOfReplica:
    """The group of one replica; every method does nothing where no controller is available."""

    def __init__(self, is_unified: bool, paths: dict[str, str]) -> None:
        self.is_unified = is_unified
        self.paths = paths

    def create(self, *, cpus: float, memory_bytes: int, processes: int = 0) -> None:
        """Make the group and set its limits; zero means no limit."""
        for path in self.paths.values():
            os.makedirs(path, exist_ok=True)
        if cpus > 0:
            self._limit_cpus(cpus)
        if memory_bytes > 0 and "memory" in self.paths:
            if self.is_unified:
                self._write("memory", "memory.max", str(memory_bytes))
                self._write_if_there("memory", "memory.swap.max", "0")
                # All of the replica or nothing: half of a process tree is of no use.
                self._write_if_there("memory", "memory.oom.group", "1")
            else:
                self._write("memory", "memory.limit_in_bytes", str(memory_bytes))
                self._write_if_there("memory", "memory.memsw.limit_in_bytes", str(memory_bytes))

        if processes > 0 and "pids" in self.paths:
            self._write("pids", "pids.max", str(processes))

    def change(self, *, cpus: float, memory_bytes: int) -> bool:
        """Set other limits on what runs in the group; zero means no limit.

        False: not all of them, so that it is to be tried again. The group is not made yet, or it uses more
        memory than it is to have: nothing is killed for a limit that fell.
        """
        if not all(map(os.path.isdir, self.paths.values())):
            return False
        self._limit_cpus(cpus)
        return self._change_memory(memory_bytes) if "memory" in self.paths else True

    def _limit_cpus(self, cpus: float) -> None:
        if "cpu" not in self.paths:
            return
        quota = max(CPU_QUOTA_LEAST_MICROSECONDS, int(cpus * CPU_PERIOD_MICROSECONDS)) if cpus > 0 else None
        if self.is_unified:
            self._write("cpu", "cpu.max", f"{'max' if quota is None else quota} {CPU_PERIOD_MICROSECONDS}")
        else:
            self._write("cpu", "cpu.cfs_period_us", str(CPU_PERIOD_MICROSECONDS))
            self._write("cpu", "cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def _change_memory(self, limit: int) -> bool:
        used = self.memory_bytes()
        if limit > 0 and (used is None or used > limit * MEMORY_IN_USE_SHARE):
            return False
        if self.is_unified:
            return self._wrote("memory.max", str(limit or "max"))
        text = str(limit or -1)
        names = ["memory.limit_in_bytes"]
        if os.path.exists(os.path.join(self.paths["memory"], "memory.memsw.limit_in_bytes")):
            names.append("memory.memsw.limit_in_bytes")
        # With swap it is never less than without: which comes first depends on whether they rise or fall.
        results = [self._wrote(name, text) for name in names]
        return all(results) or all([self._wrote(name, text) for name in reversed(names)])

    def _wrote(self, name: str, text: str) -> bool:
        try:
            self._write("memory", name, text)
        except OSError:
            return False  # In use by now.
        return True

    def enter(self) -> None:
        """Put the calling process, and so all it will start, into the group."""
        for kind in self.paths:
            self._write(kind, "cgroup.procs", "0")

    def was_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group at its memory limit."""
        name = "memory.events" if self.is_unified else "memory.oom_control"
        if "memory" not in self.paths:
            return False
        for line in _lines(os.path.join(self.paths["memory"], name)):
            if line.startswith("oom_kill "):
                return int(line.split()[1]) > 0
        return False

    def members(self) -> frozenset[int]:
        """Return its processes, by number."""
        return frozenset(
            int(line) for path in self.paths.values() for line in _lines(os.path.join(path, "cgroup.procs"))
        )

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of all that ever were members; None where it is not counted."""
        if self.is_unified and "cpu" in self.paths:
            microseconds = _number_after("usage_usec", os.path.join(self.paths["cpu"], "cpu.stat"))
            return None if microseconds is None else microseconds * MICROSECOND
        if "cpuacct" in self.paths:
            for line in _lines(os.path.join(self.paths["cpuacct"], "cpuacct.usage")):
                return int(line) * NANOSECOND
        return None

    def memory_bytes(self) -> int | None:
        """Return the memory in use without file pages that can be dropped at once; None where not counted."""
        if "memory" not in self.paths:
            return None
        used, idle = (
            ("memory.current", "inactive_file")
            if self.is_unified
            else ("memory.usage_in_bytes", "total_inactive_file")
        )
        for line in _lines(os.path.join(self.paths["memory"], used)):
            droppable = _number_after(idle, os.path.join(self.paths["memory"], "memory.stat"))
            return max(int(line) - (droppable or 0), 0)
        return None

    def kill(self) -> bool:
        """Send SIGKILL to all members; return whether there were any."""
        members = self.members()
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.thaw()  # Frozen, they would not die of it in version 1.
        return bool(members)

    @property
    def counts_cpu(self) -> bool:
        return ("cpu" if self.is_unified else "cpuacct") in self.paths

    @property
    def can_freeze(self) -> bool:
        """Whether its kind of group can be frozen, once it is made."""
        return bool(self.paths) if self.is_unified else "freezer" in self.paths

    def freeze(self) -> bool:
        """Stop all members where they are; False where the kernel offers no way to."""
        return self._set_frozen(True)

    def thaw(self) -> bool:
        """Let all members go on; False where they cannot have been frozen."""
        return self._set_frozen(False)

    def is_frozen(self) -> bool:
        """Whether all members have stopped; what waits for a disk takes the kernel longer."""
        if self.is_unified:
            return (
                _number_after("frozen", os.path.join(next(iter(self.paths.values()), ""), "cgroup.events"))
                == 1
            )
        return _lines(os.path.join(self.paths.get("freezer", ""), "freezer.state")) == ["FROZEN"]

    def _set_frozen(self, frozen: bool) -> bool:
        if self.is_unified:
            kind, name, text = next(iter(self.paths), ""), "cgroup.freeze", "1" if frozen else "0"
        else:
            kind, name, text = "freezer", "freezer.state", "FROZEN" if frozen else "THAWED"
        if kind not in self.paths or not os.path.exists(os.path.join(self.paths[kind], name)):
            return False
        try:
            self._write(kind, name, text)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        for path in set(self.paths.values()):
            _remove(path)

    def _write(self, kind: str, name: str, text: str) -> None:
        with open(os.path.join(self.paths[kind], name), "w", encoding="ascii") as file:
            file.write(text)

    def _write_if_there(self, kind: str, name: str, text: str) -> None:
        # Not every kernel is built with it, and the main limit holds without.
        if os.path.exists(os.path.join(self.paths[kind], name)):
            try:
                self._write(kind, name, text)
            except OSError:
                return


def find_cgroups(name: str, *, root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> Cgroups:
    """Find where groups may be made for the node `name`, by making the folder they will be in."""
    lines = [line.split(":", 2) for line in _lines(own)]
    if os.path.exists(os.path.join(root, "cgroup.controllers")):
        places = [path for number, _, path in lines if number == "0"]
        return Cgroups(is_unified=True, folders=_find_unified(root, places[0] if places else "/", name))
    folders = {}
    for _, controllers, path in lines:
        for kind in CONTROLLERS & set(controllers.split(",")):
            hierarchies = (os.path.join(root, controllers), os.path.join(root, kind))
            for hierarchy in filter(os.path.isdir, hierarchies):
                parent = os.path.join(hierarchy, path.lstrip("/"))
                # Inside a container the path is the host's, and what is mounted here is already ours.
                found = _make(parent if os.path.isdir(parent) else hierarchy, name)
                if found and os.access(os.path.join(found, "cgroup.procs"), os.W_OK):
                    folders[kind] = found
                    break
    return Cgroups(is_unified=False, folders=folders)


def _find_unified(root: str, own: str, name: str) -> dict[str, str]:
    """Try the agent's own group, its parent (a delegated unit with subgroups) and, for root, the top."""
    here = os.path.join(root, own.lstrip("/"))
    for parent in dict.fromkeys((here, os.path.dirname(here.rstrip("/")), root)):
        if not os.path.realpath(parent).startswith(os.path.realpath(root)):
            continue
        for kind in sorted(CONTROLLERS):
            try:
                with open(os.path.join(parent, "cgroup.subtree_control"), "w", encoding="ascii") as file:
                    file.write(f"+{kind}")
            except OSError:
                pass  # Not ours to switch on, or it has processes of its own; perhaps it is on already.
        found = _make(parent, name)
        if not found:
            continue
        try:
            with open(os.path.join(found, "cgroup.controllers"), encoding="ascii") as file:
                available = set(file.read().split()) & CONTROLLERS
        except OSError:
            available = set()
        if available:
            # Groups are made inside `found`, so it has to hand the controllers on.
            try:
                with open(os.path.join(found, "cgroup.subtree_control"), "w", encoding="ascii") as file:
                    file.write(" ".join(f"+{kind}" for kind in sorted(available)))
            except OSError:
                available = set()
        if available:
            return dict.fromkeys(sorted(available), found)
        _remove(found)
    return {}


def _make(parent: str, name: str) -> str:
    path = os.path.join(parent, f"allotment-{name}")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return ""
    return path


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        return  # Still in use, or already gone: the next one to leave removes it.


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split("\n")[:-1]
    except OSError:
        return []


def _number_after(name: str, path: str) -> int | None:
    """Return the number on the line of a file that begins with a name; None when there is no such line."""
    for line in _lines(path):
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return None
