"""Control groups as files: version 2 on a folder that looks like one, for machines that have version 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.shim.cgroups import CgroupOfReplica, Cgroups, find_cgroups


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version 2 hierarchy whose new folders get their files as the kernel gives them."""
    root = tmp_path / "cgroup"
    (root / "system.slice").mkdir(parents=True)
    for folder in (root, root / "system.slice"):
        for name in ("cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"):
            (folder / name).write_text("cpu io memory pids")
    (tmp_path / "own").write_text("0::/system.slice\n")
    make = os.makedirs

    def make_with_files(path: str, exist_ok: bool = False) -> None:
        make(path, exist_ok=exist_ok)
        for name in ("cgroup.controllers", "cgroup.subtree_control", "cgroup.procs", "memory.swap.max"):
            Path(path, name).write_text("cpu memory pids" if name == "cgroup.controllers" else "")

    monkeypatch.setattr(os, "makedirs", make_with_files)
    return root


def find(root: Path) -> Cgroups:
    return find_cgroups("node-1", root=str(root), own=str(root.parent / "own"))


def test_version_2_limits(unified: Path) -> None:
    cgroups = find(unified)
    assert cgroups.is_unified
    assert set(cgroups.folders) == {"cpu", "memory", "pids"}
    group = cgroups.group("attempt-1-rank-0")
    group.create(cpus=1.5, memory_bytes=1000, processes=64)
    folder = Path(group.paths["memory"])
    assert folder == unified / "system.slice" / "allotment-node-1" / "attempt-1-rank-0"
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "memory.max").read_text() == "1000"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "64"
    group.enter()
    assert (folder / "cgroup.procs").read_text() == "0"


def test_version_2_says_when_memory_ran_out(unified: Path) -> None:
    group = find(unified).group("attempt-1-rank-0")
    group.create(cpus=0.0, memory_bytes=1000)
    events = Path(group.paths["memory"]) / "memory.events"
    assert not group.was_out_of_memory()
    events.write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n")
    assert not group.was_out_of_memory()
    events.write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n")
    assert group.was_out_of_memory()


def test_no_limit_asked_for_is_none_set(unified: Path) -> None:
    group = find(unified).group("attempt-1-rank-0")
    group.create(cpus=0.0, memory_bytes=0)
    assert not (Path(group.paths["cpu"]) / "cpu.max").exists()
    assert not (Path(group.paths["cpu"]) / "memory.max").exists()


def test_without_controllers_nothing_is_promised(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("")
    (tmp_path / "own").write_text("0::/\n")
    cgroups = find(root)
    assert cgroups.folders == {}
    assert not list(root.glob("allotment-*"))


def test_without_control_groups_nothing_is_promised(tmp_path: Path) -> None:
    assert find_cgroups("node-1", root=str(tmp_path / "none"), own=str(tmp_path / "no-file")).folders == {}


def test_version_2_says_what_is_used(unified: Path) -> None:
    group = find(unified).group("attempt-1-rank-0")
    group.create(cpus=0.0, memory_bytes=0)
    folder = Path(group.paths["cpu"])
    assert (group.cpu_seconds(), group.memory_bytes(), group.members()) == (None, None, frozenset())
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    (folder / "memory.current").write_text("5000\n")
    (folder / "memory.stat").write_text("anon 3000\ninactive_file 1500\n")
    (folder / "cgroup.procs").write_text("7\n8\n")
    assert (group.cpu_seconds(), group.memory_bytes(), group.members()) == (2.5, 3500, {7, 8})


def test_limits_change_while_a_replica_runs(unified: Path) -> None:
    group = find(unified).group("attempt-1-rank-0")
    assert not group.change(cpus=2.0, memory_bytes=1000), "it is not made yet"
    group.create(cpus=1.5, memory_bytes=1000)
    folder = Path(group.paths["memory"])
    (folder / "memory.current").write_text("700\n")
    (folder / "memory.stat").write_text("inactive_file 100\n")
    assert group.change(cpus=3.0, memory_bytes=2000)
    assert (folder / "cpu.max").read_text() == "300000 100000"
    assert (folder / "memory.max").read_text() == "2000"
    # What is in use is not taken away: nothing is killed for it. CPUs are.
    assert not group.change(cpus=1.0, memory_bytes=600)
    assert (folder / "cpu.max").read_text() == "100000 100000"
    assert (folder / "memory.max").read_text() == "2000"
    (folder / "memory.current").write_text("500\n")
    assert group.change(cpus=0.0, memory_bytes=600)
    assert (folder / "cpu.max").read_text() == "max 100000"
    assert (folder / "memory.max").read_text() == "600"
    assert group.change(cpus=0.0, memory_bytes=0)
    assert (folder / "memory.max").read_text() == "max"


def test_version_1_memory_rises_and_falls_with_swap(tmp_path: Path) -> None:
    """The kernel refuses a limit above the one with swap, or one with swap below the other."""
    group = CgroupOfReplica(False, {"cpu": str(tmp_path), "memory": str(tmp_path)})
    limits = {"memory.limit_in_bytes": 1000, "memory.memsw.limit_in_bytes": 1000}
    for name in limits:
        (tmp_path / name).write_text("")
    (tmp_path / "memory.usage_in_bytes").write_text("400\n")
    (tmp_path / "memory.stat").write_text("total_inactive_file 0\n")
    write = group._write

    def as_the_kernel(kind: str, name: str, text: str) -> None:
        if name in limits:
            wanted = {**limits, name: int(text) if int(text) >= 0 else 2**62}
            if wanted["memory.limit_in_bytes"] > wanted["memory.memsw.limit_in_bytes"]:
                raise OSError(22, "Invalid argument")
            limits.update(wanted)
        write(kind, name, text)

    group._write = as_the_kernel  # type: ignore[method-assign]
    for memory_bytes in (2000, 500, 0):
        assert group.change(cpus=2.0, memory_bytes=memory_bytes)
        assert set(limits.values()) == {memory_bytes or 2**62}
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "200000"
    assert group.change(cpus=0.0, memory_bytes=0)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "-1"
