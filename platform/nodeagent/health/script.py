"""A check of the site's own: any program that says by its exit code how the node is."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, STDOUT

from nodeagent.clock import boot_clock_seconds, wait_seconds
from nodeagent.configuration import Configuration
from nodeagent.messages import Finding, Verdict
from nodeagent.output.logs import decode_text
from nodeagent.procfs import processes_with_setting

#: Like the plug-ins of Nagios, whose 3 is "unknown"; so is here whatever else a script may end with.
VERDICTS: dict[int, Verdict] = {0: "ok", 1: "warning", 2: "failed"}
OUTPUT_BYTES = 4_096
NICENESS = 10
#: Beyond its time, until the monitor itself loses patience.
CLEANING_SECONDS = 10.0
#: A process that waits for a broken device outlives even SIGKILL, and is left alone after this many tries.
KILLS_MOST, KILL_AGAIN_SECONDS = 100, 0.02


class ScriptCheck:
    """Runs the script, and ends it with all that it started when its time is over.

    A script that cannot be run, or ends otherwise than it should, is only a warning: one mistake in it would
    else take every node out of service at once. One that hangs has failed: what it asks does not answer.
    """

    name = "script"

    def __init__(self, configuration: Configuration) -> None:
        health = configuration.health
        self.command: Sequence[str] = health.script
        self.every_seconds, self.timeout_seconds = health.every_seconds, health.timeout_seconds
        self.patience_seconds = health.timeout_seconds + CLEANING_SECONDS
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "ALLOT_NODE": configuration.node,
            "ALLOT_WORK_FOLDER": configuration.work_folder,
            "ALLOT_CHECKPOINT_FOLDER": configuration.checkpoint_folder,
        }

    def look(self) -> tuple[Finding, ...]:
        verdict, message = self._judged()
        return (Finding(name=self.name, verdict=verdict, message=message),)

    def _judged(self) -> tuple[Verdict, str]:
        mark = f"ALLOT_HEALTH_CHECK={uuid.uuid4().hex}"
        name, _, value = mark.partition("=")
        try:
            process = subprocess.Popen(
                self.command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                env={**self.environment, name: value},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return "warning", f"The script cannot be run: {error.strerror}."
        with process:
            try:
                self._limit(process.pid)
                is_done, output = self._follow(process)
            finally:
                _kill(process, mark)
        if not is_done:
            return "failed", f"The script did not end within {self.timeout_seconds:g} s."
        line = decode_text(output).partition("\n")[0].strip()
        if process.returncode in VERDICTS:
            return VERDICTS[process.returncode], line
        return "warning", f"The script ended with {process.returncode}, not 0, 1 or 2. {line}".strip()

    def _limit(self, pid: int) -> None:
        """Let the script use no more of the node than a check should."""
        with contextlib.suppress(OSError):  # It is over already.
            os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            seconds = int(self.timeout_seconds) + 1
            resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))

    def _follow(self, process: subprocess.Popen[bytes]) -> tuple[bool, bytes]:
        """Wait for the script's end; return whether it came in time, and what was written first."""
        assert process.stdout is not None
        pipe, output = process.stdout.fileno(), b""
        deadline = boot_clock_seconds() + self.timeout_seconds
        end = os.pidfd_open(process.pid)
        poll = select.poll()
        for descriptor in (end, pipe):
            poll.register(descriptor, select.POLLIN)
        os.set_blocking(pipe, False)
        try:
            while (left := deadline - boot_clock_seconds()) > 0:
                ready = {descriptor for descriptor, _ in poll.poll(wait_seconds(left) * 1_000)}
                if pipe in ready:
                    # Output beyond the limit is read too, or the script would wait for its reader.
                    if text := os.read(pipe, OUTPUT_BYTES):
                        output += text[: OUTPUT_BYTES - len(output)]
                    else:
                        poll.unregister(pipe)
                if end in ready:
                    return True, output
            return False, output
        finally:
            os.close(end)


def _kill(process: subprocess.Popen[bytes], mark: str) -> None:
    """End the script and all that it started, also what has left its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(KILLS_MOST):
        if not (strays := processes_with_setting(mark)):
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(KILL_AGAIN_SECONDS)
