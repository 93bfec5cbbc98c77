"""Auctions solved by hand, and small random ones against all assignments there are."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scheduler.core.policies.themis.auction import prices
from scheduler.core.policies.themis.auction.assigning import assign
from scheduler.core.policies.themis.auction.holding import Result, hold
from scheduler.core.policies.themis.auction.table import Bid, Good, Row, tables_of
from tests.effort import examples


def bid(worths: Mapping[int, float], nothing: float = 1.0, good: Good = "gpu") -> Bid:
    """A table over one good: what so many pieces are worth."""
    rows = [Row(worth, {good: pieces}) for pieces, worth in worths.items()]
    return Bid(nothing=nothing, rows=rows)


def pieces_won(result: Result, bids: Sequence[Bid]) -> dict[int, int]:
    return {win.bidder: sum(bids[win.bidder].rows[win.row].takes.values()) for win in result.wins}


def kept(result: Result) -> dict[int, float]:
    return {win.bidder: win.kept for win in result.wins}


def by_brute_force(bids: Sequence[Bid], supply: Mapping[Good, int]) -> tuple[float, tuple[int | None, ...]]:
    """Return the largest sum of logarithms, and the first assignment that has it."""
    best, chosen = -math.inf, tuple[int | None, ...]()
    for rows in product(*[(*range(len(one.rows)), None) for one in bids]):
        used: dict[Good, int] = {}
        value = 0.0
        for one, row in zip(bids, rows, strict=True):
            if row is not None:
                for good, pieces in one.rows[row].takes.items():
                    used[good] = used.get(good, 0) + pieces
            worth = one.nothing if row is None else one.rows[row].worth
            value += math.log(worth / one.nothing) if worth > 0 else -math.inf
        if all(pieces <= supply.get(good, 0) for good, pieces in used.items()) and value > best + 1e-9:
            best, chosen = value, rows
    return best, chosen


def kept_by_brute_force(bids: Sequence[Bid], supply: Mapping[Good, int], result: Result) -> dict[int, float]:
    parts = {}
    won = {}
    for win in result.wins:
        one = bids[win.bidder]
        won[win.bidder] = math.log(one.rows[win.row].worth / one.nothing)
    for bidder in won:
        others = [one for place, one in enumerate(bids) if place != bidder]
        alone, _ = by_brute_force(others, supply)
        parts[bidder] = math.exp(sum(won.values()) - won[bidder] - alone)
    return parts


class TestByHand:
    def test_two_apps_and_two_gpus(self) -> None:
        """a: 1 -> 2, 2 -> 3. b: 1 -> 4, 2 -> 5. Products: a 2: 3; one each: 2 x 4 = 8; b 2: 5.

        So one each. Without a, b has both, worth 5 instead of 4: a keeps 4/5. Without b, a has 3 instead of
        2: b keeps 2/3.
        """
        bids = [bid({1: 2, 2: 3}), bid({1: 4, 2: 5})]
        result = hold(bids, {"gpu": 2})
        assert pieces_won(result, bids) == {0: 1, 1: 1}
        assert kept(result) == pytest.approx({0: 4 / 5, 1: 2 / 3})
        assert (math.exp(result.value), result.gap, result.exact_payments) == (pytest.approx(8), 0, True)

    def test_three_apps_and_four_gpus(self) -> None:
        """a: 2 -> 4; b: 2 -> 3; c: 4 -> 9, of which a and b together are worth 12: these win.

        Without a: c alone 9 beats b's 3, so a keeps 3/9. Without b: c's 9 beats a's 4, so b keeps 4/9.
        """
        bids = [bid({2: 4}), bid({2: 3}), bid({4: 9})]
        result = hold(bids, {"gpu": 4})
        assert pieces_won(result, bids) == {0: 2, 1: 2}
        assert kept(result) == pytest.approx({0: 1 / 3, 1: 4 / 9})

    def test_two_models_and_each_app_its_own(self) -> None:
        """a: fast 8, slow 2; b: fast 3, slow 2. a fast, b slow: 16; the other way 6.

        Without a, b has the fast one, 3 instead of 2: a keeps 2/3. Without b, a has what it has: b keeps all.
        """
        bids = [
            Bid(nothing=1, rows=[Row(8, {"fast": 1}), Row(2, {"slow": 1})]),
            Bid(nothing=1, rows=[Row(3, {"fast": 1}), Row(2, {"slow": 1})]),
        ]
        result = hold(bids, {"fast": 1, "slow": 1})
        assert [(win.bidder, win.row) for win in result.wins] == [(0, 0), (1, 1)]
        assert kept(result) == pytest.approx({0: 2 / 3, 1: 1})

    def test_who_is_alone_keeps_everything(self) -> None:
        bids = [bid({1: 2, 2: 3, 3: 5})]
        assert kept(hold(bids, {"gpu": 2})) == {0: 1.0}

    def test_equals_are_served_in_their_order(self) -> None:
        bids = [bid({1: 2}) for _ in range(5)]
        result = hold(bids, {"gpu": 2})
        assert kept(result) == pytest.approx({0: 1 / 2, 1: 1 / 2})

    def test_rows_that_are_worth_nothing_or_do_not_fit_are_left_out(self) -> None:
        bids = [bid({1: 0.0, 2: -1.0, 3: math.nan, 4: math.inf, 9: 7.0}), bid({1: 0.5}), Bid(nothing=1.0)]
        assert hold(bids, {"gpu": 8}).wins == ()

    @pytest.mark.parametrize(
        ("bids", "supply", "problem"),
        [
            ([Bid(nothing=0.0)], {}, "nothing is worth 0"),
            ([Bid(nothing=math.nan)], {}, "nothing is worth nan"),
            ([Bid(nothing=1.0, rows=[Row(2.0, {"gpu": -1})])], {"gpu": 1}, "less than 0 pieces"),
            ([], {"gpu": -1}, "supply is below 0"),
        ],
    )
    def test_what_can_not_be_is_refused(self, bids: list[Bid], supply: dict[Good, int], problem: str) -> None:
        with pytest.raises(ValueError, match=problem):
            hold(bids, supply)


BIDS = some.lists(
    some.builds(
        lambda rows: Bid(nothing=1.0, rows=[Row(worth, {"a": a, "b": b}) for worth, a, b in rows]),
        some.lists(
            some.tuples(some.integers(0, 40).map(lambda n: n / 4), some.integers(0, 3), some.integers(0, 3)),
            max_size=4,
        ),
    ),
    max_size=5,
)
SUPPLY = some.fixed_dictionaries({"a": some.integers(0, 6), "b": some.integers(0, 6)})


class TestProperties:
    @settings(max_examples=examples(40))
    @given(BIDS, SUPPLY)
    def test_as_good_as_any_and_paid_as_defined(self, bids: list[Bid], supply: dict[Good, int]) -> None:
        result = hold(bids, supply)
        best, _ = by_brute_force(bids, supply)
        assert result.value == pytest.approx(best, abs=1e-8)
        assert result.gap <= 1e-8
        assert result.exact_payments
        assert kept(result) == pytest.approx(kept_by_brute_force(bids, supply, result), abs=1e-8)
        assert all(0 < part <= 1 for part in kept(result).values())

    @settings(max_examples=examples(40))
    @given(BIDS, SUPPLY, some.sampled_from([0, 16]))
    def test_no_piece_is_sold_twice_and_none_pays_more_than_it_gains(
        self, bids: list[Bid], supply: dict[Good, int], exact_bidders: int
    ) -> None:
        result = hold(bids, supply, exact_bidders)
        best, _ = by_brute_force(bids, supply)
        assert best <= result.value + result.gap + 1e-8
        used: dict[Good, int] = {}
        for win in result.wins:
            row = bids[win.bidder].rows[win.row]
            assert 0 < win.kept <= 1
            assert win.kept * row.worth >= bids[win.bidder].nothing * (1 - 1e-9)
            for good, pieces in row.takes.items():
                used[good] = used.get(good, 0) + pieces
        assert all(pieces <= supply[good] for good, pieces in used.items())

    @settings(max_examples=examples(25))
    @given(BIDS, SUPPLY, some.sampled_from([0.01, 0.5, 7.0, 1_000.0]), some.integers(0, 4))
    def test_to_say_everything_is_worth_so_many_times_as_much_changes_nothing(
        self, bids: list[Bid], supply: dict[Good, int], times: float, who: int
    ) -> None:
        lying = list(bids)
        if who < len(bids):
            one = bids[who]
            rows = [Row(row.worth * times, row.takes) for row in one.rows]
            lying[who] = Bid(nothing=one.nothing * times, rows=rows)
        honest, other = hold(bids, supply), hold(lying, supply)
        assert [(win.bidder, win.row) for win in other.wins] == [(win.bidder, win.row) for win in honest.wins]
        assert kept(other) == pytest.approx(kept(honest), rel=1e-6)

    @settings(max_examples=examples(40))
    @given(BIDS, SUPPLY, some.integers(0, 4), some.lists(some.integers(0, 40), min_size=4, max_size=4))
    def test_no_lie_pays(self, bids: list[Bid], supply: dict[Good, int], who: int, said: list[int]) -> None:
        """Worth times the part kept is never more than with the truth, whatever the table says instead."""
        if who >= len(bids):
            return
        truth = bids[who]
        lying = list(bids)
        rows = [Row(worth / 4, row.takes) for worth, row in zip(said, truth.rows, strict=False)]
        lying[who] = Bid(nothing=1.0, rows=rows)
        gained = []
        for told in (bids, lying):
            won = {win.bidder: win for win in hold(told, supply).wins}.get(who)
            gained.append(1.0 if won is None else truth.rows[won.row].worth * won.kept)
        assert gained[1] <= gained[0] * (1 + 1e-8)


def crowd(bidders: int) -> tuple[list[Bid], dict[Good, int]]:
    """Gangs of 1 to 8 that are faster on one of two models, with GPUs for a third of them."""
    dice = random.Random(bidders)
    bids = []
    for _ in range(bidders):
        gang, elapsed, left = dice.choice((1, 1, 1, 2, 2, 4, 8)), dice.uniform(0, 9), dice.uniform(1, 9)
        rows = [
            Row(1 / (elapsed + left / speed), {model: gang})
            for model, speed in (("fast", dice.uniform(2, 4)), ("slow", dice.uniform(1, 2)))
        ]
        bids.append(Bid(nothing=1 / (elapsed + left + 1), rows=rows))
    return bids, {"fast": bidders // 2, "slow": bidders // 2}


class TestBeyondExact:
    def test_the_bound_is_close(self) -> None:
        for bidders, gap in ((100, 1e-6), (1_500, 1e-3)):
            bids, supply = crowd(bidders)
            result = hold(bids, supply)
            assert not result.exact_payments
            assert 0 <= result.gap < gap * result.value

    @pytest.mark.parametrize("kind", ["unlike", "alike", "rich", "poor", "nothing"])
    def test_the_bidders_in_doubt_give_the_optimum_of_all(
        self, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where all are alike all are in doubt; a few with a good of their own are never in the sample."""
        bids, supply = crowd(600)
        if kind == "alike":
            bids = bids[:2] * 300
        elif kind == "rich":
            supply = {"fast": 1_200, "slow": 10}
        elif kind == "poor":
            supply = {"fast": 3, "slow": 0}
        elif kind == "nothing":
            supply = {"fast": 0, "slow": 0}
        bids[1::100] = [bid({1: 2, 2: 3}, good="own")] * 6
        tables = tables_of(bids, {**supply, "own": 5})
        monkeypatch.setattr(prices, "SIFTED", 1_000)
        optimum = prices.relax(tables)
        monkeypatch.setattr(prices, "SIFTED", 20)
        sifted = prices.relax(tables)
        assert sifted.bound == pytest.approx(optimum.bound, rel=1e-9)
        gains = [
            table[place].gain * part
            for table, (place, part) in zip(tables.tables, sifted.most, strict=True)
            if part
        ]
        assert sum(gains) <= optimum.bound + 1e-9
        assert sum(gains) > 0.98 * optimum.bound

    def test_payments_by_price_are_close_to_the_exact_ones(self) -> None:
        bids, supply = crowd(32)
        exact, by_price = hold(bids, supply, 32), hold(bids, supply, 0)
        assert (exact.exact_payments, by_price.exact_payments) == (True, False)
        assert [win.row for win in exact.wins] == [win.row for win in by_price.wins]
        differences = [one.kept - other.kept for one, other in zip(exact.wins, by_price.wins, strict=True)]
        assert max(map(abs, differences)) < 0.1
        assert sum(map(abs, differences)) / len(differences) < 0.03

    def test_many_who_ask_for_nothing_do_not_matter(self) -> None:
        bids = [Bid(nothing=1.0)] * 3_000 + [bid({1: 2, 2: 3}), bid({1: 4, 2: 5})]
        result = hold(bids, {"gpu": 2})
        assert kept(result) == pytest.approx({3_000: 4 / 5, 3_001: 2 / 3})
        assert assign(tables_of(bids, {"gpu": 2}), 100).exact


def test_with_goods_that_can_be_divided_nobody_envies_another() -> None:
    """Worth in proportion to pieces, on scales that differ a thousandfold: everyone gets as many."""
    scales = (1, 10, 1_000)
    bids = [bid({n: scale * n for n in range(1, 13)}, nothing=scale * 1e-6) for scale in scales]
    result = hold(bids, {"gpu": 12})
    assert pieces_won(result, bids) == {0: 4, 1: 4, 2: 4}
    # Without one of them the others have 6 instead of 4 each: 16 / 36.
    assert list(kept(result).values()) == pytest.approx([4 / 9] * 3)


def test_with_whole_rows_someone_may_envy() -> None:
    """What does not hold exactly: one GPU, and who does not get it would rather be the other."""
    assert kept(hold([bid({1: 4}), bid({1: 3})], {"gpu": 1})) == pytest.approx({0: 1 / 3})
