"""Files that are damaged at random: an error that says so, or what can be read of them, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.clusters import parse_cluster, read_cluster
from scheduler.simulation.errors import ClusterError, InputError, TraceError
from scheduler.simulation.generator_spec import parse_generator, to_json
from scheduler.simulation.throughputs import read_throughputs
from scheduler.simulation.traces.registry import FORMATS, read_trace
from tests.simulation import samples
from tests.simulation.samples import OPTIONS, SAMPLES
from tests.simulation.test_clusters import TABLES, YAML
from tests.simulation.test_generate import SPEC
from tests.simulation.test_throughputs import GAVEL

DAMAGE = (
    *(
        "nan",
        "inf",
        "-1",
        "0",
        "",
        "1e400",
        "1e308",
        "9" * 30,
        "9" * 310,
        "9" * 5000,
        "1_0",
        "-0",
        "None",
        "null",
        "true",
    ),
    *('"', "\0", "\n", "\r", ",", "\t", "{", "}", "[", "]", ":", "|", "=", "\u0663", "- ", "[null]", "{}"),
    *("9999-99-99 00:00:00", "0001-01-01 00:00:00+23:59"),
)
TIMES = 25


def damaged(text: str, rng: Random) -> str:
    """Replace up to three places by something that does not belong there."""
    for _ in range(rng.randint(1, 3)):
        first = rng.randrange(len(text) + 1)
        text = text[:first] + rng.choice(DAMAGE) + text[first + rng.choice((0, 1, 3, 8, 40)) :]
    return text


def readable(read: Callable[[Path], object], path: Path, text: str) -> None:
    path.write_text(text, newline="")
    with suppress(InputError):
        read(path)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_damaged_trace_gives_sound_jobs_or_an_error(tmp_path: Path, format: str) -> None:
    rng = Random(format)
    options = replace(OPTIONS, profiles=samples.write_profiles(tmp_path))

    def read(path: Path) -> None:
        before = 0.0
        for number, arrival in enumerate(read_trace(path, format, options=options).workload.arrivals, 1):
            takes = [task.gpus >= 1 or task.cpus > 0 or task.memory_bytes > 0 for task in arrival.job.tasks]
            assert (arrival.job.id, all(takes)) == (number, True)
            assert 0 <= arrival.truth.work_seconds < math.inf
            assert before <= arrival.job.submitted_at < math.inf
            before = arrival.job.submitted_at

    for text in SAMPLES[format] * TIMES:
        readable(read, tmp_path / "trace.csv", damaged(text, rng))


def test_damaged_clusters_tables_and_generators_are_errors_that_say_so(tmp_path: Path) -> None:
    rng = Random("others")
    for _ in range(TIMES):
        readable(read_cluster, tmp_path / "cluster.yaml", damaged(YAML, rng))
        for text, _ in TABLES:
            readable(read_cluster, tmp_path / "cluster.csv", damaged(text, rng))
        readable(read_throughputs, tmp_path / "table.json", damaged(json.dumps(GAVEL), rng))
        spec = damaged("v100=36:4,p100=32:8", rng)
        readable(lambda _, spec=spec: parse_cluster(spec), tmp_path / "spec", "")
        text = damaged(to_json(SPEC), rng)
        readable(lambda _, text=text: parse_generator(text), tmp_path / "generator", "")


def test_a_cluster_too_large_to_be_meant_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("nodes: [{count: 1000000, gpu_model: V100, gpus: 1000}]\n")
    with pytest.raises(ClusterError, match="1,000,000,000 GPUs are more than a cluster may have"):
        read_cluster(tmp_path / "cluster.yaml")


def test_a_header_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_bytes(b"submitted_at,gp\rus,duration_seconds\n0,1,60\n")
    with pytest.raises(TraceError, match=r"trace\.csv:1: "):
        read_trace(tmp_path / "trace.csv", "allot")


JOB = '{"submitted_at": 0, "gpus": 1, "duration_seconds": 60}'
LOG = json.loads(samples.PHILLY_LOG)
#: A whole number that JSON can state and no float can hold.
HUGE = "9" * 310


@pytest.mark.parametrize(
    ("format", "text", "field"),
    [
        ("philly", json.dumps([{**LOG[0], "submitted_time": [None]}]), "submitted_time"),
        ("philly", json.dumps([{**LOG[0], "submitted_time": {}}]), "submitted_time"),
        ("allot", JOB.replace('"gpus": 1', f'"gpus": {HUGE}'), "gpus"),
        ("allot", JOB.replace("60", HUGE), "duration_seconds"),
        ("allot", JOB.replace("60", f'60, "cpus": [{HUGE}]'), "cpus"),
        ("allot", JOB.replace("60", f'60, "priority": {HUGE}'), "priority"),
        ("allot", JOB.replace("60", f'60, "time_limit_seconds": {HUGE}'), "time_limit_seconds"),
        ("allot", JOB.replace("60", '60, "memory_gib": 1e308'), "memory_gib"),
        ("allot", JOB.replace("60", '60, "memory_gib": 1048577'), "memory_gib"),
        ("allot", JOB.replace("60", '60, "profile": {"memory_bytes": 1e308}'), "profile"),
    ],
)
def test_a_value_that_no_number_or_time_can_hold_is_a_problem_of_its_row(
    tmp_path: Path, format: str, text: str, field: str
) -> None:
    (tmp_path / "trace.json").write_text(text)
    (problem,) = read_trace(tmp_path / "trace.json", format).problems
    assert problem.field == field


@pytest.mark.parametrize("value", [HUGE, "[null]", "true"])
def test_a_rate_that_is_no_number_is_an_error(tmp_path: Path, value: str) -> None:
    table = json.dumps(GAVEL).replace('"null": 10.0', f'"null": {value}', 1)
    (tmp_path / "table.json").write_text(table)
    with pytest.raises(InputError, match="is not a rate of at least 0"):
        read_throughputs(tmp_path / "table.json")


@pytest.mark.parametrize(
    "text",
    [
        f"nodes: [{{gpu_model: V100, gpus: 8, cpus: {HUGE}}}]",
        f"nodes: [{{gpu_model: V100, gpus: 8}}]\nprices: {{V100: {HUGE}}}",
        f"nodes: [{{gpu_model: V100, gpus: 8}}]\ntenants: [{{name: a, quota: {{V100: {HUGE}}}}}]",
        "nodes: [{gpu_model: V100, gpus: 8}]\n"
        f"virtual_clusters: [{{name: a, guaranteed: {{V100: 8}}, members: {{a: {HUGE}}}}}]",
    ],
)
def test_a_number_of_a_cluster_that_no_float_can_hold_is_an_error(text: str) -> None:
    with pytest.raises(ClusterError, match=f"{HUGE} is not a "):
        read_cluster_yaml("cluster.yaml", text)


def test_a_generator_refuses_memory_that_no_machine_has() -> None:
    with pytest.raises(InputError, match=r"memory_gib: that of \* must be at most 1,048,576"):
        parse_generator('{"jobs": 1, "sizes": {"0": 1}, "memory_gib": {"*": 1e308}}')


LONG = "a" * 5000


@pytest.mark.parametrize(
    ("format", "text"),
    [
        # One stray quote makes a file a single column.
        ("philly", samples.PHILLY.replace("vc,", '"vc,')),
        ("allot", samples.ALLOT.replace(",", ',"', 1)),
        ("allot", f"{LONG},gpus\n0,1\n"),
        ("allot", JOB.replace("gpus", LONG)),
        ("allot", JOB.replace("{", f'{{"{LONG}": 1, "{LONG}": 2, ')),
        ("allot", JOB.replace("60", f'60, "throughput": "{LONG}=1|{LONG}=2"')),
        ("helios", ",".join([LONG] * 100) + "\n"),
    ],
)
def test_what_is_wrong_is_said_in_one_short_line(tmp_path: Path, format: str, text: str) -> None:
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(TraceError) as error:
        read_trace(tmp_path / "trace.csv", format, strict=True)
    said = str(error.value)
    assert said.isprintable()
    assert len(said) < 2000


def test_the_columns_and_fields_of_a_cluster_are_named_in_short_lines(tmp_path: Path) -> None:
    (tmp_path / "cluster.csv").write_text(f'"{LONG}\n",b\n1,2\n')
    (tmp_path / "cluster.yaml").write_text(f"? {LONG}\n: 1\n")
    for name in ("cluster.csv", "cluster.yaml"):
        with pytest.raises(ClusterError) as error:
            read_cluster(tmp_path / name)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 1000
