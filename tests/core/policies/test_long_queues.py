"""A policy ranks its queue once: in the rounds after it, only jobs that changed are ranked."""

import pytest

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.counting import calls_in

#: Nodes of eight GPUs, each with a gang that needs all of it.
NODES = 2


@pytest.mark.parametrize("policy", ["las", "priority", "qssf", "sjf", "srtf", "tiresias"])
def test_a_longer_queue_costs_a_later_round_next_to_nothing(policy: str) -> None:
    # To rank a job takes between six and thirty calls; whatever else a round looks at once more takes a few.
    assert calls_in_a_later_round(policy, 1_000) - calls_in_a_later_round(policy, 200) < 4 * 800


def calls_in_a_later_round(policy: str, waiting: int) -> int:
    engine = RoundEngine(full_cluster(policy, waiting))
    engine.outcomes()
    return calls_in(engine.outcomes)


def full_cluster(policy: str, waiting: int) -> Snapshot:
    holders = [make_job(number, 8, priority=1) for number in range(1, NODES + 1)]
    running = [make_running(job, range(100 * job.id, 100 * job.id + 8), since=NOW - 10) for job in holders]
    queue = [make_job(10 + place, 8, submitted_at=NOW) for place in range(waiting)]
    clusters = [make_virtual_cluster(guaranteed={"V100": 8 * NODES}, policy=policy)]
    return make_snapshot(
        nodes=make_cluster(NODES), jobs=[*holders, *queue], running=running, virtual_clusters=clusters
    )
