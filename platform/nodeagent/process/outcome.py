"""How and why an attempt ended, from what its shim wrote and the end of its output.

The category decides whether the job is tried again: a user's error is not, a broken device is, elsewhere.
`classify` is pure; one table, first match wins.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from typing import Any

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.machine import Outcome
from nodeagent.messages import Category
from nodeagent.output.logs import decode_text

#: How much of the end of a log is read.
TAIL_BYTES = 8 * 1024
MESSAGE_CHARACTERS = 500
#: What podman and docker exit with when they themselves fail, before anything ran.
ENGINE_FAILED = 125
#: As if SIGKILL had ended it.
KILLED = 137


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text in the last lines that shows a category; `says` is put before the matching line."""

    category: Category
    says: str
    expression: re.Pattern[str]


def _pattern(category: Category, says: str, *texts: str) -> Pattern:
    return Pattern(category, says, re.compile("|".join(texts), re.IGNORECASE))


#: Hardware before memory and network: a broken device makes all kinds of noise afterwards.
PATTERNS = (
    _pattern(
        "hardware",
        "The device or driver failed",
        r"\bXid\b",
        r"uncorrectable (NVLink )?(ECC|error)",
        r"CUDA error: (uncorrectable|hardware stack error|an? hardware|.*device.*(lost|unavailable))",
        r"cudaError(ECCUncorrectable|HardwareStackError|DevicesUnavailable)",
        r"GPU (has fallen off the bus|is lost)",
        r"CUDA driver (initialization|initialisation) failed",
        r"NVML: Driver/library version mismatch",
        r"Input/output error.*/dev/nvidia",
    ),
    _pattern(
        "out_of_memory",
        "Out of memory",
        r"CUDA out of memory",
        r"OutOfMemoryError",
        r"CUDA error: out of memory",
        r"CUBLAS_STATUS_ALLOC_FAILED",
        r"CUDNN_STATUS_ALLOC_FAILED",
        r"RESOURCE_EXHAUSTED: Out of memory",
        r"^(numpy\..*)?_?(Array)?MemoryError\b",
        r"Cannot allocate memory",
        r"std::bad_alloc",
    ),
    _pattern(
        "network",
        "The processes lost each other",
        r"\bNCCL\b.*(error|timed? ?out|timeout|unhandled|abort)",
        r"ncclSystemError|ncclRemoteError|ncclInternalError",
        r"Watchdog caught collective operation timeout",
        r"(Gloo|TCPStore|c10d).*(timed? ?out|timeout|reset|refused|closed by peer)",
        r"DistNetworkError|DistStoreError|RendezvousConnectionError|RendezvousTimeoutError",
        r"ConnectionRefusedError|ConnectionResetError|ConnectionAbortedError|BrokenPipeError",
        r"Connection (refused|reset by peer|timed out|closed by peer)",
        r"No route to host|Network is unreachable|Name or service not known",
        r"Temporary failure in name resolution",
        r"^(socket\.timeout|TimeoutError)\b",
    ),
)
#: The last line of a Python traceback: a dotted exception class, and usually what it says.
PYTHON_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure)\b.*$"
)
#: Escape sequences as ECMA-48 has them: a terminal shows none, and a colour before a line is no part of it.
_STRING = r"\x1b[PX\]^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"
_CONTROL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPES = re.compile(rf"{_STRING}|{_CONTROL}|\x1b[ -/]*[0-OQ-WYZ`-~]")
START_FAILED_CODES = {126: "cannot be executed", 127: "command not found"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known of how an attempt ended on this node."""

    #: Why the shim ended it: "" by itself, stopped, leaving, lease, disk (it filled it), gpu_memory (more
    #: than its part has), replica (one failed), shim (it died).
    reason: str
    #: The exit code of the first replica that failed; as when all succeeded when none did.
    exit_code: int = 0
    signal: int = 0
    was_out_of_memory: bool = False
    #: Memory that this replica may use, and memory on the device that its part of a GPU has; 0: no limit.
    memory_bytes: int = 0
    gpu_memory_bytes: int = 0
    #: The kernel killed some process for want of memory meanwhile; it need not have been this one.
    kernel_killed_for_memory: bool = False
    #: Why the command could not be started.
    problem: str = ""
    last_lines: str = ""


def classify(ending: Ending) -> tuple[Category, str]:
    """Return the category and one line for people; ("", "") when it ended well."""
    category, message = _classify(ending)
    # A log may hold anything; a message is one line of text.
    printable = "".join(character if character.isprintable() else " " for character in message)
    return category, printable[:MESSAGE_CHARACTERS]


def _classify(ending: Ending) -> tuple[Category, str]:
    match ending.reason:
        case "stopped":
            return "stopped", "It was asked to stop."
        case "leaving":
            return "lost", "The node agent was stopped and took its attempts with it."
        case "lease":
            return "lost", "The node lost contact with the control plane, so it stopped the attempt."
        case "shim":
            return "lost", "The process that watches over the attempt died, so the attempt was killed."
        case "disk":
            return (
                "out_of_disk",
                "It was stopped because it wrote more to the node's disk than an attempt may.",
            )
        case "gpu_memory":
            return (
                "gpu_memory_exceeded",
                f"It was stopped because it used more GPU memory than its part of the GPU has"
                f"{_limit(ending.gpu_memory_bytes)}.",
            )
    if ending.problem:
        return "start_failed", ending.problem
    if ending.exit_code == 0:
        return "", ""
    if ending.was_out_of_memory:
        limit = _limit(ending.memory_bytes)
        return "out_of_memory", f"It was killed because it used more memory than it asked for{limit}."
    lines = [line.strip() for line in ending.last_lines.splitlines() if line.strip()]
    for pattern in PATTERNS:
        for line in reversed(lines):
            if pattern.expression.search(line):
                return pattern.category, f"{pattern.says}: {line}"
    if ending.signal == signal.SIGKILL and ending.kernel_killed_for_memory:
        return "out_of_memory", "The kernel ran out of memory and killed it."
    for line in reversed(lines):
        if PYTHON_ERROR.match(line):
            return "user_error", line
    if ending.signal:
        return (
            "user_error",
            f"It was ended by {_signal_name(ending.signal)}, which the platform did not send.",
        )
    if ending.exit_code in START_FAILED_CODES and len(lines) <= 1:
        # What a shell says of a command it cannot start; a job that did work says more than that.
        what = lines[0] if lines else START_FAILED_CODES[ending.exit_code]
        return "start_failed", what
    last = f": {lines[-1]}" if lines else "."
    return "user_error", f"It ended with exit code {ending.exit_code}{last}"


def _limit(limit_bytes: int) -> str:
    if not limit_bytes:
        return ""
    unit, name = (2**30, "GiB") if limit_bytes >= 2**30 else (2**20, "MiB")
    return f" ({limit_bytes / unit:.4g} {name})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def read_outcome(folder: AttemptFolder, status: dict[str, Any]) -> Outcome:
    """Return the outcome, given the final status."""
    failed: dict[str, Any] = {}
    for replica in status.get("replicas", []):
        if replica["rank"] == status.get("first_failed"):
            failed = replica
    problem = status.get("problem", "")
    exit_code = failed.get("exit_code") or 0
    last_lines = _tail(folder.log(failed["rank"])) if failed else ""
    limits = _limits_of(folder, failed["rank"]) if failed else {}
    if failed.get("is_container") and exit_code == ENGINE_FAILED:
        reason = (last_lines.strip().splitlines() or ["it does not say why"])[-1]
        problem = f"The container could not be started: {reason}"
    category, message = classify(
        Ending(
            reason=status["reason"],
            exit_code=exit_code,
            signal=failed.get("signal", 0),
            was_out_of_memory=failed.get("was_out_of_memory", False),
            memory_bytes=limits.get("memory_bytes") or 0,
            gpu_memory_bytes=(limits.get("gpu_part") or {}).get("memory_bytes") or 0,
            kernel_killed_for_memory=status.get("kernel_killed_for_memory", False),
            problem=problem,
            last_lines=last_lines,
        )
    )
    if exit_code == 0 and category not in ("", "stopped"):
        # Its processes may have said otherwise, or the code is unknown: it did not end on its own.
        exit_code = KILLED
    if message and len(status.get("replicas", [])) > 1 and status["reason"] in ("", "replica"):
        message = f"Rank {failed['rank']}: {message}"
    return Outcome(
        exit_code=exit_code if status.get("replicas") else None,
        category=category,
        message=message,
        started_at=status.get("started_at"),
        ended_at=status.get("ended_at"),
        last_lines=last_lines,
        signal=_signal_name(number) if (number := failed.get("signal", 0)) else "",
    )


def _limits_of(folder: AttemptFolder, rank: int) -> dict[str, Any]:
    """Return a replica as the agent was last asked to run it: its limits may change while it runs."""
    desired = (read_json(folder.part) or {}).get("wish") or {}
    return next((replica for replica in desired.get("replicas", []) if replica.get("rank") == rank), {})


def _tail(path: str) -> str:
    """Return the end of a log, as a terminal would show it."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            return _ESCAPES.sub("", decode_text(file.read()))
    except FileNotFoundError:
        return ""
