"""The ledger of a round: written with its plan, and given once more when the round is decided again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.core import codec
from scheduler.core.lending.terms import MARKET
from scheduler.core.plan import LedgerLine as Line
from scheduler.core.plan import Plan
from scheduler.core.round import decide
from scheduler.models import LedgerLine, Round
from scheduler.rounds.copying import copy_rows, reserve_ids
from scheduler.services.ledger import FIELDS, publish_lines, row_of
from tenants.errors import Conflict

_JSON = frozenset({"gpus", "given", "details"})
#: What the database adds to what the policy said.
_ADDED = frozenset({"id", "at", "round_number", "view", "position", "person"})
_SAID = tuple(name for name in FIELDS if name not in _ADDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What the round decided at the line's place when it was decided again; None: nothing."""

    line: LedgerLine | None
    same: bool
    #: How long it took to decide.
    seconds: float


def write_lines(
    plan: Plan, owners: Mapping[int, str], *, at: datetime, dropped: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Append the lines of a round, in the transaction that carries its plan out.

    Those of market deeds that were dropped (`rounds.market.carry_out`) are left out: nothing came of them.
    """
    lines = _lines(plan, dropped)
    if not lines:
        return
    rows = [
        row_of(line, view=view, at=at, id=number, round_number=plan.round_number, position=position)
        for number, (view, position, line) in zip(reserve_ids(LedgerLine, len(lines)), lines, strict=True)
    ]
    copy_rows(LedgerLine, FIELDS, ([_cell(row, name) for name in FIELDS] for row in rows))
    publish_lines(rows, owners)


def _cell(row: LedgerLine, name: str) -> object:
    value = getattr(row, name)
    return json.dumps(value) if name in _JSON else value


def replay(row: LedgerLine) -> Replayed:
    """Decide a line's round again from the facts that are kept; raise Conflict where there are none."""
    if row.round_number is None:
        raise Conflict(f"Line {row.id} is what a person did; only what rounds decide can be decided again.")
    kept = Round.objects.filter(number=row.round_number).first()
    if kept is None or kept.snapshot is None:
        raise Conflict(f"The facts of round {row.round_number} are no longer kept.")
    began = time.perf_counter()
    again = decided_again(kept).ledger.get(row.view, ())
    seconds = time.perf_counter() - began
    if row.position >= len(again):
        return Replayed(line=None, same=False, seconds=seconds)
    line = row_of(
        again[row.position],
        view=row.view,
        at=row.at,
        id=row.id,
        round_number=row.round_number,
        position=row.position,
    )
    return Replayed(line=line, same=_values(line) == _values(row), seconds=seconds)


def decided_again(kept: Round) -> Plan:
    """Return the plan of a kept round, decided again from its facts, as it would be kept."""
    assert kept.snapshot is not None
    assert kept.plan is not None
    stored = codec.loads_plan(bytes(kept.plan))
    overran = {view: stored.degraded[view] for view in stored.overran}
    again = decide(codec.loads_snapshot(bytes(kept.snapshot)), overran=overran)
    # A number of GPUs may be 2 here and comes back as 2.0.
    return codec.loads_plan(codec.dumps_plan(again))


def lines_that_differ(plan: Plan, dropped: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return in words where the table holds other lines for the round than its plan gives."""
    written = {
        (row.view, row.position): row for row in LedgerLine.objects.filter(round_number=plan.round_number)
    }
    differing = []
    for view, position, line in _lines(plan, dropped):
        row = written.pop((view, position), None)
        place = f"line {position} of {view}, {line.kind} of {line.party or 'everyone'}"
        if row is None:
            differing.append(f"+ {place}: is not in the ledger")
        elif _values(row) != _values(row_of(line, view=view, at=row.at)):
            differing.append(f"! {place}: is another one in the ledger")
    return differing + [
        f"- line {position} of {view}: is decided no more" for view, position in sorted(written)
    ]


def _lines(plan: Plan, dropped: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, Line]]:
    without = {(MARKET, one["position"]) for one in dropped if "position" in one}
    return [
        (view, position, line)
        for view, of_view in sorted(plan.ledger.items())
        for position, line in enumerate(of_view)
        if (view, position) not in without
    ]


def _values(row: LedgerLine) -> list[object]:
    """Return what a policy says in a line, as the database gives it back."""
    return [json.loads(json.dumps(getattr(row, name))) for name in _SAID]
