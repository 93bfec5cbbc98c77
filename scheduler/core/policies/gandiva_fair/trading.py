"""Trades of GPU time: fast GPUs to those that gain most from them, more of the slow ones in return.

S. Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for Deep Learning"
(Gandiva-Fair), EuroSys 2020, section 4.4. A user's speed-up is how many slow GPUs one fast GPU is worth to
it. The one with the highest that still has slow GPUs buys from the one with the lowest that still has fast
ones, at the second highest speed-up among those that could buy, so that overstating one's own gains nothing.
The price lies between what the GPU is worth to the two: neither loses. Models are paired the slowest and the
fastest first.

What the paper leaves open: a user trades only where it is known how fast its jobs run on both models, and
takes no more GPUs than it can use.

Under that rule overstating a speed-up does not pay, but understating it does: sellers get most of the gain,
so selling is better than buying for all but the very fastest users. With `clearing`, all trades of two models
have one price instead, that of the user in the middle: users above it buy what they can, users below sell. A
user's stated speed-up then decides its side rather than the price (benchmarks/bench_misreports.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic

from scheduler.core.building_blocks.entitlement import NOTHING, Claim, Claimant, Holdings

#: Speed-ups closer than this, relatively, are equal: nothing is to be gained from a trade.
EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class Trade(Generic[Claimant]):
    """A number of fast GPUs for `price` times as many slow ones."""

    buyer: Claimant
    seller: Claimant
    fast: str
    slow: str
    fast_gpus: float
    #: Slow GPUs for a fast one.
    price: float

    @property
    def slow_gpus(self) -> float:
        return self.fast_gpus * self.price


def trade(
    holdings: Holdings[Claimant],
    claims: Mapping[Claimant, Claim],
    rates: Mapping[Claimant, Mapping[str, float]],
    models: Sequence[str],
    *,
    clearing: bool = False,
) -> tuple[Holdings[Claimant], list[Trade[Claimant]]]:
    """Return what each user holds after all trades, and these in order.

    `rates` are by user and model, where known; `models` are the fastest first. No user is worse off: measured
    by its own rates, each user's holdings are worth at least what they were. The price is the second highest
    speed-up, or with `clearing` the one at which as much is bought as sold.
    """
    held = {user: dict(amounts) for user, amounts in holdings.items()}
    trades: list[Trade[Claimant]] = []
    pairs = sorted(combinations(range(len(models)), 2), key=lambda pair: (pair[0] - pair[1], pair))
    for fast, slow in pairs:
        pair_trades = _PairTrades(held, claims, rates, models[fast], models[slow], clearing=clearing)
        while (done := pair_trades.next_trade()) is not None:
            trades.append(done)
    return held, trades


class _PairTrades(Generic[Claimant]):
    """Trades of one fast model for one slow one."""

    def __init__(
        self,
        held: Holdings[Claimant],
        claims: Mapping[Claimant, Claim],
        rates: Mapping[Claimant, Mapping[str, float]],
        fast: str,
        slow: str,
        *,
        clearing: bool,
    ) -> None:
        self._held, self._claims, self._fast, self._slow = held, claims, fast, slow
        self._speed_up = {
            user: known[fast] / known[slow]
            for user, known in rates.items()
            if user in held and known.get(fast, 0.0) > 0 and known.get(slow, 0.0) > 0
        }
        ranked = sorted(self._speed_up, key=self._rank)
        # A user that has bought all it can sells only after every user that gains less, so no user returns to
        # the queue.
        self._sellers = deque([user for user in ranked if self._may_sell(user)])
        self._buyers = deque([user for user in reversed(ranked) if self._may_buy(user)])
        #: The price of all trades; None: the second highest speed-up at each.
        self._price = self._clearing_price() if clearing else None

    def next_trade(self) -> Trade[Claimant] | None:
        """Carry out the next trade; None when no user gains from one."""
        while self._sellers and self._buyers:
            buyer, seller = self._buyers[0], self._sellers[0]
            most, worth = self._speed_up[buyer], self._speed_up[seller]
            price = self._price or self._second_price(worth)
            if most <= worth * (1 + EQUAL) or price < 1 or not worth <= price <= most:
                # Below 1, the model is not the faster one for the users that would set the price.
                return None
            bought, sold = self._bought(buyer, price), self._sold(seller, price)
            done = Trade(buyer, seller, self._fast, self._slow, min(bought, sold), price)
            if done.fast_gpus > NOTHING:
                self._give(seller, buyer, self._fast, done.fast_gpus)
                self._give(buyer, seller, self._slow, done.slow_gpus)
            if bought <= sold or not self._may_buy(buyer):
                self._buyers.popleft()
            if sold <= bought or not self._may_sell(seller):
                self._sellers.popleft()
            if done.fast_gpus > NOTHING:
                return done
        return None

    def _second_price(self, worth: float) -> float:
        return max(worth, self._speed_up[self._buyers[1]]) if len(self._buyers) > 1 else worth

    def _clearing_price(self) -> float | None:
        """Return the lowest speed-up at which users above it buy no more than those below sell."""
        prices = sorted({self._speed_up[user] for user in (*self._buyers, *self._sellers)})

        def sells_out(price: float) -> bool:
            demand = sum([self._bought(user, price) for user in self._buyers if self._speed_up[user] > price])
            return demand > sum(
                [self._sold(user, price) for user in self._sellers if self._speed_up[user] < price]
            )

        place = bisect_left(prices, True, key=lambda price: not sells_out(price))
        return prices[place] if place < len(prices) else None

    def _bought(self, user: Claimant, price: float) -> float:
        """Return how many fast GPUs the user would buy at that price."""
        return min(self._has(user, self._slow) / price, self._room(user, self._fast))

    def _sold(self, user: Claimant, price: float) -> float:
        """Return how many fast GPUs the user would sell at that price."""
        room = self._room(user, self._slow) / price
        return min(self._has(user, self._fast), room, self._room_in_all(user, price))

    def _rank(self, user: Claimant) -> tuple[float, Any]:
        return self._speed_up[user], user

    def _has(self, user: Claimant, model: str) -> float:
        return self._held[user].get(model, 0.0)

    def _may_buy(self, user: Claimant) -> bool:
        return self._has(user, self._slow) > NOTHING and self._room(user, self._fast) > NOTHING

    def _may_sell(self, user: Claimant) -> bool:
        return (
            self._has(user, self._fast) > NOTHING
            and self._room(user, self._slow) > NOTHING
            and self._claims[user].gpus - sum(self._held[user].values()) > NOTHING
        )

    def _room(self, user: Claimant, model: str) -> float:
        """Return how many more GPUs of the model the user could use."""
        return self._claims[user].by_model.get(model, 0.0) - self._has(user, model)

    def _room_in_all(self, user: Claimant, price: float) -> float:
        """Return how many fast GPUs the user may sell at that price before it has more GPUs than it can
        use.
        """
        room = self._claims[user].gpus - sum(self._held[user].values())
        return room / (price - 1) if price > 1 else float("inf")

    def _give(self, giver: Claimant, taker: Claimant, model: str, amount: float) -> None:
        self._held[giver][model] = max(0.0, self._has(giver, model) - amount)
        self._held[taker][model] = self._has(taker, model) + amount
