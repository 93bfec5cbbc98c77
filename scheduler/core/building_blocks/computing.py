"""Where the long computations of policies run: inline, or where the caller of a round wants them.

The live loop has them run in another process that it can end (`scheduler.rounds.solver`). A computation is a
function of the core with values in and a value out, so that where it runs makes no difference to the answer.

The start of a view's policy and placer is announced to a `Timekeeper`, by which the caller of a round can end
one that never returns (`scheduler.wiring.watchdog`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, Protocol, TypeVar

from scheduler.core.model.errors import PolicyError

P = ParamSpec("P")
T = TypeVar("T")


class Overrun(PolicyError):
    """A computation exceeded its time limit; in this round a cheap policy serves its view."""


class Compute(Protocol):
    """Calls a module-level function of the core; raises what it raises, or Overrun."""

    def __call__(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T: ...


def of_view(compute: Compute, view: str) -> Compute:
    """Return the Compute for a view's policy; a Compute that depends on the view has a method `of_view`."""
    accounting: Callable[[str], Compute] | None = getattr(compute, "of_view", None)
    return compute if accounting is None else accounting(view)


#: Entered with a view's name when its policy and placer begin, and left when they are done.
Timekeeper = Callable[[str], AbstractContextManager[None]]


def untimed(view: str) -> AbstractContextManager[None]:
    """Let a view's policy and placer take as long as they like."""
    return nullcontext()


def run_inline(function: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
    """Compute at once, however long it takes."""
    return function(*arguments, **keywords)
