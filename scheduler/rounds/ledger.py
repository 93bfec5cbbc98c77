"""The ledger of a round, written with its plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from scheduler.core.model.loan_terms import MARKET
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.core.model.plan import Plan
from scheduler.models.ledger import LedgerLine
from scheduler.rounds.copying import copy_rows, reserve_ids
from scheduler.virtual_clusters.ledger.selectors import COLUMNS
from scheduler.virtual_clusters.ledger.services import publish_lines, row_of

_JSON = frozenset({"gpus", "given", "details"})
#: The fields that the database adds to those of the policy.
_ADDED = frozenset({"id", "at", "round_number", "view", "position", "person"})
_SAID = tuple(name for name in COLUMNS if name not in _ADDED)


def write_lines(
    plan: Plan, owners: Mapping[int, str], *, at: datetime, dropped: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Append the lines of a round, in the transaction that carries its plan out.

    Lines of dropped mutations (`rounds.market.carry_out`) are left out, as these changed nothing.
    """
    lines = _lines(plan, dropped)
    if not lines:
        return
    rows = [
        row_of(line, view=view, at=at, id=number, round_number=plan.round_number, position=position)
        for number, (view, position, line) in zip(reserve_ids(LedgerLine, len(lines)), lines, strict=True)
    ]
    copy_rows(LedgerLine, tuple(COLUMNS), ([_cell(row, name) for name in COLUMNS] for row in rows))
    publish_lines(rows, owners)


def _cell(row: LedgerLine, name: str) -> object:
    value = getattr(row, name)
    return json.dumps(value) if name in _JSON else value


def lines_that_differ(plan: Plan, dropped: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return in words where the table's lines for the round differ from those of its plan."""
    written = {
        (row.view, row.position): row for row in LedgerLine.objects.filter(round_number=plan.round_number)
    }
    differing = []
    for view, position, line in _lines(plan, dropped):
        row = written.pop((view, position), None)
        place = f"line {position} of {view}, {line.kind} of {line.party or 'everyone'}"
        if row is None:
            differing.append(f"+ {place}: is not in the ledger")
        elif values_of(row) != values_of(row_of(line, view=view, at=row.at)):
            differing.append(f"! {place}: is another one in the ledger")
    return differing + [
        f"- line {position} of {view}: is no longer decided" for view, position in sorted(written)
    ]


def _lines(plan: Plan, dropped: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, Line]]:
    without = {(MARKET, one["position"]) for one in dropped if "position" in one}
    return [
        (view, position, line)
        for view, of_view in sorted(plan.ledger.items())
        for position, line in enumerate(of_view)
        if (view, position) not in without
    ]


def values_of(row: LedgerLine) -> list[object]:
    """Return the values of a policy's line, as the database returns them."""
    return [json.loads(json.dumps(getattr(row, name))) for name in _SAID]
