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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from scheduler.core.entitlement import NOTHING, Claim, Holdings

#: Speed-ups closer than this, relatively, are equal: nothing is to be gained from a trade.
EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class Trade:
    """So many fast GPUs for `price` times as many slow ones."""

    buyer: str
    seller: str
    fast: str
    slow: str
    fast_gpus: float
    #: Slow GPUs for a fast one.
    price: float

    @property
    def slow_gpus(self) -> float:
        return self.fast_gpus * self.price


def trade(
    holdings: Holdings[str],
    claims: Mapping[str, Claim],
    rates: Mapping[str, Mapping[str, float]],
    models: Sequence[str],
) -> tuple[Holdings[str], list[Trade]]:
    """Return what everyone holds after all trades, and these in order.

    `rates` are by user and model, of those known; `models` are the fastest first. Nobody is worse off:
    measured by its own rates, each user's holdings are worth at least what they were.
    """
    held = {user: dict(amounts) for user, amounts in holdings.items()}
    trades = []
    pairs = sorted(combinations(range(len(models)), 2), key=lambda pair: (pair[0] - pair[1], pair))
    for fast, slow in pairs:
        market = _Market(held, claims, rates, models[fast], models[slow])
        while (done := market.next_trade()) is not None:
            trades.append(done)
    return held, trades


class _Market:
    """Trades of one fast model for one slow one."""

    def __init__(
        self,
        held: Holdings[str],
        claims: Mapping[str, Claim],
        rates: Mapping[str, Mapping[str, float]],
        fast: str,
        slow: str,
    ) -> None:
        self._held, self._claims, self._fast, self._slow = held, claims, fast, slow
        self._speed_up = {
            user: known[fast] / known[slow]
            for user, known in rates.items()
            if user in held and known.get(fast, 0.0) > 0 and known.get(slow, 0.0) > 0
        }

    def next_trade(self) -> Trade | None:
        """Carry out the next trade; None when nobody gains from one."""
        buyers = sorted([user for user in self._speed_up if self._may_buy(user)], key=self._rank)
        sellers = sorted([user for user in self._speed_up if self._may_sell(user)], key=self._rank)
        if not buyers or not sellers:
            return None
        buyer, seller = buyers[-1], sellers[0]
        others = [self._speed_up[user] for user in buyers if user != buyer]
        worth = self._speed_up[seller]
        price = max(worth, max(others, default=worth))
        if self._speed_up[buyer] <= worth * (1 + EQUAL) or price < 1:
            # Below 1 the model is not the fast one to those who would set the price.
            return None
        amount = min(
            self._has(seller, self._fast),
            self._has(buyer, self._slow) / price,
            self._room(buyer, self._fast),
            self._room(seller, self._slow) / price,
            self._room_in_all(seller, price),
        )
        if amount <= NOTHING:
            return None
        done = Trade(buyer, seller, self._fast, self._slow, amount, price)
        self._give(seller, buyer, self._fast, done.fast_gpus)
        self._give(buyer, seller, self._slow, done.slow_gpus)
        return done

    def _rank(self, user: str) -> tuple[float, str]:
        return self._speed_up[user], user

    def _has(self, user: str, model: str) -> float:
        return self._held[user].get(model, 0.0)

    def _may_buy(self, user: str) -> bool:
        return self._has(user, self._slow) > NOTHING and self._room(user, self._fast) > NOTHING

    def _may_sell(self, user: str) -> bool:
        return (
            self._has(user, self._fast) > NOTHING
            and self._room(user, self._slow) > NOTHING
            and self._claims[user].gpus - sum(self._held[user].values()) > NOTHING
        )

    def _room(self, user: str, model: str) -> float:
        """Return how many more GPUs of the model the user could use."""
        return self._claims[user].by_model.get(model, 0.0) - self._has(user, model)

    def _room_in_all(self, user: str, price: float) -> float:
        """Return how many fast GPUs it may sell at that price before it has more GPUs than it can use."""
        room = self._claims[user].gpus - sum(self._held[user].values())
        return room / (price - 1) if price > 1 else float("inf")

    def _give(self, giver: str, taker: str, model: str, amount: float) -> None:
        self._held[giver][model] = max(0.0, self._has(giver, model) - amount)
        self._held[taker][model] = self._has(taker, model) + amount
