"""Launchers: what starts the processes of a replica, where that is not the command alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from nodeagent.messages import Launcher
from scheduler.jobspec.fields import Fields

if TYPE_CHECKING:
    from scheduler.jobspec.spec import JobSpec

LAUNCHERS: tuple[Launcher, ...] = tuple(filter(None, get_args(Launcher)))


def processes_each(spec: JobSpec) -> int:
    """Return the number of processes that the platform starts in each replica."""
    return max(spec.tasks[0].gpus, 1) if spec.launcher else 1


def check_launcher(fields: Fields, spec: JobSpec) -> None:
    """Note several tasks, which a launcher cannot start alike, and input workers beside several processes."""
    if not spec.launcher or not spec.tasks:
        return
    if len(spec.tasks) > 1:
        problem = f"the job has {len(spec.tasks)} tasks"
        fields.refuse("launcher", problem, "one task, whose replicas are alike, or no launcher")
    elif spec.input_workers is not None and (processes := processes_each(spec)) > 1:
        problem = f"needs one process in each replica, and {spec.launcher} starts {processes}"
        fields.refuse("input_workers", problem, "replicas with one GPU, or no launcher")
