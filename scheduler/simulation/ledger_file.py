"""The ledger of a simulation as a table: what was bid, won, paid, traded or lent in each round, line by line.

The columns are those of the platform's own export (docs/ledger.md) without its ids; `at` is virtual time in
seconds. Lines are written as rounds come, so that millions of them need no memory.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from scheduler.core.model.plan import LedgerLine, Plan
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.engine import Engine

_SAID = tuple([each.name for each in fields(LedgerLine)])
COLUMNS = ("at", "round_number", "view", "position", *_SAID, "person")


class LedgerFile:
    """A table that is being written; raises OSError where it can not be."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow(COLUMNS)
        self.lines = 0

    def on_round(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        """Write the lines of a round."""
        for view, lines in sorted(plan.ledger.items()):
            for position, line in enumerate(lines):
                said = [_cell(getattr(line, name)) for name in _SAID]
                self._table.writerow([engine.now, plan.round_number, view, position, *said, ""])
                self.lines += 1

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _cell(value: Any) -> Any:
    """Return lists and objects as JSON, as the platform's own export does."""
    if isinstance(value, str | int | float | None):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else dict(value), ensure_ascii=False)
