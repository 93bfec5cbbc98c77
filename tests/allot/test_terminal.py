"""What happens only on a terminal: questions, colours, and tables that fit."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from tests.allot.conftest import Command
from tests.allot.fake_api import PASSWORD, FakeApi, running
from tests.patience import PATIENCE_SECONDS


def on_terminal(
    command: Command, *arguments: str, typed: tuple[tuple[str, str], ...] = (), columns: int = 80
) -> tuple[int, str]:
    """Run in a terminal of this width, typing each answer when its question is seen. Return the exit code
    and everything that was shown."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "allot", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=command.home,
        env={**command.environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    shown, answers = "", list(typed)
    try:
        while True:
            try:
                shown += os.read(ours, 65536).decode()
            except OSError:
                break
            if answers and answers[0][0] in shown:
                os.write(ours, answers.pop(0)[1].encode() + b"\n")
    finally:
        os.close(ours)
    return process.wait(timeout=PATIENCE_SECONDS), shown.replace("\r\n", "\n")


def test_login_asks_and_does_not_show_the_password(command: Command, api: FakeApi) -> None:
    code, shown = on_terminal(
        command, "login", api.url, typed=(("User name", "ann"), ("Password of ann", PASSWORD))
    )
    assert code == 0, shown
    assert f"Signed in to {api.url} as ann." in shown
    assert PASSWORD not in shown


def test_a_table_fits_the_terminal_and_has_colours(command: Command, api: FakeApi) -> None:
    api.add(1, reasons=[{"message": "All V100 are in use by jobs that are worth more. " * 5}])
    api.add(2, **running())
    code, shown = on_terminal(command, "ls", columns=100)
    assert code == 0
    assert "\x1b[32mRUNNING" in shown
    lines = shown.splitlines()
    assert len(lines) == 3, "one line for each job"
    assert lines[2].endswith("…")
    assert len(lines[2].replace("\x1b[33m", "").replace("\x1b[0m", "")) <= 100


def test_cancelling_all_asks_first(command: Command, api: FakeApi) -> None:
    api.add(1)
    question = "Cancel 1 job (1 queued, 0 running)?"
    code, _ = on_terminal(command, "cancel", "--all-queued", typed=((question, "n"),))
    assert (code, api.jobs[1]["state"]) == (1, "queued")
    code, _ = on_terminal(command, "cancel", "--all-queued", typed=((question, "y"),))
    assert (code, api.jobs[1]["state"]) == (0, "cancelled")


def test_a_jobs_texts_and_output_act_on_no_terminal(command: Command, api: FakeApi) -> None:
    job = api.add(1, **running(), labels={"team": "a\u202eb"})
    job["spec"]["description"] = "\x1b]0;mine\x07"
    api.logs[1, 1, 0] = ["\x1b[2Jhid", "den\x1b", "[0m\n"]
    code, shown = on_terminal(command, "show", "1", columns=200)
    assert code == 0
    assert "␛]0;mine␇" in shown
    assert "\u202e" not in shown
    assert on_terminal(command, "logs", "1") == (0, "hidden\n")
    assert on_terminal(command, "logs", "1", "--raw") == (0, "\x1b[2Jhidden\x1b[0m\n")
    assert command("logs", "1").stdout == "\x1b[2Jhidden\x1b[0m\n"
