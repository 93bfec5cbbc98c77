"""Follow the rules of virtual clusters in a round: offer what stays idle, withdraw offers, and borrow.

A lend rule offers what no guaranteed job of its owner has needed for a while, never more than its lot. It
offers each kind of GPUs or cells separately, so that a borrower need not take what it does not need. If the
owner needs it again before it was taken, the offer is withdrawn. A borrow rule takes the cheapest offers that
let a job run that has waited long enough, if the balance pays for them until their end. Offers that want
something in return are left to people. Virtual clusters borrow in the order of the round: those that use the
smallest part of what they have come first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.cells.chains import Layout
from scheduler.core.lending.checking import problems
from scheduler.core.lending.idle import Steps, idle_for, longest_gap, next_step, observed, remembered
from scheduler.core.lending.in_force import Guarantees
from scheduler.core.lending.lots import cells_of, cost, gpus_of
from scheduler.core.lending.standing import Standing, Want, holds, units_of
from scheduler.core.model.loan_terms import (
    BorrowRule,
    Lending,
    LendRule,
    Loan,
    LoanId,
    Lot,
    MarketAction,
    Offer,
    OfferId,
)

#: How many choices of offers a rule tries for a job on a model.
_MOST_ATTEMPTS = 32
#: The possible error of sums of parts of GPUs.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """What rules make virtual clusters do, and what the next round must remember."""

    actions: tuple[MarketAction, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    #: When more will have been idle for long enough, or a job will have waited for long enough.
    wake_at: float | None = None


def follow(
    lending: Lending,
    own: Guarantees,
    standings: Sequence[Standing],
    memory: Mapping[str, Any],
    *,
    now: float,
    round_seconds: float,
) -> RuleOutcome:
    """Return the outcome of the rules; `standings` has all virtual clusters, in the order of the round."""
    following = _RuleRun(lending, own, standings, now)
    idle = following.observe(remembered(memory, now, round_seconds))
    following.withdraw()
    following.offer(idle)
    following.borrow()
    instants = [instant for instant in following.wakes if instant > now]
    if idle:
        # Wake up often enough that the memory does not grow too old to count.
        instants = [min([*instants, now + longest_gap(round_seconds) / 2])] if instants else []
    return RuleOutcome(
        actions=tuple(following.actions),
        # Also where nothing is idle, because a memory that is left out stays as it was.
        memory={"at": now, "idle": idle} if lending.lend_rules else {},
        wake_at=min(instants, default=None),
    )


class _RuleRun:
    def __init__(self, lending: Lending, own: Guarantees, standings: Sequence[Standing], now: float) -> None:
        self._lending, self._own, self._now = lending, own, now
        self._layout: Layout | None = own.layout
        self._standings = {standing.virtual_cluster: standing for standing in standings}
        self._open = {offer.id: offer for offer in lending.offers if offer.ends_at > now}
        self._loans = list(lending.loans)
        #: The GPUs of each offer that rules may take, by model; and these offers by model, the cheapest
        #: first.
        self._lots: dict[OfferId, dict[str, int]] = {}
        self._for_taking: dict[str, list[Offer]] = {}
        self.actions: list[MarketAction] = []
        self.wakes: list[float] = []

    # Lending

    def observe(self, before: Mapping[str, Any]) -> dict[str, dict[str, Steps]]:
        """Return what is idle and since when, by virtual cluster and kind, for all that rules would lend."""
        found: dict[str, dict[str, Steps]] = {}
        for rule in self._lending.lend_rules:
            standing = self._standings.get(rule.virtual_cluster)
            if standing is None:
                continue
            known = before.get(rule.virtual_cluster, {})
            for kind, lot in _kinds(rule.lot):
                steps = observed(known.get(kind, ()), self._idle(standing, lot), self._now)
                if steps:
                    found.setdefault(rule.virtual_cluster, {})[kind] = steps
        return found

    def _idle(self, standing: Standing, most: Lot) -> int:
        """Return how much of a lot of one kind its owner does not need."""
        if any(standing.waits_for(model) for model in gpus_of(most, self._layout)):
            return 0
        return _most(_size(most), lambda count: standing.spares([_of(most, count)], self._layout))

    def withdraw(self) -> None:
        """Withdraw offers of rules whose owner needs the offered part again, the newest first."""
        rules = {rule.id for rule in self._lending.lend_rules}
        for offer in sorted(self._open.values(), key=lambda offer: -offer.id):
            standing = self._standings.get(offer.lender)
            if offer.rule is None or offer.rule not in rules or standing is None:
                continue
            is_needed = any(standing.waits_for(model) for model in gpus_of(offer.lot, self._layout))
            offered = [each.lot for each in self._offers_of(offer.lender)]
            if is_needed or not standing.spares(offered, self._layout):
                self.actions.append(
                    MarketAction(
                        kind="withdraw", virtual_cluster=offer.lender, rule=offer.rule, offer=offer.id
                    )
                )
                del self._open[offer.id]

    def _offers_of(self, lender: str) -> Iterator[Offer]:
        """Yield the open offers that could begin now."""
        for offer in self._open.values():
            if offer.lender == lender and (offer.starts_at is None or offer.starts_at <= self._now):
                yield offer

    def offer(self, idle: Mapping[str, Mapping[str, Steps]]) -> None:
        """Offer what has been idle for long enough."""
        for rule in self._lending.lend_rules:
            for kind, lot in _kinds(rule.lot):
                steps = idle.get(rule.virtual_cluster, {}).get(kind, ())
                left = _size(lot) - self._lent_by(rule, kind)
                if steps and left > 0:
                    self._offer_idle(rule, kind, _of(lot, left), steps)

    def _offer_idle(self, rule: LendRule, kind: str, most: Lot, steps: Steps) -> None:
        """Offer what is idle of one kind, up to a lot."""
        instant = next_step(steps, rule.idle_seconds, self._now)
        if instant is not None:
            self.wakes.append(instant)
        standing = self._standings[rule.virtual_cluster]
        offered = [each.lot for each in self._offers_of(rule.virtual_cluster)]
        same = sum(_size(_part(each, kind)) for each in offered)
        limit = min(_size(most), idle_for(steps, rule.idle_seconds, self._now) - same)
        count = _most(limit, lambda count: self._may_offer(rule, standing, _of(most, count), offered))
        if count:
            self._make(rule, _of(most, count))

    def _lent_by(self, rule: LendRule, kind: str) -> int:
        """Return how much of a kind is offered or lent by a rule."""
        offered = [offer.lot for offer in self._open.values() if offer.rule == rule.id]
        lent = [loan.lot for loan in self._loans if loan.rule == rule.id]
        return sum(_size(_part(lot, kind)) for lot in (*offered, *lent))

    def _may_offer(self, rule: LendRule, standing: Standing, lot: Lot, offered: Sequence[Lot]) -> bool:
        if not standing.spares([*offered, lot], self._layout):
            return False
        others = [offer for offer in self._open.values() if offer.lender == rule.virtual_cluster]
        return not problems(self._own, self._loans, self._offer(rule, lot), self._now, offered=others)

    def _offer(self, rule: LendRule, lot: Lot) -> Offer:
        # Offers that a round makes have no number until they are stored.
        return rule.offer(OfferId(min([0, *self._open]) - 1), lot, self._now)

    def _make(self, rule: LendRule, lot: Lot) -> None:
        offer = self._offer(rule, lot)
        self._open[offer.id] = offer
        self.actions.append(
            MarketAction(
                kind="offer",
                virtual_cluster=rule.virtual_cluster,
                rule=rule.id,
                lot=lot,
                ends_at=offer.ends_at,
                price=rule.price,
            )
        )

    # Borrowing

    def borrow(self) -> None:
        """Take offers that let jobs run that have waited long enough."""
        offers = [offer for offer in self._open.values() if self._is_for_taking(offer)]
        self._lots = {offer.id: gpus_of(offer.lot, self._layout) for offer in offers}
        for offer in sorted(offers, key=lambda offer: (offer.price, offer.id)):
            for model in self._lots[offer.id]:
                self._for_taking.setdefault(model, []).append(offer)
        rules: dict[str, list[BorrowRule]] = {}
        for rule in self._lending.borrow_rules:
            rules.setdefault(rule.virtual_cluster, []).append(rule)
        for vc, standing in self._standings.items():
            if vc not in rules:
                continue
            borrower = _Borrower(self._lending.balances.get(vc, 0))
            for loan in self._loans:
                lot = loan.got_by(vc)
                if lot is not None:
                    borrower.gpus.update(gpus_of(lot, self._layout))
            for rule in rules[vc]:
                self._borrow(rule, standing, borrower)

    def _is_for_taking(self, offer: Offer) -> bool:
        """Return whether a rule may take an offer: it is stored, begins now, and wants nothing in return."""
        is_for_now = offer.starts_at is None or offer.starts_at <= self._now
        return offer.id > 0 and is_for_now and offer.in_return is None

    def _borrow(self, rule: BorrowRule, standing: Standing, borrower: _Borrower) -> None:
        #: Models and replicas for which no offers were found; jobs are often alike.
        in_vain: set[tuple[str, tuple[int, ...]]] = set()
        for want in standing.waiting:
            due = want.since + rule.waiting_seconds
            if due > self._now:
                self.wakes.append(due)
                continue
            if want.job in borrower.served:
                continue
            for model in want.gpu_models:
                if not rule.takes(model) or (model, want.replicas) in in_vain:
                    continue
                bundle = self._bundle(rule, standing, want, model, borrower)
                if bundle is None:
                    in_vain.add((model, want.replicas))
                    continue
                self._take(rule, standing, bundle, borrower)
                borrower.serve(want, model, self._gpus(bundle, model))
                # What is left of a lot may suffice for other jobs.
                in_vain.clear()
                break

    def _bundle(
        self, rule: BorrowRule, standing: Standing, want: Want, model: str, borrower: _Borrower
    ) -> list[Offer] | None:
        """Return the cheapest offers with which a job could run on a model; None if there are none.

        The result is empty where offers taken for other jobs in this round leave enough.
        """

        def serves(offers: Sequence[Offer]) -> bool:
            return self._serves(offers, standing, want, model, borrower)

        candidates = list(self._candidates(rule, standing.virtual_cluster, model))
        for _ in range(_MOST_ATTEMPTS):
            taken = self._cheapest(candidates, rule, standing, borrower, serves)
            if serves(taken):
                return _needed(taken, serves)
            if not taken:
                return None
            # Small cheap lots may have used up the limit or the balance that a larger lot needs.
            candidates = self._with_fewer_small(candidates, taken, model)
        return None

    def _cheapest(
        self,
        candidates: Iterable[Offer],
        rule: BorrowRule,
        standing: Standing,
        borrower: _Borrower,
        serves: Callable[[Sequence[Offer]], bool],
    ) -> list[Offer]:
        """Return what may be taken together of some offers, in their order, until it is enough."""
        taken: list[Offer] = []
        for offer in candidates:
            if serves(taken):
                break
            if self._may_take(rule, standing.virtual_cluster, [*taken, offer], borrower):
                taken.append(offer)
        return taken

    def _with_fewer_small(
        self, candidates: Iterable[Offer], taken: Sequence[Offer], model: str
    ) -> list[Offer]:
        """Return candidates without the dearer half of the smallest lots taken, and without others alike.

        Halving keeps the number of attempts small.
        """
        smallest = min(taken, key=lambda offer: self._gpus([offer], model)).lot
        alike = [offer.id for offer in taken if offer.lot == smallest]
        kept = alike[: len(alike) // 2]
        return [offer for offer in candidates if offer.lot != smallest or offer.id in kept]

    def _candidates(self, rule: BorrowRule, vc: str, model: str) -> Iterator[Offer]:
        """Yield the offers that a virtual cluster might take, the cheapest first."""
        for offer in self._for_taking.get(model, ()):
            if offer.price > rule.price:
                return
            if offer.id in self._open and offer.lender != vc:
                yield offer

    def _serves(
        self, taken: Sequence[Offer], standing: Standing, want: Want, model: str, borrower: _Borrower
    ) -> bool:
        layout = self._layout
        if layout is None or model not in layout.gpu_models:
            there = standing.room.get(model, 0) + borrower.left[model] + self._gpus(taken, model)
            return there + _ROUNDING >= want.gpus
        cells = standing.free_cells() + borrower.cells
        for offer in taken:
            cells += cells_of(offer.lot, layout)
        others = borrower.replicas.get(model, [])
        return holds(units_of(cells, model, layout), [*others, *want.replicas])

    def _may_take(self, rule: BorrowRule, vc: str, offers: Sequence[Offer], borrower: _Borrower) -> bool:
        models = rule.gpu_models
        borrowed = borrower.borrowed(models) + sum(
            gpus for offer in offers for gpus in _of_models(self._lots[offer.id], models)
        )
        if borrowed > rule.most_gpus or sum(map(self._cost, offers)) > borrower.balance:
            return False
        loans = [self._loan(offer, vc) for offer in offers]
        return not problems(self._own, [*self._loans, *loans[:-1]], loans[-1], self._now)

    def _take(
        self, rule: BorrowRule, standing: Standing, offers: Iterable[Offer], borrower: _Borrower
    ) -> None:
        vc = standing.virtual_cluster
        for offer in offers:
            del self._open[offer.id]
            self._loans.append(self._loan(offer, vc))
            borrower.balance -= self._cost(offer)
            borrower.cells += cells_of(offer.lot, self._layout)
            borrower.gpus.update(self._lots[offer.id])
            self.actions.append(
                MarketAction(
                    kind="take",
                    virtual_cluster=vc,
                    rule=rule.id,
                    offer=offer.id,
                    lot=offer.lot,
                    ends_at=offer.ends_at,
                    price=offer.price,
                )
            )

    def _loan(self, offer: Offer, borrower: str) -> Loan:
        return Loan(
            id=LoanId(0),
            lender=offer.lender,
            borrower=borrower,
            lot=offer.lot,
            starts_at=self._now,
            ends_at=offer.ends_at,
            rule=offer.rule,
        )

    def _cost(self, offer: Offer) -> int:
        return cost(offer.price, sum(self._lots[offer.id].values()), offer.ends_at - self._now)

    def _gpus(self, offers: Iterable[Offer], model: str) -> int:
        return sum([self._lots[offer.id].get(model, 0) for offer in offers])


class _Borrower:
    """What a virtual cluster can pay, and what it has borrowed in this round and for which jobs."""

    def __init__(self, balance: int) -> None:
        self.balance = balance
        #: GPUs that it has borrowed, by model.
        self.gpus: Counter[str] = Counter()
        self.served: set[int] = set()
        #: GPUs by model beyond its room, less what served jobs need.
        self.left: defaultdict[str, float] = defaultdict(float)
        self.cells: Counter[tuple[str, int]] = Counter()
        #: By model: the replicas of the jobs that its cells are for.
        self.replicas: dict[str, list[int]] = {}

    def borrowed(self, models: Sequence[str]) -> int:
        """Return how many GPUs of these models it has borrowed, or of all models if none is named."""
        return sum(_of_models(self.gpus, models))

    def serve(self, want: Want, model: str, gpus: int) -> None:
        """Note that a job will have its GPUs, for which `gpus` were borrowed."""
        self.served.add(want.job)
        self.left[model] += gpus - want.gpus
        self.replicas.setdefault(model, []).extend(want.replicas)


def _needed(taken: Sequence[Offer], serves: Callable[[Sequence[Offer]], bool]) -> list[Offer]:
    """Return the offers without those that are not needed, the dearest dropped first."""
    needed = list(taken)
    for offer in reversed(taken):
        rest = [other for other in needed if other is not offer]
        if serves(rest):
            needed = rest
    return needed


def _kinds(lot: Lot) -> Iterator[tuple[str, Lot]]:
    """Yield the kinds of a lot, such as "gpus P100", and the lot of each."""
    for model, count in sorted(lot.gpus.items()):
        yield f"gpus {model}", Lot(gpus={model: count})
    for path, count in sorted(lot.cells.items()):
        yield f"cells {path}", Lot(cells={path: count})


def _part(lot: Lot, kind: str) -> Lot:
    return dict(_kinds(lot)).get(kind, Lot())


def _size(lot: Lot) -> int:
    return sum(lot.gpus.values()) + sum(lot.cells.values())


def _of(lot: Lot, count: int) -> Lot:
    """Return a lot of the same one kind."""
    return Lot(gpus=dict.fromkeys(lot.gpus, count), cells=dict.fromkeys(lot.cells, count))


def _most(limit: int, holds_for: Callable[[int], bool]) -> int:
    """Return the largest number up to a limit for which a condition holds that also holds for all smaller."""
    low, high = 0, max(limit, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if holds_for(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _of_models(gpus: Mapping[str, int], models: Sequence[str]) -> Iterator[int]:
    """Yield the GPUs of these models, or of all models if none is named."""
    yield from (count for model, count in gpus.items() if not models or model in models)
