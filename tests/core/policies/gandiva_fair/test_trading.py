"""Trades: the worked check of three speed-ups, prices, and that nobody loses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.building_blocks.entitlement import Claim, Holdings, entitled
from scheduler.core.policies.gandiva_fair.trading import trade

MODELS = ("V100", "P100", "K80")
MANY = Claim(1.0, 1_000.0, dict.fromkeys(MODELS, 1_000.0))


def rates(speed_up: float) -> dict[str, float]:
    return {"V100": speed_up, "K80": 1.0}


def worth(amounts: dict[str, float], rates: dict[str, float]) -> float:
    return sum(gpus * rates.get(model, 0.0) for model, gpus in amounts.items())


class TestThreeUsers:
    """Equal parts of both models, and speed-ups 4, 6 and 8."""

    users: Holdings[str] = {user: {"V100": 4.0, "K80": 12.0} for user in ("four", "six", "eight")}
    claims = dict.fromkeys(users, MANY)
    speeds = {"four": rates(4.0), "six": rates(6.0), "eight": rates(8.0)}

    def test_the_first_ends_up_with_all_slow_gpus_the_second_price_being_paid(self) -> None:
        held, trades = trade(self.users, self.claims, self.speeds, ("V100", "K80"))
        assert [(one.buyer, one.seller, one.price) for one in trades] == [
            ("eight", "four", 6.0),
            ("six", "four", 4.0),
        ]
        assert [one.fast_gpus for one in trades] == pytest.approx([2.0, 2.0])
        assert held["four"]["V100"] == pytest.approx(0.0)
        assert held["four"]["K80"] == pytest.approx(12 + 12 + 8)
        assert held["eight"] == pytest.approx({"V100": 6.0, "K80": 0.0})

    def test_nothing_is_traded_where_all_gain_alike(self) -> None:
        equal = dict.fromkeys(self.users, rates(5.0))
        assert trade(self.users, self.claims, equal, ("V100", "K80")) == (self.users, [])

    def test_who_is_not_known_on_both_models_does_not_trade(self) -> None:
        known = {"four": rates(4.0), "six": {"V100": 6.0}, "eight": {}}
        assert trade(self.users, self.claims, known, ("V100", "K80"))[1] == []

    def test_a_seller_takes_no_more_gpus_than_it_can_use(self) -> None:
        claims = {**self.claims, "four": Claim(1.0, 21.0, {"V100": 4.0, "K80": 50.0})}
        held, _ = trade(self.users, claims, self.speeds, ("V100", "K80"))
        assert sum(held["four"].values()) == pytest.approx(21.0)

    def test_a_buyer_takes_no_more_fast_gpus_than_it_can_use(self) -> None:
        claims = {**self.claims, "eight": Claim(1.0, 16.0, {"V100": 5.0, "K80": 16.0})}
        held, _ = trade(self.users, claims, self.speeds, ("V100", "K80"))
        assert held["eight"]["V100"] == pytest.approx(5.0)


users = st.dictionaries(
    st.sampled_from("abcdefg"),
    st.tuples(
        st.fixed_dictionaries({model: st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.7, 9.0)) for model in MODELS}),
        st.integers(1, 60),
    ),
    min_size=1,
)


@given(users, st.tuples(*[st.integers(0, 30)] * 3), st.booleans())
def test_nobody_loses_and_no_gpu_is_made_or_lost(
    users: dict[str, tuple[dict[str, float], int]], counts: tuple[int, ...], clearing: bool
) -> None:
    gpus = dict(zip(MODELS, map(float, counts), strict=True))
    claims = {
        user: Claim(1.0, float(most), dict.fromkeys(MODELS, float(most))) for user, (_, most) in users.items()
    }
    speeds = {user: known for user, (known, _) in users.items()}
    before = entitled(gpus, claims)
    held, trades = trade(before, claims, speeds, MODELS, clearing=clearing)
    for model in MODELS:
        total = sum(amounts.get(model, 0.0) for amounts in before.values())
        assert sum(amounts.get(model, 0.0) for amounts in held.values()) == pytest.approx(total, abs=1e-6)
    for user in users:
        assert worth(held[user], speeds[user]) >= worth(before[user], speeds[user]) - 1e-6
        assert sum(held[user].values()) <= claims[user].gpus + 1e-6
        assert min(held[user].values(), default=0.0) >= 0
    for one in trades:
        buyer, seller = [speeds[user][one.fast] / speeds[user][one.slow] for user in (one.buyer, one.seller)]
        assert seller * (1 - 1e-9) <= one.price <= buyer * (1 + 1e-9)


def test_at_the_clearing_price_everyone_pays_what_the_user_in_the_middle_would() -> None:
    held, trades = trade(
        TestThreeUsers.users, TestThreeUsers.claims, TestThreeUsers.speeds, ("V100", "K80"), clearing=True
    )
    assert [(one.buyer, one.seller, one.price) for one in trades] == [
        ("eight", "four", 6.0),
        ("six", "four", 6.0),
    ]
    assert held["four"] == pytest.approx({"V100": 0.0, "K80": 36.0})


def gains(lie: float, *, clearing: bool, people: int = 60, markets: int = 100) -> list[float]:
    """What one of so many gains, relatively, by saying that its speed-up is so many times the true one."""
    found = []
    for seed in range(markets):
        dice = random.Random(seed)
        truth = {f"user-{number}": dice.uniform(1, 8) for number in range(people)}
        slow = dice.choice((2.0, 4.0, 12.0, 40.0))
        holdings: Holdings[str] = {user: {"V100": 4.0, "K80": slow} for user in truth}
        said = {user: rates(speed_up) for user, speed_up in truth.items()}
        values = [
            worth(trade(holdings, dict.fromkeys(truth, MANY), told, MODELS, clearing=clearing)[0][liar], own)
            for liar, own in (("user-0", said["user-0"]),)
            for told in (said, {**said, liar: rates(lie * truth[liar])})
        ]
        found.append(values[1] / values[0] - 1)
    return found


@pytest.mark.parametrize(
    ("lie", "clearing"),
    [(1.1, False), (2.0, False), (0.5, True), (0.8, True), (1.1, True), (2.0, True)],
)
def test_a_lie_about_ones_speed_up_does_not_pay_on_average(lie: float, clearing: bool) -> None:
    """At the second highest speed-up no overstatement does; at the clearing price of many, nothing does."""
    found = gains(lie, clearing=clearing)
    assert sum(found) / len(found) <= 0
    # The k-th price of finitely many is not exactly truthful: what the luckiest gains.
    assert max(found) < 0.15


def test_at_the_second_highest_speed_up_it_pays_to_understate_ones_own() -> None:
    """Known, and why there is another price: most of what trades gain goes to those that sell."""
    found = gains(0.8, clearing=False)
    assert sum(found) / len(found) > 0.02


@given(st.sampled_from((1.5, 3.0, 5.0, 7.0, 12.0)), st.sampled_from((0.3, 0.8, 1.3, 4.0)))
def test_a_buyer_gains_nothing_by_overstating_its_speed_up(truth: float, lie: float) -> None:
    """What the buyer's GPUs are really worth to it when it says so, and when it says otherwise."""
    others = {"a": rates(4.0), "b": rates(6.0)}
    holdings: Holdings[str] = {user: {"V100": 2.0, "K80": 30.0} for user in ("a", "b", "liar")}
    claims = dict.fromkeys(holdings, MANY)
    honest, _ = trade(holdings, claims, {**others, "liar": rates(truth)}, ("V100", "K80"))
    lying, _ = trade(holdings, claims, {**others, "liar": rates(max(truth, truth * lie))}, ("V100", "K80"))
    assert worth(lying["liar"], rates(truth)) <= worth(honest["liar"], rates(truth)) + 1e-6
