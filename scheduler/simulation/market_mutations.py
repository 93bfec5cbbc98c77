"""Events of a scenario in the market between virtual clusters: loans, offers, rules and credits.

- {at: 0, loan: {from: speech, to: vision, gpus: {v100: 4}, ends_at: 600}}
- {at: 0, offer: {name: node, virtual_cluster: speech, cells: {V100-NODE: 1}, ends_at: 600, price: 0.5}}
- {at: 10, take: {offer: node, virtual_cluster: vision}}
- {at: 20, withdraw: other}
- {at: 0, lend_rule: {virtual_cluster: speech, gpus: {v100: 8}, idle_seconds: 60, lend_seconds: 600}}
- {at: 0, borrow_rule: {virtual_cluster: vision, most_gpus: 8, waiting_seconds: 30, price: 1}}
- {at: 0, grant: {virtual_cluster: vision, credits: 100}}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from scheduler.core.lending.in_force import Guarantees
from scheduler.core.model import wording
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.loan_terms import (
    BorrowRule,
    LendRule,
    Loan,
    LoanId,
    Lot,
    Millicredits,
    Offer,
    OfferId,
    RuleId,
)
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.market import Market
from scheduler.simulation.changes import counts_of
from scheduler.simulation.errors import InputError
from scheduler.simulation.traces.fields import BadField, count, positive, seconds, shown

KINDS = ("loan", "offer", "take", "withdraw", "lend_rule", "borrow_rule", "grant")

_LOT = ("gpus", "cells")
#: The largest number in any field; three centuries in seconds.
_MOST = 1e10
_KNOWN: Mapping[str, Collection[str]] = {
    "loan": ("from", "to", *_LOT, "in_return", "starts_at", "ends_at"),
    "offer": ("name", "virtual_cluster", *_LOT, "in_return", "starts_at", "ends_at", "price"),
    "take": ("offer", "virtual_cluster"),
    "lend_rule": ("virtual_cluster", *_LOT, "idle_seconds", "lend_seconds", "price"),
    "borrow_rule": ("virtual_cluster", "gpu_models", "most_gpus", "waiting_seconds", "price"),
    "grant": ("virtual_cluster", "credits"),
}

#: A change to the market, given what virtual clusters own and the instant.
Mutation = Callable[[Market, Guarantees, float], Loan | None]


class MarketMutations:
    """Reads the market's events of one scenario; offers are known by their names."""

    def __init__(self, virtual_clusters: Collection[str], gpu_models: Collection[str]) -> None:
        self._virtual_clusters, self._gpu_models = virtual_clusters, gpu_models
        #: The ids of offers by name, in the order in which the offers are made.
        self._offers: dict[str, OfferId] = {}
        self._rules = 0

    def act(self, kind: str, where: str, value: Any) -> Callable[[Engine], None]:
        """Return what an event does to the engine; raise InputError that names the wrong field."""
        fields = _Fields(f"{where}: {kind}", kind, value, self._virtual_clusters)
        mutation: Mutation = getattr(self, f"_{kind}")(fields)

        def happen(engine: Engine) -> None:
            try:
                engine.trade(mutation)
            except SchedulingError as error:
                raise InputError(f"{where}: {kind}: {error}") from None

        return happen

    def _loan(self, fields: _Fields) -> Mutation:
        loan = Loan(
            id=LoanId(0),
            lender=fields.virtual_cluster("from"),
            borrower=fields.virtual_cluster("to"),
            lot=fields.lot(fields.value),
            in_return=fields.in_return(),
            starts_at=fields.number("starts_at", 0.0),
            ends_at=fields.number("ends_at"),
        )
        return lambda market, own, now: market.lend(loan, own, now)

    def _offer(self, fields: _Fields) -> Mutation:
        offer = Offer(
            id=OfferId(0),
            lender=fields.virtual_cluster("virtual_cluster"),
            lot=fields.lot(fields.value),
            in_return=fields.in_return(),
            starts_at=fields.number("starts_at") if "starts_at" in fields.value else None,
            ends_at=fields.number("ends_at"),
            price=fields.credits("price"),
        )
        name = str(fields.value.get("name", ""))

        def make(market: Market, own: Guarantees, now: float) -> None:
            made = market.make(offer, own, now)
            if name:
                self._offers[name] = made.id

        return make

    def _take(self, fields: _Fields) -> Mutation:
        name, borrower = str(fields.value.get("offer", "")), fields.virtual_cluster("virtual_cluster")
        return lambda market, own, now: market.take(self._number(name), borrower, own, now)

    def _withdraw(self, fields: _Fields) -> Mutation:
        name = str(fields.value)
        return lambda market, own, now: market.withdraw(self._number(name))

    def _number(self, name: str) -> OfferId:
        if name in self._offers:
            return self._offers[name]
        known = wording.listed(list(self._offers)) or "none yet"
        raise SchedulingError(f"there is no offer {shown(name)}; there are {known}")

    def _lend_rule(self, fields: _Fields) -> Mutation:
        rule = LendRule(
            id=self._next_rule(),
            virtual_cluster=fields.virtual_cluster("virtual_cluster"),
            lot=fields.lot(fields.value),
            idle_seconds=fields.number("idle_seconds"),
            lend_seconds=fields.duration("lend_seconds"),
            price=fields.credits("price"),
        )
        return lambda market, own, now: market.follow(rule, own, now)

    def _borrow_rule(self, fields: _Fields) -> Mutation:
        models = fields.value.get("gpu_models", [])
        if not isinstance(models, list):
            raise InputError(f"{fields.where}: gpu_models: {shown(models)} is not a list of GPU models")
        names = tuple(map(str, models))
        for model in names:
            if model not in self._gpu_models:
                known = wording.either(list(self._gpu_models))
                raise InputError(
                    f"{fields.where}: gpu_models: there is no {shown(model)}; the nodes have {known}"
                )
        rule = BorrowRule(
            id=self._next_rule(),
            virtual_cluster=fields.virtual_cluster("virtual_cluster"),
            gpu_models=names,
            most_gpus=fields.count("most_gpus"),
            waiting_seconds=fields.number("waiting_seconds"),
            price=fields.credits("price"),
        )
        return lambda market, own, now: market.follow(rule, own, now)

    def _next_rule(self) -> RuleId:
        self._rules += 1
        return RuleId(self._rules)

    def _grant(self, fields: _Fields) -> Mutation:
        vc, amount = fields.virtual_cluster("virtual_cluster"), fields.credits("credits")
        return lambda market, own, now: market.grant(vc, amount, now)


