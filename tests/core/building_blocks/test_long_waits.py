"""Nobody waits for ever under policies that give GPUs to whoever makes most of them."""

from __future__ import annotations

import pytest

from scheduler.core.building_blocks.elastic.long_waits import in_turn, long_waits
from scheduler.core.building_blocks.elastic.pools import pools_of
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop

CROWD = [make_job(number, 1, submitted_at=NOW - 7_200) for number in range(2, 14)]


def longest_waits(policy: str, longest: float, minutes: int) -> dict[int, float]:
    """Return how long each waited at most, of a gang of eight and twelve jobs of one GPU that never end."""
    gang = make_job(1, 4, replicas=2, submitted_at=NOW - 7_200)
    vc = make_virtual_cluster(
        guaranteed={"V100": 8}, policy=policy, policy_parameters={"longest_wait_seconds": longest}
    )
    snapshot = make_snapshot(
        nodes=make_cluster(2, gpus=4), jobs=[gang, *CROWD], virtual_clusters=[vc], round_seconds=60.0
    )
    loop, waits = VirtualLoop(snapshot, {job.id: 1e9 for job in snapshot.jobs}), dict[int, float]()
    now = dict.fromkeys([job.id for job in snapshot.jobs], 0.0)
    for _ in range(minutes):
        loop.step()
        runs = {job for held in loop.snapshot.running if held.phase == "held" for job in held.jobs}
        now = {job: 0.0 if job in runs else since + 60.0 for job, since in now.items()}
        waits = {job: max(waits.get(job, 0.0), since) for job, since in now.items()}
    return waits


@pytest.mark.parametrize("policy", ["pollux", "sia"])
def test_a_large_rigid_gang_waits_for_ever_without_a_limit_and_not_with_one(
    policy: str,
) -> None:
    assert longest_waits(policy, 0.0, 60)[1] == 3_600.0
    # A cycle to see it, one until who stops has left; it is first in line, and its turn lasts ten minutes.
    assert longest_waits(policy, 600.0, 13)[1] < 13 * 60.0
    assert longest_waits(policy, 600.0, 60)[1] <= 3 * (600.0 + 180.0)


@pytest.mark.parametrize("policy", ["pollux", "sia"])
def test_nor_does_anybody_else_wait_for_longer_than_the_turns_before_his(policy: str) -> None:
    waits = longest_waits(policy, 300.0, 120)
    # The gang has all GPUs for a turn; the twelve have half of them, so four at a time.
    assert max(waits.values()) <= 4 * (300.0 + 180.0)


def test_a_gang_that_fits_nowhere_holds_nobody_up() -> None:
    never = make_job(20, 8, submitted_at=NOW - 7_200)
    queue = [never, make_job(1, 4, replicas=2), *CROWD]
    facts = make_snapshot(nodes=make_cluster(2, gpus=4), jobs=queue)
    view = next(iter(RoundEngine(facts).views().values()))
    known = {"waits": {str(job.id): NOW - 4_000.0 for job in queue}}
    waits = long_waits(view, known, 3_600.0)
    assert [job.id for job in waits.due][:2] == [1, 2]
    (pool,) = pools_of(view, lambda job: (job.id,))
    gangs, begins = in_turn(waits, pool)
    assert [job.id for job in begins] == [1]
    assert [gang.base for gang in gangs if gang.pinned] == [{0: 1, 1: 1}]
    # Not before it ends does the next turn begin, and never two that have more than half.
    assert long_waits(view, {}, 3_600.0).due == ()
    assert long_waits(view, known, 0.0).due == ()
