"""The process in which policies compute: reads calls from its parent, writes answers, ends with it.

Knows the core and nothing else of the platform: no Django, no database, no settings. A message is eight bytes
of length and a pickled value, over pipes that only parent and child have.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import pickle
import resource
import signal
import struct
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

#: Length of the message that follows, in bytes.
HEADER = struct.Struct("!Q")
#: The first byte: modules are loaded, the solver has run once.
READY = b"+"

_PR_SET_PDEATHSIG = 1
#: Where memory runs out, the kernel should end this process rather than the worker (-1,000 to 1,000).
_FIRST_TO_GO = 700


class Answer(NamedTuple):
    """What became of a call."""

    value: Any = None
    #: What it raised: class, arguments, attributes. An exception's own constructor may want other arguments.
    error: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]] | None = None
    out_of_memory: bool = False
    #: Memory that the process uses now.
    resident_bytes: int = 0


def serve(parent: int, memory_bytes: int) -> None:
    """Answer calls until the parent closes its end."""
    _end_with(parent)
    faulthandler.enable()
    _limit(memory_bytes)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_TO_GO))
    calls, answers = _own_pipes()
    warm_up()
    answers.write(READY)
    while (message := _read(calls)) is not None:
        _write(answers, _answered(message))


def warm_up() -> None:
    """Load what policies use, and run the solver once, with one thread.

    HiGHS fixes its number of threads at its first run: half of the processors, without an option. SciPy
    passes the option on, though it warns that it does not know it.
    """
    from scipy.optimize import OptimizeWarning, linprog

    from scheduler.core.round.decide import decide as _  # noqa: F401
    from scheduler.core.solvers import solving as _solving  # noqa: F401

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        linprog([-1.0], [[1.0]], [1.0], options={"threads": 1})


def _end_with(parent: int) -> None:
    """Have the kernel end this process when the parent's thread that started it ends, however it does."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _limit(memory_bytes: int) -> None:
    """Limit this process to this much address space, or to less if it may have only less; no core dumps."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or memory_bytes < most:
        # Some systems other than Linux know no such limit.
        with suppress(*(() if sys.platform == "linux" else (ValueError, OSError))):
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _own_pipes() -> tuple[io.FileIO, io.FileIO]:
    """Return the two pipes; output of any code goes to the log from now on, and not between answers."""
    calls, answers = io.FileIO(os.dup(0), "rb"), io.FileIO(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return calls, answers


def _answered(message: bytes) -> bytes:
    try:
        function, arguments, keywords = pickle.loads(message)
        answer = Answer(value=function(*arguments, **keywords), resident_bytes=_resident_bytes())
        return pickle.dumps(answer)
    except MemoryError:
        return pickle.dumps(Answer(out_of_memory=True, resident_bytes=_resident_bytes()))
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> bytes:
    kind, attributes = type(error), dict(vars(error))
    attributes.pop("__notes__", None)
    try:
        message = pickle.dumps(Answer(error=(kind, error.args, attributes), resident_bytes=_resident_bytes()))
        pickle.loads(message)
    except Exception:
        # It has a value that cannot be pickled.
        said = f"{kind.__name__}: {error}"
        message = pickle.dumps(Answer(error=(RuntimeError, (said,), {}), resident_bytes=_resident_bytes()))
    return message


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        # Without that file: the maximum so far, in kilobytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _read(pipe: io.FileIO) -> bytes | None:
    """Return the next message; None when the sender is gone."""
    header = _read_exactly(pipe, HEADER.size)
    return None if header is None else _read_exactly(pipe, HEADER.unpack(header)[0])


def _read_exactly(pipe: io.FileIO, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = pipe.read(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write(pipe: io.FileIO, message: bytes) -> None:
    for part in (HEADER.pack(len(message)), message):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


if __name__ == "__main__":
    # Its classes by the name that the parent knows them by, not as `__main__`.
    from scheduler.rounds.solver_child import serve as serve_as_module

    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve_as_module(int(sys.argv[1]), int(sys.argv[2]))
