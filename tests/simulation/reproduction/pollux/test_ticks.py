"""Pollux's published workloads in its own ticks: the baselines exactly, Pollux nearly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.reproduction.pollux.baselines import Optimus, Tiresias, placed
from benchmarks.reproduction.pollux.jobs import RememberedFits, TickJob
from benchmarks.reproduction.pollux.pollux import Pollux
from benchmarks.reproduction.pollux.ticks import (
    Outcome,
    TickPolicy,
    read_workload,
    run_ticks,
)
from scheduler.core.sim.scaling import divided
from scheduler.simulation.errors import InputError
from scheduler.simulation.profiles import Application, Epoch, read_application

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "pollux"

are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/pollux is not here")
#: Mean of the eight workloads at load 1, as the authors' artifact has it.
PUBLISHED = {"pollux": 2751.0, "tiresias": 4038.0, "optimus": 5682.0}


def run(policy: TickPolicy, number: int = 6, limit: int | None = None, **fields: float) -> Outcome:
    workload = DATA / "workloads" / f"workload-{number}.csv"
    jobs = read_workload(workload, DATA / "profiles", chooses_batch=policy.chooses_batch, limit=limit)
    return run_ticks(jobs, policy, **fields)  # type: ignore[arg-type]


@are_here
@pytest.mark.parametrize(("policy", "mean"), [(Tiresias, 3469.69375), (Optimus, 5301.875)])
def test_the_baselines_end_every_job_to_the_second_as_published(
    policy: type[TickPolicy], mean: float
) -> None:
    assert run(policy()).mean_seconds == mean


@are_here
def test_a_small_cut_under_pollux_ends_sooner_than_under_either() -> None:
    cut = {"limit": 6, "nodes": 4}
    means = [run(policy, **cut).mean_seconds for policy in (Pollux(), Tiresias(), Optimus())]  # type: ignore[arg-type]
    assert means[0] < 0.9 * min(means[1:])


@are_here
@pytest.mark.slow
@pytest.mark.parametrize("search", ["greedy", "genetic"])
def test_pollux_is_within_a_twentieth_of_what_was_published(search: str) -> None:
    assert run(Pollux(search=search)).mean_seconds == pytest.approx(2446.13, rel=0.05)


@are_here
@pytest.mark.slow
def test_pollux_is_ahead_of_tiresias_and_tiresias_of_optimus_on_every_workload() -> None:
    means: dict[str, list[float]] = {}
    for number in range(1, 9):
        each = {
            name: run(policy, number).mean_seconds
            for name, policy in (("pollux", Pollux()), ("tiresias", Tiresias()), ("optimus", Optimus()))
        }
        assert each["pollux"] < each["tiresias"] < each["optimus"]
        for name, mean in each.items():
            means.setdefault(name, []).append(mean)
    for name, found in means.items():
        within = 0.05 if name == "pollux" else 1e-3
        assert sum(found) / 8 == pytest.approx(PUBLISHED[name], rel=within)


@are_here
@pytest.mark.slow
def test_longer_intervals_and_interference_cost_what_was_published() -> None:
    """8 min instead of one: a fifth longer; half the progress lost where jobs meet: two fifths longer."""
    usual = run(Pollux()).mean_seconds
    assert 1.1 < run(Pollux(), interval_seconds=480).mean_seconds / usual < 1.35
    assert 1.2 < run(Pollux(avoid=False), interference=0.5).mean_seconds / usual < 1.7


@are_here
def test_what_was_not_measured_is_between_what_was() -> None:
    cifar = read_application(DATA / "profiles" / "cifar10")
    assert (cifar.initial_batch, cifar.max_batch) == (128, 4096)
    assert cifar.step_seconds((1,), 32) == (0.0427886962890625, 0.0004995360016822816)
    between = cifar.step_seconds((1,), 40)[0]
    assert 0.0427886962890625 < between < 0.05048525333404541
    assert cifar.step_seconds((3, 1), 64) == cifar.step_seconds((1, 3), 64)
    with pytest.raises(InputError, match="outside of what was measured"):
        cifar.noise(64, 0)


# A made-up application: an iteration takes 0.1 s and 1 ms a sample, whatever the placement.


class Made(Application):
    """Without files."""

    def step_seconds(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        return 0.1 + 0.001 * local_batch, 0.0 if sum(placement) == 1 else 0.05


def made() -> Application:
    epochs = [Epoch(100.0 * (number + 1), 100 * (number + 1), 1.0, 1.0) for number in range(2)]
    return Made("made", 2, 10, 100, {100: epochs, 400: epochs}, {}, None)  # type: ignore[arg-type]


def job(**fields: object) -> TickJob:
    values: dict[str, object] = {
        "name": "a",
        "application": made(),
        "submitted_at": 0.0,
        "replicas": 1,
        "batch": 100,
    }
    return TickJob(**{**values, **fields})  # type: ignore[arg-type]


def test_a_job_has_its_gpus_for_half_a_minute_before_it_makes_progress() -> None:
    """200 iterations at the initial batch of 0.2 s each: 40 s and the start, from the first tick on."""
    first = job()
    outcome = run_ticks([first], Tiresias(), nodes=1)
    assert outcome.completion_seconds == {"a": 60 + 30 + 40}
    assert first.service == 70.0


def test_a_job_that_could_never_run_is_refused() -> None:
    with pytest.raises(InputError, match="a asks for 5 GPUs, and there are 4 in all"):
        run_ticks([job(replicas=5)], Tiresias(), nodes=1)


def test_two_jobs_that_meet_are_slowed_down() -> None:
    """200 iterations of 0.15 s with 50 samples on each of two GPUs; half of that progress is lost."""

    class Across:
        chooses_batch = False

        def decide(
            self, jobs: Sequence[TickJob], room: Sequence[int], now: float
        ) -> dict[str, tuple[int, ...]]:
            return {each.name: (0, 1) for each in jobs}

    def mean(interference: float) -> float:
        jobs = [job(name=name, replicas=2) for name in "ab"]
        return run_ticks(jobs, Across(), nodes=2, interference=interference).mean_seconds

    assert mean(0.0) == 60 + 30 + 30
    assert mean(0.5) == 60 + 30 + 60


def test_a_batch_is_divided_into_passes() -> None:
    assert divided(made(), 400, 1) == (100, 3)
    assert divided(made(), 101, 1) == (51, 1)
    assert divided(made(), 400, 8) == (50, 0)


def test_gpus_come_from_the_node_with_most_left() -> None:
    assert placed({"a": (0, 0)}, [("b", 3), ("c", 4)], [4, 4, 4]) == {
        "a": (0, 0),
        "b": (1, 1, 1),
        "c": (2, 2, 2, 2),
    }


def test_what_was_measured_of_a_job_makes_a_model_of_it_at_the_end_of_a_tick() -> None:
    adaptive = job(batch=None)
    assert adaptive.model() is None
    adaptive.reallocate((0, 0))
    adaptive.run(35, RememberedFits(), 0.0)
    model = adaptive.model()
    assert model is not None
    assert adaptive.most_measured == 2
    assert adaptive.local_batch * 2 * (adaptive.accumulation + 1) >= 100


@pytest.mark.parametrize(
    "text", ["", "name,time\n", "name,time,application,num_replicas,batch_size\na,x,b,1,1\n"]
)
def test_a_file_that_is_no_workload_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "workload.csv").write_text(text)
    with pytest.raises(InputError):
        read_workload(tmp_path / "workload.csv", tmp_path, chooses_batch=True)
