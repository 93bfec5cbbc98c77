"""Parts of a GPU from every source of jobs, under every placer, and in what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.lists import placer_with
from benchmarks.reproduction.openb.workload import arrivals
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.snapshot import Task
from scheduler.core.round.registry import PLACERS
from scheduler.core.sim.result import Result
from scheduler.simulation.command import main
from scheduler.simulation.errors import GeneratorError, InputError
from scheduler.simulation.fitting import fit
from scheduler.simulation.generate import generate
from scheduler.simulation.generator_spec import GeneratorSpec
from scheduler.simulation.report.measure import measure
from scheduler.simulation.run import simulate
from scheduler.simulation.sweep import Case, prepare
from scheduler.simulation.traces.fields import BadField
from scheduler.simulation.traces.native import read_job, write_native
from scheduler.simulation.traces.registry import read_trace
from tests.effort import first_every_day
from tests.simulation.reproduction.openb.test_through_the_simulator import (
    PLACERS as PUBLISHED,
)
from tests.simulation.reproduction.openb.test_through_the_simulator import (
    a_few,
    commanded,
    replayed,
)


def part(thousandths: int, replicas: int = 1) -> Task:
    limits = GpuPart(request=thousandths, limit=thousandths)
    return Task(replicas=replicas, gpus=1, part=limits)


def tasks_of(**given: object) -> tuple[Task, ...] | None:
    return read_job({"submitted_at": 0, "duration_seconds": 60, **given}).tasks


def test_a_number_of_gpus_below_one_is_a_part() -> None:
    assert tasks_of(gpus=0.5) == tasks_of(gpus="0.5") == (part(500),)
    assert tasks_of(gpus=0.29) == (part(290),)
    # What is no whole thousandth is rounded up.
    assert tasks_of(gpus=0.0001) == (part(1),)
    assert tasks_of(replicas=4, gpus_per_replica=0.25, gpus=1) == (part(250, 4),)
    assert tasks_of(tasks="2x0.5|1x4") == (part(500, 2), Task(replicas=1, gpus=4))
    assert tasks_of(gpus=1) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": 1.5}, 'gpus: "1.5" is not a whole number of GPUs'),
        ({"gpus": 0}, 'gpus: "0" is not a whole number of GPUs of at least 1'),
        ({"gpus": -0.5}, 'gpus: "-0.5" is not'),
        (
            {"replicas": 4, "gpus_per_replica": 0.25, "gpus": 4},
            "is not replicas x gpus_per_replica, which is 1",
        ),
        ({"replicas": 2, "gpus_per_replica": 0.5, "max_gpus": 4}, "has a fixed number of replicas"),
    ],
)
def test_parts_that_cannot_be_are_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadField) as error:
        tasks_of(**given)
    assert said in str(error.value)


TRACE = "submitted_at,gpus,duration_seconds\n0,0.6,100\n0,0.4,100\n0,0.6,100\n0,0.4,100\n0,1,100\n"


def run(folder: Path, placer: str, text: str = TRACE, cluster: str = "v100=2:2") -> Result:
    (folder / "jobs.csv").write_text(text)
    case = Case(
        trace=str(folder / "jobs.csv"), format="allot", cluster=cluster, placer=placer, round_seconds=0
    )
    return simulate(prepare(case).experiment)


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_parts_share_gpus_under_every_placer(tmp_path: Path, placer: str) -> None:
    """0.6 and 0.4 fill a GPU, whichever placer chooses it; a whole one waits for both parts to end."""
    result = run(tmp_path, placer)
    assert [job.ended_at for job in result.jobs] == [100, 100, 100, 100, 200]
    assert not result.degraded
    by_gpu: dict[int, list[float]] = {}
    for stay in result.stays[:4]:
        by_gpu.setdefault(stay.gpus[0], []).append(round(stay.amount, 3))
    assert sorted(map(sorted, by_gpu.values())) == [[0.4, 0.6], [0.4, 0.6]]


def test_measures_count_parts_as_such(tmp_path: Path) -> None:
    result = run(tmp_path, "fgd")
    assert [job.gpus for job in result.jobs] == [0.6, 0.4, 0.6, 0.4, 1]
    measures = measure(result)
    assert measures.gpu_hours == pytest.approx(3 * 100 / 3600)
    assert sum(end.gpu_hours for end in measures.interruptions.ends) == pytest.approx(measures.gpu_hours)
    (share,) = measures.fairness.tenants
    assert share.received_gpu_hours == pytest.approx(measures.gpu_hours)
    assert [(group.name, group.jobs) for group in measures.by_gang_size] == [("1 GPU", 5)]
    gang = run(
        tmp_path, "", "submitted_at,replicas,gpus_per_replica,duration_seconds\n0,3,0.5,60\n", "v100=4:4"
    )
    assert [group.name for group in measure(gang).by_gang_size] == ["2-4 GPUs"]


def test_parts_are_written_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "submitted_at,duration_seconds,tasks\n0,60,1x0.333\n1,60,4x0.25\n2,60,2x0.5|1x4\n3,60,1x8\n"
    )
    workload = read_trace(tmp_path / "jobs.csv", "allot").workload
    for name in ("copy.csv", "copy.jsonl"):
        write_native(workload, tmp_path / name)
        assert read_trace(tmp_path / name, "allot").workload.arrivals == workload.arrivals


def test_the_generator_draws_parts_and_is_fitted_to_them() -> None:
    spec = GeneratorSpec(jobs=400, sizes={"0.25": 3.0, ".5": 1.0, "2": 1.0})
    workload = generate(spec, seed=1)
    sizes = [arrival.job.milligpus for arrival in workload.arrivals]
    assert sizes.count(250) > sizes.count(500) > 0
    assert set(sizes) == {250, 500, 2000}
    assert set(fit(workload).sizes) == {"0.25", "0.5", "2"}
    for wrong in ("1.5", "0.1234", "-0.5", "١"):
        with pytest.raises((GeneratorError, ValueError), match="is neither a whole number"):
            GeneratorSpec(jobs=1, sizes={wrong: 1.0})


def test_a_scenario_has_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "story.yaml").write_text(
        "cluster: v100=1:1\nevents:\n"
        "  - {at: 0, submit: {name: half, gpus: 0.5, duration_seconds: 60}}\n"
        "  - {at: 0, submit: {name: other, gpus: 0.5, duration_seconds: 60}}\n"
        "  - {at: 0, submit: {name: more, gpus: 0.1, duration_seconds: 60}}\n"
    )
    assert main(["--scenario", str(tmp_path / "story.yaml")]) == 0
    said = capsys.readouterr().out
    assert "other: succeeded at 60 s" in said
    assert "more: succeeded at 120 s" in said


def test_gavels_rounds_refuse_parts(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submitted_at,gpus,duration_seconds,application\n0,0.5,60,A3C\n")
    (tmp_path / "rates.json").write_text(json.dumps({"v100": {"('A3C', 1)": {"null": 1.0}}}))
    case = Case(
        trace=str(tmp_path / "jobs.csv"),
        format="allot",
        cluster="v100=1:1",
        rounds="gavel",
        throughputs=str(tmp_path / "rates.json"),
    )
    with pytest.raises(InputError, match="job 1 has part of a GPU, which Gavel's rounds do not support"):
        simulate(prepare(case).experiment)


def test_jobs_without_gpus_say_what_else_they_take() -> None:
    assert tasks_of(replicas=2, gpus_per_replica=0, cpus=8, memory_gib=0.5) == (
        Task(replicas=2, gpus=0, cpus=8.0, memory_bytes=2**29),
    )
    both = (Task(replicas=1, gpus=4, cpus=4.0), Task(replicas=2, gpus=0, cpus=16.0))
    assert tasks_of(tasks="1x4|2x0", cpus="4|16") == tasks_of(tasks=[[1, 4], [2, 0]], cpus=[4, 16]) == both
    alone = read_job({"submitted_at": 0, "duration_seconds": 60, "gpus": 0, "memory_gib": 2})
    assert (alone.gpus, alone.cpus, alone.memory_bytes, alone.tasks) == (0, 0.0, 2**31, None)
    for given, said in (
        ({"gpus": 0, "cpus": 0}, "gpus: is 0 for replicas that take neither CPUs nor memory"),
        ({"tasks": "1x4|2x0", "cpus": "1|2|3"}, "cpus: has 3 numbers; it takes one, or one for each task"),
        ({"gpus": 1, "cpus": -1}, 'cpus: "-1" is not a number of CPUs of at least 0'),
        ({"gpus": 0}, "whole number of GPUs of at least 1"),
    ):
        with pytest.raises(BadField) as error:
            tasks_of(**given)  # type: ignore[arg-type]
        assert said in str(error.value)


WITHOUT = """\
submitted_at,gpus,cpus,memory_gib,duration_seconds,tasks
0,0,6,1,100,
0,2,2,1,100,
0,0,6,,50,
0,,2|4,,100,1x1|1x0
0,0,,4,100,
"""
CPU_CLUSTER = """\
nodes:
  - {name: gpus, gpu_model: V100, gpus: 4, cpus: 8, memory: 8GiB}
  - {name: cpus, gpus: 0, cpus: 8, memory: 4GiB}
