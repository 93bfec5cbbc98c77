"""Processes that a test looks up and that may end meanwhile: no look and no signal fails for that."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable

import psutil


def signal_process(process: psutil.Process | int, number: int = signal.SIGKILL) -> bool:
    """Send a signal; return whether the process was still there to get it.

    A `psutil.Process` is never taken for another that has its number now.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(process) if isinstance(process, int) else process
        found.send_signal(number)
        return True
    return False


def command_of(process: psutil.Process) -> list[str]:
    """Return its command line; [] when it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def children_of(process: psutil.Process | int, *, recursive: bool = False) -> list[psutil.Process]:
    """Return what it has started and what still runs; [] when it has ended itself."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return found.children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def processes_with_command(matches: Callable[[list[str]], bool]) -> list[psutil.Process]:
    """Return the processes of this machine whose command line matches."""
    return [process for process in psutil.process_iter() if matches(_readable_command_of(process))]


def is_gone(pid: int) -> bool:
    """Whether it has ended; a zombie that still has to be collected runs no more either."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def user_seconds_of(process: psutil.Process) -> float:
    """Return how long it has computed; infinity when it has ended, for it computes no further."""
    try:
        return process.cpu_times().user
    except psutil.NoSuchProcess:
        return float("inf")


def _readable_command_of(process: psutil.Process) -> list[str]:
    try:
        return command_of(process)
    except psutil.AccessDenied:
        return []
