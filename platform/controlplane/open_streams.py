"""The streams of changes that are open, WebSockets and event streams together, and when all of them end."""

from __future__ import annotations

import asyncio
from collections import Counter
from weakref import WeakKeyDictionary

from django.conf import settings

#: How many each user has open. Those of one user come by many addresses, or by one proxy's.
_open: Counter[int] = Counter()

_stopping: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Event] = WeakKeyDictionary()


def take(user_id: int) -> bool:
    """Count a stream of the user; False where the user has as many as the settings allow."""
    if _open[user_id] >= settings.CONFIG.sockets_per_user:
        return False
    _open[user_id] += 1
    return True


def give_back(user_id: int) -> None:
    """Count a stream that was taken no longer."""
    _open[user_id] -= 1
    if not _open[user_id]:
        del _open[user_id]


def count_of(user_id: int) -> int:
    return _open.get(user_id, 0)


def stopping() -> asyncio.Event:
    """Return what is set once the server of this event loop stops.

    A server waits for what it answers. A stream that went on would make each stop take as long as the
    server waits at most.
    """
    return _stopping.setdefault(asyncio.get_running_loop(), asyncio.Event())
