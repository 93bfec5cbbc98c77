"""Fair share: weights, a history that fades, and preemption after a minimum time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Member, Running, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop

DAY = 86_400.0


def fair(
    *jobs: Job,
    running: tuple[Running, ...] = (),
    weights: tuple[float, float] = (1.0, 1.0),
    **parameters: object,
) -> Snapshot:
    """Tenants A and B share one node of eight GPUs."""
    vc = make_virtual_cluster(policy="fair", policy_parameters=parameters)
    members = (Member(tenant="A", weight=weights[0]), Member(tenant="B", weight=weights[1]))
    return make_snapshot(
        jobs=jobs, running=running, virtual_clusters=[replace(vc, members=members)], tenants=()
    )


def queue(tenant: str, first: int, count: int = 8, gpus: int = 1) -> list[Job]:
    return [make_job(number, gpus, tenant=tenant) for number in range(first, first + count)]


def started(plan: Plan, snapshot: Snapshot) -> Counter[str]:
    tenants = {job.id: job.tenant for job in snapshot.jobs}
    return Counter(
        tenants[job] for action in plan.actions if action.kind is ActionKind.START for job in action.jobs
    )


@pytest.mark.parametrize(
    ("weights", "gpus"), [((1.0, 1.0), (4, 4)), ((3.0, 1.0), (6, 2)), ((1.0, 0.0), (8, 0))]
)
def test_gpus_are_shared_by_weight(weights: tuple[float, float], gpus: tuple[int, int]) -> None:
    snapshot = fair(*queue("A", 1), *queue("B", 11), weights=weights)
    counts = started(decide(snapshot), snapshot)
    assert (counts["A"], counts["B"]) == gpus


def test_what_a_tenant_does_not_want_goes_to_the_others() -> None:
    snapshot = fair(*queue("A", 1, count=1), *queue("B", 11))
    assert started(decide(snapshot), snapshot) == {"A": 1, "B": 7}


def test_who_used_more_lately_comes_later() -> None:
    """A has held the whole node for one half-life: four GPUs on average, which B catches up first."""
    memory = {"policy": "fair", "at": NOW - DAY, "average": {}, "gpus": {"A": 8.0}}
    snapshot = replace(fair(*queue("A", 1), *queue("B", 11)), memory={"research": memory})
    plan = decide(snapshot)
    assert started(plan, snapshot) == {"A": 2, "B": 6}
    assert plan.memory["research"]["average"] == {"A": 4.0}
    assert plan.memory["research"]["gpus"] == {"A": 2.0, "B": 6.0}


def test_usage_fades() -> None:
    """Ten half-lives later nothing is left of it."""
    memory = {"policy": "fair", "at": NOW - 10 * DAY, "average": {"A": 8.0}, "gpus": {}}
    snapshot = replace(fair(*queue("A", 1), *queue("B", 11)), memory={"research": memory})
    assert started(decide(snapshot), snapshot) == {"A": 4, "B": 4}


def test_without_a_half_life_only_the_present_counts() -> None:
    memory = {"policy": "fair", "at": NOW - DAY, "average": {"A": 8.0}, "gpus": {"A": 8.0}}
    snapshot = replace(
        fair(*queue("A", 1), *queue("B", 11), half_life_seconds=0.0), memory={"research": memory}
    )
    plan = decide(snapshot)
    assert started(plan, snapshot) == {"A": 4, "B": 4}
    assert plan.memory == {}


def test_a_memory_that_was_lost_begins_anew_with_what_runs() -> None:
    holder = make_job(1, 4, tenant="A")
    snapshot = fair(
        holder, *queue("B", 11, count=1), running=(make_running(holder, range(100, 104), since=NOW - DAY),)
    )
    plan = decide(snapshot)
    assert plan.memory["research"]["average"] == {"A": 2.0}


def test_the_reason_names_the_share() -> None:
    snapshot = fair(*queue("A", 1), *queue("B", 11))
    reason = decide(snapshot).reasons[8][-1]
    assert reason.code == "fair_share"
    assert reason.message == (
        "Tenant A held 0.0 GPUs on average lately and holds 4 now;"
        " tenants with less for their weight come first."
    )


class TestPreemption:
    def crowded(self, since: float, **parameters: object) -> Snapshot:
        """A holds the whole node with two gangs of four, and B comes."""
        jobs = queue("A", 1, count=2, gpus=4)
        running = tuple(
            make_running(job, range(100 + 4 * place, 104 + 4 * place), since=since)
            for place, job in enumerate(jobs)
        )
        return fair(
            *jobs, *queue("B", 11, count=2, gpus=4), running=running, half_life_seconds=0.0, **parameters
        )

    def test_there_is_none_unless_asked_for(self) -> None:
        assert decide(self.crowded(NOW - 700)).actions == ()

    def test_a_tenant_above_its_share_gives_way(self) -> None:
        plan = decide(self.crowded(NOW - 700, preemptive=True))
        assert {job: action.kind.value for action in plan.actions for job in action.jobs} == {
            2: "stop",
            11: "start",
        }

    def test_not_before_a_minimum_time(self) -> None:
        plan = decide(self.crowded(NOW - 100, preemptive=True))
        assert plan.actions == ()
        assert plan.wake_at == NOW + 500

    def test_then_it_comes_to_rest_and_shares_by_weight(self) -> None:
        """From the second round on, A and B hold four GPUs each; A's second gang has to wait for the end."""
        vc = self.crowded(NOW, preemptive=True)
        loop = IdealLoop(
            replace(vc, running=()), {1: 2_000.0, 2: 2_000.0, 11: 2_000.0, 12: 2_000.0}, {11: 10.0, 12: 10.0}
        )
        loop.run()
        assert loop.stays[0] == (2, 0.0, 600.0)
        assert loop.ended[1] == 2_000.0
        assert loop.ended[11] == 2_600.0
