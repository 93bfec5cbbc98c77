"""Lists that the server writes as files: the rows that the caller may see, the oldest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

Exported = Literal["jobs", "usage", "ledger", "market/transfers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Filters are those of `GET /{what}/export`."""

    read: Callable[..., Any]
    save: Callable[..., Path]

    def csv(self, what: Exported, **filters: str | int | None) -> str:
        """Return the text of a CSV file."""
        return cast(str, self.read(f"/{what}/export", filters))

    def parquet(self, what: Exported, target: Path, **filters: str | int | None) -> Path:
        """Write a Parquet file, and return it. It is there when it is whole.

        Raises WrongUse when it cannot be written.
        """
        return self.save(f"/{what}/export", {**filters, "format": "parquet"}, target)
