"""Trades of GPU time: fast GPUs to those that gain most from them, more of the slow ones in return.

S. Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for Deep Learning"
(Gandiva-Fair), EuroSys 2020, section 4.4. A user's speed-up says how many slow GPUs one fast GPU is worth to
it. The one with the highest that still has slow GPUs buys from the one with the lowest that still has fast
ones, at the second highest speed-up among those that could buy, so that overstating one's own gains nothing.
The price lies between what the GPU is worth to the two: neither loses. Models are paired the slowest and the
fastest first.

What the paper leaves open: a user trades only where it is known how fast its jobs run on both models, and
takes no more GPUs than it can use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic

from scheduler.core.entitlement import NOTHING, Claim, Claimant, Holdings

#: Speed-ups closer than this, relatively, are equal: nothing is to be gained from a trade.
EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class Trade(Generic[Claimant]):
    """So many fast GPUs for `price` times as many slow ones."""

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
) -> tuple[Holdings[Claimant], list[Trade[Claimant]]]:
    """Return what everyone holds after all trades, and these in order.

    `rates` are by user and model, of those known; `models` are the fastest first. Nobody is worse off:
    measured by its own rates, each user's holdings are worth at least what they were.
    """
    held = {user: dict(amounts) for user, amounts in holdings.items()}
    trades: list[Trade[Claimant]] = []
    pairs = sorted(combinations(range(len(models)), 2), key=lambda pair: (pair[0] - pair[1], pair))
    for fast, slow in pairs:
        market = _Market(held, claims, rates, models[fast], models[slow])
        while (done := market.next_trade()) is not None:
            trades.append(done)
    return held, trades


class _Market(Generic[Claimant]):
    """Trades of one fast model for one slow one."""

    def __init__(
        self,
        held: Holdings[Claimant],
        claims: Mapping[Claimant, Claim],
        rates: Mapping[Claimant, Mapping[str, float]],
        fast: str,
        slow: str,
    ) -> None:
        self._held, self._claims, self._fast, self._slow = held, claims, fast, slow
        self._speed_up = {
            user: known[fast] / known[slow]
            for user, known in rates.items()
            if user in held and known.get(fast, 0.0) > 0 and known.get(slow, 0.0) > 0
        }
        ranked = sorted(self._speed_up, key=self._rank)
        # Who has bought all it can does not sell before all who gain less have: so nobody comes back.
        self._sellers = deque([user for user in ranked if self._may_sell(user)])
        self._buyers = deque([user for user in reversed(ranked) if self._may_buy(user)])

    def next_trade(self) -> Trade[Claimant] | None:
        """Carry out the next trade; None when nobody gains from one."""
        while self._sellers and self._buyers:
            buyer, seller = self._buyers[0], self._sellers[0]
            worth = self._speed_up[seller]
            price = max(worth, self._speed_up[self._buyers[1]]) if len(self._buyers) > 1 else worth
            if self._speed_up[buyer] <= worth * (1 + EQUAL) or price < 1:
                # Below 1 the model is not the fast one to those who would set the price.
                return None
            bought = min(self._has(buyer, self._slow) / price, self._room(buyer, self._fast))
            sold = min(
                self._has(seller, self._fast),
                self._room(seller, self._slow) / price,
                self._room_in_all(seller, price),
            )
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
        """Return how many fast GPUs it may sell at that price before it has more GPUs than it can use."""
        room = self._claims[user].gpus - sum(self._held[user].values())
        return room / (price - 1) if price > 1 else float("inf")

    def _give(self, giver: Claimant, taker: Claimant, model: str, amount: float) -> None:
        self._held[giver][model] = max(0.0, self._has(giver, model) - amount)
        self._held[taker][model] = self._has(taker, model) + amount
