"""Guarantees lent, used, and back in time: from round to round, in cells and in counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.loan_terms import Loan, Lot
from scheduler.core.model.plan import Action, ActionKind, Tier
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.guarantees.reliance import owned, relying_on
from scheduler.core.round.registry import POLICIES
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.forecast import forecast
from scheduler.core.sim.market import BANK, Transfer
from tests.builders import NOW, make_job, make_node, make_snapshot, make_virtual_cluster
from tests.core.lending.markets import borrows, lends, make_loan, make_offer, with_market
from tests.core.sim.worlds import arrival
from tests.core.test_properties import under
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

NODE = "V100-8-NODE"


def lent_node(jobs: Sequence[Job], *, cells: bool, loan_ends: float = 20.0, nodes: int = 2) -> Snapshot:
    """Speech's only node is vision's until `loan_ends` seconds from now; further nodes are nobody's."""
    facts = make_snapshot(
        nodes=[make_node(number) for number in range(1, nodes + 1)],
        jobs=jobs,
        virtual_clusters=[
            make_virtual_cluster("speech", {"V100": 8}),
            make_virtual_cluster("vision", {}),
        ],
    )
    if cells:
        facts = in_cells(facts, owning(hardware_of(facts.nodes), {"speech": {NODE: 1}, "vision": {}}))
    lot = Lot(cells={NODE: 1}) if cells else Lot(gpus={"V100": 8})
    return with_market(facts, loans=[make_loan(7, lot=lot, ends_at=NOW + loan_ends)])


class LendingLoop(VirtualLoop):
    """A virtual loop in which loans end when it is time."""

    def events(self, rounds: int) -> list[tuple[float, str, tuple[int, ...], str]]:
        """Run on; return what was done to whom, and why, and in which second."""
        found = []
        for _ in range(rounds):
            facts = self.snapshot
            plan = self.step()
            found += [
                (facts.now - NOW, _what(action), tuple(map(int, action.jobs)), action.cause)
                for action in plan.actions
            ]
            now, lending = self.snapshot.now, self.snapshot.lending
            assert lending is not None
            loans: list[Loan] = [*lending.ended, *lending.loans]
            lending = replace(
                lending,
                loans=tuple([loan for loan in loans if loan.ends_at > now]),
                ended=tuple([loan for loan in loans if loan.ends_at <= now]),
            )
            self.snapshot = relying_on(owned(self.snapshot), lending)
        return found


def _what(action: Action) -> str:
    if action.kind is ActionKind.REGRADE:
        return "returns" if action.guaranteed else "lapses"
    return f"{action.kind} {'guaranteed' if action.guaranteed else 'opportunistic'}"


@pytest.mark.parametrize("cells", [False, True])
def test_a_borrowed_node_is_its_owners_again_and_the_borrowers_job_goes_on_elsewhere(cells: bool) -> None:
    """As in the issue: lent, used, returned in time while the borrower's job resumes elsewhere."""
    borrowers = make_job(1, 8, virtual_cluster="vision", attempts=1)
    owners = make_job(2, 8, virtual_cluster="speech", eligible_at=NOW + 30)
    guest = make_job(3, 8, virtual_cluster="speech", guaranteed=False)
    loop = LendingLoop(lent_node([borrowers, owners, guest], cells=cells), {1: 100.0, 2: 20.0, 3: 40.0})
    events = loop.events(14)
    assert events == [
        (0.0, "start guaranteed", (1,), ""),
        (0.0, "start opportunistic", (3,), ""),
        (20.0, "lapses", (1,), "loan_ended"),
        # The owner needs its node: the borrower's job makes room as soon as it does, and not before.
        (30.0, "start guaranteed", (2,), ""),
        (30.0, "stop opportunistic", (1,), "preempted"),
        (40.0, "start opportunistic", (1,), ""),
    ]


