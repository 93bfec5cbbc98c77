"""The result of a case in a folder that the process which runs it and the one which waits for it both see.

The running process holds a lock on its file, TARGET.begun. Where the lock is free and no result is there,
the process ended without one.
"""

from __future__ import annotations

import fcntl
from contextlib import suppress
from pathlib import Path

import msgspec

from scheduler.core.sim.result import Result
from scheduler.simulation.sweep import Case, Failed, run_or_fail

_ENDED = Failed("its worker ended without a result; the worker's log may say why")


def run_to_file(case: str, target: str) -> None:
    """Run a case in JSON and write its result to TARGET.json, or why it failed to TARGET.error.

    A target in a folder that is gone is not run, since the process that waited for it is gone, too.
    """
    if not Path(target).parent.is_dir():
        return
    begun = Path(f"{target}.begun")
    locked = begun.with_suffix(".part")
    with locked.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        locked.rename(begun)
        result = run_or_fail(case_from_json(case))
        if isinstance(result, Failed):
            _appear(f"{target}.error", result.why.encode())
        else:
            _appear(f"{target}.json", result_to_json(result))


def result_in(target: str) -> Result | Failed | None:
    """Return what came of a case; None while it runs or has not begun."""
    # Asked first: a result that appears meanwhile is found below.
    is_over = _is_free(Path(f"{target}.begun"))
    with suppress(FileNotFoundError):
        return Failed(Path(f"{target}.error").read_text())
    with suppress(FileNotFoundError):
        return result_from_json(Path(f"{target}.json").read_bytes())
    return _ENDED if is_over else None


def _appear(name: str, content: bytes) -> None:
    """Write a file that is complete as soon as it exists."""
    unfinished = Path(f"{name}.part")
    unfinished.write_bytes(content)
    unfinished.rename(name)


def _is_free(begun: Path) -> bool:
    """Return whether a case began and no process holds its lock any more."""
    try:
        with begun.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def case_to_json(case: Case) -> str:
    return msgspec.json.encode(case).decode()


def case_from_json(data: str) -> Case:
    return msgspec.json.decode(data, type=Case)


def result_to_json(result: Result) -> bytes:
    return msgspec.json.encode(result)


def result_from_json(data: bytes) -> Result:
    return msgspec.json.decode(data, type=Result)
