"""What everybody may rely on while guarantees are lent. Hand examples, and what holds for any loans."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import Problem
from scheduler.core.lending.checking import problems, problems_with_change
from scheduler.core.lending.in_force import Guarantees, in_force, next_change
from scheduler.core.lending.lots import cost, gpus_of
from scheduler.core.model.loan_terms import Loan, LoanId, Lot, Offer, OfferId
from tests.core.cells.hierarchies import group, racks, random_specification
from tests.core.cells.oracle import CellState
from tests.effort import examples

P100 = {"speech": {"P100": 8}, "vision": {"P100": 4}}


def make_loan(
    number: int = 1,
    lot: Lot | None = None,
    lender: str = "speech",
    borrower: str = "vision",
    starts_at: float = 100.0,
    ends_at: float = 200.0,
    in_return: Lot | None = None,
) -> Loan:
    return Loan(
        id=LoanId(number),
        lender=lender,
        borrower=borrower,
        lot=lot or Lot(gpus={"P100": 4}),
        starts_at=starts_at,
        ends_at=ends_at,
        in_return=in_return,
    )


def counts(own: Guarantees, loans: list[Loan], now: float) -> Mapping[str, Mapping[str, int]]:
    return in_force(own, loans, now).gpus


class TestCounts:
    own = Guarantees(gpus=P100)

    def test_a_loan_counts_from_its_beginning_until_just_before_its_end(self) -> None:
        loans = [make_loan()]
        for now in (99.9, 200.0):
            assert counts(self.own, loans, now) == P100
        for now in (100.0, 199.9):
            assert counts(self.own, loans, now) == {"speech": {"P100": 4}, "vision": {"P100": 8}}
        assert [next_change(loans, now) for now in (0.0, 100.0, 200.0)] == [100.0, 200.0, None]

    def test_loans_add_up_and_barter_goes_both_ways(self) -> None:
        own = Guarantees(gpus={"speech": {"P100": 8}, "vision": {"V100": 2}})
        loans = [
            make_loan(1, in_return=Lot(gpus={"V100": 2})),
            make_loan(2, Lot(gpus={"P100": 3}), starts_at=150, ends_at=300),
        ]
        assert counts(own, loans, 160) == {
            "speech": {"P100": 1, "V100": 2},
            "vision": {"P100": 7},
        }
        assert counts(own, loans, 250) == {"speech": {"P100": 5}, "vision": {"P100": 3, "V100": 2}}

    def test_a_loan_that_its_lender_can_not_keep_any_more_counts_for_nothing(self) -> None:
        own = Guarantees(gpus={"speech": {"P100": 5}})
        assert counts(own, [make_loan(1), make_loan(2)], 150) == {
            "speech": {"P100": 1},
            "vision": {"P100": 4},
        }

    def test_only_what_is_ones_own_can_be_lent(self) -> None:
        loans = [make_loan(1)]
        onwards = make_loan(2, Lot(gpus={"P100": 5}), lender="vision", borrower="labs")
        (problem,) = problems(self.own, loans, onwards, 150)
        assert str(problem) == (
            "lot.gpus.P100: vision owns 4 P100, not 5 (at most 4; what is borrowed cannot be lent)"
        )

    def test_what_is_lent_twice_is_refused_with_the_loan_in_its_way_and_when(self) -> None:
        later = make_loan(2, Lot(gpus={"P100": 5}), starts_at=50, ends_at=150)
        assert problems(self.own, [make_loan()], later, 0.0) == [
            Problem(
                "lot.gpus.P100",
                "from 00:01:40 UTC on 1 January on speech would have lent 9 P100 and owns 8 to lend: loan 1"
                " of 4 P100 from speech to vision until 00:03:20 UTC on 1 January",
                "at most 4, or until 00:01:40 UTC on 1 January",
            )
        ]
        assert not problems(self.own, [make_loan()], replace(later, ends_at=100.0), 0.0)

    def test_offers_are_checked_like_loans_beside_what_is_offered_already(self) -> None:
        offer = Offer(id=OfferId(1), lender="speech", lot=Lot(gpus={"P100": 5}), ends_at=500.0)
        assert not problems(self.own, [], offer, 0.0)
        (problem,) = problems(self.own, [], offer, 0.0, offered=[offer])
        assert "an open offer of 5 P100" in problem.problem
        assert problem.hint == "at most 3"

    @pytest.mark.parametrize(
        ("changes", "field", "problem"),
        [
            ({"lot": Lot()}, "lot", "is empty"),
            ({"lot": Lot(gpus={"P100": 0})}, "lot.gpus.P100", "0 is less than 1"),
            ({"lot": Lot(gpus={"H200": 1})}, "lot.gpus.H200", "speech owns 0 H200, not 1"),
            ({"lot": Lot(cells={"RACK": 1})}, "lot.cells.RACK", "there are no cells of type RACK"),
            ({"in_return": Lot(gpus={"P100": 5})}, "in_return.gpus.P100", "vision owns 4 P100, not 5"),
            ({"ends_at": 100.0}, "ends_at", "00:01:40 UTC on 1 January is too early"),
            ({"borrower": "speech"}, "virtual_cluster", "speech cannot borrow of itself"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, changes: dict[str, object], field: str, problem: str
    ) -> None:
        found = problems(self.own, [], replace(make_loan(), **changes), 0.0)  # type: ignore[arg-type]
        assert (field, problem) in [(each.field, each.problem) for each in found]

    def test_an_operator_is_told_which_loans_a_change_would_break(self) -> None:
        (problem,) = problems_with_change(Guarantees(gpus={"speech": {"P100": 3}}), [make_loan()], 0.0)
        assert problem == Problem(
            "guaranteed.P100",
            "speech would have 3 P100 to lend, and has lent 4: loan 1 of 4 P100 from speech to vision until"
            " 00:03:20 UTC on 1 January",
            "at least 4 until 00:03:20 UTC on 1 January, or end the loan first",
        )
        assert not problems_with_change(Guarantees(gpus={"speech": {"P100": 3}}), [make_loan()], 200.0)


class TestCells:
    own = Guarantees(
        gpus={"speech": {"V100": 18}, "vision": {"P100": 4, "V100": 2}},
        cells=racks(
            speech={"cells": {"V100-NODE": 2, "V100-SWITCH": 1}, "pinned": {"demo": "rack-3/n7/0"}},
            vision={"cells": {"V100-SWITCH": 1, "P100-NODE": 1}},
        ),
    )

    def cells(self, loans: list[Loan], now: float = 150.0) -> dict[str, Mapping[str, int]]:
        there = in_force(self.own, loans, now)
        assert there.cells is not None
        return {vc: virtual.cells for vc, virtual in there.cells.virtual_clusters.items()}

    def test_cells_go_over_whole_and_of_larger_ones_only_a_part(self) -> None:
        loan = make_loan(1, Lot(cells={"V100-SWITCH": 2}))
        assert self.cells([loan]) == {
            "speech": {"V100-SWITCH": 3, "V100-NODE": 1},
            "vision": {"V100-SWITCH": 3, "P100-NODE": 1},
        }
        assert counts(self.own, [loan], 150.0) == {
            "speech": {"V100": 16},  # The pinned switch stays, 2 of 3 others are lent.
            "vision": {"P100": 4, "V100": 6},
        }
        there = in_force(self.own, [loan], 150.0).cells
        assert there is in_force(self.own, [loan], 151.0).cells, "so that it is numbered once"
        assert there is not None
        assert there.virtual_clusters["speech"].pinned == {"demo": "rack-3/n7/0"}
        assert in_force(self.own, [loan], 200.0) is self.own

    def test_parts_of_a_split_node_do_not_make_a_node_for_the_borrower(self) -> None:
        assert self.cells([make_loan(1, Lot(cells={"V100-SWITCH": 5}))])["vision"] == {
            "V100-SWITCH": 6,
            "P100-NODE": 1,
        }

    def test_a_whole_node_stays_whole_when_smaller_cells_are_lent_first(self) -> None:
        loans = [
            make_loan(1, Lot(cells={"V100-SWITCH": 2})),
            make_loan(2, Lot(cells={"V100-NODE": 1}), borrower="labs"),
        ]
        assert self.cells(loans)["labs"] == {"V100-NODE": 1}
        assert self.cells(loans)["speech"] == {"V100-SWITCH": 3}
        assert problems(self.own, loans, make_loan(3, Lot(cells={"V100-NODE": 1})), 0.0)[0].hint.startswith(
            "at most 0"
        )

    def test_cells_of_one_model_for_cells_of_another(self) -> None:
        loan = make_loan(1, Lot(cells={"V100-NODE": 1}), in_return=Lot(cells={"P100-NODE": 1}))
        assert self.cells([loan]) == {
            "speech": {"V100-SWITCH": 1, "V100-NODE": 1, "P100-NODE": 1},
            "vision": {"V100-SWITCH": 1, "V100-NODE": 1},
        }

    def test_pinned_cells_and_counts_of_a_divided_model_can_not_be_lent(self) -> None:
        (counted,) = problems(self.own, [], make_loan(1, Lot(gpus={"V100": 2})), 0.0)
        assert (counted.problem, counted.field) == ("GPU model V100 is divided by cells", "lot.gpus.V100")
        (pinned,) = problems(self.own, [], make_loan(1, Lot(cells={"V100-SWITCH": 10})), 0.0)
        assert pinned.hint == "at most 9; what is borrowed or pinned cannot be lent"

    def test_cells_that_an_operator_takes_away_or_does_away_with_are_missed(self) -> None:
        loan = make_loan(1, Lot(cells={"V100-NODE": 2}))
        fewer = Guarantees(cells=racks(speech={"cells": {"V100-NODE": 1}}))
        (problem,) = problems_with_change(fewer, [loan], 0.0)
        assert problem.field == "virtual_clusters.speech.cells.V100-NODE"
        (gone,) = problems_with_change(Guarantees(), [loan], 0.0)
        assert gone.problem.startswith("speech would have 0 V100-NODE to lend, and has lent 2: loan 1")


def test_what_gpus_cost_is_rounded_up_to_a_thousandth_of_a_credit() -> None:
    layout = compiled(racks())
    assert gpus_of(Lot(gpus={"A100": 1}, cells={"V100-NODE": 2}), layout) == {"A100": 1, "V100": 16}
    assert [cost(1_500, 4, 3_600), cost(1, 1, 1), cost(0, 8, 900)] == [6_000, 1, 0]


@settings(max_examples=examples(25), derandomize=True)
@given(st.randoms(use_true_random=False))
def test_any_loans_keep_sums_and_feasible_cells_and_end_without_a_trace(dice: random.Random) -> None:
    specification = random_specification(dice)
    layout = compiled(specification)
    names = [*specification.virtual_clusters, "newcomer"]
    gpus = {vc: layout.guaranteed(vc) | {"A100": dice.randint(0, 6)} for vc in names}
    own = Guarantees(gpus=gpus, cells=specification)
    kinds = [f"{chain.name}/{kind}" for chain in layout.chains.values() for kind in chain.types]
    state = CellState(specification)
    for number, vc in enumerate(specification.virtual_clusters):
        try:
            state.schedule(group(f"g{number}", vc, (1, 1)))
        except ValueError:
            continue  # It owns nothing.

    def any_lot() -> Lot:
        if dice.random() < 0.3:
            return Lot(gpus={"A100": dice.randint(1, 4)})
        return Lot(cells={dice.choice(kinds): dice.randint(1, 3)})

    loans: list[Loan] = []
    for number in range(1, 15):
        lender, borrower = dice.sample(names, 2)
        starts_at = float(dice.randint(0, 50))
        loan = make_loan(
            number,
            any_lot(),
            lender,
            borrower,
            starts_at,
            starts_at + dice.randint(1, 40),
            in_return=any_lot() if dice.random() < 0.3 else None,
        )
        if not problems(own, loans, loan, 0.0):
            loans.append(loan)
    total = sum((Counter(counts) for counts in gpus.values()), Counter[str]())
    for now in sorted({0.0} | {instant for loan in loans for instant in (loan.starts_at, loan.ends_at)}):
        there = in_force(own, loans, now)
        assert sum((Counter(counts) for counts in there.gpus.values()), Counter[str]()) == total
        assert there.cells is not None
        for vc in there.cells.virtual_clusters:
            cells = {model: n for model, n in there.gpus[vc].items() if model in layout.gpu_models}
            assert cells == compiled(there.cells).guaranteed(vc)
        state.reconfigure(there.cells)
        state.check()
    assert in_force(own, loans, 1_000.0) is own