@pytest.mark.parametrize("cells", [False, True])
def test_whoever_waits_for_what_is_lent_is_told_to_whom_and_until_when(cells: bool) -> None:
    waits = make_job(2, 8, virtual_cluster="speech")
    plan = decide(lent_node([waits], cells=cells, loan_ends=60))
    reason = plan.reasons[waits.id][0]
    assert reason.code == "guarantee_lent"
    assert reason.message == (
        "Virtual cluster speech lends 8 V100 to vision until 22:14:20 UTC on 14 November (loan 7); this job"
        " needs 8."
    )
    assert reason.hint == "They return automatically, at 22:14:20 UTC on 14 November at the latest."
    assert plan.wake_at == NOW + 60, "a round comes when the loan ends"


@pytest.mark.parametrize("cells", [False, True])
def test_a_forecast_knows_when_a_loan_ends(cells: bool) -> None:
    waits = make_job(2, 8, virtual_cluster="speech")
    foreseen = forecast(lent_node([waits], cells=cells, loan_ends=500)).predictions[waits.id]
    assert foreseen.starts_at == pytest.approx(NOW + 500, abs=5)


def test_a_forecast_looks_at_the_next_loans_only() -> None:
    """Each of them costs an index of all facts, three times over."""
    waits = make_job(2, 8, virtual_cluster="speech")
    facts = lent_node([waits], cells=False, loan_ends=500)
    assert facts.lending is not None
    # From 500 s on every other minute somebody has one of speech's GPUs; it needs all of them for an hour.
    brief = [
        make_loan(10 + n, lot=Lot(gpus={"V100": 1}), starts_at=NOW + at, ends_at=NOW + at + 60)
        for n, at in enumerate(range(500, 500 + 40 * 120, 120))
    ]
    facts = relying_on(owned(facts), replace(facts.lending, loans=(*facts.lending.loans, *brief)))
    foreseen = forecast(facts).predictions[waits.id]
    assert foreseen.starts_at == pytest.approx(NOW + 560, abs=5)


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_gets_over_jobs_that_fit_only_when_a_loan_has_ended(policy: str, cells: bool) -> None:
    jobs = [
        make_job(1, 8, virtual_cluster="speech", throughput={"V100": 1.0}),
        make_job(2, 2, replicas=2, virtual_cluster="speech"),
        make_job(3, 4, virtual_cluster="vision"),
    ]
    loop = LendingLoop(under(policy, lent_node(jobs, cells=cells, nodes=1)), {1: 20.0, 2: 20.0, 3: 10.0})
    for _ in range(100):
        loop.events(1)
        assert not loop.last_plan.degraded
        if not loop.snapshot.jobs:
            break
    assert loop.ended.keys() == {1, 2, 3}
    assert min(loop.started[1], loop.started[2]) >= NOW + 20 > loop.started[3]


@pytest.mark.parametrize("cells", [False, True])
def test_a_lender_whose_own_jobs_use_what_is_lent_is_told_why_they_lapse(cells: bool) -> None:
    """People may lend what will be in use later; the guarantee returns to the job when the loan ends."""
    user = make_job(1, 8, virtual_cluster="speech")
    facts = lent_node([user], cells=cells)
    assert facts.lending is not None
    (loan,) = facts.lending.loans
    later = replace(facts.lending, loans=(replace(loan, starts_at=NOW + 10),))
    loop = LendingLoop(relying_on(owned(facts), later), {1: 100.0})
    assert loop.events(6) == [
        (0.0, "start guaranteed", (1,), ""),
        (10.0, "lapses", (1,), "lent"),
        (20.0, "returns", (1,), "cells_back" if cells else "guarantee_back"),
    ]


