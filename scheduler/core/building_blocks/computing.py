"""Where the long computations of policies run: inline, or where the caller of a round wants them.

The live loop has them run in another process that it can end (`scheduler.rounds.solver`). A computation is a
function of the core with values in and a value out, so that where it runs makes no difference to the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from scheduler.core.model.errors import PolicyError

P = ParamSpec("P")
T = TypeVar("T")


class Overrun(PolicyError):
    """A computation took longer than it may: this round its view is served by a cheap policy."""


class Compute(Protocol):
    """Calls a module-level function of the core; raises what it raises, or Overrun."""

    def __call__(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T: ...


@runtime_checkable
class Accounts(Protocol):
    """A Compute that wants to know for which view it computes."""

    def of_view(self, view: str) -> Compute: ...


def of_view(compute: Compute, view: str) -> Compute:
    """Return how a view's policy computes."""
    return compute.of_view(view) if isinstance(compute, Accounts) else compute


def run_inline(function: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
    """Compute at once, however long it takes."""
    return function(*arguments, **keywords)
