"""A round decides the same without the jobs that wait behind more of their own than could start."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.fitting.quotas import Amounts, least_held, quotas_of
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.snapshot import Job, Snapshot, Task, Tenant
from scheduler.core.round.alike import most_that_count
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import POLICIES
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster

BY_ARRIVAL = sorted(name for name, policy in POLICIES.items() if getattr(policy, "by_arrival", False))
NODES, GPUS = 2, 4


def crowd(seed: int, policy: str) -> tuple[Snapshot, Snapshot]:
    """Return a round with long queues of jobs that are alike beside others, and the same one cut."""
    rng = random.Random(seed)
    nodes = make_cluster(NODES, gpus=GPUS)
    quota = rng.choice([{}, {"*": 5}, {"V100": 30}])
    jobs: list[Job] = []
    for number in range(1, rng.randint(1, 3)):
        jobs.append(make_job(number, gpus=rng.randint(1, 3), time_limit_seconds=rng.choice([None, 3_000.0])))
    running = [
        make_running(job, range((job.id - 1) * GPUS + 1, (job.id - 1) * GPUS + 1 + job.gpus)) for job in jobs
    ]
    kinds = [
        {
            "tasks": [Task(replicas=1, gpus=rng.choice([1, 2, 4]), cpus=rng.choice([0.0, 0.5]))],
            "user": rng.choice(["ada", "bob"]),
            "tenant": rng.choice(["vision", "speech"]),
            "priority": rng.choice([0, 0, 1]),
            "guaranteed": rng.random() < 0.8,
            "time_limit_seconds": rng.choice([None, 60.0, 100_000.0]),
        }
        for _ in range(5)
    ]
    vision = Tenant(
        name="vision",
        quota=quota,
        quota_cpus=rng.choice([None, 2.0, 60.0]),
        users=rng.choice([(), (UserLimits(user="ada", gpus=3),)]),
    )
    most = [
        most_that_count(least_held(make_job(1, **kind)), NODES * GPUS, quotas_of(vision)) for kind in kinds
    ]
    cut: set[int] = set()
    seen = [0] * len(kinds)
    for number in range(10, 10 + 3 * max(most)):
        each = rng.choices(range(len(kinds)), weights=[6, 6, 1, 1, 1])[0]
        jobs.append(make_job(number, submitted_at=NOW - 5_000 + number, **kinds[each]))
        seen[each] += 1
        if seen[each] > most[each]:
            cut.add(number)
    assert cut
    # All of these are due, or none is: the two are kinds of their own.
    bound = rng.choice([0.0, 300.0])
    whole = make_snapshot(
        nodes=nodes,
        jobs=jobs,
        running=running,
        tenants=[Tenant(name="speech"), vision],
        virtual_clusters=[
            make_virtual_cluster(
                guaranteed={"V100": rng.choice([4, 8])}, policy=policy, longest_wait_seconds=bound
            )
        ],
    )
    return whole, replace(whole, jobs=tuple([job for job in jobs if job.id not in cut]))


@pytest.mark.parametrize("policy", BY_ARRIVAL)
def test_jobs_behind_more_of_their_own_than_could_start_change_no_decision(policy: str) -> None:
    """Every policy that declares `by_arrival` keeps this."""
    for seed in range(6):
        whole, cut = (decide(facts) for facts in crowd(seed, policy))
        assert cut.actions == whole.actions, seed
        assert cut.memory == whole.memory
        assert {job: whole.reasons[job] for job in cut.reasons}.keys() == cut.reasons.keys()


def test_what_may_matter_is_what_the_empty_cluster_or_the_quota_holds_and_a_hundred_more() -> None:
    """A part of a GPU counts as such."""

    def most(gpus: float, *, cpus: float = 0.0, **limits: Any) -> int:
        return most_that_count(Amounts(gpus, cpus, 0), 8, quotas_of(Tenant(name="vision", **limits)))

    assert most(2) == 4 + 101
    assert most(0.5, quota={"*": 3}) == 16 + 101
    assert most(1, quota={"*": 3, "V100": 20}) == 20 + 101
    assert most(1, cpus=2.0, quota_cpus=60.0) == 30 + 101
    assert most(1, users=(UserLimits(user="ada", gpus=50),)) == 50 + 101
