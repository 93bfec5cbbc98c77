"""What follows a commit: each call by itself, since none of them may fail what is committed.

Django's own `on_commit(robust=True)` names the function that failed by `__qualname__`. A partial has none, so
the request was answered with an error although its effect was there, and the calls behind it were left out.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec

from django.db import transaction

log = logging.getLogger(__name__)

P = ParamSpec("P")


def after_commit(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call it when this transaction is committed, or now where there is none; log whatever it raises.

    A call that fails, because Redis is away, is not repeated. A later round, a sweep or a page that connects
    again makes up for it.
    """

    def call() -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            log.exception("%s failed after a commit", getattr(function, "__qualname__", repr(function)))

    transaction.on_commit(call)  # noqa: TID251