class _Fields:
    """The fields of one event."""

    def __init__(self, where: str, kind: str, value: Any, virtual_clusters: Collection[str]) -> None:
        self.where, self.value, self._virtual_clusters = where, value, virtual_clusters
        if kind == "withdraw":
            return
        if not isinstance(value, dict):
            raise InputError(f"{where}: {shown(value)} is not an object")
        for key in value:
            if key not in _KNOWN[kind]:
                known = wording.either(list(_KNOWN[kind]))
                raise InputError(f"{where}: {shown(key)} is not known here; choose {known}")

    def virtual_cluster(self, field: str) -> str:
        name = str(self.value.get(field, ""))
        if name not in self._virtual_clusters:
            known = wording.either(sorted(self._virtual_clusters))
            raise InputError(
                f"{self.where}: {field}: there is no virtual cluster {shown(name)}; choose {known}"
            )
        return name

    def number(self, field: str, default: float | None = None) -> float:
        """Return a number of at least 0, in seconds or any other unit."""
        return self._read(field, default, seconds)

    def duration(self, field: str) -> float:
        """Return a number of seconds above 0."""
        return self._read(field, None, partial(positive, what="seconds"))

    def count(self, field: str) -> int:
        """Return a whole number of GPUs of at least 1."""
        return int(self._read(field, None, count))

    def _read(self, field: str, default: float | None, read: Callable[[str, Any], float]) -> float:
        given = self.value.get(field, default)
        if given is None:
            raise InputError(f"{self.where}: {field}: is missing")
        try:
            value = read(field, given)
        except BadField as bad:
            raise InputError(f"{self.where}: {bad}") from None
        if value > _MOST:
            raise InputError(f"{self.where}: {field}: {given} is more than {_MOST:g}")
        return value

    def credits(self, field: str) -> Millicredits:
        return round(self.number(field, 0.0) * 1_000)

    def in_return(self) -> Lot | None:
        given = self.value.get("in_return")
        if given is not None and not isinstance(given, dict):
            raise InputError(f"{self.where}: in_return: {shown(given)} is not an object")
        return None if given is None else self.lot(given)

    def lot(self, value: Mapping[str, Any]) -> Lot:
        gpus, cells = (counts_of(f"{self.where}: {part}", value.get(part, {})) for part in _LOT)
        return Lot(gpus=gpus, cells=cells)
