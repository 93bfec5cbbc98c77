"""Lucid: the order, who shares with whom, and that nobody who runs is disturbed."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.model.gpu_parts import SHARE_FREE, SHARE_MEASURED, SHARE_NEVER
from scheduler.core.model.interference import Branch, PairSpeeds
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.policies.lucid.policy import JUMBO, MEDIUM, TINY, sharing_score
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate

GIB = 2**30
LIGHT = Profile(utilisation=0.1, memory_utilisation=0.05)
HALF = Profile(utilisation=0.4, memory_utilisation=0.1)
HEAVY = Profile(utilisation=0.9, memory_utilisation=0.7)
PROFILES = Path(__file__).resolve().parents[4] / "shared" / "data" / "lucid" / "single_profile.csv"


def job(number: int, profile: Profile | None = LIGHT, gpus: int = 1, **fields: object) -> Job:
    return make_job(number, gpus, profile=profile, **{"estimate_seconds": 1_000.0 + number, **fields})


def world(*jobs: Job, gpus: int = 1, running: Job | None = None, **parameters: object) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": gpus}, policy="lucid", policy_parameters=parameters)
    return make_snapshot(
        nodes=[make_node(1, gpus=gpus)],
        jobs=[*jobs, *([running] if running else [])],
        running=[make_running(running, [100])] if running else [],
        virtual_clusters=[vc],
    )


def started(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    assert all(action.kind is ActionKind.START for action in plan.actions)
    return sorted(action.jobs for action in plan.actions)


def test_least_service_goes_first_and_everyone_is_alone_where_all_fit() -> None:
    assert started(decide(world(job(1), job(2), gpus=2))) == [(1,), (2,)]
    plan = decide(world(job(1, None), job(2, None, estimate_seconds=5.0)))
    assert started(plan) == [(2,)]
    assert plan.reasons[1][-1].code == "less_service_first"


@pytest.mark.parametrize(
    ("host", "guest", "share"),
    [
        (LIGHT, HEAVY, True),
        (HALF, HALF, True),
        (HALF, HEAVY, False),
        (HEAVY, HEAVY, False),
        (LIGHT, None, False),
        (LIGHT, Profile(stages=(1.0, 1.0, 1.0)), False),
    ],
)
def test_a_pair_shares_whose_scores_sum_to_two_at_most(
    host: Profile, guest: Profile | None, share: bool
) -> None:
    """The paper's rule: a jumbo job goes with a tiny one, medium ones with each other."""
    expected = [(1, 2)] if share else [(1,)]
    assert started(decide(world(job(1, host), job(2, guest)))) == expected
    assert started(decide(world(job(1, host), job(2, guest), capacity=-1))) == [(1,)]


@pytest.mark.parametrize(
    "odd",
    [
        job(2, estimate_seconds=2_100.0),
        job(2, gpus=2),
        job(2, priority=-1),
        job(2, elastic=(1, 1)),
        job(2, gpu_models=("V100",)),
    ],
    ids=["twice as long", "another size", "lower priority", "elastic", "another shape"],
)
def test_who_is_not_alike_does_not_share(odd: Job) -> None:
    assert started(decide(world(job(1, estimate_seconds=1_000.0), odd))) == [(1,)]


def test_three_never_share_and_a_guest_that_is_not_too_long_joins_a_host_that_runs() -> None:
    assert started(decide(world(job(1), job(2), job(3)))) == [(1, 2)]
    # Of the host about 400 seconds are left, and a guest may need 800.
    assert started(decide(world(job(1), job(2), running=job(9)))) == []
    short = job(3, estimate_seconds=700.0)
    (join,) = decide(world(job(1), job(2), short, running=job(9))).actions
    assert (join.kind, join.jobs, join.allocation) == (ActionKind.JOIN, (3,), 9)
    assert not decide(world(short, running=job(9), capacity=-1)).actions
    # Where a host starts as well, it chooses first.
    plan = decide(world(short, job(4, estimate_seconds=600.0), gpus=2, running=job(9)))
    assert started(plan) == [(4, 3)]


def test_memory_that_is_known_must_fit() -> None:
    node = make_node(1, gpus=1)
    node = replace(node, gpus=tuple(replace(gpu, memory_bytes=16 * GIB) for gpu in node.gpus))
    for each, expected in ((9, [(1,)]), (8, [(1, 2)])):
        jobs = [job(number, replace(LIGHT, memory_bytes=each * GIB)) for number in (1, 2)]
        assert started(decide(replace(world(*jobs), nodes=(node,)))) == expected


