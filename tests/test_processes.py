"""Looking at a process that ends meanwhile is no error."""

import signal
import subprocess
import sys

import psutil

from tests.processes import (
    children_of,
    command_of,
    is_gone,
    processes_with_command,
    signal_process,
    user_seconds_of,
)

MARK = "a process of tests/test_processes.py"


def test_a_process_is_found_and_signalled_and_nothing_fails_once_it_has_ended() -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", MARK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    started.stdout.readline()
    (found,) = processes_with_command(lambda words: words[-1:] == [MARK])
    assert found.pid == started.pid
    assert found in children_of(psutil.Process())
    assert command_of(found)[-1] == MARK
    assert not is_gone(found.pid)
    assert user_seconds_of(found) < float("inf")
    assert signal_process(found, signal.SIGTERM)
    assert started.wait() == -signal.SIGTERM

    assert not signal_process(found)
    assert not signal_process(started.pid)
    assert is_gone(started.pid)
    assert (command_of(found), children_of(found), children_of(started.pid)) == ([], [], [])
    assert user_seconds_of(found) == float("inf")
    assert processes_with_command(lambda words: words[-1:] == [MARK]) == []
    started.communicate()
