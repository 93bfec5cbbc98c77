"""IADeep: in order of arrival, and beside whom the predicted interference is least."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.gpu_parts import SHARE_NEVER
from scheduler.core.model.interference import PairSpeeds
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.policies.iadeep import IADeep, Interference
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate

#: Sums of (together - alone) / alone that the authors measured of pairs (their `online_interference.csv`).
PUBLISHED = {
    ("resnet50", "neumf"): 0.0798, ("vgg16", "neumf"): 0.2839, ("squeezenet", "neumf"): 0.2958,
    ("bert", "lstm"): 0.2842, ("yolov5", "lstm"): 0.4114, ("adgcl", "lstm"): 1.1639,
}  # fmt: skip
BUSY = Profile(utilisation=0.9, memory_utilisation=0.3)
HALF = Profile(utilisation=0.5, memory_utilisation=0.1)
LIGHT = Profile(utilisation=0.1, memory_utilisation=0.1)


def job(number: int, application: str = "", profile: Profile | None = BUSY, **fields: Any) -> Job:
    return make_job(number, application=application, profile=profile, **fields)


def world(*jobs: Job, gpus: int = 1, running: Any = (), **parameters: Any) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": gpus}, policy="iadeep", policy_parameters=parameters)
    pairs = tuple(
        PairSpeeds(applications=names, gpus=1, gpu_model="V100", speeds=(1 / (1 + sum_ / 2),) * 2)
        for names, sum_ in PUBLISHED.items()
    )
    return make_snapshot(
        nodes=[make_node(1, gpus=gpus)], jobs=jobs, running=running, virtual_clusters=[vc], pair_speeds=pairs
    )


def started(plan: Plan) -> list[tuple[int, ...]]:
    assert not plan.degraded
    assert all(action.kind is ActionKind.START for action in plan.actions)
    return sorted(action.jobs for action in plan.actions)


def test_a_job_starts_where_the_published_interference_is_least() -> None:
    there = [job(1, "vgg16"), job(2, "resnet50"), job(3, "squeezenet")]
    assert started(decide(world(*there, job(4, "neumf"), gpus=3))) == [(1,), (2, 4), (3,)]
    there = [job(1, "yolov5"), job(2, "adgcl"), job(3, "bert")]
    assert started(decide(world(*there, job(4, "lstm"), gpus=3))) == [(1,), (2,), (3, 4)]
    # The second one finds that group full of its like, or not, as it is predicted.
    assert started(decide(world(*there, job(4, "lstm"), job(5, "lstm"), gpus=3, largest_group=2))) == [
        (1, 5), (2,), (3, 4)
    ]  # fmt: skip


def test_idle_gpus_come_first_and_who_came_first_goes_first() -> None:
    jobs = [job(1, profile=LIGHT), job(2, profile=LIGHT)]
    assert started(decide(world(*jobs, gpus=2))) == [(1,), (2,)]
    plan = decide(world(job(3, profile=None), job(2, profile=None), job(4, profile=None, priority=1)))
    assert started(plan) == [(4,)]
    assert plan.queues["research"] == (2, 3)
    assert plan.reasons[3][-1].code == "earlier_first"


def test_too_much_interference_is_worse_than_to_wait() -> None:
    jobs = [job(1, "adgcl"), job(2, "lstm")]
    assert started(decide(world(*jobs))) == [(1,)]
    assert started(decide(world(*jobs, most_interference=1.2))) == [(1, 2)]
    assert started(decide(world(*jobs, most_interference=1.2, largest_group=1))) == [(1,)]


def test_pairs_that_nobody_measured_are_predicted_by_profiles() -> None:
    # Two that are busy for 0.9 of the time each are 0.8 slower both, two halves none at all.
    assert started(decide(world(job(1), job(2)))) == [(1,)]
    assert started(decide(world(job(1, profile=HALF), job(2, profile=HALF)))) == [(1, 2)]
    view = RoundEngine(world(job(1), job(2), job(3, profile=HALF), job(4, profile=None))).views()["research"]
    known, jobs = Interference(view), view.jobs
    assert known.of([jobs[1]]) == 0.0
    assert known.of([jobs[1], jobs[2]]) == pytest.approx(2 * 0.8)
    assert known.added([jobs[1]], jobs[3]) == pytest.approx(2 * 0.4)
    # The speeds of one beside each of the others are multiplied.
    assert known.of([jobs[1], jobs[2], jobs[3]]) == pytest.approx(2 * (1.8 * 1.4 - 1) + (1.4 * 1.4 - 1))
    assert known.of([jobs[1], jobs[4]]) is None
    stages = [replace(BUSY, stages=each) for each in ((1.0, 0.1, 0.0), (0.1, 1.0, 0.0))]
    assert started(decide(world(job(1, profile=stages[0]), job(2, profile=stages[1])))) == [(1, 2)]


def test_three_share_where_they_do_not_feel_each_other() -> None:
    jobs = [job(number, profile=LIGHT) for number in range(1, 6)]
    assert started(decide(world(*jobs))) == [(1, 2, 3)]


@pytest.mark.parametrize(
    "odd",
    [
        job(2, profile=None),
        job(2, profile=LIGHT, replicas=2),
        job(2, profile=LIGHT, elastic=(1, 1)),
        job(2, profile=LIGHT, priority=-1),
    ],
    ids=["not measured", "another size", "elastic", "another priority"],
)
def test_who_shares_with_nobody(odd: Job) -> None:
    assert started(decide(world(job(1, profile=LIGHT), odd))) == [(1,)]


def test_jobs_join_those_that_run_where_they_add_least_and_a_virtual_cluster_may_never_share() -> None:
    there = [job(1, profile=BUSY), job(2, profile=LIGHT)]
    running = [make_running(each, [99 + each.id]) for each in there]
    new = [job(number, profile=HALF) for number in (3, 4)]
    plan = decide(world(*there, *new, gpus=2, running=running))
    assert [(action.kind, action.jobs, action.allocation) for action in plan.actions] == [
        (ActionKind.JOIN, (3, 4), 2)
    ]
    snapshot = world(*there, *new, gpus=2, running=running)
    never = replace(snapshot.virtual_clusters[0], sharing=SHARE_NEVER)
    assert not decide(replace(snapshot, virtual_clusters=(never,))).actions
    there, new = job(1, profile=LIGHT), job(2, profile=LIGHT)
    snapshot = world(there, new)
    never = replace(snapshot.virtual_clusters[0], sharing=SHARE_NEVER)
    assert started(decide(replace(snapshot, virtual_clusters=(never,)))) == [(1,)]


def test_parameters() -> None:
    for wrong in ({"largest_group": 0}, {"most_interference": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            IADeep(**wrong)  # type: ignore[arg-type]


def test_in_the_simulator_complementary_jobs_end_sooner_together() -> None:
    stages = ((0.5, 0.1, 0.0), (0.1, 0.5, 0.0))
    jobs = [
        arrival(number, 0.0, 1_000.0, profile=replace(BUSY, stages=stages[number - 1])) for number in (1, 2)
    ]
    alone = ends(simulate(cluster(1, policy="iadeep", parameters={"largest_group": 1}), jobs))
    together = ends(simulate(cluster(1, policy="iadeep"), jobs))
    assert alone == {1: 1_000.0, 2: 2_000.0}
    assert max(together.values()) == pytest.approx(1_000.0 / 0.763, rel=1e-3)
