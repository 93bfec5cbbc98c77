"""Muri: who is grouped with whom, when nobody is, and how a group comes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks import interleaved_groups
from scheduler.core.building_blocks.interleaved_groups import grouped
from scheduler.core.model.gpu_parts import SHARE_FREE, SHARE_NEVER
from scheduler.core.model.interference import GroupSpeeds, PairSpeeds
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Running, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.perf.interleaving import Stages, cycle_seconds, cycles_seconds, efficiency, speed_in_group
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.counting import calls_in
from tests.core.sim.worlds import arrival, cluster, ends, simulate
from tests.core.virtual_loop import VirtualLoop
from tests.effort import examples

GIB = 2**30
STORAGE, GPU, NETWORK = (0.5, 0.1, 0.0), (0.1, 0.5, 0.0), (0.0, 0.1, 0.5)


def job(number: int, stages: Stages | None = STORAGE, gpus: int = 1, **fields: object) -> Job:
    fields.setdefault("estimate_seconds", 1_000.0)
    profile = None if stages is None else Profile(stages=stages)
    return make_job(number, gpus, profile=profile, **fields)


def world(
    *jobs: Job, gpus: int = 2, running: dict[int, list[int]] | None = None, **parameters: object
) -> Snapshot:
    by_id = {each.id: each for each in jobs}
    return make_snapshot(
        nodes=[make_node(1, gpus=gpus)],
        jobs=jobs,
        running=[make_running(by_id[number], held) for number, held in (running or {}).items()],
        virtual_clusters=[
            make_virtual_cluster(guaranteed={"V100": gpus}, policy="muri", policy_parameters=parameters)
        ],
    )


def started(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    return sorted(action.jobs for action in plan.actions if action.kind is ActionKind.START)


def test_nobody_shares_where_everybody_fits() -> None:
    assert started(decide(world(job(1), job(2, GPU)))) == [(1,), (2,)]


def test_in_a_crowd_those_share_who_need_different_resources() -> None:
    """The example of the paper's section 2: who keeps storage busy goes with who keeps the GPU busy."""
    plan = decide(world(job(1), job(2), job(3, GPU), job(4, GPU)))
    pairs = started(plan)
    assert sorted(len(pair) for pair in pairs) == [2, 2]
    assert all({1, 2} & set(pair) and {3, 4} & set(pair) for pair in pairs)
    assert efficiency([STORAGE, GPU]) > efficiency([STORAGE, STORAGE])


def test_up_to_four_share_and_no_more_than_it_takes() -> None:
    kinds = [STORAGE, GPU, NETWORK, STORAGE]
    crowd = [job(number, kinds[number - 1]) for number in range(1, 5)]
    assert started(decide(world(*crowd, gpus=1))) == [(1, 2, 3, 4)]
    three = started(decide(world(*crowd[:3], gpus=2)))
    assert sorted(len(group) for group in three) == [1, 2]
    assert all(len(group) == 1 for group in started(decide(world(*crowd, gpus=2, largest_group=1))))


class TestSeveralModels:
    """One V100 and eight P100: what is idle of one model is no room for who needs the other."""

    def world(self, *jobs: Job, running: Sequence[Running] = ()) -> Snapshot:
        guaranteed = {"V100": 1, "P100": 8}
        return make_snapshot(
            nodes=[make_node(1, gpus=1), make_node(2, gpus=8, gpu_model="P100")],
            jobs=jobs,
            running=running,
            virtual_clusters=[make_virtual_cluster(guaranteed=guaranteed, policy="muri")],
        )

    def test_those_share_who_crowd_on_one_model(self) -> None:
        crowd = [job(1, gpu_models=("V100",)), job(2, GPU, gpu_models=("V100",))]
        facts = self.world(*crowd, job(3, gpu_models=("P100",)), job(4, GPU, gpu_models=("P100",)))
        assert started(decide(facts)) == [(1, 2), (3,), (4,)]

    def test_those_who_share_do_not_part_for_gpus_that_they_may_not_have(self) -> None:
        pair = [job(1, gpu_models=("V100",)), job(2, GPU, gpu_models=("V100",))]
        held = replace(make_running(pair[0], [100]), jobs=(pair[0].id, pair[1].id))
        assert decide(self.world(*pair, running=[held])).actions == ()


def test_a_group_that_is_slower_than_its_jobs_in_turn_is_split() -> None:
    same = (0.0, 0.6, 0.0)
    assert cycle_seconds([same, same]) > 1.2
    plan = decide(world(job(1, same), job(2, same, estimate_seconds=10.0), gpus=1))
    assert started(plan) == [(2,)]
    assert plan.reasons[1][-1].code == "less_service_left_first"


