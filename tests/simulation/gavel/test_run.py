"""`manage.py simulate --rounds gavel`: what Gavel's own code says of its own jobs, to the second."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scheduler.simulation.command import main
from scheduler.simulation.errors import GeneratorError, InputError
from scheduler.simulation.gavel.workload import GANGS, KINDS, GavelSpec, draw, parse_gavel
from scheduler.simulation.sweep import Case, run_case
from tests.effort import first_every_day
from tests.simulation.samples import SHARED

TABLE = SHARED / "gavel" / "simulation_throughputs.json"
#: Seconds of the first 30 jobs of seed 7, by the published code (stanford-futuredata/gavel at c4fa400), run
#: for this test: mean and longest completion time, leases renewed of those that could have been.
SINGLE = {
    "fifo:sharing=true": (47469.709236723764, 233835.87574191554, (7044, 7084)),
    "gandiva": (58515.23611792423, 259355.24958669988, (2291, 7852)),
    "allox": (57150.16650060839, 348913.18455408514, (10871, 11058)),
}
#: 0.3 jobs an hour, gangs of up to 8, on 8 GPUs of each model.
GANGED = {
    "fifo": (61988.44330918477, 552438.6102065973, (6727, 6745)),
    "fifo:aware=false,published=true": (81576.39755776199, 708678.1288136985, (8606, 10211)),
    "isolated": (98187.30567634589, 980086.5631823428, (4195, 19979)),
}


@pytest.fixture
def table() -> str:
    if not TABLE.is_file():
        pytest.skip(f"the public data are not here: {TABLE}")
    return str(TABLE)


def check(case: Case, mean: float, longest: float, leases: tuple[int, int]) -> None:
    result = run_case(case)
    seconds = [job.completion_seconds or 0.0 for job in result.jobs[:30]]
    assert sum(seconds) / 30 == pytest.approx(mean, abs=1e-6)
    assert max(seconds) == pytest.approx(longest, abs=1e-6)
    renewed, possible = leases
    assert f"{renewed:,} of {possible:,} leases were renewed" in " ".join(result.notes)


@pytest.mark.parametrize("policy", first_every_day(SINGLE))
def test_completion_times_are_those_of_the_published_code(policy: str, table: str) -> None:
    case = Case(
        cluster="v100=4,p100=4,k80=4:4",
        generator="gavel:jobs=200,jobs_per_hour=0.6",
        throughputs=table,
        policy=policy,
        rounds="gavel",
        window=(0, 30),
        seed=7,
    )
    check(case, *SINGLE[policy])


@pytest.mark.parametrize("policy", first_every_day(GANGED))
def test_so_are_those_of_gangs(policy: str, table: str) -> None:
    case = Case(
        cluster="v100=8,p100=8,k80=8:8",
        generator="gavel:jobs=200,jobs_per_hour=0.3,multi_gpu=true,priorities=true",
        throughputs=table,
        policy=policy,
        rounds="gavel",
        window=(0, 30),
        seed=7,
    )
    check(case, *GANGED[policy])


@pytest.mark.parametrize(
    ("policy", "published"),
    [
        ("gavel:objective=max_min,centre=true", 52088.556187314374),
        pytest.param("gavel:objective=max_min,aware=false", 70993.44892145919, marks=pytest.mark.slow),
    ],
)
def test_programs_come_close_to_the_published_code(policy: str, published: float, table: str) -> None:
    case = Case(
        cluster="v100=4,p100=4,k80=4:4",
        generator="gavel:jobs=200,jobs_per_hour=0.6",
        throughputs=table,
        policy=policy,
        rounds="gavel",
        window=(0, 30),
        seed=7,
    )
    seconds = [job.completion_seconds or 0.0 for job in run_case(case).jobs[:30]]
    # Thirty jobs on four GPUs of each model: single jobs come out differently, not the mean.
    assert sum(seconds) / 30 == pytest.approx(published, rel=0.03)


def test_draws_the_jobs_that_the_published_generator_draws() -> None:
    spec = GavelSpec(jobs=8, jobs_per_hour=0.3, multi_gpu=True, priorities=True)
    drawn = list(draw(spec, seed=7))
    # As printed by the published code.
    assert [(job.arrived_at, job.kind, job.gang, job.weight) for job in drawn] == [
        (0, "Recommendation (batch size 2048)", 1, 5),
        (10166.846998006302, "LM (batch size 40)", 1, 1),
        (16888.908455882545, "LM (batch size 5)", 2, 1),
        (27244.50455691995, "ResNet-18 (batch size 256)", 1, 1),
        (30014.0510783024, "Transformer (batch size 128)", 4, 1),
        (50154.443812031794, "ResNet-50 (batch size 64)", 4, 1),
        (70973.7004903054, "ResNet-50 (batch size 32)", 1, 1),
        (83691.21884534365, "ResNet-18 (batch size 16)", 1, 1),
    ]


def test_steps_are_those_of_the_published_generator(table: str) -> None:
    rates = json.loads(Path(table).read_text())["v100"]
    spec = GavelSpec(jobs=8, jobs_per_hour=0.3, multi_gpu=True, priorities=True)
    steps = [job.duration_seconds * rates[str((job.kind, job.gang))]["null"] for job in draw(spec, seed=7)]
    assert steps == [
        22869.653204740993, 3269363.8824207904, 632616.0287942572, 23334.598174343795, 389918.3961219075,
        909144.1872006448, 37122.44364602346, 710022.4068375429,
    ]  # fmt: skip


def test_without_a_rate_all_come_at_once_and_without_gangs_all_have_one_gpu() -> None:
    jobs = list(draw(GavelSpec(jobs=500, slos=True), seed=0))
    assert {job.arrived_at for job in jobs} == {0.0}
    assert {job.gang for job in jobs} == {1}
    assert {job.kind for job in jobs} == set(KINDS)
    assert {job.weight for job in jobs} == {1}
    assert {job.slo_times for job in jobs} == {1.2, 2.0, 10.0}
    ganged = list(draw(GavelSpec(jobs=500, multi_gpu=True), seed=0))
    assert {job.gang for job in ganged} == {1, 2, 4, 8}
    assert {job.kind for job in ganged if job.gang > 1} <= set(GANGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gavel", "jobs is missing"),
        ("gavel:jobs=0", "jobs is 0; it must be from 1 to 1,000,000"),
        ("gavel:jobs=2.5", "jobs is 2.5; it must be a whole number"),
        ("gavel:jobs=5,jobs_per_hour=-1", "jobs_per_hour is -1"),
        ("gavel:jobs=5,multi_gpu=1", "multi_gpu is 1; it must be true or false"),
        ("gavel:jobs=5,speed=2", "there is no 'speed'"),
    ],
)
def test_says_what_is_wrong_with_a_generator(text: str, words: str) -> None:
    with pytest.raises(GeneratorError, match=words):
        parse_gavel(text)


@pytest.fixture
def ticking(tmp_path: Path) -> tuple[str, str]:
    """Jobs that come and end with the ticks of a clock of 360 s, and their one rate."""
    rates = tmp_path / "rates.csv"
    rates.write_text("application,gpus,gpu_model,rate\nbert,1,v100,1\nbert,2,v100,2\n")
    with (tmp_path / "jobs.csv").open("w", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(["submitted_at", "gpus", "duration_seconds", "application"])
        for number in range(20):
            table.writerow([360 * (number // 2), 1 + number % 3 // 2, 360 * (1 + number % 5), "bert"])
    return str(tmp_path / "jobs.csv"), str(rates)


def test_the_ordinary_simulator_says_the_same_where_nothing_of_gavels_rounds_matters(
    ticking: tuple[str, str],
) -> None:
    trace, rates = ticking
    case = Case(cluster="v100=4:4", trace=trace, format="allot", throughputs=rates, round_seconds=360)
    ordinary = run_case(Case(**{**_fields(case), "policy": "fifo:backfill=false"}))
    gavel = run_case(Case(**{**_fields(case), "policy": "fifo", "rounds": "gavel:reallocate_seconds=0"}))
    assert [job.ended_at for job in gavel.jobs] == [job.ended_at for job in ordinary.jobs]
    assert [job.first_started_at for job in gavel.jobs] == [job.first_started_at for job in ordinary.jobs]
    assert sum(job.gpu_seconds for job in gavel.jobs) == sum(job.gpu_seconds for job in ordinary.jobs)
    # Only where they run differs: here larger gangs choose their GPUs first, and so others move.
    held = sum((stay.ended_at - stay.started_at) * len(stay.gpus) for stay in gavel.stays)
    assert held == sum(job.gpu_seconds for job in gavel.jobs)
    assert sum(stay.end == "finished" for stay in gavel.stays) == len(gavel.jobs)


def _fields(case: Case) -> dict[str, object]:
    return {name: getattr(case, name) for name in Case.__dataclass_fields__}


def test_the_command_line_takes_the_rounds(
    ticking: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, rates = ticking
    out = tmp_path / "out.json"
    code = main([
        "--trace", trace, "--throughputs", rates, "--cluster", "v100=4:4", "--rounds", "gavel",
        "--policy", "fifo", "--policy", "gavel:objective=makespan", "--json", str(out), "--quiet",
    ])  # fmt: skip
    assert code == 0
    assert "gavel:objective=makespan" in capsys.readouterr().out
    runs = json.loads(out.read_text())["policies"]
    assert [run["round_seconds"] for run in runs] == [360, 360]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--rounds", "themis"], "no rounds 'themis'"),
        (["--rounds", "gavel", "--policy", "tiresias"], "no policy 'tiresias'"),
        (["--rounds", "gavel", "--cells"], "--cells is not for --rounds: Gavel's rounds do not support it"),
        (
            ["--rounds", "gavel", "--cost", "start_seconds=5"],
            "--cost is not for --rounds: Gavel's rounds do not support it",
        ),
        (["--rounds", "gavel:order=up"], "choose published, fixed or shuffled"),
        (["--rounds", "gavel", "--round-seconds", "0"], "must last more than 0 seconds"),
    ],
)
def test_says_what_gavels_rounds_do_not_know(
    more: list[str], words: str, ticking: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace, rates = ticking
    assert main(["--trace", trace, "--throughputs", rates, "--cluster", "v100=4:4", "--quiet", *more]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_needs_rates(ticking: tuple[str, str]) -> None:
    trace, _ = ticking
    with pytest.raises(InputError, match="needs rates by GPU model"):
        run_case(Case(cluster="v100=4:4", trace=trace, format="allot", policy="fifo", rounds="gavel"))
