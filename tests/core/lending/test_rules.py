"""What rules make virtual clusters do in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.lending.checking import problems
from scheduler.core.lending.in_force import own_of
from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_plan, loads_snapshot
from scheduler.core.model.errors import PlanError
from scheduler.core.model.loan_terms import MARKET, LendRule, Loan, LoanId, Lot, MarketAction, Offer, RuleId
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Running, Snapshot
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from scheduler.core.round.guarantees.reliance import owned, relying_on
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.counting import calls_in
from tests.core.lending.markets import borrows, lends, make_loan, make_offer, with_market
from tests.core.test_properties import decides_as_anew
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import divided, hardware_of, in_cells, owning, sound
from tests.effort import examples

NODE, SWITCH = "V100-8-NODE", "V100-8-SWITCH"


def two_clusters(jobs: Sequence[Job] = (), running: Sequence[Running] = ()) -> Snapshot:
    """Sixteen V100, eight of speech's and eight of vision's."""
    clusters = [make_virtual_cluster(name, {"V100": 8}) for name in ("speech", "vision")]
    return make_snapshot(nodes=make_cluster(2), jobs=jobs, running=running, virtual_clusters=clusters)


def in_two_nodes(jobs: Sequence[Job] = (), running: Sequence[Running] = ()) -> Snapshot:
    """The same in cells: a node each."""
    counts = two_clusters(jobs, running)
    cells = owning(hardware_of(counts.nodes), {"speech": {NODE: 1}, "vision": {NODE: 1}})
    return in_cells(counts, cells)


def later(facts: Snapshot, plan: Plan, seconds: float) -> Snapshot:
    """The same facts some time after a round, which is remembered."""
    return replace(facts, now=facts.now + seconds, round_number=facts.round_number + 1, memory=plan.memory)


def after(facts: Snapshot, *gaps: float) -> Plan:
    """The last of some rounds, so many seconds after each other, in which nothing changes."""
    plan = decide(facts)
    for gap in gaps:
        facts = later(facts, plan, gap)
        plan = decide(facts)
    return plan


class TestLending:
    def test_what_stays_idle_is_offered_after_a_while_on_the_terms_of_the_rule(self) -> None:
        facts = with_market(two_clusters(), lends=[lends(price=500)])
        first = decide(facts)
        assert not first.market
        assert first.memory[MARKET] == {"at": NOW, "idle": {"speech": {"gpus V100": [[8, NOW]]}}}
        assert first.wake_at == NOW + 55, "half of the longest gap after which it would begin anew"
        assert not after(facts, 100, 100, 99).market
        plan = after(facts, 100, 100, 100)
        offer = MarketAction(
            kind="offer",
            virtual_cluster="speech",
            rule=lends().id,
            lot=Lot(gpus={"V100": 8}),
            ends_at=NOW + 300 + 3_600,
            price=500,
        )
        assert plan.market == (offer,)
        (line,) = plan.ledger[MARKET]
        assert (line.kind, line.party, line.given, line.price, line.seconds) == (
            "offer",
            "speech",
            {"V100": 8},
            500.0,
            3_600.0,
        )
        assert line.message == (
            "speech offers 8 V100 until 23:18:20 UTC on 14 November, at 0.5 credits for a GPU and an hour"
            " (rule 1)."
        )

    def test_a_gap_or_a_clock_that_went_back_begins_anew(self) -> None:
        facts = with_market(two_clusters(), lends=[lends()])
        assert not after(facts, 300).market
        assert not after(facts, 100, 100, -50, 100).market

    def test_that_all_is_in_use_is_remembered_too(self) -> None:
        job = make_job(1, 8, virtual_cluster="speech")
        facts = with_market(two_clusters([job], [make_running(job, range(100, 108))]), lends=[lends()])
        assert decide(facts).memory[MARKET] == {"at": NOW, "idle": {}}

    def test_only_what_was_idle_all_the_time_counts(self) -> None:
        job = make_job(1, 5, virtual_cluster="speech")
        facts = with_market(two_clusters(), lends=[lends()])
        busy = replace(facts, jobs=(job,), running=(make_running(job, range(100, 105)),))
        plan = decide(facts)
        plan = decide(later(replace(busy, memory=plan.memory), plan, 100))
        assert plan.memory[MARKET]["idle"] == {"speech": {"gpus V100": [[3, NOW]]}}
        plan = decide(later(replace(facts, now=NOW + 100), plan, 100))
        plan = decide(later(replace(facts, now=NOW + 200), plan, 100))
        assert [action.lot for action in plan.market] == [Lot(gpus={"V100": 3})]

    @pytest.mark.parametrize(
        ("market", "left"),
        [
            ({"offers": [make_offer(rule=lends().id)]}, 4),
            ({"loans": [make_loan(rule=lends().id)]}, 4),
            ({"offers": [make_offer()]}, 4),
            ({"offers": [make_offer(starts_at=NOW + 1_000)]}, 4),
            ({"loans": [make_loan(starts_at=NOW + 1_000)]}, 4),
            ({"loans": [make_loan(starts_at=NOW + 5_000, ends_at=NOW + 6_000)]}, 8),
        ],
    )
    def test_nothing_is_offered_twice_nor_more_than_the_rule_says(
        self, market: dict[str, list[object]], left: int
    ) -> None:
        facts = with_market(two_clusters(), lends=[lends(idle_seconds=0.0)], **market)  # type: ignore[arg-type]
        assert [action.lot for action in decide(facts).market] == [Lot(gpus={"V100": left})]

    def test_an_offer_is_withdrawn_when_its_owner_needs_it_again_and_those_of_people_are_not(self) -> None:
        offers = [make_offer(1), make_offer(2, rule=lends().id)]
        running = make_job(1, 2, virtual_cluster="speech")
        facts = with_market(
            two_clusters([running], [make_running(running, [100, 101])]), offers=offers, lends=[lends()]
        )
        plan = decide(facts)
        assert [(action.kind, action.offer) for action in plan.market] == [("withdraw", 2)]
        assert plan.ledger[MARKET][0].message == (
            "speech withdraws offer 2: its own guaranteed jobs need it (rule 1)."
        )
        waits = make_job(2, 8, virtual_cluster="speech", gpu_models=("V100",))
        nodes = tuple(replace(node, schedulable=False) for node in facts.nodes)
        broken = replace(facts, jobs=(waits,), running=(), nodes=nodes)
        assert [action.offer for action in decide(broken).market] == [2]

    def test_of_cells_only_those_that_no_job_is_in_are_offered(self) -> None:
        job = make_job(1, 1, virtual_cluster="speech")
        counts = two_clusters([job], [make_running(job, [100])])
        cells = owning(hardware_of(counts.nodes), {"speech": {NODE: 1, SWITCH: 2}, "vision": {SWITCH: 2}})
        rule = lends(idle_seconds=0.0, lot=Lot(cells={SWITCH: 9, NODE: 1}))
        plan = decide(with_market(in_cells(counts, cells), lends=[rule]))
        # One switch is in use; of the two kinds that could be had of the node, the first is offered.
        assert [action.lot for action in plan.market] == [Lot(cells={NODE: 1}), Lot(cells={SWITCH: 1})]


class TestBorrowing:
    def waiting(self, *offers: object, gpus: int = 4, cells: bool = False, **rule: object) -> Plan:
        """The round in which a job of vision has waited for a minute, as another has all of its GPUs."""
        jobs = [
            make_job(1, 8, virtual_cluster="vision"),
            make_job(2, gpus, virtual_cluster="vision", submitted_at=NOW - 60),
        ]
        running = [make_running(jobs[0], range(200, 208))]
        owned = (in_two_nodes if cells else two_clusters)(jobs, running)
        return decide(
            with_market(owned, offers=offers, borrows=[borrows(**rule)], balances={"vision": 8_000})  # type: ignore[arg-type]
        )

    def taken(self, *offers: object, **rule: object) -> list[int | None]:
        return [action.offer for action in self.waiting(*offers, **rule).market]  # type: ignore[arg-type]

    def test_the_cheapest_offer_that_serves_a_job_is_taken(self) -> None:
        offers = [make_offer(1, price=1_500), make_offer(2, price=1_000), make_offer(3, price=1_000)]
        plan = self.waiting(*offers)
        (line,) = plan.ledger[MARKET]
        assert [action.offer for action in plan.market] == [2]
        assert line.message == (
            "vision takes offer 2 of 4 V100 from speech until 23:13:20 UTC on 14 November, at 1 credits for a"
            " GPU and an hour (rule 9)."
        )
        assert (line.counterparty, line.gpus, line.given) == ("speech", {"V100": 4}, {})

    @pytest.mark.parametrize(
        ("offer", "rule"),
        [
            ({"price": 2_001}, {}),
            ({"price": 2_000, "ends_at": NOW + 3_601}, {}),  # It costs more than there is.
            ({"starts_at": NOW + 10}, {}),
            ({"in_return": Lot(gpus={"V100": 1})}, {}),
            ({"lender": "vision"}, {}),
            ({"lot": Lot(gpus={"V100": 3})}, {}),
            ({}, {"waiting_seconds": 61.0}),
            ({}, {"most_gpus": 3}),
            ({}, {"gpu_models": ("P100",)}),
            ({"lot": Lot(gpus={"V100": 9})}, {"most_gpus": 99}),  # More than its lender owns.
        ],
    )
    def test_what_does_not_serve_or_is_too_dear_is_not_taken(
        self, offer: dict[str, object], rule: dict[str, object]
    ) -> None:
        assert self.taken(make_offer(2, **offer), **rule) == []

    def test_a_job_that_was_stopped_or_on_hold_waits_from_then_on(self) -> None:
        offer, rule = make_offer(2), borrows(waiting_seconds=3_600.0)
        clusters = [make_virtual_cluster("speech", {"V100": 8}), make_virtual_cluster("vision", {})]
        job = make_job(1, 4, virtual_cluster="vision", submitted_at=NOW - 86_400)
        for waited, taken in ((3_599.0, []), (3_600.0, [2])):
            waits = replace(job, waits_since=NOW - waited)
            facts = make_snapshot(nodes=make_cluster(1), jobs=[waits], virtual_clusters=clusters)
            plan = decide(with_market(facts, offers=[offer], borrows=[rule]))
            assert [action.offer for action in plan.market] == taken
            assert taken or plan.wake_at == NOW + 1

    def test_several_offers_are_taken_where_one_does_not_do(self) -> None:
        offers = [make_offer(number, lot=Lot(gpus={"V100": 2})) for number in (1, 2, 3)]
        assert self.taken(*offers) == [1, 2]
        assert self.taken(*offers, gpus=8) == []

    @pytest.mark.parametrize(
        ("lots", "most", "taken"),
        [
            ([1, 8], 8, [2]),  # The small offer and the large one exceed the limit,
            ([1, 8], 16, [2]),  # or the large one is enough by itself.
            ([8, 1], 8, [1]),
            ([1, 4, 1, 4], 8, [2, 4]),
            ([6, 4, 4], 8, [2, 3]),
            ([1, 1, 1, 4, 1, 1], 8, [1, 2, 3, 4, 5]),
            ([1, 1, 1, 1, 1, 2, 4], 8, [1, 2, 6, 7]),
            ([3, 3], 8, []),
        ],
    )
    def test_small_offers_prevent_no_larger_one_and_are_not_paid_for_in_vain(
        self, lots: list[int], most: int, taken: list[int]
    ) -> None:
        """The order of the offers is that of their prices."""
        sizes = enumerate(lots, start=1)
        offers = [make_offer(n, lot=Lot(gpus={"V100": size}), price=n) for n, size in sizes]
        assert self.borrowed(offers, most) == taken

    def borrowed(
        self, offers: Sequence[Offer], most: int, balance: int = 8_000, gpu_models: tuple[str, ...] = ()
    ) -> list[int | None]:
        """Return the offers taken for a job of eight GPUs, when vision is guaranteed nothing."""
        job = make_job(1, 8, virtual_cluster="vision", submitted_at=NOW - 60)
        clusters = [make_virtual_cluster("speech", {"V100": 16, "P100": 10_000})]
        clusters.append(make_virtual_cluster("vision", {}))
        facts = make_snapshot(nodes=make_cluster(2), jobs=[job], virtual_clusters=clusters)
        rule = borrows(most_gpus=most, gpu_models=gpu_models)
        market = with_market(facts, offers=offers, borrows=[rule], balances={"vision": balance})
        return [action.offer for action in decide(market).market]

    def test_small_offers_do_not_use_up_the_credits_that_a_larger_one_needs(self) -> None:
        one, eight = (Lot(gpus={"V100": count}) for count in (1, 8))
        offers = [make_offer(1, lot=one, price=100), make_offer(2, lot=eight, price=1_000)]
        assert self.borrowed(offers, most=16, balance=8_000) == [2]
        assert self.borrowed(offers, most=16, balance=7_999) == []

    @pytest.mark.parametrize("differ", [False, True])
    def test_offers_that_do_not_do_cost_few_attempts(self, differ: bool) -> None:
        """Seven GPUs can be paid for, whichever they are."""

        def calls(count: int) -> int:
            beside = [1_000 + (number if differ else 0) for number in range(count)]
            lots = [Lot(gpus={"V100": 1, "P100": gpus}) for gpus in beside]
            offers = [make_offer(number, lot=lot, price=1) for number, lot in enumerate(lots, start=1)]
            assert self.borrowed(offers, most=16, balance=7_500, gpu_models=("V100",)) == []
            return calls_in(lambda: self.borrowed(offers, most=16, balance=7_500, gpu_models=("V100",)))

        assert calls(200) < 6 * calls(50)

    def test_four_quarters_take_one_gpu_and_not_four(self) -> None:
        quarters = [
            make_part(number, 0.25, virtual_cluster="vision", submitted_at=NOW - 99) for number in range(1, 5)
        ]
        owned = make_snapshot(
            nodes=make_cluster(2),
            jobs=quarters,
            virtual_clusters=[
                make_virtual_cluster("vision", {"V100": 0}),
                make_virtual_cluster("speech", {"V100": 8}),
            ],
        )
        offers = [make_offer(number, lot=Lot(gpus={"V100": 1})) for number in (1, 2, 3, 4)]
        plan = decide(with_market(owned, offers=offers, borrows=[borrows()]))
        assert [action.offer for action in plan.market] == [1]

    def test_cells_are_taken_for_the_shape_of_a_job(self) -> None:
        switches, whole = Lot(cells={SWITCH: 2}), Lot(cells={NODE: 1})
        assert self.taken(make_offer(1, lot=switches), cells=True) == []
        assert self.taken(make_offer(1, lot=switches), make_offer(2, lot=whole), cells=True) == [2]
        assert self.taken(make_offer(2, lot=whole, price=100), gpus=8, cells=True) == [2]
        assert self.taken(make_offer(1, lot=switches), gpus=2, cells=True) == [1]

    def test_one_offer_goes_to_one_taker_by_the_order_of_the_round(self) -> None:
        jobs = [make_job(1, 8, virtual_cluster="vision", submitted_at=NOW - 99)]
        jobs += [make_job(2, 4, virtual_cluster="labs", submitted_at=NOW - 99)]
        running = make_job(3, 8, virtual_cluster="vision")
        clusters = [
            make_virtual_cluster("speech", {"V100": 8}),
            make_virtual_cluster("vision", {"V100": 8}),
            make_virtual_cluster("labs", {"V100": 4}),
        ]
        facts = make_snapshot(
            nodes=make_cluster(1, gpus=12),
            jobs=[*jobs, running],
            running=[make_running(running, range(100, 108))],
            virtual_clusters=clusters,
        )
        facts = replace(facts, jobs=(*facts.jobs, make_job(4, 4, virtual_cluster="labs", submitted_at=NOW)))
        rules = [borrows(1, waiting_seconds=0.0), borrows(2, "labs", waiting_seconds=0.0)]
        offer = make_offer(lot=Lot(gpus={"V100": 8}))
        plan = decide(with_market(facts, offers=[offer], borrows=rules))
        assert [(action.virtual_cluster, action.offer) for action in plan.market] == [("labs", 1)]


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ({"kind": "offer", "rule": 2}, "without a rule of its own"),
        ({"kind": "offer", "virtual_cluster": "vision"}, "without a rule of its own"),
        ({"kind": "offer", "price": 499}, "would lend for 499, less than it says"),
        ({"kind": "offer", "lot": Lot(gpus={"V100": 5})}, "would lend 9 V100, more than it says"),
        ({"kind": "withdraw", "offer": 2}, "which did not make it"),
        ({"kind": "withdraw", "offer": 3}, "which is not open"),
        ({"kind": "take", "offer": 2, "rule": 9}, "without a rule of its own"),
        ({"kind": "take", "offer": 1, "rule": 9, "virtual_cluster": "vision"}, "would pay 2001"),
        ({"kind": "take", "offer": 2, "rule": 9, "virtual_cluster": "vision"}, "more than it has"),
    ],
)
def test_a_plan_with_a_deed_that_no_rule_allows_is_refused(deed: dict[str, object], said: str) -> None:
    offers = [make_offer(1, rule=lends().id, price=2_001), make_offer(2, price=2_000)]
    facts = with_market(two_clusters(), offers=offers, lends=[lends(price=500)], borrows=[borrows()])
    fields = {"virtual_cluster": "speech", "rule": 1, "lot": Lot(gpus={"V100": 1}), "price": 500, **deed}
    plan = replace(decide(facts), market=(MarketAction(**fields),))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=said):
        check(facts, plan)


LENT = st.builds(
    lambda vc, kind, count, idle: lends(
        1, vc, Lot(cells={kind: count}), idle_seconds=idle, lend_seconds=25.0
    ),
    st.sampled_from(("products", "research")),
    st.sampled_from(("V100", SWITCH, NODE)),
    st.integers(1, 6),
    st.sampled_from((0.0, 10.0)),
)


@settings(max_examples=examples(25), derandomize=True)
@given(divided(), st.lists(LENT, min_size=1, max_size=2), st.sampled_from((0.0, 0.4)))
def test_a_round_engine_with_a_market_decides_as_anew_and_can_be_stored(
    facts: Snapshot, rules: list[LendRule], drop: float
) -> None:
    rules = [replace(rule, id=RuleId(number)) for number, rule in enumerate(rules, 1)]
    loans = [make_loan(1, "products", "research", lot=Lot(gpus={"P100": 1}), ends_at=NOW + 30)]
    facts = with_market(facts, loans=loans, lends=rules, borrows=[borrows(vc="research")])
    plan = decide(facts)
    stored = dumps_snapshot(facts)
    assert loads_snapshot(stored) == facts
    assert loads_plan(dumps_plan(plan)) == plan == decide(loads_snapshot(stored))
    decides_as_anew(facts, drop)


@settings(max_examples=examples(25), derandomize=True)
@given(sound(), st.lists(LENT, min_size=1, max_size=3))
def test_nothing_is_lent_without_its_owners_rule_and_no_job_of_the_owner_loses_by_it(
    facts: Snapshot, rules: list[LendRule]
) -> None:
    """All that is offered is taken at once, by somebody who has nothing."""
    rules = [replace(rule, id=RuleId(number)) for number, rule in enumerate(rules, 1)]
    loop = VirtualLoop(
        with_market(facts, lends=rules), {job.id: 10.0 + 7 * (job.id % 4) for job in facts.jobs}
    )
    taken = 0
    for _ in range(14):
        lending, now = loop.snapshot.lending, loop.snapshot.now
        assert lending is not None
        plan = loop.step()
        assert not any(action.kind is ActionKind.REGRADE and not action.guaranteed for action in plan.actions)
        loans = list(lending.loans)
        for action in plan.market:
            assert action.kind == "offer"
            assert action.lot is not None
            assert action.ends_at == now + 25
            taken += 1
            loan = Loan(
                id=LoanId(taken),
                lender=action.virtual_cluster,
                borrower="nobody",
                lot=action.lot,
                starts_at=now,
                ends_at=action.ends_at,
                rule=action.rule,
            )
            assert not problems(own_of(lending, loop.snapshot.cells), loans, loan, now)
            loans.append(loan)
            (rule,) = [rule for rule in rules if rule.id == action.rule]
            assert rule.virtual_cluster == action.virtual_cluster
            ((kind, most),) = rule.lot.cells.items()
            assert sum(each.lot.cells.get(kind, 0) for each in loans if each.rule == rule.id) <= most
        now = loop.snapshot.now
        lending = replace(lending, loans=tuple([loan for loan in loans if loan.ends_at > now]))
        loop.snapshot = relying_on(owned(loop.snapshot), lending)
