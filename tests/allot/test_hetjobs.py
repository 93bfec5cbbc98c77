"""Heterogeneous jobs of Slurm: each component is a task of one gang."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from allot.sbatch import Translation, translate
from scheduler.jobspec.parsing import parse

TWO = """\
#!/bin/bash
#SBATCH -J rl -t 60
#SBATCH -N 1 --gpus-per-node=4 -c 16 --mem=64G
#SBATCH hetjob
#SBATCH -t 60 -p cpu
#SBATCH -n 3 -c 8
"""


def resources_of(made: Translation) -> list[tuple[str, int, dict[str, Any]]]:
    return [(task["name"], task["replicas"], task["resources"]) for task in made.spec["tasks"]]


def ran(made: Translation) -> dict[str, list[str]]:
    """What each rank of the job prints."""
    printed = {}
    world = sum(task["replicas"] for task in made.spec["tasks"])
    rank = 0
    for task in made.spec["tasks"]:
        for _ in range(task["replicas"]):
            environment = {
                "ALLOT_JOB": "7", "ALLOT_NODE": f"n{rank}", "MASTER_ADDR": "n0", "RANK": str(rank),
                "WORLD_SIZE": str(world), "PATH": "/usr/bin:/bin",
            }  # fmt: skip
            result = subprocess.run(
                task["command"], env=environment, capture_output=True, text=True, check=True
            )
            printed[f"{task['name']} {rank}"] = result.stdout.splitlines()
            rank += 1
    return printed


def test_each_component_is_a_task_with_its_own_resources() -> None:
    made = translate(f"{TWO}srun ./learn : ./act\n", "job")
    assert not made.blocked
    assert resources_of(made) == [
        ("component-0", 1, {"gpu": 4, "cpu": 16, "memory": "64GiB"}),
        ("component-1", 3, {"gpu": 0, "cpu": 8}),
    ]
    parse(made.spec)
    notes = {(note.line, note.option): (note.how, note.what) for note in made.notes}
    assert notes[5, "--time=60"] == ("translated", "as in the first component")
    left_out = ("not possible", "left out: the first component states it for all of the job")
    assert notes[5, "--partition=cpu"] == left_out
    assert (made.spec["name"], made.spec["time_limit"]) == ("rl", 3600)


def test_parts_of_srun_run_in_their_components() -> None:
    body = (
        "srun -c 16 echo learn : -n 3 echo act\n"
        'srun --het-group=0-1 sh -c "echo \\$SLURM_PROCID of \\$SLURM_NTASKS"\n'
        "srun --het-group=1 echo later\n"
        "srun echo first\n"
    )
    assert ran(translate(TWO + body, "job")) == {
        "component-0 0": ["learn", "0 of 4", "first"],
        "component-1 1": ["act", "1 of 4", "later"],
        "component-1 2": ["act", "2 of 4", "later"],
        "component-1 3": ["act", "3 of 4", "later"],
    }


def test_a_part_without_a_command_has_that_of_the_next() -> None:
    made = translate(f"{TWO}set -eu\nsrun --mpi=pmix : -n 3 echo both\necho on\n", "job")
    assert set(map(tuple, ran(made).values())) == {("both", "on")}


def test_scripts_read_of_each_component_what_slurm_sets() -> None:
    body = (
        "srun --het-group=0,1 true\n"
        "echo $SLURM_JOB_ID $SLURM_HET_SIZE $SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID\n"
        "echo $SLURM_JOB_ID_HET_GROUP_1 $SLURM_NTASKS_HET_GROUP_0 $SLURM_NTASKS_HET_GROUP_1\n"
        "echo $SLURM_CPUS_PER_TASK_HET_GROUP_1 $SLURM_GPUS_ON_NODE_HET_GROUP_0\n"
        "echo $SLURM_JOB_NODELIST_HET_GROUP_0\n"
    )
    printed = ran(translate(TWO + body, "job"))
    assert printed["component-0 0"] == ["7 2 0/1 0", "7 1 3", "8 4", "n0"]
    assert printed["component-1 3"] == ["7 2 2/3 0", "7 1 3", "8 4", "n0"]


def test_components_come_from_the_command_line_too() -> None:
    more = [
        ("gpus", "2"),
        ("hetjob", None),
        ("ntasks", "2"),
        ("cpus-per-task", "4"),
        ("hetjob", None),
        ("gpus", "1"),
    ]
    made = translate("#!/bin/bash\nsrun a : b : c\n", "job", more=more)
    assert resources_of(made) == [
        ("component-0", 1, {"gpu": 2, "cpu": 1}),
        ("component-1", 2, {"gpu": 0, "cpu": 4}),
        ("component-2", 1, {"gpu": 1, "cpu": 1}),
    ]
    over = translate(
        f"{TWO}srun a : b\n", "job", more=[("gpus-per-node", "2"), ("hetjob", None), ("ntasks", "5")]
    )
    assert [(replicas, each["gpu"], each["cpu"]) for _, replicas, each in resources_of(over)] == [
        (1, 2, 16),
        (5, 0, 8),
    ]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (f"{TWO}./run\n", "it has no srun"),
        (f"{TWO}#SBATCH -C A100\n#SBATCH hetjob\n#SBATCH -G V100:1\nsrun a : b\n", "one model"),
        (TWO.replace("-J rl", "-a 0-3") + "srun a : b\n", "array"),
        (TWO.replace("-n 3", "-n 3 -G 4") + "srun a : b\n", "4 GPUs for 3 tasks"),
    ],
)  # fmt: skip
def test_what_can_not_be_one_gang_is_blocked(script: str, problem: str) -> None:
    made = translate(script, "job")
    assert made.blocked
    assert any(problem in note.what for note in made.notes if note.how == "not possible")


def test_nodes_of_later_components_are_named_by_line_as_not_known() -> None:
    made = translate(f"{TWO}srun --het-group=0,1 ./run $SLURM_JOB_NODELIST_HET_GROUP_1\n", "job")
    (note,) = [note for note in made.notes if note.line == 7]
    assert (note.option, note.how) == ("$SLURM_JOB_NODELIST_HET_GROUP_1", "not possible")
