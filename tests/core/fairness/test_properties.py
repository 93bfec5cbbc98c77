"""Whole rounds watched: under a policy that divides by weight nobody would be better off alone."""

from dataclasses import replace

import pytest

from scheduler.core.fairness.division import account_of
from scheduler.core.fairness.properties import Window, counted_seconds
from scheduler.core.model.snapshot import Member, VirtualCluster
from tests.builders import make_job, make_node, make_snapshot
from tests.core.policies.ideal_loop import IdealLoop

WEIGHTS = {"early": 1.0, "likewise": 1.0, "late": 2.0}
ARRIVES, JUDGED_FROM, UNTIL = 300.0, 480.0, 1_800.0


class Watched(IdealLoop):
    """Adds up what tenants do here and would do alone, between two instants."""

    def __init__(self, *how) -> None:
        super().__init__(*how)
        self.windows = dict.fromkeys(WEIGHTS, Window())

    def _pass_time(self, wake_at: float | None) -> None:
        decided = self.snapshot
        super()._pass_time(wake_at)
        since = max(decided.now - self.begin, JUDGED_FROM)
        seconds = min(self.snapshot.now - self.begin, UNTIL) - since
        if seconds > 0:
            standings = account_of(decided, {}).divisions["shared"].standings
            for tenant, sums in self.windows.items():
                standing = standings[tenant]
                self.windows[tenant] = replace(
                    sums,
                    seconds=sums.seconds + seconds,
                    here_gpu_seconds=sums.here_gpu_seconds + seconds * standing.speed_here,
                    alone_gpu_seconds=sums.alone_gpu_seconds + seconds * standing.speed_alone,
                )


def watched(policy: str) -> dict[str, Window]:
    """Four V100 on which two tenants are busy when one of twice their weight arrives."""
    vc = VirtualCluster(
        name="shared",
        guaranteed={"V100": 4},
        members=tuple(Member(tenant=name, weight=weight) for name, weight in WEIGHTS.items()),
        policy=policy,
    )
    jobs = [
        make_job(10 * place + number, tenant=tenant, virtual_cluster="shared", estimate_seconds=1_500.0)
        for place, tenant in enumerate(WEIGHTS, start=1)
        for number in range(4)
    ]
    arrivals = {job.id: ARRIVES for job in jobs if job.tenant == "late"}
    snapshot = make_snapshot(nodes=[make_node(1, gpus=4)], virtual_clusters=[vc], jobs=jobs)
    loop = Watched(snapshot, {job.id: 1_500.0 for job in jobs}, arrivals)
    loop.run()
    return loop.windows


def test_whoever_comes_late_has_its_part_within_minutes_where_the_policy_divides_by_weight() -> None:
    for window in watched("gandiva_fair").values():
        assert window.seconds == pytest.approx(UNTIL - JUDGED_FROM)
        assert not window.is_violated


def test_and_not_where_it_goes_by_arrival() -> None:
    windows = watched("fifo")
    assert windows["late"].is_violated
    assert windows["early"].gain > 2


def test_a_violation_needs_time_and_more_than_the_noise_of_turns() -> None:
    assert Window(seconds=60, here_gpu_seconds=94, alone_gpu_seconds=100).is_violated
    assert not Window(seconds=60, here_gpu_seconds=96, alone_gpu_seconds=100).is_violated
    assert not Window(seconds=20, here_gpu_seconds=0, alone_gpu_seconds=100).is_violated
    assert Window(seconds=60).gain is None
    assert not Window(seconds=60).is_violated


def test_a_clock_that_jumps_counts_for_little() -> None:
    assert counted_seconds(None, 100.0, 5.0) == 0
    assert counted_seconds(100.0, 107.0, 5.0) == 7
    assert counted_seconds(100.0, 40.0, 5.0) == 0
    assert counted_seconds(100.0, 1e9, 5.0) == 50
