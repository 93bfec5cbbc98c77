"""Gandiva: time slices in equal shares, growth, migration, and packing by trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from scheduler.core.model.plan import ActionKind, Decision, Grant, Locality, Mode, Plan
from scheduler.core.model.snapshot import FIXED_WORLD, Job, JobId, Memory, Running, Snapshot
from scheduler.core.policies.gandiva.policy import Gandiva
from scheduler.core.policies.gandiva.trials import name_of, next_pair, pays
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.registry import make_policy
from scheduler.core.round.run_view import allocate
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop
from tests.core.sim.worlds import arrival, cluster, ends, simulate
from tests.core.virtual_loop import VirtualLoop


def gandiva(*jobs: Job, running: tuple[Running, ...] = (), nodes: int = 1, **parameters: Any) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": 8 * nodes}, policy="gandiva", policy_parameters=parameters)
    return make_snapshot(
        nodes=make_cluster(nodes), jobs=jobs, running=running, virtual_clusters=[vc], now=NOW
    )


def kinds(plan: Plan) -> dict[int, ActionKind]:
    return {job: action.kind for action in plan.actions for job in action.jobs}


def decision_on(snapshot: Snapshot, memory: Memory) -> Decision:
    """Return what the policy itself decides for its virtual cluster."""
    [vc] = snapshot.virtual_clusters
    engine = RoundEngine(snapshot)
    view = next(outcome.view for outcome in engine.outcomes() if outcome.view.name == vc.name)
    return allocate(view, make_policy("gandiva", vc.policy_parameters), memory)


class TestSlices:
    def test_jobs_take_turns_in_equal_shares(self) -> None:
        """Three jobs of two slices each, one at a time: 1 2 3 1 2 3."""
        jobs = [make_job(number, 8) for number in (1, 2, 3)]
        loop = IdealLoop(gandiva(*jobs), dict.fromkeys((1, 2, 3), 120.0))
        loop.run()
        assert loop.stays == [(n % 3 + 1, 60.0 * n, 60.0 * (n + 1)) for n in range(6)]

    def test_nobody_is_stopped_while_everyone_fits(self) -> None:
        jobs = [make_job(number, 4) for number in (1, 2)]
        loop = IdealLoop(gandiva(*jobs), {1: 500.0, 2: 700.0})
        loop.run()
        assert loop.stays == [(1, 0.0, 500.0), (2, 0.0, 700.0)]

    def test_a_newcomer_has_its_first_slice_soon(self) -> None:
        """Job 2 arrives in the first minute of job 1, which needs an hour, and gets every other slice."""
        jobs = [make_job(number, 8) for number in (1, 2)]
        loop = IdealLoop(gandiva(*jobs), {1: 3_600.0, 2: 120.0}, arrivals={2: 30.0})
        loop.run()
        assert loop.stays[:3] == [(1, 0.0, 60.0), (2, 60.0, 120.0), (1, 120.0, 180.0)]
        assert loop.ended[2] == 240.0

    def test_a_newcomer_does_not_catch_up_with_those_who_ran_for_long(self) -> None:
        jobs = [make_job(number, 8) for number in (1, 2, 3)]
        loop = IdealLoop(gandiva(*jobs), {1: 3_000.0, 2: 3_000.0, 3: 600.0}, arrivals={3: 1_200.0})
        loop.run()
        mine = [stay for stay in loop.stays if stay[0] == 3]
        gaps = [after[1] - before[2] for before, after in pairwise(mine)]
        assert gaps == [120.0] * 9

    def test_gangs_of_all_sizes_have_equal_shares(self) -> None:
        """A gang of eight and eight single GPUs: half of the slices for each kind."""
        jobs = [make_job(1, 8), *(make_job(number) for number in range(2, 10))]
        loop = IdealLoop(gandiva(*jobs), dict.fromkeys(range(1, 10), 600.0))
        loop.run()
        assert loop.ended[1] == 1_140.0
        assert set(loop.ended.values()) == {1_140.0, 1_200.0}

    def test_a_higher_priority_does_not_wait_for_its_slice(self) -> None:
        low, high = make_job(1, 8), make_job(2, 8, priority=1)
        snapshot = gandiva(low, high, running=(make_running(low, range(100, 108), since=NOW - 10),))
        assert kinds(decide(snapshot)) == {1: ActionKind.STOP, 2: ActionKind.START}

    def test_between_slices_those_that_run_stay_and_the_others_are_told(self) -> None:
        first, second = make_job(1, 8), make_job(2, 8)
        snapshot = gandiva(first, second, running=(make_running(first, range(100, 108), since=NOW - 10),))
        plan = decide(snapshot)
        assert plan.actions == ()
        assert plan.wake_at == NOW + 50
        assert plan.reasons[2][-1].code == "later_slice"

    def test_turns_are_taken_though_memory_is_lost(self) -> None:
        """The slice began when job 1 started; of the others the one that has run least is next."""
        first, second, third = (
            make_job(number, 8, attained_service={"V100": 8.0 * seconds})
            for number, seconds in ((1, 60.0), (2, 120.0), (3, 60.0))
        )
        running = make_running(first, range(100, 108), since=NOW - 60)
        plan = decide(gandiva(first, second, third, running=(running,)))
        assert kinds(plan) == {1: ActionKind.STOP, 3: ActionKind.START}


class TestGrowth:
    def elastic(self, since: float) -> tuple[Job, Running]:
        job = make_job(1, 1, replicas=2, elastic=(1, 6))
        return job, make_running(job, [[100], [101]], since=since)

    def test_an_elastic_job_grows_into_the_idle_gpus_of_its_node(self) -> None:
        job, running = self.elastic(NOW - 700)
        [action] = decide(gandiva(job, running=(running,))).actions
        assert action.kind is ActionKind.RESIZE
        assert action.placement is not None
        assert len(action.placement.gpus) == 6

    def test_not_onto_another_node(self) -> None:
        job, running = self.elastic(NOW - 700)
        holder = make_job(2, 5)
        snapshot = gandiva(job, holder, running=(running, make_running(holder, range(102, 107))), nodes=2)
        [action] = decide(snapshot).actions
        assert action.placement is not None
        assert len(action.placement.gpus) in (3, 6)
        assert len({gpu // 100 for gpu in action.placement.gpus}) == 1

    def test_a_gang_of_fixed_world_grows_to_a_size_among_which_its_replicas_divide(self) -> None:
        """Two GPUs are idle beside its one: four replicas divide among two, and not among three."""
        job = make_job(1, 1, replicas=4, elastic=(1, 4), elastic_mode=FIXED_WORLD)
        holder = make_job(2, 5)
        held = (make_running(job, [[100]], since=NOW - 700), make_running(holder, range(101, 106)))
        plan = decide(gandiva(job, holder, running=held))
        [action] = plan.actions
        assert action.placement is not None
        assert (action.kind, len(action.placement.gpus)) == (ActionKind.RESIZE, 2)
        assert plan.degraded == {}

    def test_not_before_an_interval(self) -> None:
        job, running = self.elastic(NOW - 100)
        plan = decide(gandiva(job, running=(running,)))
        assert plan.actions == ()
        assert plan.wake_at == NOW + 500

    def test_it_gives_back_what_it_grew_into_at_once(self) -> None:
        job = make_job(1, 1, replicas=2, elastic=(1, 6))
        grown = make_running(job, [[gpu] for gpu in range(100, 106)], since=NOW - 1)
        plan = decide(gandiva(job, make_job(2, 6), running=(grown,)))
        assert kinds(plan) == {1: ActionKind.RESIZE, 2: ActionKind.START}


class TestMigration:
    def spread(self, **fields: Any) -> Snapshot:
        job = make_job(1, 1, replicas=2)
        return gandiva(job, running=(make_running(job, [[100], [200]], since=NOW - 700),), nodes=2, **fields)

    def test_a_gang_on_two_nodes_asks_for_one(self) -> None:
        decision = decision_on(self.spread(), {})
        assert decision.grants == (Grant(jobs=(JobId(1),), gpus=2, gpu_model="V100", locality=Locality.NODE),)

    def test_at_most_once_per_interval(self) -> None:
        snapshot = self.spread()
        memory = decision_on(snapshot, {}).memory
        again = decision_on(replace(snapshot, now=NOW + 599), memory)
        assert (again.grants, again.wake_at) == ((), NOW + 600)
        assert decision_on(replace(snapshot, now=NOW + 600), memory).grants

    def test_it_can_be_switched_off(self) -> None:
        assert decision_on(self.spread(migrate=False), {}).grants == ()

    def test_not_while_someone_waits(self) -> None:
        snapshot = self.spread()
        crowded = replace(snapshot, jobs=(*snapshot.jobs, make_job(2, 8, replicas=2)))
        assert all(grant.locality is Locality.ANY for grant in decision_on(crowded, {}).grants)


class TestPacking:
    def crowded(self, **parameters: Any) -> Snapshot:
        host, guest = make_job(1, 8, application="ResNet-50"), make_job(2, 8, application="LM")
        running = make_running(host, range(100, 108), since=NOW - 10)
        return gandiva(host, guest, running=(running,), packing=True, **parameters)

    def paired(self, speeds: tuple[float, float] | None) -> Snapshot:
        """Jobs 1 and 2 share the node, job 3 waits."""
        snapshot = self.crowded()
        [alone] = snapshot.running
        measured = {JobId(1): speeds[0], JobId(2): speeds[1]} if speeds else {}
        running = replace(alone, jobs=(JobId(1), JobId(2)), speeds=measured)
        third = make_job(3, 8, application="LM")
        return replace(snapshot, running=(running,), jobs=(*snapshot.jobs, third))

    def test_it_is_off_by_default(self) -> None:
        assert Gandiva().packing is False

    def test_a_pair_stops_and_starts_together(self) -> None:
        """The one that runs stops; when it has, both start on the same GPUs."""
        loop = VirtualLoop(self.crowded(), {1: 1e9, 2: 1e9})
        assert kinds(loop.step()) == {1: ActionKind.STOP}
        [start] = loop.step().actions
        assert (start.kind, start.jobs) == (ActionKind.START, (1, 2))
        assert loop.step().actions == ()

    def test_a_virtual_cluster_may_never_share(self) -> None:
        snapshot = self.crowded()
        never = tuple(replace(vc, sharing="never") for vc in snapshot.virtual_clusters)
        grants = decision_on(replace(snapshot, virtual_clusters=never), {}).grants
        assert all(len(grant.jobs) == 1 for grant in grants)

    def test_the_grant_says_how_they_share(self) -> None:
        [grant] = decision_on(self.crowded(), {}).grants
        assert (grant.jobs, grant.gpus, grant.mode) == ((1, 2), 8, Mode.PACK)

    def test_nothing_else_starts_until_the_pair_is_there(self) -> None:
        snapshot = self.crowded()
        memory = decision_on(snapshot, {}).memory
        stopping = replace(snapshot.running[0], stopping=True)
        later = replace(snapshot, now=NOW + 5, running=(stopping,))
        decision = decision_on(later, memory)
        assert (decision.grants, decision.wake_at) == ((), NOW + 60)

    def test_a_pair_that_pays_stays_together(self) -> None:
        """0.6 + 0.7 is more than the 1 of taking turns."""
        decision = decision_on(self.paired((0.6, 0.7)), {})
        assert decision.keep_running
        assert (1, 2) not in [grant.jobs for grant in decision.grants]

    def test_a_pair_that_was_not_measured_is_left_alone(self) -> None:
        assert "failed" not in decision_on(self.paired(None), {}).memory

    def test_a_pair_that_does_not_pay_is_parted_and_not_tried_again(self) -> None:
        snapshot = self.paired((0.4, 0.5))
        decision = decision_on(snapshot, {})
        assert [grant.jobs for grant in decision.grants] == [(1,)]
        assert decision.memory["failed"] == ["LM + ResNet-50"]
        assert kinds(decide(snapshot)) == {1: ActionKind.STOP, 2: ActionKind.STOP}
        after = decision_on(self.crowded(), decision.memory)
        assert Mode.PACK not in [grant.mode for grant in after.grants]


class TestInPlace:
    """Two that take turns on the same GPUs without a checkpoint."""

    def crowded(self, *others: Job) -> Snapshot:
        host, guest = make_job(1, 8), make_job(2, 8)
        running = make_running(host, range(100, 108), since=NOW - 10)
        jobs = (host, guest, *others)
        return gandiva(*jobs, running=(running,), nodes=2, in_place=True, slice_seconds=30.0)

    def test_who_waits_takes_turns_with_who_runs(self) -> None:
        loop = VirtualLoop(self.crowded(make_job(3, 8)), dict.fromkeys((1, 2, 3), 1e9))
        started = [action for _ in range(4) for action in loop.step().actions if action.placement]
        assert ((2,), None) in [(action.jobs, action.slice_seconds) for action in started]
        assert ((1, 3), 30.0) in [(action.jobs, action.slice_seconds) for action in started]
        # They are not compared with anything, and nothing changes any more.
        assert loop.step().actions == ()

    def test_who_runs_may_accept_no_other_model_any_more(self) -> None:
        """As under a quota by model."""
        snapshot = self.crowded(make_job(3, 8, gpu_models=("V100",)))
        jobs = (replace(snapshot.jobs[0], gpu_models=("V100",)), *snapshot.jobs[1:])
        running = (*snapshot.running, make_running(snapshot.jobs[2], range(200, 208), since=NOW - 5))
        loop = VirtualLoop(replace(snapshot, jobs=jobs, running=running), dict.fromkeys((1, 2, 3), 1e9))
        assert kinds(loop.step()) == {1: ActionKind.STOP}
        assert [action.jobs for action in loop.step().actions] == [(1, 2)]

    def test_they_part_as_soon_as_both_have_gpus_of_their_own(self) -> None:
        snapshot = self.crowded()
        [alone] = snapshot.running
        pair = replace(alone, jobs=(JobId(1), JobId(2)), slice_seconds=30.0)
        loop = VirtualLoop(replace(snapshot, running=(pair,)), {1: 1e9, 2: 1e9})
        assert kinds(loop.step()) == {1: ActionKind.STOP, 2: ActionKind.STOP}
        assert sorted(action.jobs for action in loop.step().actions) == [(1,), (2,)]

    def test_in_the_simulator_each_has_half_of_the_time(self) -> None:
        facts = cluster(policy="gandiva", parameters={"in_place": True, "grow": False})
        engine = simulate(facts, [arrival(1, 0.0, 100.0, gpus=8), arrival(2, 10.0, 100.0, gpus=8)])
        # The pair starts a second after job 1 stopped: 90 s of it are left, and then 10 s of job 2.
        assert ends(engine) == {1: 191.0, 2: 201.0}

    def test_pairs_do_one_or_the_other(self) -> None:
        with pytest.raises(ValueError, match="not both"):
            Gandiva(packing=True, in_place=True)


class TestTrials:
    @pytest.mark.parametrize(
        ("speeds", "gain", "verdict"),
        [
            ({}, 0.0, None),
            ({1: 0.9}, 0.0, None),
            ({1: 0.5, 2: 0.5}, 0.0, True),
            ({1: 0.5, 2: 0.55}, 0.1, False),
        ],
    )
    def test_progress_together_is_compared_with_taking_turns(
        self, speeds: dict[int, float], gain: float, verdict: bool | None
    ) -> None:
        running = replace(make_running(1, [100]), jobs=(JobId(1), JobId(2)), speeds=speeds)
        assert pays(running, gain) is verdict

    def test_partners_ask_for_the_same_and_have_not_failed(self) -> None:
        host = make_job(1, 2, application="a")
        running = {host.id: make_running(host, [100, 101])}
        guests = [make_job(2, 4), make_job(3, 2, priority=1), make_job(4, 2, application="b"), make_job(5, 2)]
        assert next_pair([host], guests, (), running) == (1, 4)
        assert next_pair([host], guests, ["a + b"], running) == (1, 5)
        assert next_pair([host], guests[:2], (), running) is None

    def test_a_pair_is_known_by_its_applications(self) -> None:
        assert name_of((make_job(2, application="b"), make_job(1, application="a"))) == "a + b"
        assert name_of((make_job(2), make_job(1, application="a"))) == "a + job 2"