def test_two_that_need_more_processors_than_there_are_stay_alone() -> None:
    node = replace(make_node(1, gpus=1), cpus=8.0, memory_bytes=GIB)
    tasks = [replace(job(1).tasks[0], cpus=5.0)]
    jobs = [job(number, tasks=tasks) for number in (1, 2)]
    assert started(decide(replace(world(*jobs), nodes=(node,)))) == [(1,)]


def test_what_was_measured_of_two_overrules_their_scores() -> None:
    jobs = job(1, HEAVY, application="a"), job(2, HEAVY, application="b")
    pair = PairSpeeds(applications=("a", "b"), gpus=1, gpu_model="V100", speeds=(0.95, 0.9))
    assert started(decide(replace(world(*jobs), pair_speeds=(pair,)))) == [(1, 2)]
    light = replace(jobs[0], profile=LIGHT), replace(jobs[1], profile=LIGHT)
    slow = replace(pair, speeds=(0.8, 0.9))
    assert started(decide(replace(world(*light), pair_speeds=(slow,)))) == [(1,)]


def test_what_is_foretold_of_two_that_share_freely_overrules_their_scores() -> None:
    """Measured, never: only whoever shares freely goes by what nobody measured."""
    heavy, light = (job(1, HEAVY), job(2, HEAVY)), (job(1, LIGHT), job(2, LIGHT))

    def shared(jobs: tuple[Job, Job], speed: float, sharing: str, **facts: object) -> bool:
        snapshot = world(*jobs)
        vc = replace(snapshot.virtual_clusters[0], sharing=sharing)
        tree = (Branch(speed=speed, samples=40),)
        snapshot = replace(snapshot, virtual_clusters=(vc,), interference=tree, **facts)
        return started(decide(snapshot)) == [(1, 2)]

    assert shared(heavy, 0.9, SHARE_FREE)
    assert not shared(light, 0.8, SHARE_FREE)
    # By their scores alone.
    assert not shared(heavy, 0.9, SHARE_MEASURED)
    assert shared(light, 0.8, SHARE_MEASURED)
    # What was measured stands before what is foretold.
    named = replace(heavy[0], application="a"), replace(heavy[1], application="a")
    slow = PairSpeeds(applications=("a", "a"), gpus=1, gpu_model="V100", speeds=(0.8, 0.8))
    assert shared(named, 0.9, SHARE_FREE)
    assert not shared(named, 0.9, SHARE_FREE, pair_speeds=(slow,))


def test_a_virtual_cluster_may_never_share() -> None:
    snapshot = world(job(1), job(2))
    never = replace(snapshot.virtual_clusters[0], sharing=SHARE_NEVER)
    assert started(decide(replace(snapshot, virtual_clusters=(never,)))) == [(1,)]


def test_in_the_simulator_a_light_pair_ends_sooner_than_one_after_the_other() -> None:
    """By stages they go at three quarters of their speed together."""
    stages = ((0.5, 0.1, 0.0), (0.1, 0.5, 0.0))
    jobs = [
        arrival(number, 0.0, 1_000.0, profile=replace(LIGHT, stages=stages[number - 1])) for number in (1, 2)
    ]
    alone = ends(simulate(cluster(1, policy="lucid", parameters={"capacity": -1}), jobs))
    together = ends(simulate(cluster(1, policy="lucid"), jobs))
    assert alone == {1: 1_000.0, 2: 2_000.0}
    assert max(together.values()) == pytest.approx(1_000.0 / 0.763, rel=1e-3)


@pytest.mark.skipif(not PROFILES.exists(), reason="../shared/data/lucid is not here")
def test_scores_agree_with_most_of_the_published_labels() -> None:
    with PROFILES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = [
        (
            sharing_score(
                Profile(
                    utilisation=float(row["gpu_util"]) / 100, memory_utilisation=float(row["gmem_util"]) / 100
                )
            ),
            int(row["label"]),
        )
        for row in rows
    ]
    assert len(pairs) == 66
    assert sum(score == label for score, label in pairs) == 53
    assert sum(score < label for score, label in pairs if score is not None) == 2
    assert {score for score, _ in pairs} == {TINY, MEDIUM, JUMBO}
