"""The part of the client for the audit log: `client.audit.entries()`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from allot.schema import AuditEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The audit log, said to the server in the client's ways."""

    read: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]

    def entries(self, filters: Mapping[str, Any], limit: int | None) -> Iterator[AuditEntry]:
        """Entries, the newest first."""
        return cast("Iterator[AuditEntry]", self.pages("/audit", dict(filters), limit))

    def lines(self, filters: Mapping[str, Any], after: int = 0) -> Iterator[str]:
        """All entries behind one, the oldest first, each as a line of JSON; whoever goes on misses none."""
        # An answer without any line is no text at all.
        text = self.read("/audit/export", {**filters, "after": after}) or ""
        yield from cast(str, text).splitlines()

    def after(self, filters: Mapping[str, Any], last: int) -> Iterator[AuditEntry]:
        """The entries behind one, the oldest first."""
        return (cast("AuditEntry", json.loads(line)) for line in self.lines(filters, last))
