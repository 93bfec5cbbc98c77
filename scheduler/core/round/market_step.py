"""The market's part of a round: after all views were served, virtual clusters follow their rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.fitting.demand import amount_of, models_of, needs_of, sizes_of
from scheduler.core.lending.in_force import active, next_change, own_of, split
from scheduler.core.lending.lots import Cells, cells_of, gpus_of, words_of
from scheduler.core.lending.rules import follow
from scheduler.core.lending.standing import Standing, Want
from scheduler.core.model import wording
from scheduler.core.model.loan_terms import MARKET, Lending, MarketAction
from scheduler.core.model.plan import LedgerLine
from scheduler.core.model.snapshot import Memory
from scheduler.core.round.facts import Facts
from scheduler.core.round.guarantees.binding import Binding
from scheduler.core.round.run_view import ViewOutcome, queue_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketStep:
    """The actions of virtual clusters by their rules in a round, each with its line for the ledger."""

    actions: tuple[MarketAction, ...] = ()
    ledger: tuple[LedgerLine, ...] = ()
    memory: Memory = field(default_factory=dict)
    #: The next instant at which a loan begins or ends, or a rule would act without an event.
    wake_at: float | None = None


def step_market(facts: Facts, binding: Binding | None, outcomes: Sequence[ViewOutcome]) -> MarketStep:
    """Let virtual clusters follow their rules; `outcomes` are those of the round, the spare view last."""
    lending, now = facts.frame.lending, facts.frame.now
    if lending is None:
        return MarketStep()
    change = next_change(lending.loans, now)
    if not lending.lend_rules and not lending.borrow_rules:
        return MarketStep(wake_at=change)
    followed = follow(
        lending,
        own_of(lending, facts.frame.cells),
        [_standing(outcome, lending, facts, binding) for outcome in outcomes[:-1]],
        facts.frame.memory.get(MARKET, {}),
        now=now,
        round_seconds=facts.frame.round_seconds,
    )
    offers = {offer.id: offer for offer in lending.offers}
    wakes = [instant for instant in (change, followed.wake_at) if instant is not None]
    return MarketStep(
        actions=followed.actions,
        ledger=tuple(
            _line(action, facts, "" if action.offer is None else offers[action.offer].lender)
            for action in followed.actions
        ),
        memory=followed.memory,
        wake_at=min(wakes, default=None),
    )


def _standing(outcome: ViewOutcome, lending: Lending, facts: Facts, binding: Binding | None) -> Standing:
    view, capacity = outcome.view, outcome.capacity
    vc = facts.virtual_clusters[view.name]
    gpus = Counter(vc.guaranteed)
    cells: Cells = Counter()
    borrowed: Cells = Counter()
    if facts.layout is not None:
        cells.update(facts.layout.owned.get(vc.name, {}))
    for loan in active(lending.loans, facts.frame.now):
        lot = loan.got_by(vc.name)
        if lot is not None:
            gpus.subtract(lot.gpus)
            borrowed.update(cells_of(lot, facts.layout))
    counted = [model for model in vc.guaranteed if not facts.is_divided(model)]
    own = None if facts.layout is None else split(facts.layout, cells, borrowed)
    return Standing(
        virtual_cluster=vc.name,
        room={model: capacity.room(model) for model in counted},
        own={model: gpus[model] for model in counted},
        cells=Counter() if own is None else own,
        borrowed=borrowed,
        used=Counter() if binding is None else binding.cells_in_use(vc.name),
        waiting=_waiting(outcome, facts),
    )


def _waiting(outcome: ViewOutcome, facts: Facts) -> tuple[Want, ...]:
    """Return the guaranteed jobs that wait, in the order in which they will be considered."""
    jobs = outcome.view.jobs
    return tuple(
        Want(
            job=job.id,
            gpu_models=models_of(job, facts.cluster),
            replicas=tuple([need.gpus for need in needs_of(job, sizes_of(job)[-1])]),
            since=job.waiting_since,
            gpus=amount_of(job, sizes_of(job)[-1]),
        )
        for job in [jobs[number] for number in queue_of(outcome) if number in jobs]
    )


def _line(action: MarketAction, facts: Facts, lender: str) -> LedgerLine:
    """Return the ledger line of an action; `lender` is the lender of its offer, if it has one."""
    vc, rule = action.virtual_cluster, action.rule
    if action.lot is None:
        return LedgerLine(
            kind=action.kind,
            party=vc,
            message=f"{vc} withdraws offer {action.offer}: its own guaranteed jobs need it (rule {rule}).",
            details={"offer": action.offer, "rule": rule},
        )
    assert action.ends_at is not None
    gpus = gpus_of(action.lot, facts.layout)
    what, until = words_of(action.lot), wording.instant(action.ends_at)
    takes = action.kind == "take"
    done = f"takes offer {action.offer} of {what} from {lender}" if takes else f"offers {what}"
    details = {"lot": {"gpus": dict(action.lot.gpus), "cells": dict(action.lot.cells)}, "rule": rule}
    return LedgerLine(
        kind=action.kind,
        party=vc,
        counterparty=lender,
        gpus=gpus if takes else {},
        given={} if takes else gpus,
        price=float(action.price),
        seconds=action.ends_at - facts.frame.now,
        message=f"{vc} {done} until {until}, at {action.price / 1_000:g} credits for a GPU and an hour"
        f" (rule {rule}).",
        details=details | ({"offer": action.offer} if takes else {}),
    )
