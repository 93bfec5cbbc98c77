"""Where policies compute in the live loop: in a child process that can be ended when it takes too long.

A worker has one child, made when a policy first wants to compute, with one thread and a limit on its memory.
It starts again after many calls, when it has grown, and when it had to be ended. Starting is bounded, but
does not count as the policy's time. A round gives all computations of all its policies one `Budget`.

Only rounds compute here, and those that are decided again for a page (`replay`). Previews, what-if questions
and forecasts compute where they are; a `watchdog` ends the turn of a view there and in rounds, and
`circuit_breaker.with_breakers_open` spares them the policies that are known to take too long.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from scheduler.core.building_blocks.computing import Compute, Overrun
from scheduler.rounds.solver_child import HEADER, READY, Answer

T = TypeVar("T")

log = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: Secrets and settings, which a computation does not need.
_NOT_INHERITED = ("ALLOT_", "DATABASE_URL", "REDIS_URL")
_PIPE_BYTES = 1 << 16
_MOST_ANSWER_BYTES = 1 << 30
#: How long a process may take to end after it was killed, or has closed its pipes.
_ENDING_SECONDS = 1.0
#: A process that is not ready after this time never will be.
_HOPELESS_SECONDS = 60.0
MIB = 1024 * 1024


class _ChildTimeout(Exception):
    """No answer in time."""


class _ChildExit(Exception):
    """The child closed its end, or sent an invalid message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may take."""

    start_seconds: float = 5.0
    #: Address space: what needs more fails as if the machine had no more.
    memory_bytes: int = 4096 * MIB
    #: It starts again after this many calls, or when it uses this much memory after one.
    recycle_calls: int = 1_000
    recycle_bytes: int = 1024 * MIB


@dataclass(slots=True)
class TimeLeft:
    """Seconds that are left, counted down as they are used."""

    #: For computing.
    computing: float
    #: For waiting until a process is ready, which does not count for a policy.
    starting: float


class _Child:
    """One process, and the pipes to it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls = 0
        self._is_ready = False
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "scheduler.rounds.solver_child", str(os.getpid()), str(limits.memory_bytes)),
            ],
            cwd=_ROOT,
            env=_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C in a terminal reaches a whole group; only the worker should get it.
            process_group=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._calling, self._answering = self.process.stdin, self.process.stdout
        os.set_blocking(self._calling.fileno(), False)
        os.set_blocking(self._answering.fileno(), False)

    def wait_until_ready(self, deadline: float) -> None:
        """Return when it has loaded its modules; raise _ChildTimeout or _ChildExit."""
        if not self._is_ready:
            if self._receive_exactly(len(READY), deadline) != READY:
                raise _ChildExit
            self._is_ready = True

    @property
    def is_hopeless(self) -> bool:
        """Whether it should have been ready long ago."""
        return time.monotonic() > self._began + _HOPELESS_SECONDS

    def call(self, message: bytes, deadline: float) -> Answer:
        """Return the result of a call; raise _ChildTimeout or _ChildExit."""
        self._calls += 1
        self._send(HEADER.pack(len(message)), deadline)
        self._send(message, deadline)
        answer: Answer = pickle.loads(self._receive(deadline))
        return answer

    def is_worn(self, answer: Answer) -> bool:
        """Whether it has answered enough calls, or has grown too much."""
        limits = self._limits
        return self._calls >= limits.recycle_calls or answer.resident_bytes >= limits.recycle_bytes

    def end(self) -> str:
        """Kill the process unless it has ended; return in words how it ended."""
        with suppress(subprocess.TimeoutExpired):
            if self._answering_is_closed():
                self.process.wait(_ENDING_SECONDS)
        status = self.process.poll()
        self.let_go()
        if status is None:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_ENDING_SECONDS)
            return "was ended"
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with exit status {status}"

    def let_go(self) -> None:
        """Close our ends of the pipes."""
        self._calling.close()
        self._answering.close()

    def _answering_is_closed(self) -> bool:
        with suppress(BlockingIOError, OSError, ValueError):
            return os.read(self._answering.fileno(), 1) == b""
        return False

    def _send(self, message: bytes, deadline: float) -> None:
        left = memoryview(message)
        while left:
            _wait_for(self._calling.fileno(), select.POLLOUT, deadline)
            try:
                left = left[os.write(self._calling.fileno(), left[:_PIPE_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise _ChildExit from None

    def _receive(self, deadline: float) -> bytearray:
        (size,) = HEADER.unpack(self._receive_exactly(HEADER.size, deadline))
        if size > _MOST_ANSWER_BYTES:
            raise _ChildExit
        return self._receive_exactly(size, deadline)

    def _receive_exactly(self, size: int, deadline: float) -> bytearray:
        parts = bytearray()
        while len(parts) < size:
            _wait_for(self._answering.fileno(), select.POLLIN, deadline)
            try:
                part = os.read(self._answering.fileno(), min(size - len(parts), 16 * _PIPE_BYTES))
            except BlockingIOError:
                continue
            except OSError:
                raise _ChildExit from None
            if not part:
                raise _ChildExit
            parts += part
        return parts


class Solver:
    """Runs functions of the core in a child process. Any thread may call; calls wait for one another.

    A process that is forked off this one has no child until it makes its own.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._child: _Child | None = None
        self._lock = threading.Lock()
        _solvers.add(self)

    def run(self, left: TimeLeft, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        """Return what the function returns, or raise what it raises; count down the time that is left.

        Raises Overrun when that is not enough, when it needs too much memory or does not survive, and
        TypeError for a function that is not of the core, or arguments that cannot be pickled.
        """
        message = _message(function, arguments, keywords)
        with self._lock:
            child = self._ready(left)
            had, began = left.computing, time.monotonic()
            try:
                answer = child.call(message, began + had)
            except _ChildTimeout:
                self._renew()
                raise Overrun(f"its policy took longer than the {had:.3g} s that it had") from None
            except _ChildExit:
                raise Overrun(f"its policy broke down: the process that computed {self._renew()}") from None
            except BaseException:
                # Interrupted: its answer must not be taken for that of the next call.
                self._renew()
                raise
            finally:
                left.computing -= time.monotonic() - began
            if answer.out_of_memory or child.is_worn(answer):
                self._renew()
        if answer.out_of_memory:
            raise Overrun(f"its policy needs more than {self.limits.memory_bytes // MIB:,} MiB of memory")
        if answer.error is not None:
            raise _rebuilt(*answer.error)
        value: T = answer.value
        return value

    def warm_up(self) -> None:
        """Have a child started, without waiting for it."""
        with self._lock, suppress(Overrun):
            self._present()

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._drop()

    def forget(self) -> None:
        """Leave the child to the process that this one was forked off."""
        self._lock = threading.Lock()
        if self._child is not None:
            self._child.let_go()
            self._child = None

    @property
    def child(self) -> int | None:
        """The number of the child's process, while there is one."""
        return self._child.process.pid if self._child is not None else None

    def _present(self) -> _Child:
        if self._child is not None and self._child.process.poll() is not None:
            # It ended between two calls: no computation was at fault.
            self._drop()
        if self._child is None:
            try:
                self._child = _Child(self.limits)
            except OSError as error:
                raise Overrun(f"the process that computes could not be started: {error}") from error
        return self._child

    def _ready(self, left: TimeLeft) -> _Child:
        began = time.monotonic()
        child = self._present()
        try:
            child.wait_until_ready(began + left.starting)
        except _ChildTimeout:
            # On a busy machine; a later call will find it ready.
            if child.is_hopeless:
                self._drop()
            raise Overrun("the process that computes was not ready in time") from None
        except _ChildExit:
            raise Overrun(f"the process that computes did not start: it {self._drop()}") from None
        except BaseException:
            self._drop()
            raise
        finally:
            left.starting -= time.monotonic() - began
        return child

    def _renew(self) -> str:
        """End the child and start another, ready when it is needed; return in words how the old one ended."""
        ended = self._drop()
        with suppress(Overrun):
            self._present()
        return ended

    def _drop(self) -> str:
        child, self._child = self._child, None
        return child.end() if child is not None else "was not there"


class Budget:
    """The time that all computations of a round may take together: a Compute for `decide()` that counts it.

    `start_seconds`: how long they may wait for the process; None: as the solver's limits say.
    """

    def __init__(self, solver: Solver, seconds: float, start_seconds: float | None = None) -> None:
        #: By view.
        self.computations: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)
        #: Views whose policy could not compute, because those of others had taken all the time.
        self.crowded_out: set[str] = set()
        self._solver, self._seconds = solver, seconds
        starting = solver.limits.start_seconds if start_seconds is None else start_seconds
        self._left = TimeLeft(computing=seconds, starting=starting)

    def __call__(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        return self._compute("", function, *arguments, **keywords)

    def of_view(self, view: str) -> Compute:
        """Return the budget for one view, to which its computations are charged."""
        return partial(self._compute, view)

    def _compute(self, view: str, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        if self._left.computing <= 0:
            if not self.computations[view]:
                self.crowded_out.add(view)
                raise Overrun("policies of other views took all the time that a round has for computing")
            raise Overrun(f"its policy took longer than the {self._seconds:.3g} s that it had")
        self.computations[view] += 1
        before = self._left.computing
        try:
            return self._solver.run(self._left, function, *arguments, **keywords)
        finally:
            self.seconds[view] += before - self._left.computing


#: All there are: a process that is forked off must not hold on to the pipes of its parent's child.
_solvers: weakref.WeakSet[Solver] = weakref.WeakSet()


def _forget_all() -> None:
    for solver in list(_solvers):
        solver.forget()


os.register_at_fork(after_in_child=_forget_all)


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in own.items()
        # A process's home shows to which installation it belongs.
        if name == "ALLOT_HOME" or not name.startswith(_NOT_INHERITED)
    }
    path = os.pathsep.join(filter(None, (str(_ROOT), own.get("PYTHONPATH"))))
    return kept | _ONE_THREAD | {"PYTHONPATH": path}


def _message(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module.startswith("scheduler.core.") or not name.isidentifier():
        raise TypeError(f"{module}.{name or function!r} is not a function of a module of the core")
    try:
        return pickle.dumps((function, arguments, keywords))
    except Exception as error:
        raise TypeError(f"{name} cannot be called in another process: {error}") from error


def _rebuilt(
    kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> BaseException:
    """Return the exception that was raised, past a constructor that may want other arguments."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    return error


def _wait_for(file: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(file, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1_000):
        raise _ChildTimeout