@pytest.mark.parametrize(
    "odd",
    [job(2, None), job(2, GPU, elastic=(1, 1)), job(2, GPU, priority=-1), job(2, GPU, gpu_models=("V100",))],
    ids=["no stages", "elastic", "lower priority", "another shape"],
)
def test_who_is_not_alike_stays_alone(odd: Job) -> None:
    assert started(decide(world(job(1, estimate_seconds=10.0), odd, gpus=1))) == [(1,)]


def test_a_virtual_cluster_that_never_shares_forms_no_groups() -> None:
    snapshot = world(job(1), job(2, GPU), gpus=1)
    (vc,) = snapshot.virtual_clusters
    assert started(decide(snapshot)) == [(1, 2)]
    never = replace(snapshot, virtual_clusters=(replace(vc, sharing=SHARE_NEVER),))
    assert started(decide(never)) == [(1,)]


def test_applications_that_harm_each_other_share_only_where_sharing_is_free() -> None:
    jobs = job(1, application="a"), job(2, GPU, application="b")
    harm = PairSpeeds(applications=("a", "b"), gpus=1, gpu_model="V100", speeds=(0.4, 0.5))
    snapshot = replace(world(*jobs, gpus=1), pair_speeds=(harm,))
    assert started(decide(snapshot)) == [(1,)]
    (vc,) = snapshot.virtual_clusters
    free = replace(snapshot, virtual_clusters=(replace(vc, sharing=SHARE_FREE),))
    assert started(decide(free)) == [(1, 2)]
    harmless = replace(harm, speeds=(0.6, 0.5))
    assert started(decide(replace(snapshot, pair_speeds=(harmless,)))) == [(1, 2)]


def test_three_that_harm_each_other_are_in_no_group_though_any_two_get_along() -> None:
    stages = (0.6, 0.0, 0.0), (0.0, 0.6, 0.0), (0.0, 0.0, 0.6)
    jobs = [job(number, each, application="abc"[number - 1]) for number, each in enumerate(stages, 1)]
    snapshot = world(*jobs, gpus=1)
    harm = GroupSpeeds(applications=("a", "b", "c"), gpus=1, gpu_model="V100", speeds=(0.3, 0.3, 0.3))
    assert started(decide(snapshot)) == [(1, 2, 3)]
    assert started(decide(replace(snapshot, group_speeds=(harm,)))) != [(1, 2, 3)]
    harmless = replace(harm, speeds=(0.5, 0.5, 0.5))
    assert started(decide(replace(snapshot, group_speeds=(harmless,)))) == [(1, 2, 3)]


def test_a_running_group_is_broken_up_once_it_was_measured_to_be_slow() -> None:
    """Two GPUs, two groups and an empty queue: only what was measured meanwhile says that one has to part."""
    jobs = [
        job(number, STORAGE if number % 2 else GPU, application="abcd"[number - 1]) for number in range(1, 5)
    ]
    loop = VirtualLoop(world(*jobs), dict.fromkeys(range(1, 5), 1e6))
    loop.step()
    together = {running.jobs for running in loop.snapshot.running}
    assert sorted(len(group) for group in together) == [2, 2]
    assert not [action for _ in range(100) for action in loop.step().actions]
    slow = next(group for group in together if 4 in group)
    applications = tuple(sorted(each.application for each in jobs if each.id in slow))
    harm = PairSpeeds(applications=applications, gpus=1, gpu_model="V100", speeds=(0.4, 0.5))
    loop.snapshot = replace(loop.snapshot, pair_speeds=(harm,))
    for _ in range(200):
        loop.step()
    now = [running.jobs for running in loop.snapshot.running]
    # Each has another partner.
    assert slow not in now
    assert sorted(job for group in now for job in group) == [1, 2, 3, 4]


def test_what_is_known_not_to_fit_into_memory_does_not_share() -> None:
    node = make_node(1, gpus=1)
    node = replace(node, gpus=tuple(replace(gpu, memory_bytes=16 * GIB) for gpu in node.gpus))
    for each, expected in ((9 * GIB, [(1,)]), (8 * GIB, [(1, 2)]), (None, [(1, 2)])):
        jobs = [
            replace(job(number), profile=Profile(stages=stages, memory_bytes=each))
            for number, stages in ((1, STORAGE), (2, GPU))
        ]
        assert started(decide(replace(world(*jobs, gpus=1), nodes=(node,)))) == expected


def test_order_is_by_time_left_or_by_time_had() -> None:
    short, long = job(1, None, estimate_seconds=10.0), job(2, None, attained_service={"V100": 0.0})
    had = job(1, None, estimate_seconds=10.0, attained_service={"V100": 5.0})
    assert started(decide(world(short, long, gpus=1))) == [(1,)]
    assert started(decide(world(had, long, gpus=1, knows_durations=False))) == [(2,)]