virtual_clusters:
  - {name: cluster, guaranteed: {V100: 4}}
"""


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_jobs_without_gpus_run_in_the_simulator_under_every_placer(tmp_path: Path, placer: str) -> None:
    (tmp_path / "cluster.yaml").write_text(CPU_CLUSTER)
    result = run(tmp_path, placer, WITHOUT, str(tmp_path / "cluster.yaml"))
    assert not result.degraded
    # Those with GPUs have all the CPUs of their node, so that one of 6 CPUs waits for the other; the last one
    # needs none, and more memory than is left beside that.
    assert [job.ended_at for job in result.jobs] == [100, 100, 150, 100, 100]
    nodes = {stay.job: stay.nodes for stay in result.stays}
    assert nodes == {1: (2,), 2: (1,), 3: (2,), 4: (1,), 5: (1,)}
    assert measure(result).gpu_hours == pytest.approx(3 * 100 / 3600)


def test_jobs_without_gpus_are_written_read_back_and_generated(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(WITHOUT)
    workload = read_trace(tmp_path / "jobs.csv", "allot").workload
    for name in ("copy.csv", "copy.jsonl"):
        write_native(workload, tmp_path / name)
        assert read_trace(tmp_path / name, "allot").workload.arrivals == workload.arrivals
    spec = GeneratorSpec(
        jobs=200, sizes={"0": 1.0, "2": 1.0}, cpus={"*": 4.0, "0": 8.0}, memory_gib={"0": 1.0}
    )
    drawn = generate(spec, seed=1)
    tasks = {arrival.job.tasks for arrival in drawn.arrivals}
    assert tasks == {
        (Task(replicas=1, gpus=0, cpus=8.0, memory_bytes=2**30),),
        (Task(replicas=1, gpus=2, cpus=4.0),),
    }
    fitted = fit(drawn)
    assert (fitted.cpus, fitted.memory_gib) == ({"0": 8.0, "2": 4.0}, {"0": 1.0})


@pytest.mark.parametrize("placer", first_every_day(PUBLISHED, 1))
def test_the_command_writes_the_nodes_of_the_published_simulator(tmp_path: Path, placer: str) -> None:
    nodes, tasks = a_few(8)
    dice = GoRandom(43)
    arriving, ordered = arrivals(tasks, nodes, dice)
    wanted = replayed(ordered, arriving, tasks, placer, dice)
    assert commanded(tmp_path, ordered, arriving, placer_with(placer, tasks)) == wanted
    assert 0 < len(wanted) < len(arriving)
