"""What follows a commit: each call by itself, since none of them may fail what is committed.

Django's own `on_commit(robust=True)` names the function that failed by `__qualname__`. A partial has none, so
the request was answered with an error although its effect was there, and the calls behind it were left out.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVarTuple

from django.db import connection, transaction

log = logging.getLogger(__name__)

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

#: How many of a transaction's latest calls are compared: those for one of its jobs are near.
_COMPARED = 12


def after_commit(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call it when this transaction is committed, or now where there is none; log whatever it raises.

    A call that fails, because Redis is away, is not repeated. A later round, a sweep or a page that connects
    again makes up for it.
    """
    transaction.on_commit(lambda: _logged(function, *args, **kwargs))  # noqa: TID251


def _logged(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    try:
        function(*args, **kwargs)
    except Exception:
        log.exception("%s failed after a commit", getattr(function, "__qualname__", repr(function)))


@dataclass(frozen=True, slots=True)
class _Once:
    """A call that is equal to another one that does the same."""

    function: Callable[..., object]
    args: tuple[object, ...]

    def __call__(self) -> None:
        _logged(self.function, *self.args)


def once_after_commit(function: Callable[[*Ts], object], *args: *Ts) -> None:
    """As `after_commit`, where one call does for all those with the same arguments.

    A job that starts and ends by one report is published once, and asks for one round. In a transaction of
    very many calls some are made twice.
    """
    call, held = _Once(function, args), set(connection.savepoint_ids)
    for savepoints, other, *_ in connection.run_on_commit[-_COMPARED:]:
        # Not one of a savepoint that is over: what takes that back would take ours back too.
        if other == call and savepoints <= held:
            return
    transaction.on_commit(call)  # noqa: TID251
