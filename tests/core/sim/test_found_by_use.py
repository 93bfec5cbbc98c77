"""Workloads that the simulator got wrong, or did not end, when people and a fuzzer used it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.core.model.snapshot import Task
from tests.builders import make_node, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, ends, simulate


def test_a_grown_gang_that_has_given_way_to_a_grant_is_not_taken_back_as_well() -> None:
    """Under `fair` a grant displaces a gang that had grown: that was a KeyError, and ended the round."""
    #: Virtual cluster, instant, replicas, GPUs of each, seconds, sizes.
    jobs: Sequence[tuple[str, float, int, int, float, tuple[int, int] | None]] = [
        ("one", 300.0, 4, 2, 7200.0, (2, 12)),
        ("one", 522.0, 4, 1, 1488.25, None),
        ("one", 554.0, 3, 1, 3738.66, None),
        ("two", 792.0, 8, 4, 3859.0, (20, 40)),
        ("two", 932.0, 8, 1, 2603.55, None),
        ("one", 1437.822, 3, 4, 2284.44, None),
        ("two", 1981.273, 1, 4, 4190.77, None),
        ("one", 2647.661, 4, 1, 3600.0, None),
        ("one", 2648.0, 1, 2, 90000.0, None),
    ]
    preemptive: dict[str, Any] = {"policy": "fair", "policy_parameters": {"preemptive": True}}
    facts = make_snapshot(
        now=0.0,
        round_seconds=0.0,
        nodes=[
            *[make_node(number) for number in range(1, 5)],
            *[make_node(number, gpu_model="P100") for number in range(5, 9)],
        ],
        virtual_clusters=[
            make_virtual_cluster("one", {"V100": 2, "P100": 18}, **preemptive),
            make_virtual_cluster("two", {"V100": 24, "P100": 14}, **preemptive),
        ],
    )
    arrivals = [
        arrival(
            number,
            at,
            seconds,
            tasks=(Task(replicas=replicas, gpus=gpus),),
            virtual_cluster=vc,
            elastic=sizes,
        )
        for number, (vc, at, replicas, gpus, seconds, sizes) in enumerate(jobs, start=1)
    ]
    engine = simulate(facts, arrivals)
    assert all(at > 0 for at in ends(engine).values())
