"""Jobs of a trace that say what they use, on clusters of which the virtual clusters lend the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.command import main
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.traces.fields import BadField
from scheduler.simulation.traces.native import read_job, write_native
from scheduler.simulation.traces.registry import read_trace

#: One job that asked for all CPUs and uses a quarter, and two that wait for what it does not use.
TRACE = """\
submitted_at,gpus,cpus,use_cpus,duration_seconds,guaranteed
0,0,32,0.25,7200,true
60,0,10,1,600,false
61,0,10,0.5|1,600,false
"""
CLUSTER = """\
nodes: [{gpu_model: V100, gpus: 4, cpus: 32}]
virtual_clusters: [{name: cluster, guaranteed: {V100: 4}%s}]
"""


def run(folder: Path, lends: str) -> int:
    (folder / "jobs.csv").write_text(TRACE)
    (folder / "cluster.yaml").write_text(CLUSTER % lends)
    return main(["--trace", f"{folder}/jobs.csv", "--cluster", f"{folder}/cluster.yaml"])


def test_a_run_prints_the_violation_rate_and_how_many_jobs_ran_beyond_their_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ", overcommit: predicted, overcommit_margin: 0.05") == 0
    said = capsys.readouterr().out
    assert "Violation rate 0.00% of 118 samples of nodes that lend; 2 of 3 jobs ran beyond" in said


def test_where_nothing_is_lent_it_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "") == 0
    assert "Violation rate" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"use_cpus": "1.5"}, "use_cpus: 1.5 is not a part of what it asks for, 0 to 1"),
        ({"use_memory": "much"}, 'use_memory: "much" is not a number'),
        ({"use_cpus": "0|1", "use_memory": "0|0|1"}, "use_memory: has 3 minutes, and use_cpus 2"),
    ],
)
def test_what_is_wrong_with_what_a_job_uses_is_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(BadField) as refused:
        read_job({"submitted_at": 0, "duration_seconds": 60, "gpus": 0, "cpus": 4, **fields})
    assert message in str(refused.value)


def test_one_number_stands_for_every_minute() -> None:
    job = read_job({"submitted_at": 0, "duration_seconds": 60, "gpus": 0, "cpus": 4, "use_cpus": "0.25|0.5"})
    assert job.use == ((0.25, 1.0), (0.5, 1.0))


@pytest.mark.parametrize("name", ["copy.csv", "copy.jsonl"])
def test_what_jobs_use_is_written_and_read_back(tmp_path: Path, name: str) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE)
    workload = read_trace(tmp_path / "jobs.csv", "allot").workload
    write_native(workload, tmp_path / name)
    assert read_trace(tmp_path / name, "allot").workload.arrivals == workload.arrivals


@pytest.mark.parametrize(
    ("lends", "message"),
    [
        ("overcommit: always", "overcommit: 'always' is not never or predicted"),
        ("overcommit_margin: 1", "overcommit_margin: 1 is not a part of a node from 0 to 0.9"),
    ],
)
def test_what_is_wrong_with_a_virtual_cluster_is_named(lends: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        read_cluster_yaml("cluster.yaml", CLUSTER % f", {lends}")
