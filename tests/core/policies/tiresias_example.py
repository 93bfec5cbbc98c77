"""The worked example of Tiresias (NSDI'19): three jobs on two GPUs, whose service is 4, 8 and 12."""

from __future__ import annotations

from typing import Any

from tests.builders import make_cluster, make_job, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop

#: Job -> (GPUs, units of time).
JOBS = {1: (2, 2.0), 2: (1, 8.0), 3: (2, 6.0)}
SERVICE = tuple(gpus * units for gpus, units in JOBS.values())


def play_example(policy: str, **parameters: Any) -> IdealLoop:
    """Return the loop after all three have ended; a unit of time is a second."""
    vc = make_virtual_cluster(guaranteed={"V100": 2}, policy=policy, policy_parameters=parameters)
    loop = IdealLoop(
        make_snapshot(
            now=0.0,
            nodes=make_cluster(1, gpus=2),
            jobs=[
                make_job(number, gpus, submitted_at=0.0, estimate_seconds=units)
                for number, (gpus, units) in JOBS.items()
            ],
            virtual_clusters=[vc],
        ),
        {number: units for number, (_, units) in JOBS.items()},
    )
    loop.run()
    return loop


def average_jct(loop: IdealLoop) -> float:
    return round(sum(loop.ended.values()) / len(loop.ended), 1)
