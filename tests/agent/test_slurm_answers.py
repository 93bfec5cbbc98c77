"""What Slurm writes and what is understood by it, and its configuration, without any Slurm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.batch.slurm import read_jobs, read_node, sbatch_arguments
from nodeagent.batch.system import BatchError, BatchJob
from nodeagent.configuration import ConfigurationError, Slurm, read_configurations

GIVEN = Slurm(partition="gpu", nodes={"n1": "token"}, gpu_memory_bytes=2**34)
NODE = (
    "NodeName=n1 Arch=x86_64 CPUAlloc=2 CPUEfctv=8 CPUTot=9 CPULoad=0.20 ActiveFeatures=(null)"
    " Gres=gpu:V100:4(S:0-1) GresDrain=N/A GresUsed=gpu:V100:2(IDX:0,3) NodeAddr=10.0.0.7 NodeHostName=vm"
    " OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=16000 AllocMem=0 State={state} ThreadsPerCore=1"
    " Partitions=gpu  AllocTRES=cpu=2{reason}"
)


@pytest.mark.parametrize(
    ("state", "reason", "problem"),
    [
        ("IDLE", "", ""),
        ("MIXED", "", ""),
        ("ALLOCATED+PLANNED", "", ""),
        ("IDLE+CLOUD+POWERED_DOWN", "", "Slurm: POWERED_DOWN"),
        ("DOWN*", " Reason=Not responding [slurm@2026-11-22T00:14:08]", "Slurm: DOWN, Not responding"),
        (
            "MIXED+DRAIN",
            " Reason=fan=0 rpm | bad [root@2026-11-22T00:18:49] ",
            "Slurm: DRAIN, fan=0 rpm | bad",
        ),
        ("UNKNOWN+DRAIN+INVALID_REG", "", "Slurm: UNKNOWN DRAIN INVALID_REG"),
    ],
)
def test_a_node_is_read(state: str, reason: str, problem: str) -> None:
    name, node = read_node(NODE.format(state=state, reason=reason), GIVEN)
    assert (name, node.problem) == ("n1", problem)
    assert (node.gpu_model, node.gpus, node.gpus_in_use) == ("V100", 4, 2)
    assert (node.cpus, node.memory_bytes, node.address) == (8.0, 16000 * 2**20, "10.0.0.7")


def test_gpus_without_a_model_take_the_configured_name() -> None:
    line = NODE.format(state="IDLE", reason="").replace("gpu:V100:", "gpu:")
    assert read_node(line, GIVEN)[1].gpu_model == ""
    node = read_node(line, replace(GIVEN, gpu_model="H100"))[1]
    assert (node.gpu_model, node.gpus) == ("H100", 4)


def test_an_answer_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(BatchError, match="is not understood"):
        read_node("NodeName=n1 RealMemory=many", GIVEN)


def test_of_jobs_called_alike_the_one_that_is_alive_counts() -> None:
    lines = [
        "7|COMPLETED|a|None",
        "6|RUNNING|a|None",
        "5|CANCELLED|a|None",
        "8|PENDING|b|Resources",
        "",
        "9|NODE_FAIL|c",
    ]
    jobs = read_jobs(lines)
    assert (jobs["a"].number, jobs["a"].state) == ("6", "running")
    assert (jobs["b"].state, jobs["b"].words) == ("waiting", "PENDING (Resources)")
    assert jobs["c"].state == "lost"


def test_what_is_submitted() -> None:
    job = BatchJob(
        name="allotment-1", node="n1", command="true", log="/shared/50%/job.log", gpu_model="V100",
        gpus=2, cpus=1.5, memory_bytes=2**30 + 1,
    )  # fmt: skip
    site = replace(GIVEN, gres_type="v100", account="ml", flags=("--qos=allotment",))
    arguments = sbatch_arguments(site, job)
    expected = {
        "--nodelist=n1",
        "--gres=gpu:v100:2",
        "--cpus-per-task=2",
        "--mem=1025M",
        "--account=ml",
        "--no-requeue",
    }
    assert expected <= set(arguments)
    assert "--output=/shared/50%%/job.log" in arguments
    assert arguments[-1] == "--qos=allotment"
    bare = sbatch_arguments(GIVEN, replace(job, gpus=0, cpus=0.0, memory_bytes=0))
    assert not [word for word in bare if word.startswith(("--gres", "--mem", "--account"))]


def write(folder: Path, slurm: Any, **changes: Any) -> Path:
    value = {
        "server_url": "http://127.0.0.1:8000",
        "work_folder": "work",
        "checkpoint_folder": "checkpoints",
        "inventory": {"kind": "nvml"},
        "slurm": slurm,
    }
    path = folder / "slurm.json"
    path.write_text(
        json.dumps({name: item for name, item in {**value, **changes}.items() if item is not ...})
    )
    return path


SLURM = {"partition": "gpu", "nodes": {"n1": "one", "n2": "two"}, "gpu_memory_bytes": 1}


def test_one_file_speaks_for_many_nodes(tmp_path: Path) -> None:
    first, second = read_configurations(write(tmp_path, SLURM))
    assert (first.node, first.token, first.work_folder) == ("n1", "one", str(tmp_path / "work/n1"))
    assert (second.node, second.token, second.work_folder) == ("n2", "two", str(tmp_path / "work/n2"))
    assert first.checkpoint_folder == second.checkpoint_folder


@pytest.mark.parametrize(
    ("slurm", "changes", "problem"),
    [
        (SLURM | {"nodes": {}}, {}, "slurm.nodes: must name at least one node"),
        (SLURM | {"nodes": {"../n1": "one"}}, {}, "slurm.nodes: must be names of nodes"),
        (SLURM | {"nodes": {"n1": ""}}, {}, "token: must be text without spaces"),
        (SLURM | {"gpu_memory_bytes": 0}, {}, "slurm: partition and gpu_memory_bytes"),
        (SLURM | {"every_seconds": 0}, {}, "slurm.every_seconds: must be from 0.1 to 60"),
        (SLURM | {"queue": "x"}, {}, "unknown field 'queue'"),
        (SLURM, {"node": "n1"}, "node, token: leave them out"),
        (SLURM, {"metrics_address": "127.0.0.1:9400"}, "metrics_address: is for one node"),
        (SLURM, {"work_folder": ...}, "work_folder: is missing"),
        ("gpu", {}, "slurm.nodes: must name"),
    ],
)
def test_a_bad_field_is_named(slurm: Any, changes: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_configurations(write(tmp_path, slurm, **changes))
