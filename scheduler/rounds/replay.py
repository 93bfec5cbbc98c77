"""Kept rounds decided again: whole for the command, and for one line of the ledger while a page waits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from scheduler.core.building_blocks.computing import Compute, run_inline
from scheduler.core.model import codec
from scheduler.core.model.plan import Plan
from scheduler.core.round.decide import decide
from scheduler.models.ledger import LedgerLine
from scheduler.models.rounds import Round
from scheduler.rounds.ledger import values_of
from scheduler.rounds.run import solver
from scheduler.rounds.solver import Budget
from scheduler.virtual_clusters.ledger.services import row_of
from scheduler.wiring.watchdog import within_budget
from tenants.errors import Conflict, TooManyRequests

#: The longest that a page waits: for a round to be decided again, and for all computations of its policies.
MOST_SECONDS = 3.0
#: The first request after a restart waits this long for a process to compute in; rounds do not wait.
START_SECONDS = 20.0
#: The most bytes of stored facts: more than any round decides within that time.
MOST_BYTES = 4 * 2**20
#: One at a time in a process, so that other pages do not wait for them.
_turn = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What the round decided at the line's place when it was decided again; None: no line."""

    line: LedgerLine | None
    same: bool
    #: How long it took to decide.
    seconds: float


def replay(row: LedgerLine) -> ReplayOutcome:
    """Decide a line's round again from the stored facts. Raises Conflict where that is impossible.

    This costs as much as the round did. Rounds that took long, or whose policies now compute for longer than
    `MOST_SECONDS`, are left to the command. Raises TooManyRequests while another one is decided again.
    """
    if row.round_number is None:
        raise Conflict(f"Line {row.id} was caused by a person; only lines of rounds can be recomputed.")
    kept = Round.objects.filter(number=row.round_number).first()
    if kept is None or kept.snapshot is None:
        raise Conflict(f"The facts of round {row.round_number} are no longer kept.")
    if kept.decide_seconds > MOST_SECONDS:
        raise _too_long(kept, f"It took {kept.decide_seconds:.1f} s")
    if len(kept.snapshot) > MOST_BYTES:
        raise _too_long(kept, f"Its facts are {len(kept.snapshot) / 2**20:.0f} MiB")
    if not _turn.acquire(blocking=False):
        raise TooManyRequests(
            "Another round is being recomputed; try again in a moment.", retry_after_seconds=2
        )
    try:
        began = time.perf_counter()
        plan = decided_again(
            kept, Budget(solver(), MOST_SECONDS, START_SECONDS), MOST_SECONDS + START_SECONDS
        )
        seconds = time.perf_counter() - began
    finally:
        _turn.release()
    if set(plan.overran) - _overran(kept).keys():
        raise _too_long(kept, f"Its policies were not done within {MOST_SECONDS:g} s")
    again = plan.ledger.get(row.view, ())
    if row.position >= len(again):
        return ReplayOutcome(line=None, same=False, seconds=seconds)
    line = row_of(
        again[row.position],
        view=row.view,
        at=row.at,
        id=row.id,
        round_number=row.round_number,
        position=row.position,
    )
    return ReplayOutcome(line=line, same=values_of(line) == values_of(row), seconds=seconds)


def _too_long(kept: Round, why: str) -> Conflict:
    return Conflict(
        f"Round {kept.number} takes too long to recompute here. {why}; an operator can do it by"
        f" `manage.py replay_round {kept.number}`."
    )


def decided_again(kept: Round, compute: Compute = run_inline, seconds: float = threading.TIMEOUT_MAX) -> Plan:
    """Return the plan of a kept round, decided again from its facts, as it would be kept.

    `seconds`: what each view may take.
    """
    assert kept.snapshot is not None
    facts = codec.loads_snapshot(bytes(kept.snapshot))
    again = within_budget(
        lambda timekeeper, overran: decide(facts, compute, overran, timekeeper),
        _overran(kept),
        seconds=seconds,
    )
    # A number of GPUs may be 2 here and comes back as 2.0.
    return codec.loads_plan(codec.dumps_plan(again))


def _overran(kept: Round) -> dict[str, str]:
    """Return the views whose policy took too long then, with the recorded reason."""
    assert kept.plan is not None
    stored = codec.loads_plan(bytes(kept.plan))
    return {view: stored.degraded[view] for view in stored.overran}
