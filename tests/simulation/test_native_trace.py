"""Our own trace format: any workload can be written, and comes back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.snapshot import ADAPTIVE, Candidates, Job, JobId, Task, Topology
from scheduler.core.model.training import Profile
from scheduler.core.sim.workload import Arrival, Truth, Workload
from scheduler.simulation.errors import InputError, TraceError
from scheduler.simulation.traces.fields import BadField
from scheduler.simulation.traces.native import loss_curve, read_job, write_native
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.registry import read_trace
from tests.builders import make_node
from tests.core.sim.worlds import cluster, ends, simulate
from tests.effort import examples
from tests.simulation import samples

SUFFIXES = ("csv", "jsonl", "csv.gz", "jsonl.gz")
SECONDS = st.floats(0.001, 1e9)
#: Names as people give them: anything that is no empty line to a table.
NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\x85"),
    min_size=1,
    max_size=12,
).map(lambda name: "x" + name + "x")
PLAIN = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,6}", fullmatch=True)


def candidates() -> st.SearchStrategy[Candidates]:
    names = st.lists(PLAIN, min_size=1, max_size=2).map(tuple)
    return st.builds(Candidates, only=names, avoid=names | st.just(()))


def profiles() -> st.SearchStrategy[Profile]:
    part = st.none() | st.floats(0, 1)
    return st.builds(
        Profile,
        utilisation=part,
        memory_utilisation=part,
        memory_bytes=st.none() | st.integers(0, 2**40),
        amp=st.booleans(),
        stages=st.none() | st.tuples(SECONDS, SECONDS, st.just(0.0)),
    )


def data_sets() -> st.SearchStrategy[DataSet]:
    return st.builds(
        DataSet,
        name=PLAIN.map(lambda name: f"{name}0"),
        size_bytes=st.integers(0, 2**50),
        bandwidth=st.just(0.0) | st.floats(1, 1e12),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    arrivals = []
    for number, at in enumerate(sorted(draw(st.lists(SECONDS, min_size=1, max_size=4))), 1):
        shapes = draw(st.lists(st.tuples(st.integers(1, 16), st.integers(1, 16)), min_size=1, max_size=3))
        arrivals.append(
            Arrival(
                job=Job(
                    id=JobId(number),
                    tenant=draw(NAMES),
                    virtual_cluster=draw(NAMES),
                    submitted_at=0.0 if number == 1 else at,
                    tasks=tuple(Task(replicas=replicas, gpus=gpus) for replicas, gpus in shapes),
                    gpu_models=tuple(draw(st.lists(PLAIN, max_size=2))),
                    priority=draw(st.integers(-5, 5)),
                    guaranteed=draw(st.booleans()),
                    time_limit_seconds=draw(st.none() | SECONDS),
                    estimate_seconds=draw(st.none() | SECONDS),
                    application=draw(st.just("") | NAMES),
                    skew=draw(st.floats(0.001, 1)),
                    throughput=draw(st.dictionaries(PLAIN, st.floats(0.001, 1e6), max_size=2)),
                    nodes=draw(st.none() | candidates()),
                    on_reclaim=draw(st.sampled_from(("", "preempt", "downgrade"))),
                    profile=draw(st.none() | profiles()),
                    data=draw(st.none() | data_sets()),
                ),
                truth=Truth(
                    work_seconds=draw(SECONDS), status=draw(st.sampled_from(("passed", "killed", "failed")))
                ),
            )
        )
    return Workload(name="drawn", arrivals=tuple(arrivals))


@given(workload=workloads(), suffix=st.sampled_from(SUFFIXES))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_workload_that_is_written_comes_back_as_it_was(
    tmp_path: Path, workload: Workload, suffix: str
) -> None:
    path = tmp_path / f"drawn.{suffix}"
    write_native(workload, path)
    reading = read_trace(path, "allot", strict=True)
    assert reading.workload.arrivals == workload.arrivals


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_published_trace_can_be_exported(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "trace.tsv").write_text(samples.GAVEL)
    workload = read_trace(tmp_path / "trace.tsv", "gavel", options=samples.OPTIONS).workload
    write_native(workload, tmp_path / f"out.{suffix}")
    assert read_trace(tmp_path / f"out.{suffix}", "allot").workload.arrivals == workload.arrivals


def test_the_same_workload_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(samples.PHILLY)
    workload = read_trace(tmp_path / "trace.csv", "philly").workload
    for name in ("one.csv.gz", "two.csv.gz"):
        write_native(workload, tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("imagenet", "is not a list like name=imagenet|gib=140"),
        ("name=imagenet", "no gib"),
        ("name=a b|gib=1", "no name of letters and digits"),
        ("name=a|gib=-1", "a number below 0"),
        ({"name": "a", "gib": 1, "speed": 2}, "of name, gib or mib_per_second"),
    ],
)
def test_a_wrong_data_set_is_named(told: object, problem: str) -> None:
    with pytest.raises(BadField) as caught:
        read_job({"submitted_at": 0, "duration_seconds": 60, "gpus": 1, "data": told}, None)
    assert problem in str(caught.value)
    assert caught.value.field == "data"


def test_a_job_that_the_format_cannot_say_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(samples.PHILLY)
    workload = read_trace(tmp_path / "trace.csv", "philly").workload
    first = workload.arrivals[0]
    racked = replace(first.job, topology=Topology(level="rack"))
    beyond = replace(workload, arrivals=(replace(first, job=racked),))
    with pytest.raises(InputError, match="job 1 has more than the native trace format can express"):
        write_native(beyond, tmp_path / "out.csv")


def test_elastic_jobs_come_back_as_they_were(tmp_path: Path) -> None:
    lines = (
        '{"submitted_at": 0, "replicas": 2, "gpus_per_replica": 2, "duration_seconds": 60, "min_gpus": 2,'
        ' "max_gpus": 8, "elastic_mode": "adaptive"}\n'
        '{"submitted_at": 1, "replicas": 2, "gpus_per_replica": 1, "duration_seconds": 60, "min_gpus": 1}\n'
    )
    (tmp_path / "jobs.jsonl").write_text(lines)
    workload = read_trace(tmp_path / "jobs.jsonl", "allot", strict=True).workload
    first, second = [each.job for each in workload.arrivals]
    assert (first.elastic, first.elastic_mode, second.elastic) == ((2, 8), ADAPTIVE, (1, 2))
    write_native(workload, tmp_path / "again.csv")
    assert read_trace(tmp_path / "again.csv", "allot").workload.arrivals == workload.arrivals


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"min_gpus": 5}, "5 is more than its own 4 GPUs"),
        ({"max_gpus": 3}, "3 is less than its own 4 GPUs"),
        ({"elastic_mode": "stretchy"}, "is not resizable, adaptive or fixed_world"),
        ({"elastic_mode": "fixed_world", "max_gpus": 8}, "8 is more than its replicas can use"),
        ({"tasks": "1x2|2x1", "min_gpus": 1}, "a gang of one task"),
        (
            {"min_gpus": 1},
            r"min_gpus: 1 is not a multiple of the 4 GPUs of one replica.*replicas: 4 and gpus_per_replica",
        ),
        (
            {"replicas": 2, "gpus_per_replica": 2, "max_gpus": 7},
            r"max_gpus: 7 is not a multiple of the 2 GPUs of one replica.*fewer gpus_per_replica",
        ),
        ({"loss": "linear:a=1"}, "neither sublinear"),
        ({"loss": "sublinear:a=0,b=0,c=1,d=0"}, "does not fall"),
        ({"loss": "superlinear:mu=1.5,b=0,c=0"}, "mu must be between 0 and 1"),
        ({"loss": "superlinear:mu=0.9,mu=0.5,b=0,c=0"}, "mu is given twice"),
        ({"throughput": "v100=1|v100=9"}, "v100 is given twice"),
        ({"profile": "gpu=0.2|gpu=0.3|storage=0|network=0"}, "gpu is given twice"),
        ({"data": "name=imagenet|gib=1|gib=2"}, "gib is given twice"),
        ({"profile": "amp=0.5"}, "amp is 0 or 1"),
        ({"skew": 5}, "skew: .*above 0 and at most 1"),
    ],
)
def test_what_elastic_jobs_cannot_be_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(BadField, match=problem):
        read_job({"submitted_at": 0, "gpus": 4, "duration_seconds": 60, **fields})


@pytest.mark.parametrize(
    "profile",
    ["speed=1", "gpu=0.1", "storage=0|gpu=0|network=0", "utilisation=1.5", "memory_bytes=-1", "gpu"],
)
def test_a_profile_that_makes_no_sense_is_refused(profile: str) -> None:
    with pytest.raises(BadField, match="profile"):
        read_job({"submitted_at": 0, "gpus": 1, "duration_seconds": 1, "profile": profile})


def test_losses_fall_by_the_families_of_the_paper() -> None:
    """1 / (0.01 k + 1) + 0.5 after 100 s of work, and 0.99^(k - 10) + 0.1."""
    assert loss_curve("sublinear:a=0,b=0.01,c=1,d=0.5").at(100.0) == pytest.approx(1.0)
    assert loss_curve("superlinear:mu=0.99,b=10,c=0.1").at(110.0) == pytest.approx(0.99**100 + 0.1)


def test_a_misspelt_column_is_named_with_what_was_probably_meant(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("submitted_at,gpus,duration\n0,1,60\n")
    with pytest.raises(TraceError, match=r"trace\.csv:1: .*did you mean duration_seconds\?"):
        read_trace(tmp_path / "trace.csv", "allot")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('"tasks": "1x4|2"', '1x4|2" is not a list like 1x4|2x1'),
        ('"tasks": []', "is not a list like 1x4|2x1"),
        ('"tasks": [[1, 0]]', "tasks"),
        ('"tasks": "1x4|2x1", "gpus": 5', "is not the sum of tasks, which is 6"),
        ('"tasks": "1x4", "replicas": 1', "leave it out beside tasks"),
    ],
)
def test_a_gang_of_several_shapes_that_is_not_one_is_refused(
    tmp_path: Path, given: str, problem: str
) -> None:
    (tmp_path / "trace.jsonl").write_text(f'{{"submitted_at": 0, "duration_seconds": 60, {given}}}\n')
    with pytest.raises(TraceError) as refused:
        read_trace(tmp_path / "trace.jsonl", "allot", strict=True)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "trace.csv",
            "submitted_at,tasks,duration_seconds,tenant,virtual_cluster\n0,1x4|2x3,60,vision,research\n",
        ),
        (
            "trace.jsonl",
            '{"submitted_at": 0, "tasks": [[1, 4], [2, 3]], "duration_seconds": 60, "tenant": "vision",'
            ' "virtual_cluster": "research"}\n',
        ),
    ],
)
def test_a_gang_of_several_shapes_is_placed_whole(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    workload = read_trace(tmp_path / name, "allot", strict=True).workload
    assert workload.arrivals[0].job.tasks == (Task(replicas=1, gpus=4), Task(replicas=2, gpus=3))
    two = cluster(nodes=[make_node(1, gpus=7), make_node(2, gpus=3)], gpus=10)
    engine = simulate(two, workload.arrivals)
    assert ends(engine) == {1: 60.0}
    (stay,) = engine.stays
    assert [gpu // 100 for gpu in stay.gpus] == [1] * 7 + [2] * 3


def test_a_gang_can_be_spelt_out_or_just_counted(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(samples.ALLOT_LINES)
    workload = read_trace(tmp_path / "trace.jsonl", "allot").workload
    first, second = (arrival.job for arrival in workload.arrivals)
    assert first.tasks == (Task(replicas=2, gpus=4),)
    assert second.tasks == (Task(replicas=1, gpus=1),)
    assert (first.tenant, first.virtual_cluster, first.time_limit_seconds) == ("everyone", "cluster", 900)


def test_an_elastic_job_of_nodes_of_one_gpu_grows_by_single_gpus() -> None:
    job = {"submitted_at": 0, "gpus": 4, "duration_seconds": 60, "min_gpus": 1}
    assert read_job(job, gpus_per_node=1).elastic == (1, 4)


@pytest.mark.parametrize(
    ("given", "largest", "elastic"),
    [
        # A million GPUs stand for as many as there are; rounds would try every size up to them.
        ({"gpus": 1, "max_gpus": 1_000_000}, 16, (1, 16)),
        ({"replicas": 1, "gpus_per_replica": 3, "max_gpus": 30}, 16, (3, 15)),
        ({"gpus": 2, "min_gpus": 2, "max_gpus": 8}, 16, (2, 8)),
        ({"gpus": 1, "max_gpus": 1_000_000}, None, (1, 1_000_000)),
    ],
)
def test_an_elastic_job_grows_to_the_gpus_that_are_there(
    tmp_path: Path, given: dict[str, int], largest: int | None, elastic: tuple[int, int]
) -> None:
    job = {"submitted_at": 0, "duration_seconds": 60, **given}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job))
    options = TraceOptions(largest_gpus=largest)
    workload = read_trace(tmp_path / "jobs.jsonl", "allot", strict=True, options=options).workload
    assert [arrival.job.elastic for arrival in workload.arrivals] == [elastic]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"replicas": 100_001, "gpus_per_replica": 0, "cpus": 1}, "has 100,001 replicas without GPUs"),
        ({"tasks": "1x8|60000x0|60000x0", "memory_gib": 1}, "has 120,000 replicas without GPUs"),
        ({"gpus": 1_000_001}, "asks for 1,000,001 GPUs; a cluster may have at most 1,000,000"),
    ],
)
def test_a_job_too_large_to_be_meant_is_refused(
    tmp_path: Path, given: dict[str, object], problem: str
) -> None:
    job = {"submitted_at": 0, "duration_seconds": 60, **given}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job))
    (found,) = read_trace(tmp_path / "jobs.jsonl", "allot").problems
    assert found.message.startswith(problem)
