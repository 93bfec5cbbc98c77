"""The workload generator: what it draws is what its parameters say, and what a fitted one was fitted to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest

from scheduler.core.sim.workload import Workload
from scheduler.simulation.errors import GeneratorError
from scheduler.simulation.fitting import fit, log_normal
from scheduler.simulation.generate import gavel_generator, generate
from scheduler.simulation.generator_spec import (
    Application,
    Arrivals,
    GeneratorSpec,
    LogNormal,
    LogUniform,
    Piece,
    Submitter,
    parse_generator,
    read_generator,
    to_json,
)
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.registry import read_trace
from tests.simulation.samples import SHARED, TABLE

HOUR = 3600.0

SPEC = GeneratorSpec(
    jobs=4000,
    arrivals=Arrivals(
        process="diurnal",
        jobs_per_hour=20,
        by_hour=(0.25,) * 8 + (2.0,) * 8 + (0.75,) * 8,
        by_weekday=(1.2,) * 5 + (0.5,) * 2,
    ),
    sizes={"1": 0.7, "4": 0.2, "16": 0.1},
    durations={
        "16": LogNormal(median_seconds=7200, sigma=0.5),
        "*": LogNormal(median_seconds=600, sigma=1.0, most_seconds=86_400),
    },
    applications=(Application(name="bert", weight=3), Application(name="dqn", largest_gpus=1)),
    submitters=(Submitter(tenant="speech", virtual_cluster="research", weight=2), Submitter(tenant="vision")),
    statuses={"passed": 0.7, "killed": 0.2, "failed": 0.1},
)


def submissions(workload: Workload) -> list[float]:
    return [arrival.job.submitted_at for arrival in workload.arrivals]


def mean_work(workload: Workload, gpus: int | None = None) -> float:
    return fmean(
        arrival.truth.work_seconds
        for arrival in workload.arrivals
        if gpus is None or arrival.job.gpus == gpus
    )


def test_the_same_seed_gives_the_same_workload_and_another_another() -> None:
    assert generate(SPEC, seed=1) == generate(SPEC, seed=1)
    assert generate(SPEC, seed=1).arrivals != generate(SPEC, seed=2).arrivals


def test_what_is_drawn_is_what_the_parameters_say() -> None:
    workload = generate(SPEC, seed=1)
    jobs = [arrival.job for arrival in workload.arrivals]
    assert [job.id for job in jobs] == list(range(1, 4001))
    sizes = Counter(job.gpus for job in jobs)
    assert sizes[1] / 4000 == pytest.approx(0.7, abs=0.03)
    assert sizes[16] / 4000 == pytest.approx(0.1, abs=0.02)
    assert {job.tasks[0].replicas for job in jobs if job.gpus == 16} == {2}
    assert {job.application for job in jobs if job.gpus > 1} == {"bert"}
    assert Counter(job.tenant for job in jobs)["speech"] / 4000 == pytest.approx(2 / 3, abs=0.03)
    large = [arrival.truth.work_seconds for arrival in workload.arrivals if arrival.job.gpus == 16]
    assert median(large) == pytest.approx(7200, rel=0.1)
    statuses = Counter(arrival.truth.status for arrival in workload.arrivals)
    assert statuses["killed"] / 4000 == pytest.approx(0.2, abs=0.03)


def test_diurnal_submissions_follow_the_hours_and_the_days() -> None:
    hours = Counter(int(at // HOUR % 24) // 8 for at in submissions(generate(SPEC, seed=1)))
    assert hours[1] / hours[0] == pytest.approx(8, rel=0.25)
    assert hours[1] / hours[2] == pytest.approx(2 / 0.75, rel=0.15)


def test_no_job_comes_in_an_hour_without_a_rate() -> None:
    arrivals = Arrivals(process="diurnal", jobs_per_hour=5, by_hour=(0.0,) * 12 + (2.0,) * 12)
    workload = generate(GeneratorSpec(jobs=500, arrivals=arrivals), seed=3)
    assert {int(at // HOUR % 24) // 12 for at in submissions(workload)[1:]} == {1}


def test_poisson_submissions_come_at_the_rate_and_static_ones_at_once() -> None:
    poisson = generate(
        GeneratorSpec(jobs=4000, arrivals=Arrivals(process="poisson", jobs_per_hour=10)), seed=1
    )
    assert submissions(poisson)[-1] == pytest.approx(400 * HOUR, rel=0.06)
    static = generate(GeneratorSpec(jobs=50, arrivals=Arrivals(process="static")), seed=1)
    assert set(submissions(static)) == {0.0}


def test_another_size_mix_leaves_the_submissions_as_they_were() -> None:
    first = GeneratorSpec(jobs=100)
    second = GeneratorSpec(jobs=100, sizes={"1": 1.0, "8": 1.0})
    assert submissions(generate(first, seed=5)) == submissions(generate(second, seed=5))


def test_piecewise_log_uniform_durations_stay_in_their_pieces() -> None:
    pieces = (
        Piece(weight=4, low_seconds=10, high_seconds=100),
        Piece(weight=1, low_seconds=1000, high_seconds=2000),
    )
    spec = GeneratorSpec(jobs=2000, durations={"*": LogUniform(pieces=pieces)})
    work = [arrival.truth.work_seconds for arrival in generate(spec, seed=1).arrivals]
    assert all(10 <= seconds <= 100 or 1000 <= seconds <= 2000 for seconds in work)
    assert sum(seconds <= 100 for seconds in work) / 2000 == pytest.approx(0.8, abs=0.03)
    assert median(seconds for seconds in work if seconds <= 100) == pytest.approx(math.sqrt(1000), rel=0.1)


def test_gavels_generator_has_the_mean_of_its_note() -> None:
    language = {("LM (batch size 10)", gpus, "v100"): 50.0 * gpus for gpus in (1, 2, 4, 8)}
    table = replace(TABLE, alone={**TABLE.alone, **language})
    spec = gavel_generator(table, jobs=20_000, jobs_per_hour=4, multi_gpu=True)
    workload = generate(spec, seed=1, options=TraceOptions(throughputs=table))
    assert mean_work(workload) == pytest.approx(16.8 * HOUR, rel=0.03)
    jobs = [arrival.job for arrival in workload.arrivals]
    assert {job.application for job in jobs if job.gpus == 2} == {"LM (batch size 10)"}
    assert {job.application for job in jobs if job.gpus == 1} == {
        "LM (batch size 10)",
        "ResNet-18 (batch size 32)",
    }
    assert next(job for job in jobs if job.gpus == 2).throughput == {"v100": 100.0, "k80": 25.0}


# --- fitting


def test_a_generated_workload_has_the_means_of_the_one_it_was_fitted_to() -> None:
    original = generate(SPEC, seed=1)
    again = generate(fit(original), seed=2)
    assert len(again.arrivals) == len(original.arrivals)
    assert submissions(again)[-1] == pytest.approx(submissions(original)[-1], rel=0.1)
    for gpus in (1, 4, 16):
        assert mean_work(again, gpus) == pytest.approx(mean_work(original, gpus), rel=0.15)
    assert fmean(arrival.job.gpus for arrival in again.arrivals) == pytest.approx(
        fmean(arrival.job.gpus for arrival in original.arrivals), rel=0.1
    )
    for mix in ("tenant", "virtual_cluster", "application"):
        first = Counter(getattr(arrival.job, mix) for arrival in original.arrivals)
        second = Counter(getattr(arrival.job, mix) for arrival in again.arrivals)
        assert set(first) == set(second)
        for name, count in first.items():
            assert second[name] == pytest.approx(count, rel=0.15)


def test_rates_by_hour_and_weekday_are_found_again() -> None:
    arrivals = fit(generate(SPEC, seed=1)).arrivals
    assert arrivals.process == "diurnal"
    night, day = fmean(arrivals.by_hour[:8]), fmean(arrivals.by_hour[8:16])
    assert day / night == pytest.approx(8, rel=0.25)
    assert fmean(arrivals.by_weekday[:5]) / fmean(arrivals.by_weekday[5:]) == pytest.approx(2.4, rel=0.25)


def test_a_log_normal_keeps_median_and_mean() -> None:
    # So many are near the longest that cutting there would leave too little: not cut.
    durations = [10.0] * 5 + [12.0, 13.0, 13.0]
    fitted = log_normal(durations)
    assert (fitted.median_seconds, fitted.most_seconds) == (10, None)
    assert fitted.median_seconds * math.exp(fitted.sigma**2 / 2) == pytest.approx(fmean(durations))
    cut = log_normal([1.0] * 50 + [10.0] * 50 + [100.0] * 20 + [5000.0])
    assert cut.most_seconds == 5000
    drawn = generate(GeneratorSpec(jobs=20_000, durations={"*": cut}), seed=1)
    assert mean_work(drawn) == pytest.approx((50 + 500 + 2000 + 5000) / 121, rel=0.1)
    assert log_normal([60.0, 60.0]) == LogNormal(median_seconds=60, sigma=0)


def test_a_workload_at_once_is_fitted_as_static_and_none_is_refused() -> None:
    static = generate(GeneratorSpec(jobs=20, arrivals=Arrivals(process="static")), seed=1)
    assert fit(static).arrivals.process == "static"
    with pytest.raises(GeneratorError, match="empty: it has no jobs to fit a generator to"):
        fit(Workload(name="empty", arrivals=()))


def test_a_published_trace_is_fitted() -> None:
    path = SHARED / "openb" / "openb_pod_list_default.csv"
    if not path.is_file():
        pytest.skip(f"the public data are not here: {path}")
    original = read_trace(path, "alibaba-gpu-v2023").workload
    again = generate(fit(original), seed=1)
    assert mean_work(again) == pytest.approx(mean_work(original), rel=0.15)
    assert submissions(again)[-1] == pytest.approx(submissions(original)[-1], rel=0.1)


# --- as a file


def test_parameters_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "generator.json"
    for spec in (SPEC, gavel_generator(TABLE, jobs=10), fit(generate(SPEC, seed=1))):
        path.write_text(to_json(spec))
        assert read_generator(path) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jobs": 0}', r"generator: jobs must be from 1 to 10,000,000"),
        ('{"jobs": "ten"}', r"Expected `int`, got `str` - at `\$\.jobs`"),
        ('{"jobs": 1, "arival": {}}', "unknown field `arival`"),
        ('{"jobs": 1, "arrivals": {"jobs_per_hour": -1}}', r"must be above 0 - at `\$\.arrivals`"),
        ('{"jobs": 1, "arrivals": {"by_hour": [1]}}', r"by_hour must be 24 factors - at `\$\.arrivals`"),
        ('{"jobs": 1, "arrivals": {"process": "weekly"}}', r"Invalid enum value 'weekly' - at `\$\.arrivals"),
        ('{"jobs": 1, "sizes": {"0": 1}}', "sizes: jobs of 0 GPUs need cpus or memory_gib"),
        ('{"jobs": 1, "sizes": {"1.5": 1}}', "sizes: '1.5' is neither a whole number nor a part"),
        ('{"jobs": 1, "cpus": {"many": 1}}', "cpus: 'many' is neither GPUs nor"),
        ('{"jobs": 1, "memory_gib": {"*": -1}}', r"memory_gib: that of \* must be at least 0"),
        ('{"jobs": 1, "sizes": {"1": -1}}', "sizes: the weight of 1 must be above 0"),
        ('{"jobs": 1, "durations": {"*": {"kind": "normal"}}}', "Invalid value 'normal'"),
        ('{"jobs": 1, "durations": {"2": {"kind": "log_uniform", "pieces": []}}}', "must not be empty"),
        ('{"jobs": 1, "applications": [{"name": "x", "largest_gpus": 0}]}', "none takes 1 GPUs"),
        ('{"jobs": 1', "truncated"),
    ],
)
def test_wrong_parameters_are_named(text: str, message: str) -> None:
    with pytest.raises(GeneratorError, match=message):
        parse_generator(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"nowhere\.json: cannot be read"):
        read_generator(tmp_path / "nowhere.json")
