"""Themis: auctions worked by hand, leases that are kept and end, nobody starves, nothing stays idle."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import ActionKind, LedgerLine, Plan
from scheduler.core.model.snapshot import Job, Node, Running, Snapshot, Task
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop
from tests.effort import examples

LEASE = 600.0
SPEEDS = {"V100": 2.0, "K80": 1.0}


def job(number: int, gpus: int = 1, waited: float = 0.0, **fields: Any) -> Job:
    return make_job(number, gpus, **{"submitted_at": NOW - waited, "estimate_seconds": 1_000.0, **fields})


def snapshot(
    jobs: Sequence[Job], nodes: Sequence[Node], running: Sequence[Running] = (), **parameters: Any
) -> Snapshot:
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    known = {"lease_seconds": LEASE, "interval_seconds": 60.0, "horizon": "lease", **parameters}
    vc = make_virtual_cluster(guaranteed=guaranteed, policy="themis", policy_parameters=known)
    return make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=[vc])


def lines(plan: Plan, kind: str) -> list[LedgerLine]:
    return [line for line in plan.ledger.get("research", ()) if line.kind == kind]


def started(plan: Plan) -> dict[int, str]:
    return {
        action.jobs[0]: action.placement.gpu_model for action in plan.actions if action.placement is not None
    }


class TestAnAuctionByHand:
    """One GPU, two jobs of 1000 s, submitted 2000 s and 500 s ago; the even part is half of it.

    Alone each takes 1000 / 0.5 = 2000 s. With the GPU for a lease of 600 s, 400 s of work are left, 800 s on
    the even part: the first comes to (2000 + 600 + 800) / 2000 = 1.7, the second to 1900 / 2000 = 0.95.
    With nothing for a lease, 2000 s follow: (2000 + 600 + 2000) / 2000 = 2.3, and 1.55.
    """

    jobs = (job(1, waited=2_000), job(2, waited=500))
    nodes = (make_node(1, gpus=1),)

    def test_only_the_worst_off_bid_and_who_is_alone_pays_nothing(self) -> None:
        plan = decide(snapshot(self.jobs, self.nodes))
        assert started(plan) == {1: "V100"}
        (auction,), (bid,), (win,) = (lines(plan, kind) for kind in ("auction", "bid", "win"))
        assert (auction.gpus, auction.details["apps"], auction.details["bidders"]) == ({"V100": 1}, 2, 1)
        assert (bid.jobs, bid.rho_before, bid.rho_after) == ((1,), pytest.approx(2.3), pytest.approx(1.7))
        assert (win.jobs, win.price, win.seconds, win.rho_after) == ((1,), 0, LEASE, pytest.approx(1.7))
        assert plan.memory["research"]["leases"] == {"1": NOW + LEASE}
        assert plan.wake_at == NOW + LEASE
        reasons = plan.reasons[self.jobs[1].id]
        outside = next(reason for reason in reasons if reason.code == "outside_auction")
        assert outside.blocking == {"rho": pytest.approx(1.55), "rank": 2, "apps": 2}

    def test_who_gains_most_wins_and_pays_with_a_part_of_the_lease(self) -> None:
        """The second gains 1.55 / 0.95, the first 2.3 / 1.7, which is what the first loses by it."""
        plan = decide(snapshot(self.jobs, self.nodes, fairness_knob=0.0))
        assert started(plan) == {2: "V100"}
        (win,) = lines(plan, "win")
        kept = 1.7 / 2.3
        assert (win.price, win.seconds) == (pytest.approx(1 - kept, abs=1e-6), pytest.approx(kept * LEASE))
        assert [line.jobs for line in lines(plan, "bid")] == [(1,), (2,)]
        assert plan.wake_at == pytest.approx(NOW + kept * LEASE)
        outbid = next(reason for reason in plan.reasons[self.jobs[0].id] if reason.code == "outbid")
        assert (outbid.blocking["rho"], outbid.blocking["rho_bid"]) == (
            pytest.approx(2.3),
            pytest.approx(1.7),
        )

    def test_as_if_kept_to_the_end(self) -> None:
        """Kept: (2000 + 1000) / 2000; not: (2000 + 600 + 1000) / 2000."""
        (bid,) = lines(decide(snapshot(self.jobs, self.nodes, horizon="end")), "bid")
        assert (bid.rho_before, bid.rho_after) == (pytest.approx(1.8), pytest.approx(1.5))

    def test_members_weights_make_the_even_part_larger(self) -> None:
        """Of weights 3 and 1 the second has 3/4 of the GPU: 1333 s alone; the first 4000 s."""
        facts = snapshot((self.jobs[0], replace(self.jobs[1], tenant="speech")), self.nodes)
        vc = facts.virtual_clusters[0]
        members = tuple(replace(one, weight=3.0 if one.tenant == "speech" else 1.0) for one in vc.members)
        plan = decide(replace(facts, virtual_clusters=(replace(vc, members=members),)))
        assert started(plan) == {2: "V100"}
        assert lines(plan, "bid")[0].rho_before == pytest.approx((500 + 600 + 1_333.33) / 1_333.33, abs=1e-4)


class TestLeases:
    old, young = job(1, waited=300), job(2, waited=5_000)
    nodes = (make_node(1, gpus=1),)

    def running(self, since: float) -> list[Running]:
        return [make_running(self.old, [100], since=since)]

    def test_nobody_stops_within_a_lease(self) -> None:
        plan = decide(snapshot([self.old, self.young], self.nodes, self.running(NOW - LEASE + 1)))
        assert plan.actions == ()
        assert plan.wake_at == NOW + 1
        assert [reason.code for reason in plan.reasons[self.young.id]][-1] == "leased"

    def test_at_its_end_the_worst_off_takes_over(self) -> None:
        plan = decide(snapshot([self.old, self.young], self.nodes, self.running(NOW - LEASE)))
        assert {(action.kind, action.jobs[0]) for action in plan.actions} == {
            (ActionKind.STOP, 1),
            (ActionKind.START, 2),
        }

    def test_who_wins_where_it_runs_keeps_its_gpus(self) -> None:
        old = replace(self.old, submitted_at=NOW - 9_000)
        plan = decide(snapshot([old, self.young], self.nodes, self.running(NOW - LEASE)))
        assert plan.actions == ()
        assert lines(plan, "win")[0].jobs == (1,)
        assert plan.memory["research"]["leases"]["1"] > NOW

    def test_who_takes_no_part_stays_where_nobody_comes(self) -> None:
        jobs = [self.old, self.young, job(3, 8, waited=100)]
        nodes = (make_node(1, gpus=2),)
        plan = decide(snapshot(jobs, nodes, self.running(NOW - LEASE)))
        assert started(plan) == {2: "V100"}
        assert [(line.jobs, line.seconds) for line in lines(plan, "leftover")] == [((1,), LEASE)]

    def test_idle_gpus_go_to_newcomers_until_the_next_auction(self) -> None:
        facts = snapshot([self.old, job(3)], (make_node(1, gpus=2),), self.running(NOW - 30))
        memory = {"policy": "themis", "auctioned_at": NOW - 30, "leases": {"1": NOW + 500}}
        plan = decide(replace(facts, memory={"research": memory}))
        assert started(plan) == {3: "V100"}
        assert plan.memory["research"]["leases"] == {"1": NOW + 500, "3": NOW}
        assert lines(plan, "auction") == []
        assert [(line.jobs, line.seconds) for line in lines(plan, "leftover")] == [((3,), 0)]

    def test_who_would_be_faster_on_an_idle_model_moves_when_its_lease_ends(self) -> None:
        slow = job(1, throughput={"V100": 4.0, "K80": 1.0})
        nodes = (make_node(1, gpus=1), make_node(2, gpus=1, gpu_model="K80"))
        held = [make_running(slow, [200], gpu_model="K80", since=NOW - LEASE + 100)]
        facts = snapshot([slow], nodes, held)
        assert decide(facts).wake_at == NOW + 100
        moved = decide(replace(facts, now=NOW + 100))
        assert [(action.kind, action.jobs) for action in moved.actions] == [(ActionKind.MOVE, (1,))]


class TestTables:
    def test_each_model_and_way_is_a_row(self) -> None:
        """A gang of four over machines of four: near is 1, anyhow 0.5; the slow model a quarter of that."""
        gang = make_job(
            1, 1, replicas=4, throughput={"V100": 4.0, "K80": 1.0}, spread_speeds={"V100": 0.5, "K80": 0.5},
            estimate_seconds=1_000.0, submitted_at=NOW,
        )  # fmt: skip
        nodes = [make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80"), make_node(3, gpus=4)]
        nodes.append(make_node(4, gpus=4, gpu_model="K80"))
        plan = decide(snapshot([gang], nodes))
        (bid,) = lines(plan, "bid")
        assert [row["gpus"] for row in bid.details["table"]] == [
            {"V100": 4},
            {"V100": 4},
            {"K80": 4},
            {"K80": 4},
        ]
        rhos = [row["rho"] for row in bid.details["table"]]
        assert rhos == sorted(rhos)
        assert len({gpu // 100 for action in plan.actions for gpu in action.placement.gpus}) == 1

    def test_who_is_much_faster_there_gets_the_fast_model(self) -> None:
        jobs = [
            job(1, throughput={"V100": 1.2, "K80": 1.0}, waited=100),
            job(2, throughput={"V100": 8.0, "K80": 1.0}, waited=100),
        ]
        nodes = (make_node(1, gpus=1), make_node(2, gpus=1, gpu_model="K80"))
        assert started(decide(snapshot(jobs, nodes, fairness_knob=0.0))) == {1: "K80", 2: "V100"}

    def test_who_won_and_finds_no_place_is_told_so(self) -> None:
        """Two GPUs are sold, but each job needs all CPUs of the machine."""
        whole = (Task(replicas=1, gpus=1, cpus=4.0),)
        jobs = [job(number, tasks=whole, waited=100) for number in (1, 2)]
        plan = decide(snapshot(jobs, (make_node(1, gpus=2, cpus=4.0),), fairness_knob=0.0))
        assert set(started(plan)) == {1}
        assert [line.gpus for line in lines(plan, "win")] == [{"V100": 1}, {}]
        assert "no place after all" in lines(plan, "win")[1].message

    def test_jobs_of_a_search_are_one_app_and_bid_together(self) -> None:
        """Four jobs of a search and one job on two GPUs: the search is one of two apps, not four of five."""
        search = [job(number, search="lr", waited=500) for number in range(1, 5)]
        plan = decide(snapshot([*search, job(5, waited=500)], (make_node(1, gpus=2),), fairness_knob=0.0))
        assert set(started(plan)) == {1, 5}
        bids = {line.details["app"]: line.details["rows"] for line in lines(plan, "bid")}
        assert bids == {"vision/lr": 2, "5": 1}

    def test_a_search_of_many_jobs_bids_with_a_bounded_table(self) -> None:
        search = [job(number, search="lr", throughput={"V100": 2.0, "K80": 1.0}) for number in range(1, 201)]
        nodes = [make_node(number) for number in (1, 2)] + [make_node(3, gpu_model="K80")]
        plan = decide(snapshot(search, nodes))
        assert lines(plan, "bid")[0].details["rows"] <= 32
        assert len(started(plan)) == 24


def play(facts: Snapshot, seconds: float, work: Mapping[int, float] | None = None) -> Engine:
    """The jobs for so long, which never end unless it is said when."""
    arriving = [
        Arrival(
            job=replace(one, submitted_at=one.submitted_at - NOW),
            truth=Truth(work_seconds=(work or {}).get(one.id, 1e9)),
        )
        for one in facts.jobs
    ]
    engine = Engine(replace(facts, jobs=(), now=0.0), arriving)
    engine.run(until=lambda engine: engine.now >= seconds)
    assert not engine.degraded
    return engine


@pytest.mark.parametrize("horizon", ["end", "lease"])
def test_every_starving_app_is_auctioned_however_large_its_gang(horizon: str) -> None:
    """A short gang as large as the cluster among single jobs, with leases that end one after the other."""
    jobs = [
        job(number, submitted_at=NOW + 37.0 * number, estimate_seconds=20_000.0) for number in range(1, 31)
    ]
    gang = job(40, 8, submitted_at=NOW + 400, estimate_seconds=100.0)
    facts = snapshot([*jobs, gang], [make_node(1)], horizon=horizon)
    engine = play(facts, 12 * LEASE, {gang.id: 100.0})
    had = dict.fromkeys([one.id for one in [*jobs, gang]], 0.0)
    for stay in engine.stays:
        had[stay.job] += stay.ended_at - stay.started_at
    assert had.pop(gang.id) == 100.0
    assert min(had.values()) > LEASE / 2


@settings(max_examples=examples(25))
@given(
    some.lists(
        some.tuples(some.sampled_from([1, 1, 2, 4]), some.integers(0, 5_000), some.sampled_from(["", "lr"])),
        min_size=1,
        max_size=14,
    ),
    some.sampled_from([0.0, 0.8, 1.0]),
    some.sampled_from(["end", "lease"]),
)
def test_payments_and_work_conservation(
    shapes: list[tuple[int, int, str]], knob: float, horizon: str
) -> None:
    """Whatever comes: who waits fits on nothing that is idle, and what is paid is a part of a lease."""
    jobs = [
        job(
            number,
            gpus,
            waited=float(waited),
            search=search,
            throughput={"V100": 1.0 + number % 3, "K80": 1.0},
        )
        for number, (gpus, waited, search) in enumerate(shapes, 1)
    ]
    nodes = (make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80"))
    loop = VirtualLoop(
        replace(snapshot(jobs, nodes, fairness_knob=knob), round_seconds=100.0),
        {one.id: 1_500.0 for one in jobs},
    )
    for _ in range(12):
        facts = loop.snapshot
        plan = loop.step()
        assert not plan.degraded
        for win in lines(plan, "win"):
            assert win.price is not None
            assert win.seconds is not None
            assert 0 <= win.price < 1
            assert 0 < win.seconds <= LEASE
        if not any(action.kind is ActionKind.STOP for action in plan.actions):
            moved = {action.allocation for action in plan.actions}
            used = {gpu for action in plan.actions if action.placement for gpu in action.placement.gpus}
            used |= {gpu for held in facts.running if held.allocation not in moved for gpu in held.gpus}
            idle = [sum(gpu.id not in used for gpu in node.gpus) for node in nodes]
            promised = started(plan)
            waiting = [one.gpus for one in facts.jobs if one.id in plan.reasons and one.id not in promised]
            assert min(waiting, default=9) > max(idle)


def test_only_the_order_of_numbers_matters() -> None:
    """The live loop and the simulator number jobs from different beginnings."""
    nodes = (make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80"))
    found = []
    for first in (1, 93):
        jobs = [job(number, waited=500, throughput=SPEEDS) for number in range(first, first + 14)]
        plan = decide(snapshot(jobs, nodes, fairness_knob=0.5))
        found.append({number - first: model for number, model in started(plan).items()})
    assert found[0] == found[1]
    assert len(found[0]) == 8


@pytest.mark.parametrize(
    ("parameter", "value", "problem"),
    [
        ("fairness_knob", 1.5, "between 0 and 1"),
        ("lease_seconds", 0.0, "above 0"),
        ("interval_seconds", 1e9, "between 0 and that"),
        ("horizon", "week", "choose end or lease"),
    ],
)
def test_parameters_that_can_not_be_are_refused(parameter: str, value: object, problem: str) -> None:
    with pytest.raises(UnknownPlugin, match=problem):
        make_policy("themis", {parameter: value})


class TestLyingAboutTheRunTime:
    """One of 16 apps on four GPUs says that it takes half as long as it does.

    Alike in many drawn workloads; what counts is by what factor its time from submission to end changes, on
    (geometric) average.
    """

    def gain(self, seeds: range, *, tells_steps: bool) -> float:
        changes = []
        for seed in seeds:
            honest = self.workload(seed)
            before = self.seconds(honest, tells_steps=tells_steps)
            for liar in (6, 10):
                lying = list(honest)
                job, truth = honest[liar].job, honest[liar].truth
                short = replace(job, estimate_seconds=truth.work_seconds / 2)
                lying[liar] = Arrival(job=short, truth=truth)
                after = self.seconds(lying, tells_steps=tells_steps)
                changes.append(math.log(after[job.id] / before[job.id]))
        return math.exp(statistics.mean(changes))

    def workload(self, seed: int) -> list[Arrival]:
        dice = random.Random(seed)
        arrivals, now = [], 0.0
        for number in range(1, 17):
            now += dice.expovariate(1 / 400)
            seconds = dice.lognormvariate(math.log(3_000), 0.8)
            gang = make_job(number, dice.choice((1, 1, 2)), submitted_at=now, estimate_seconds=seconds)
            arrivals.append(Arrival(job=gang, truth=Truth(work_seconds=seconds)))
        return arrivals

    def seconds(self, workload: Sequence[Arrival], *, tells_steps: bool) -> dict[int, float]:
        vc = make_virtual_cluster(guaranteed={"V100": 4}, policy="themis")
        nodes = [make_node(1, gpus=4)]
        facts = make_snapshot(now=0.0, round_seconds=20.0, nodes=nodes, virtual_clusters=[vc])
        engine = Engine(facts, workload, Rules(tells_steps=tells_steps))
        assert engine.run() == ""
        return {each.id: (each.ended_at or 0.0) - each.submitted_at for each in engine.records()}

    @pytest.mark.slow
    def test_pays_who_is_silent_and_not_who_tells_of_its_steps(self) -> None:
        assert self.gain(range(4), tells_steps=False) < 0.95
        assert self.gain(range(4), tells_steps=True) > 0.98

    @pytest.mark.slow
    def test_in_more_workloads(self) -> None:
        assert self.gain(range(24), tells_steps=False) < 0.95
        assert self.gain(range(24), tells_steps=True) > 0.98