def test_who_waits_joins_the_one_who_runs_and_is_in_its_group() -> None:
    snapshot = world(job(1), job(2, GPU), gpus=1, running={1: [100]})
    loop = VirtualLoop(snapshot, {1: 1e6, 2: 1e6})
    assert [(action.kind, action.jobs) for action in loop.step().actions] == [(ActionKind.JOIN, (2,))]
    # Its jobs have what they need: nothing more happens, also when groups may be made anew.
    assert not [action for _ in range(100) for action in loop.step().actions]
    assert [running.jobs for running in loop.snapshot.running] == [(1, 2)]


def test_a_group_of_jobs_that_run_apart_stops_them_and_then_starts_together() -> None:
    jobs = (job(1), job(2, GPU), job(3, None, estimate_seconds=1.0))
    loop = VirtualLoop(world(*jobs, running={1: [100], 2: [101]}), {1: 1e6, 2: 1e6, 3: 1e6})
    stopped = [action.jobs for action in loop.step().actions if action.kind is ActionKind.STOP]
    assert stopped == [(1,), (2,)]
    while (1, 2) not in started(plan := loop.step()):
        assert {action.kind for action in plan.actions} <= {ActionKind.START}
        assert loop.snapshot.now < NOW + 120
    assert not [action for _ in range(100) for action in loop.step().actions]


def test_an_elastic_job_that_does_not_fit_whole_has_fewer_gpus() -> None:
    """Two wait and only one fits: groups are made, and these asked for all GPUs or none."""
    jobs = [job(number, None, gpus=4, replicas=2, elastic=(4, 16)) for number in (1, 2)]
    assert started(decide(world(*jobs, gpus=4))) == [(1,)]


def test_what_shared_parts_again_when_there_is_room() -> None:
    jobs = (job(1), job(2, GPU))
    snapshot = world(*jobs, gpus=2)
    together = make_running(jobs[0], [100])
    loop = VirtualLoop(
        make_snapshot(
            nodes=snapshot.nodes,
            jobs=jobs,
            running=[
                type(together)(
                    allocation=together.allocation,
                    jobs=(jobs[0].id, jobs[1].id),
                    gpu_model="V100",
                    replicas=together.replicas,
                    since=together.since,
                )
            ],
            virtual_clusters=snapshot.virtual_clusters,
        ),
        {1: 1e6, 2: 1e6},
    )
    for _ in range(4):
        loop.step()
    homes = {held.jobs: held.allocation for held in loop.snapshot.running}
    # One stays where it was, and only the other stops.
    assert sorted(homes) == [(1,), (2,)]
    assert homes[(1,)] == together.allocation


@given(st.integers(2, 4), st.data())
@settings(max_examples=examples(30))
def test_many_cycles_at_once_are_each_as_one_by_one(jobs: int, data: st.DataObject) -> None:
    seconds = st.floats(0.001, 10.0)
    groups = data.draw(
        st.lists(
            st.lists(st.tuples(seconds, seconds, seconds), min_size=jobs, max_size=jobs),
            min_size=1,
            max_size=4,
        )
    )
    expected = [cycle_seconds(group) for group in groups]
    assert cycles_seconds(np.array(groups)).tolist() == pytest.approx(expected, rel=2e-3)


def test_a_thousand_jobs_that_are_all_different_are_looked_at_in_pairs_once_a_matching(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dice = np.random.default_rng(1)
    stages = {number: tuple(dice.uniform(0.01, 1.0, 3).tolist()) for number in range(1_000)}
    looked_at = []

    def looks(both: np.ndarray) -> np.ndarray:
        looked_at.append(len(both))
        return cycles_seconds(both)

    monkeypatch.setattr(interleaved_groups, "cycles_seconds", looks)
    made: list[list[tuple[int, ...]]] = []

    def group(many: int) -> None:
        made.append(grouped({1: list(stages)[:many]}, lambda size: size, stages.__getitem__, many // 4))

    group(100)  # The first matching of a process also loads modules.
    looked_at.clear()
    calls = calls_in(lambda: group(1_000))
    assert sorted(len(one) for one in made[-1]) == [4] * 250
    # Of a thousand jobs, then of five hundred pairs: a kind is looked at beside itself too.
    assert looked_at == [1_000 * 1_001 / 2, 500 * 501 / 2]
    assert calls < 500 * 1_000


def test_sharing_by_stages_ends_a_crowd_sooner_than_waiting() -> None:
    """In the simulator four jobs on two GPUs: two pairs at three quarters of their speed beat one by one."""
    speed = speed_in_group(STORAGE, [GPU])
    assert speed == pytest.approx(0.6 / cycle_seconds([STORAGE, GPU]))
    assert speed > 0.5
    crowd = [
        arrival(number, 0.0, 1_000.0, profile=Profile(stages=GPU if number % 2 else STORAGE))
        for number in range(1, 5)
    ]
    last = {
        largest: max(
            ends(simulate(cluster(2, policy="muri", parameters={"largest_group": largest}), crowd)).values()
        )
        for largest in (1, 4)
    }
    assert last == {1: pytest.approx(2_000.0), 4: pytest.approx(1_000.0 / speed)}
