"""Measure what lying about one's speed-up gains in random markets of two GPU models.

    python benchmarks/bench_misreports.py [--markets 400] [--seed 0]

Each market has so many users with equal parts, four fast GPUs and 2, 4, 12 or 40 slow ones each, and true
speed-ups drawn evenly from 1 to 8. One of them says that its own is so many times the true one. Printed
are, for both prices of gandiva_fair, the mean and the largest gain of what it then holds, valued truly, and
the part of the markets in which the lie pays.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

from machine import describe_machine

from scheduler.core.building_blocks.entitlement import Claim, Holdings
from scheduler.core.policies.gandiva_fair.trading import trade

MODELS = ("fast", "slow")
PEOPLE = (3, 5, 8, 20, 60)
LIES = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
MANY = Claim(1.0, 1e6, dict.fromkeys(MODELS, 1e6))


@dataclass(frozen=True)
class Market:
    """What everyone holds before, and how many slow GPUs a fast one is worth to each."""

    holdings: Holdings[str]
    truth: dict[str, float]

    def worth_to(self, user: str, said: dict[str, float], *, clearing: bool) -> float:
        """Return what the user has after trades, in slow GPUs, if speed-ups are what was said."""
        rates = {name: {"fast": speed_up, "slow": 1.0} for name, speed_up in said.items()}
        claims = dict.fromkeys(self.truth, MANY)
        held = trade(self.holdings, claims, rates, MODELS, clearing=clearing)[0][user]
        return held["fast"] * self.truth[user] + held["slow"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe_machine())
    print("gain: mean, most, part of the markets in which it pays")
    for clearing in (False, True):
        print(f"\nprice: {'clearing' if clearing else 'second highest speed-up'}")
        print(f"{'says':>6}" + "".join(f"{people:>18} users" for people in PEOPLE))
        for lie in LIES:
            cells = [figures(people, lie, options, clearing=clearing) for people in PEOPLE]
            print(f"{lie:5g}x" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def figures(people: int, lie: float, options: argparse.Namespace, *, clearing: bool) -> str:
    found = []
    for number in range(options.markets):
        market = drawn(people, random.Random(f"{options.seed}/{people}/{number}"))
        liar = "user 0"
        lying = {**market.truth, liar: lie * market.truth[liar]}
        honest = market.worth_to(liar, market.truth, clearing=clearing)
        found.append(market.worth_to(liar, lying, clearing=clearing) / honest - 1)
    pays = sum(gain > 1e-9 for gain in found) / len(found)
    return f"{sum(found) / len(found):+.1%} {max(found):+.0%} {pays:.0%}"


def drawn(people: int, dice: random.Random) -> Market:
    slow = dice.choice((2.0, 4.0, 12.0, 40.0))
    truth = {f"user {number}": dice.uniform(1, 8) for number in range(people)}
    return Market({user: {"fast": 4.0, "slow": slow} for user in truth}, truth)


if __name__ == "__main__":
    main()