@pytest.mark.parametrize("rules", [False, True])
def test_in_a_simulation_rules_let_jobs_wait_for_less_long_and_every_credit_has_two_sides(
    rules: bool,
) -> None:
    facts = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        now=0.0,
        virtual_clusters=[make_virtual_cluster(name, {"V100": 8}) for name in ("speech", "vision")],
    )
    if rules:
        lender = lends(price=1_000, lend_seconds=1_800.0)
        facts = with_market(facts, lends=[lender], borrows=[borrows()], balances={"vision": 5_000})
    jobs = [arrival(number, 0.0, 1_000.0, 8, virtual_cluster="vision") for number in (1, 2, 3)]
    engine = Engine(facts, jobs)
    assert engine.run() == ""
    ends = [engine.progress[each.job.id].ended_at for each in jobs]
    if not rules:
        assert ends == [1_000, 2_000, 3_000]
        return
    # Offered at 300, taken in the next round, used in the one after it.
    assert ends == [1_000, 1_310, 2_000]
    # Eight GPUs for 1,795 seconds, rounded up.
    assert engine.market.transfers == [
        Transfer(at=305.0, payer="vision", payee="speech", amount=3_989, loan=make_loan(1).id)
    ]
    assert dict(engine.market.balances) == {"vision": 1_011, "speech": 3_989, BANK: -5_000}
    with pytest.raises(SchedulingError, match="offer 9 is not open"):
        engine.trade(lambda market, own, now: market.take(9, "vision", own, now))  # type: ignore[arg-type]


def lender_and_borrower(policy: str, *, credits: int, **lending: object) -> Engine:
    """Vision has a job and no guarantee; what it may borrow is always offered again, in rounds of an hour."""
    facts = make_snapshot(
        nodes=[make_node(1)],
        now=0.0,
        round_seconds=3_600.0,
        virtual_clusters=[make_virtual_cluster("speech", {"V100": 8}), make_virtual_cluster("vision", {})],
    )
    facts = with_market(
        under(policy, facts),
        lends=[lends(price=1_000, **lending)],
        borrows=[borrows()],
        balances={"vision": credits},
    )
    return Engine(facts, [arrival(1, 0.0, 1_000.0, 4, virtual_cluster="vision")])


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_simulation_ends_when_what_is_offered_is_never_taken(policy: str) -> None:
    engine = lender_and_borrower(policy, credits=0, lend_seconds=7_200.0)
    why = engine.run(lambda engine: engine.now > 30 * 86_400)
    assert why == "nothing more can happen, and 1 job waits for ever"
    assert engine.market.offers


def test_a_simulation_goes_on_for_as_long_as_a_rule_waits() -> None:
    days = 8 * 86_400.0
    engine = lender_and_borrower("gandiva", credits=99_000, idle_seconds=days, lend_seconds=14_400.0)
    assert engine.run() == ""
    # Offered after eight days, taken in the next round, used in the one after it.
    assert engine.progress[JobId(1)].first_started_at == days + 7_200


@pytest.mark.parametrize("cells", [False, True], ids=["counts", "cells"])
def test_who_is_guaranteed_nothing_waits_for_what_its_rule_may_borrow(cells: bool) -> None:
    job = make_job(1, 4, tenant="vision", virtual_cluster="vision", submitted_at=NOW - 100)
    facts = make_snapshot(
        nodes=[make_node(1)],
        jobs=[job],
        virtual_clusters=[make_virtual_cluster("speech", {"V100": 8}), make_virtual_cluster("vision", {})],
    )
    if cells:
        facts = in_cells(facts, owning(hardware_of(facts.nodes), {"speech": {NODE: 1}, "vision": {}}))
    lot = Lot(cells={NODE: 1}) if cells else Lot(gpus={"V100": 4})
    offer = make_offer(lot=lot)
    assert decide(with_market(facts, offers=[offer])).reasons[job.id][0].tier is Tier.NEVER
    plan = decide(with_market(facts, offers=[offer], borrows=[borrows()]))
    assert [(deed.kind, deed.offer) for deed in plan.market] == [("take", offer.id)]
    assert plan.reasons[job.id][0].tier is Tier.GUARANTEE
    # Not what its rule does not take.
    for rule in (borrows(most_gpus=2), borrows(gpu_models=("K80",))):
        refused = decide(with_market(facts, offers=[offer], borrows=[rule]))
        assert (refused.market, refused.reasons[job.id][0].tier) == ((), Tier.NEVER)
