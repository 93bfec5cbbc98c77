"""What `allot show` says of CPUs and memory that a job leaves to the platform."""

from __future__ import annotations

from allot.describe import auxiliary_lines
from allot.schema import AuxiliaryShare, ReplicaShare
from allot.spec_flags import values_of


def replica(rank: int, cpus: float, memory_gib: float) -> ReplicaShare:
    return {
        "rank": rank,
        "cpus": cpus,
        "memory_bytes": int(memory_gib * 2**30),
        "proportional_cpus": 3.0,
        "proportional_memory_bytes": 60 * 2**30,
    }


def test_what_is_beyond_its_part_is_said_and_ranks_alike_are_one_line() -> None:
    share: AuxiliaryShare = {
        "replicas": [replica(0, 9, 60), replica(1, 9, 60), replica(2, 2, 60)],
        "message": "",
    }
    assert auxiliary_lines(share) == [
        "ranks 0, 1: 9 CPUs (3 by its GPUs, 6 more), 60 GiB",
        "rank 2: 2 CPUs (3 by its GPUs, 1 less), 60 GiB",
    ]
    assert auxiliary_lines({"replicas": [replica(0, 0, 0)], "message": "Crowded."}) == [
        "rank 0: as much as there is",
        "Crowded.",
    ]


def test_flags_take_numbers_and_auto() -> None:
    given = {"tasks_resources_cpu": "1.5", "tasks_resources_memory": "auto"}
    assert values_of(given) == {"tasks.resources.cpu": 1.5, "tasks.resources.memory": "auto"}
    assert values_of({"tasks_resources_cpu": "auto"}) == {"tasks.resources.cpu": "auto"}
