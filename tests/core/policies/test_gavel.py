"""Gavel: the paper's example in rounds, whose turn it is, leases, sharing, profiling, odd facts.

V100 and K80 are the models here. Speeds are stated as (on V100, on K80), in samples a second.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from scheduler.core.building_blocks.computing import Overrun
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.interference import Branch, PairSpeeds
from scheduler.core.model.plan import ActionKind, Plan, Tier
from scheduler.core.model.snapshot import Job, Member, Node, Running, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.core.solvers.solving import OBJECTIVES
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.effort import first_every_day

MODELS = ("V100", "K80")
LEASE = 360.0
#: The paper's example (section 3.1): three jobs, one V100 and one K80.
EXAMPLE = ((40.0, 10.0), (12.0, 4.0), (100.0, 50.0))


def job(number: int, rates: Sequence[float], gpus: int = 1, **fields: Any) -> Job:
    throughput = dict(zip(MODELS, rates, strict=True))
    return make_job(number, gpus, **{"throughput": throughput, "application": f"kind-{number}", **fields})


def cluster(v100: int = 1, k80: int = 1) -> tuple[Node, ...]:
    nodes = make_node(1, gpus=v100), make_node(2, gpus=k80, gpu_model="K80")
    return tuple(node for node in nodes if node.gpus)


def snapshot(
    jobs: Sequence[Job],
    *,
    nodes: Sequence[Node] | None = None,
    running: Sequence[Running] = (),
    weights: Mapping[str, float] | None = None,
    facts: Mapping[str, Any] | None = None,
    **parameters: object,
) -> Snapshot:
    nodes = cluster() if nodes is None else nodes
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    vc = make_virtual_cluster(guaranteed=guaranteed, policy="gavel", policy_parameters=parameters)
    if weights is not None:
        members = tuple(Member(tenant=tenant, weight=weight) for tenant, weight in weights.items())
        vc = replace(vc, members=members)
    return make_snapshot(
        nodes=nodes,
        jobs=jobs,
        running=running,
        virtual_clusters=[vc],
        **{"round_seconds": 5.0, **(facts or {})},
    )


def placed(plan: Plan) -> dict[tuple[int, ...], str]:
    """The model on which each job, or two that share, starts or moves to."""
    assert not plan.degraded
    return {
        action.jobs: action.placement.gpu_model for action in plan.actions if action.placement is not None
    }


def targets(plan: Plan) -> dict[str, dict[str, float]]:
    return plan.memory["research"]["targets"]


@dataclass(frozen=True)
class Table:
    """The speeds of the jobs for the simulator, relative to the best."""

    rates: Mapping[str, Sequence[float]]
    #: Speed beside any other job.
    beside: float | None = None

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float:
        rates = self.rates[application]
        return rates[MODELS.index(gpu_model)] / max(rates)

    def locality(self, application: str, gpus: int, nodes: int) -> None:
        return None

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> float | None:
        return self.beside

    def among(self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1) -> None:
        return None


def engine_of(
    facts: Snapshot,
    work_seconds: float | Mapping[int, float] = 1e9,
    *,
    beside: float | None = None,
    arrivals: Mapping[int, float] | None = None,
    costs: Costs | None = None,
) -> Engine:
    """The jobs of a snapshot in the simulator, from instant 0; by default they never end."""
    table = Table(
        {one.application: [one.throughput.get(model, 1.0) for model in MODELS] for one in facts.jobs}, beside
    )
    later = arrivals or {}
    arriving = [
        Arrival(
            job=replace(one, submitted_at=later.get(one.id, 0.0)),
            truth=Truth(
                work_seconds=work_seconds if isinstance(work_seconds, float) else work_seconds[one.id]
            ),
        )
        for one in facts.jobs
    ]
    rules = Rules(speeds=Speeds(tables=table), costs=costs or Costs())
    return Engine(replace(facts, jobs=(), now=0.0), arriving, rules)


def received(engine: Engine) -> dict[int, dict[str, float]]:
    """The part of the time that each job ran on each model."""
    parts: dict[int, dict[str, float]] = {}
    for stay in engine.stays:
        own = parts.setdefault(stay.job, {})
        own[stay.gpu_model] = own.get(stay.gpu_model, 0.0) + (stay.ended_at - stay.started_at) / engine.now
    return parts


def last_end(engine: Engine) -> float:
    return max(record.ended_at or 0.0 for record in engine.records())


def play(facts: Snapshot, leases: int, **more: Any) -> Engine:
    engine = engine_of(facts, **more)
    engine.run(until=lambda engine: engine.now >= leases * LEASE)
    assert not engine.degraded
    return engine


class TestThePapersExample:
    facts = snapshot([job(number, rates) for number, rates in enumerate(EXAMPLE, start=1)])

    def test_targets_are_those_of_the_paper(self) -> None:
        """X_het of section 3.1: 0.45 | 0.45 and 0.09 | 0.09 and 0.91."""
        found = targets(decide(self.facts))
        assert found["1"] == pytest.approx({"V100": 0.4545}, abs=1e-3)
        assert found["2"] == pytest.approx({"V100": 0.4545, "K80": 0.0909}, abs=1e-3)
        assert found["3"] == pytest.approx({"V100": 0.0909, "K80": 0.9091}, abs=1e-3)

    def test_who_has_the_largest_share_begins_and_the_third_waits_with_its_target_as_the_reason(self) -> None:
        plan = decide(self.facts)
        assert placed(plan) == {(3,): "K80", (1,): "V100"}
        reason = next(reason for reason in plan.reasons[2] if reason.tier is Tier.ORDER)
        assert reason.code == "behind_target_first"
        assert "45% of its time on V100 and 9% of its time on K80" in reason.message

    @pytest.mark.parametrize("leases", [22, 110])
    def test_what_jobs_receive_comes_to_their_targets(self, leases: int) -> None:
        wanted = {1: (0.4545, 0.0), 2: (0.4545, 0.0909), 3: (0.0909, 0.9091)}
        parts = received(play(self.facts, leases))
        for number, shares in wanted.items():
            for model, share in zip(MODELS, shares, strict=True):
                assert parts[number].get(model, 0.0) == pytest.approx(share, abs=1.5 / leases)

    def test_an_agnostic_policy_gives_everyone_the_same_time_whatever_the_model(self) -> None:
        facts = snapshot(self.facts.jobs, aware=False)
        for shares in targets(decide(facts)).values():
            assert sum(shares.values()) == pytest.approx(2 / 3)
        for parts in received(play(facts, 90)).values():
            assert sum(parts.values()) == pytest.approx(2 / 3, abs=0.05)


class TestShares:
    def test_with_one_model_it_is_plain_fair_sharing(self) -> None:
        jobs = [job(number, (rate, 0.0)) for number, rate in enumerate((5.0, 1.0, 9.0, 2.0), start=1)]
        parts = received(play(snapshot(jobs, nodes=cluster(2, 0)), 60))
        assert [sum(parts[number].values()) for number in (1, 2, 3, 4)] == pytest.approx([0.5] * 4, abs=0.03)

    def test_a_gang_of_two_has_half_the_time_of_a_single_job(self) -> None:
        jobs = [job(1, (1.0, 0.0), gpus=2), job(2, (1.0, 0.0)), job(3, (1.0, 0.0))]
        found = targets(decide(snapshot(jobs, nodes=cluster(2, 0))))
        assert found["1"]["V100"] * 2 == pytest.approx(found["2"]["V100"], rel=1e-6)

    def test_priority_is_weight(self) -> None:
        jobs = [job(1, (1.0, 0.0), priority=2), job(2, (1.0, 0.0)), job(3, (1.0, 0.0), priority=-1)]
        found = targets(decide(snapshot(jobs, nodes=cluster(1, 0))))
        assert [found[str(number)]["V100"] for number in (1, 2, 3)] == pytest.approx([6 / 9, 2 / 9, 1 / 9])

    def test_members_weights_are_their_tenants_where_there_are_entities(self) -> None:
        jobs = [
            job(number, (1.0, 0.0), tenant="vision" if number < 4 else "speech") for number in range(1, 5)
        ]
        facts = snapshot(
            jobs, nodes=cluster(1, 0), weights={"vision": 1.0, "speech": 3.0}, objective="hierarchical"
        )
        found = targets(decide(facts))
        assert found["4"]["V100"] == pytest.approx(0.75)
        assert found["1"]["V100"] == pytest.approx(0.25 / 3)

    def test_where_weights_do_not_count_the_higher_priority_goes_first(self) -> None:
        jobs = [job(1, (9.0, 1.0)), job(2, (1.0, 1.0), priority=1)]
        facts = snapshot(jobs, nodes=cluster(1, 0), objective="max_sum_throughput")
        assert placed(decide(facts)) == {(1,): "V100"}
        facts = snapshot(jobs, nodes=cluster(1, 0), objective="proportional_fairness")
        assert targets(decide(facts))["2"]["V100"] == pytest.approx(2 / 3, rel=1e-3)


class TestLeases:
    pair = (job(1, (1.0, 1.0)), job(2, (1.0, 1.0)))

    def test_who_runs_keeps_its_gpus_until_the_lease_ends_and_whoever_is_further_behind_follows(self) -> None:
        facts = snapshot(self.pair, nodes=cluster(1, 0))
        first = decide(facts)
        running = (make_running(self.pair[0], [100], since=NOW),)
        within = replace(facts, now=NOW + LEASE - 1, running=running, memory=first.memory)
        assert decide(within).actions == ()
        after = replace(facts, now=NOW + LEASE, running=running, memory=first.memory)
        assert {action.kind: action.jobs for action in decide(after).actions} == {
            ActionKind.START: (2,),
            ActionKind.STOP: (1,),
        }

    def test_a_lease_on_the_same_model_is_extended_on_the_same_gpus(self) -> None:
        jobs = [job(number, (2.0, 1.0)) for number in range(1, 5)]
        engine = play(snapshot(jobs, nodes=cluster(2, 2)), 40)
        stays = [stay for stay in engine.stays if stay.job == 1]
        assert len(stays) <= 41
        jobs = [job(1, (9.0, 1.0)), job(2, (1.0, 1.0))]
        engine = play(snapshot(jobs), 40)
        assert len([*engine.stays]) == 2

    def test_a_newcomer_starts_on_idle_gpus_at_once_on_the_model_that_is_fastest_for_it(self) -> None:
        facts = snapshot([job(1, (4.0, 1.0)), job(2, (4.0, 1.0))], nodes=cluster(2, 2))
        engine = engine_of(facts, arrivals={2: 100.0})
        engine.run(until=lambda engine: engine.now >= 200)
        begun = {stay.job: (stay.gpu_model, stay.started_at) for stay in engine.stays}
        assert begun == {1: ("V100", 0.0), 2: ("V100", 100.0)}

    def test_gpus_that_come_free_within_a_lease_are_used_at_once(self) -> None:
        facts = snapshot(self.pair, nodes=cluster(1, 0))
        engine = engine_of(facts, {1: 100.0, 2: 100.0})
        assert engine.run() == ""
        assert [record.ended_at for record in engine.records()] == [100.0, 200.0]

    def test_a_job_moves_up_when_a_faster_model_would_stay_idle(self) -> None:
        jobs = [job(1, (9.0, 1.0)), job(2, (9.0, 1.0))]
        engine = engine_of(snapshot(jobs), {1: 100.0, 2: 1e6})
        engine.run(until=lambda engine: engine.now >= 2 * LEASE + 5)
        models = {stay.gpu_model: stay.started_at for stay in engine.stays if stay.job == 2}
        assert models["V100"] == LEASE

    def test_what_is_owed_is_carried_over_when_shares_are_decided_anew(self) -> None:
        """A job comes every lease, so shares change each time; the first two still get alike."""
        jobs = [job(number, (1.0, 0.0)) for number in range(1, 13)]
        arrivals = {number: max(0.0, (number - 2) * LEASE) for number in range(1, 13)}
        engine = engine_of(snapshot(jobs, nodes=cluster(1, 0)), arrivals=arrivals)
        engine.run(until=lambda engine: engine.now >= 12 * LEASE)
        ran = {number: sum(parts.values()) * engine.now / LEASE for number, parts in received(engine).items()}
        assert abs(ran[1] - ran[2]) <= 1.01

    def test_where_moves_cost_there_are_fewer_and_all_come_to_their_shares_all_the_same(self) -> None:
        """An agnostic policy means each job to have a third of both models: today it moves in every lease."""
        moves = {}
        for overhead in (0.0, 0.1):
            facts = snapshot(
                [job(number, rates) for number, rates in enumerate(EXAMPLE, start=1)],
                aware=False,
                overhead=overhead,
            )
            engine = play(facts, 120, costs=Costs(start_seconds=60.0))
            moves[overhead] = len(list(engine.stays))
            for parts in received(engine).values():
                assert sum(parts.values()) == pytest.approx(2 / 3, abs=0.05)
        assert moves[0.1] < 0.6 * moves[0.0]
        # A minute for each is about a tenth of the time of those that run.
        assert moves[0.1] * 60 < 0.15 * 120 * LEASE * 2

    @pytest.mark.parametrize("seed", first_every_day(range(5), 2))
    def test_nobody_with_a_share_waits_for_much_longer_than_its_share_says(self, seed: int) -> None:
        dice = random.Random(seed)
        jobs = [
            job(number, (dice.uniform(1, 10), 1.0), gpus=dice.choice((1, 1, 2))) for number in range(1, 9)
        ]
        engine = play(snapshot(jobs, nodes=cluster(2, 2)), 100)
        for number, shares in received(engine).items():
            stays = [stay for stay in engine.stays if stay.job == number]
            gaps = [later.started_at - earlier.ended_at for earlier, later in pairwise(stays)]
            assert max(gaps, default=0.0) <= 2 * LEASE / sum(shares.values())

    def test_lost_memory_ends_no_lease_early(self) -> None:
        jobs = [job(1, (1.0, 1.0), gpus=2), *self.pair[1:]]
        facts = snapshot(jobs, nodes=cluster(2, 0))
        running = (make_running(jobs[0], [100, 101], since=NOW - LEASE + 5),)
        plan = decide(replace(facts, running=running))
        assert plan.actions == ()
        assert targets(plan)
        later = decide(replace(facts, running=running, now=NOW + 5, memory=plan.memory))
        assert {action.kind for action in later.actions} == {ActionKind.START, ActionKind.STOP}

    def test_another_objective_holds_at_once(self) -> None:
        jobs = [job(1, (9.0, 1.0)), job(2, (1.0, 1.0)), job(3, (1.0, 1.0))]
        first = decide(snapshot(jobs, nodes=cluster(1, 0)))
        other = snapshot(jobs, nodes=cluster(1, 0), objective="max_sum_throughput")
        later = decide(replace(other, now=NOW + 20, memory=first.memory))
        assert set(targets(later)) == {"1"}

    def test_memory_of_another_policy_is_no_concern(self) -> None:
        facts = snapshot(self.pair, nodes=cluster(1, 0))
        assert decide(replace(facts, memory={"research": {"policy": "gandiva", "at": 0.0}})).degraded == {}


class TestSharing:
    pairs = tuple(
        PairSpeeds(applications=("lm", "gan"), gpus=1, gpu_model=model, speeds=(0.75, 0.75))
        for model in MODELS
    )
    jobs = (job(1, (4.0, 1.0), application="lm"), job(2, (4.0, 1.0), application="gan"))

    def facts(self, **parameters: object) -> Snapshot:
        return snapshot(self.jobs, nodes=cluster(1, 0), facts={"pair_speeds": self.pairs}, **parameters)

    def test_two_jobs_have_the_same_gpu_when_that_is_better_for_both(self) -> None:
        plan = decide(self.facts(sharing=True))
        assert placed(plan) == {(1, 2): "V100"}
        assert plan.memory["research"]["shared"]["1+2"]["V100"] == pytest.approx(1.0)

    def test_a_virtual_cluster_may_never_share(self) -> None:
        facts = self.facts(sharing=True)
        never = tuple(replace(vc, sharing="never") for vc in facts.virtual_clusters)
        assert placed(decide(replace(facts, virtual_clusters=never))) == {(1,): "V100"}

    def test_those_that_share_freely_go_by_what_is_foretold_of_pairs_that_nobody_measured(self) -> None:
        """Two that together compute for longer than there is time are foretold as slow."""
        profile = Profile(utilisation=0.4, memory_bytes=2**30)
        tree = (
            Branch(speed=0.7, samples=40, figure="both_compute", bound=1.0, below=1, above=2, unknown=1),
            Branch(speed=0.8, samples=20),
            Branch(speed=0.3, samples=20),
        )

        def together(profile: Profile, sharing: str, **more: Any) -> bool:
            facts = self.facts(sharing=True)
            return placed(
                decide(
                    replace(
                        facts,
                        jobs=tuple(replace(job, profile=profile) for job in facts.jobs),
                        virtual_clusters=tuple(replace(vc, sharing=sharing) for vc in facts.virtual_clusters),
                        **{"pair_speeds": (), "interference": tree, **more},
                    )
                )
            ) == {(1, 2): "V100"}

        assert together(profile, "free")
        assert not together(profile, "measured")
        assert not together(profile, "free", interference=())
        assert not together(replace(profile, utilisation=0.6), "free")
        # Both together do not fit into the memory of a GPU.
        (node,) = self.facts().nodes
        small = replace(node, gpus=tuple(replace(gpu, memory_bytes=2**30) for gpu in node.gpus))
        assert not together(profile, "free", nodes=(small,))
        # What was measured stands: here, that they do not run together at all.
        never = replace(self.pairs[0], speeds=(0.0, 0.0))
        assert not together(profile, "free", pair_speeds=(never,))

    def test_without_sharing_they_take_turns(self) -> None:
        assert placed(decide(self.facts())) == {(1,): "V100"}

    def test_a_pair_ends_sooner_than_two_that_take_turns(self) -> None:
        together = engine_of(self.facts(sharing=True), 3_600.0, beside=0.75)
        assert together.run() == ""
        apart = engine_of(self.facts(), 3_600.0, beside=0.75)
        assert apart.run() == ""
        assert last_end(together) == pytest.approx(4_800.0, abs=10)
        assert last_end(apart) == pytest.approx(7_200.0, abs=10)

    def test_who_is_left_over_of_a_pair_goes_on_alone(self) -> None:
        engine = engine_of(self.facts(sharing=True), {1: 900.0, 2: 3_600.0}, beside=0.75)
        assert engine.run() == ""
        assert not engine.degraded
        # 1,200 s in company, 2,700 s of its work alone.
        assert last_end(engine) == pytest.approx(1_200 + 2_700, abs=10)

    def test_a_newcomer_joins_one_that_runs_at_the_end_of_a_lease(self) -> None:
        engine = engine_of(self.facts(sharing=True), 3_600.0, beside=0.75, arrivals={2: 100.0})
        assert engine.run() == ""
        begun = [(stay.job, stay.started_at) for stay in engine.stays]
        assert begun == [(1, 0.0), (1, LEASE + 5), (2, LEASE + 5)]


class TestProfiling:
    def test_one_job_of_a_kind_runs_where_its_speed_is_only_estimated(self) -> None:
        jobs = [job(number, (9.0, 1.0), application="lm", estimated=("K80",)) for number in (1, 2, 3)]
        plan = decide(snapshot(jobs, nodes=cluster(4, 6), profiling=0.1))
        assert sorted(placed(plan).values()) == ["K80", "V100", "V100"]
        plan = decide(snapshot(jobs, nodes=cluster(4, 6), profiling=0.0))
        assert sorted(placed(plan).values()) == ["V100", "V100", "V100"]

    @pytest.mark.parametrize(("part", "most"), [(0.05, 0), (0.1, 1), (0.2, 2), (0.45, 4)])
    def test_it_takes_no_more_than_its_part_of_the_gpus(self, part: float, most: int) -> None:
        jobs = [
            job(number, (9.0, 1.0), application=f"kind-{number}", estimated=("K80",))
            for number in range(1, 5)
        ]
        plan = decide(snapshot(jobs, nodes=cluster(4, 6), profiling=part))
        assert list(placed(plan).values()).count("K80") == most


class TestOddFacts:
    def test_rates_that_cannot_be_true_are_not_known_and_spoil_nothing(self) -> None:
        rates = [(float("nan"), 1.0), (-3.0, 1.0), (float("inf"), 1.0), (1e300, 1.0), (1.0, 1e-12)]
        jobs = [job(number, row) for number, row in enumerate(rates, start=1)]
        plan = decide(snapshot(jobs, nodes=cluster(2, 3)))
        assert len(placed(plan)) == 5

    @pytest.mark.parametrize("objective", sorted(OBJECTIVES))
    def test_a_job_cannot_stop_the_others_by_what_it_states(self, objective: str) -> None:
        rates = [(1e12, 1e12), (1e8, 1e8), (1e-9, 1e-9), (5e-324, 5e-324), (1e-310, 0.0), (4.0, 1.0)]
        jobs = [job(number, row, time_limit_seconds=3e8) for number, row in enumerate(rates, start=1)]
        plan = decide(snapshot(jobs, nodes=cluster(3, 3), objective=objective))
        assert plan.degraded == {}
        assert (6,) in placed(plan)

    def test_a_job_that_runs_on_no_model_here_is_told_so(self) -> None:
        plan = decide(snapshot([job(1, (0.0, 0.0)), job(2, (1.0, 0.0))]))
        assert plan.reasons[1][0].code == "no_model_runs_it"
        assert placed(plan) == {(2,): "V100"}

    def test_a_deadline_that_is_over_is_no_obstacle(self) -> None:
        jobs = [job(1, (4.0, 1.0), deadline_at=NOW - 5), job(2, (4.0, 1.0), deadline_at=NOW + 50_000.0)]
        facts = snapshot(jobs, objective="min_cost_slo", facts={"prices": {"V100": 2.5, "K80": 0.0}})
        assert set(placed(decide(facts))) == {(1,), (2,)}

    @pytest.mark.parametrize("seed", first_every_day(range(3)))
    @pytest.mark.parametrize("objective", first_every_day(sorted(OBJECTIVES), 5))
    def test_every_objective_brings_every_job_to_its_end(self, objective: str, seed: int) -> None:
        dice = random.Random(seed)
        jobs = [
            job(
                number,
                (dice.uniform(1, 9), dice.choice((0.0, 1.0))),
                gpus=dice.choice((1, 1, 2)),
                tenant=dice.choice(("vision", "speech")),
                priority=dice.choice((0, 0, 3)),
            )
            for number in range(1, 11)
        ]
        work = {one.id: dice.uniform(50, 3_000) for one in jobs}
        arrivals = {one.id: dice.uniform(0, 3_000) for one in jobs}
        engine = engine_of(snapshot(jobs, nodes=cluster(2, 2), objective=objective), work, arrivals=arrivals)
        assert engine.run() == ""
        assert not engine.degraded

    @pytest.mark.parametrize("weight", [0.0, float("nan"), -1.0])
    @pytest.mark.parametrize("objective", ["max_min", "hierarchical", "water_filling"])
    def test_tenants_without_any_weight_are_equals(self, objective: str, weight: float) -> None:
        jobs = [job(1, (4.0, 1.0)), job(2, (4.0, 1.0), tenant="speech")]
        weights = {"vision": weight, "speech": weight}
        found = targets(decide(snapshot(jobs, nodes=cluster(1, 0), weights=weights, objective=objective)))
        assert found["1"]["V100"] == pytest.approx(found["2"]["V100"]) == pytest.approx(0.5)

    def test_an_unknown_objective_names_those_there_are(self) -> None:
        with pytest.raises(UnknownPlugin, match="of policy gavel is 'max-min'; choose fifo, finish_time"):
            make_policy("gavel:objective=max-min")

    @pytest.mark.parametrize(
        "parameters",
        [
            "sharing=true,aware=false",
            "parts=0",
            "lease_seconds=0.0",
            "profiling=1.5",
            "interval_seconds=-1.0",
        ],
    )
    def test_parameters_that_make_no_sense_are_refused(self, parameters: str) -> None:
        with pytest.raises(UnknownPlugin):
            make_policy(f"gavel:{parameters}")


class TestTooSlow:
    def test_a_round_in_which_shares_take_too_long_goes_by_order_and_the_next_goes_on(self) -> None:
        def never(function: Any, *arguments: Any, **keywords: Any) -> Any:
            raise Overrun("it took longer than 2 s")

        facts = snapshot([job(number, (4.0, 1.0)) for number in (1, 2, 3)])
        plan = decide(facts, compute=never)
        assert plan.overran == ("research",)
        assert plan.degraded == {"research": "it took longer than 2 s"}
        assert [action.jobs for action in plan.actions] == [(1,), (2,)]
        assert decide(facts, overran=plan.degraded) == plan
        assert decide(facts).overran == ()
