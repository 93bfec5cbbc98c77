"""The author of a change, and from where it comes: known to Python, and sent to the database with each write.

The triggers that write the log (`tenants.audit.triggers`) read it from the setting `allot.source`. The very
message that carries the write sets it, and it ends with the transaction: no connection that goes back to the
pool can take a user's name along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.apps import apps
from django.db import connection

from tenants.audit.tables import NOT_AUDITED

#: Statements that may change something.
_WRITES = re.compile(
    r"\s*(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE|COPY|WITH\b.*?\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM))\b",
    re.IGNORECASE | re.DOTALL,
)
#: The table to which a statement adds rows, or of which it changes some, and no other.
_TABLE = re.compile(r"\s*(?:INSERT\s+INTO|UPDATE)\s+\"?(\w+)", re.IGNORECASE)
_MOST_CHARACTERS = 200


@dataclass(slots=True)
class Source:
    """Filled in as it becomes known; where it stays empty the platform itself acts."""

    #: "user", "token", "node" or "system"; the default for a request without credentials.
    kind: str = "nobody"
    #: As in events: "user vera", "node node-1".
    actor: str = "nobody"
    #: Key of the API token, which is not secret.
    token: str = ""
    address: str = ""
    #: Method and route, such as "POST api/v1/jobs": not the path itself, which may hold a secret.
    request: str = ""
    #: Whether the database has it.
    is_set: bool = False

    def is_by(self, kind: str, actor: str, *, token: str = "") -> None:
        self.kind, self.actor, self.token = kind, actor[:80], token

    def text(self) -> str:
        names = ("kind", "actor", "token", "address", "request")
        return json.dumps({name: getattr(self, name)[:_MOST_CHARACTERS] for name in names})


_CURRENT: ContextVar[Source | None] = ContextVar("source", default=None)


def source() -> Source:
    """The source of what this thread does now; outside of requests the platform itself."""
    return _CURRENT.get() or Source(kind="system", actor="system")


@contextmanager
def acting(by: Source) -> Iterator[Source]:
    """Whatever this thread writes in the block is written down as done by this source."""
    previous = _CURRENT.set(by)
    try:
        with connection.execute_wrapper(_with_source):
            yield by
    finally:
        _CURRENT.reset(previous)
    if by.is_set and connection.in_atomic_block and not connection.needs_rollback:
        # A transaction that began outside of the block goes on, and not in this name.
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('allot.source', '', true)")


def _with_source(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    by = _CURRENT.get()
    if many or by is None or not _WRITES.match(sql) or _is_unwatched(sql):
        return execute(sql, params, many, context)
    by.is_set = True
    place = "%s"
    with_source: Any = (by.text(), *(params or ()))
    if params is None:
        sql = sql.replace("%", "%%")
    elif isinstance(params, dict):
        place, with_source = "%(audit_source)s", params | {"audit_source": by.text()}
    execute(f"SELECT set_config('allot.source', {place}, true);\n{sql}", with_source, many, context)
    # The first result is that of the setting; the caller waits for that of its own statement.
    context["cursor"].nextset()


def _is_unwatched(sql: str) -> bool:
    """Whether no trigger of the log looks at the statement. Most that agents cause are such."""
    table = _TABLE.match(sql)
    return table is not None and table[1] in _unwatched_tables()


@cache
def _unwatched_tables() -> frozenset[str]:
    return frozenset(apps.get_model(label)._meta.db_table for label in NOT_AUDITED)
