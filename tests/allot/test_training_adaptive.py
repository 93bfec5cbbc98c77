"""What an adaptive run measures, and what it makes of it: noise, learning rate, progress, batch."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from allot import training
from allot.training.adaptive import WORTHWHILE, AdaptiveBatch
from allot.training.batch_choice import Limits, Times, Way, best_way, goodput
from allot.training.manifest import Manifest
from allot.training.noise import RULES, GradientNoise, legw
from allot.training.sampler import Sampler
from scheduler.core.goodput.batch import GoodputModel, Noise
from scheduler.core.goodput.batch import Limits as CoreLimits
from scheduler.core.goodput.throughput import Parameters

LIMITS = Limits(initial_batch=128, max_batch=4096, min_local_batch=8, max_local_batch=256)


def known_noise(sqr: float, var: float) -> GradientNoise:
    """Noise that is known exactly, from one observation of the numbers that it must give rise to."""
    noise = GradientNoise()
    # At the initial batch in two halves: each has twice its variance.
    noise.observe([sqr + 2 * var], [sqr + var], count=2, scale=1.0)
    return noise


def draw(direction: list[float], deviation: float, generator: random.Random) -> list[float]:
    return [generator.gauss(mean, deviation) for mean in direction]


def square(gradient: list[float]) -> float:
    return math.fsum(each * each for each in gradient)


def mean_of(gradients: list[list[float]]) -> list[float]:
    return [math.fsum(column) / len(gradients) for column in zip(*gradients, strict=True)]


@pytest.mark.parametrize(("replicas", "accumulation", "scale"), [(2, 0, 1.0), (4, 1, 4.0), (1, 2, 3.0)])
def test_planted_noise_is_recovered(replicas: int, accumulation: int, scale: float) -> None:
    """Gradients of known mean, whose variance is 20 in a batch of the initial size, whatever the size now."""
    generator, direction = random.Random(7), [0.5] * 20
    count = replicas * (accumulation + 1)
    deviation = math.sqrt(20.0 / 20 * count / scale)
    noise = GradientNoise()
    for _ in range(1500):
        gradients = [draw(direction, deviation, generator) for _ in range(count)]
        local = math.fsum(map(square, gradients)) / count
        noise.observe([local], [square(mean_of(gradients))], count=count, scale=scale)
    sqr, var = noise.estimate()
    assert sqr == pytest.approx(5.0, rel=0.15)
    assert var == pytest.approx(20.0, rel=0.05)


def test_pairs_of_successive_gradients_tell_the_noise_until_better_is_known() -> None:
    generator, direction = random.Random(7), [0.5] * 20
    noise, before = GradientNoise(), draw(direction, 1.0, generator)
    for _ in range(2000):
        now = draw(direction, 1.0, generator)
        product = math.fsum(a * b for a, b in zip(before, now, strict=True))
        noise.observe_pair([square(before)], [square(now)], [product], scale=1.0)
        before = now
    sqr, var = noise.estimate()
    assert (sqr, var) == (pytest.approx(5.0, rel=0.15), pytest.approx(20.0, rel=0.05))

    noise.observe([9.0], [6.0], count=2, scale=2.0)
    assert noise.estimate() == pytest.approx((3.0, 6.0)), "what pairs have told is forgotten"
    noise.observe_pair([1.0], [1.0], [1.0], scale=1.0)
    assert noise.estimate() == pytest.approx((3.0, 6.0)), "and they tell no more"


def test_a_mean_weighs_observations_by_their_scale_and_has_no_bias() -> None:
    noise = known_noise(3.0, 7.0)
    assert noise.estimate() == pytest.approx((3.0, 7.0)), "the first counts in full"
    noise.observe([40.0], [40.0], count=2, scale=10.0)
    kept = 0.999**10
    expected = (kept * 0.001 * 3.0 + (1 - kept) * 40.0) / (kept * 0.001 + 1 - kept)
    assert noise.estimate()[0] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_gradients_that_are_not_finite_are_passed_over(bad: float) -> None:
    noise = known_noise(3.0, 7.0)
    noise.observe([bad], [1.0], count=2, scale=1.0)
    noise.observe([1.0], [bad], count=2, scale=1.0)
    assert noise.estimate() == pytest.approx((3.0, 7.0))


def test_each_group_of_parameters_has_its_own_noise() -> None:
    noise = GradientNoise()
    noise.observe([5.0, 1.0], [3.0, 1.0], count=2, scale=1.0)
    assert [noise.estimate(group) for group in (0, 1)] == [
        pytest.approx((1.0, 2.0)),
        pytest.approx((1.0, 0.0)),
    ]
    assert noise.gain(8.0, 1) == 1.0, "without noise a larger batch is worth nothing more"
    assert noise.estimate() == pytest.approx((2.0, 2.0))
    assert noise.gain(8.0) == pytest.approx((2 + 2) / (2 / 8 + 2))


def test_an_initial_batch_is_worth_itself_and_adascale_is_between_one_and_the_scale() -> None:
    generator = random.Random(1)
    for _ in range(100):
        noise = known_noise(10 ** generator.uniform(-6, 6), 10 ** generator.uniform(-6, 6))
        assert noise.gain(1.0) == pytest.approx(1.0)
        gains = [noise.gain(scale) for scale in (1.0, 2.0, 10.0, 1000.0)]
        assert gains == sorted(gains), "never less in a larger batch"
        for scale, gain in zip((1.0, 2.0, 10.0, 1000.0), gains, strict=True):
            assert gain * (1 + 1e-12) >= 1.0
            assert gain <= scale * (1 + 1e-12)
    assert known_noise(0.0, 5.0).gain(16.0) == pytest.approx(16.0)
    assert known_noise(5.0, 0.0).gain(16.0) == pytest.approx(1.0)
    assert GradientNoise().gain(16.0) == 1.0


def test_rules_of_the_learning_rate() -> None:
    assert {name: rule(16.0, 9.0, 0.0) for name, rule in RULES.items()} == {
        "adascale": 9.0,
        "adam": 3.0,
        "linear": 16.0,
        "square_root": 4.0,
    }
    warming = legw(100)
    # Four times the batch: warm after four times as many samples, then at twice the rate.
    assert [warming(4.0, 9.0, steps) for steps in (0, 100, 200, 400, 4000)] == [0.0, 0.5, 1.0, 2.0, 2.0]
    assert [warming(1.0, 9.0, steps) for steps in (50, 100, 500)] == [0.5, 1.0, 1.0]
    assert legw(0)(4.0, 9.0, 0) == 2.0


def times_by(constant: float, slope: float, rest: float, *, replicas: int) -> Times:
    times = Times()
    for size in (16, 64, 256):
        times.add(size, replicas, gradient=constant + slope * size, rest=rest)
    return times


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("noise", [(1.0, 0.5), (1.0, 30.0), (0.0, 1.0)])
def test_the_batch_is_the_one_that_the_platforms_model_chooses(
    replicas: int, noise: tuple[float, float]
) -> None:
    rest = 0.2 if replicas > 1 else 0.0
    core = GoodputModel(
        Parameters(0.1, 0.002, rest, 0.0, rest, 0.0, 1.0),
        Noise(*noise),
        CoreLimits(initial_batch=128, max_batch=4096, min_local_batch=8, max_local_batch=256),
    )
    best = core.best(1, replicas)
    way = best_way(LIMITS, replicas, times_by(0.1, 0.002, rest, replicas=replicas), known_noise(*noise))
    assert way == Way(int(best.local_batch), int(best.accumulation))


def test_the_line_of_gradients_never_promises_time_back() -> None:
    falling, steep, alone = Times(), Times(), Times()
    for size, seconds in ((16, 0.2), (64, 0.1)):
        falling.add(size, 1, gradient=seconds, rest=0.0)
    for size, seconds in ((16, 0.01), (64, 0.1)):
        steep.add(size, 1, gradient=seconds, rest=0.0)
    alone.add(16, 1, gradient=0.2, rest=0.1)
    assert 0.1 < falling.seconds(Way(10_000, 0), 1) < 0.2
    assert steep.seconds(Way(1, 0), 1) > 0
    assert alone.seconds(Way(32, 1), 1) == pytest.approx(2 * 0.3 + 0.1), "half of it is constant"


def test_what_is_beyond_gradients_is_taken_from_the_nearest_number_of_replicas() -> None:
    times = Times()
    for replicas, rest in ((1, 0.01), (2, 0.1), (8, 0.4)):
        times.add(16, replicas, gradient=1.0, rest=rest)
    found = [round(times.seconds(Way(16, 0), replicas) - 1.0, 3) for replicas in (1, 2, 3, 6, 64)]
    assert found == [0.01, 0.1, 0.1, 0.4, 0.4]


@pytest.mark.parametrize(
    ("replicas", "limits", "message"),
    [
        (3, {"initial_batch": 128, "max_batch": 128}, "3 replicas cannot compute a batch from 128 to 128"),
        (64, {"initial_batch": 128, "max_batch": 256}, "64 replicas cannot compute"),
        (1, {"initial_batch": 128, "max_batch": 64}, "most: 64 with an initial batch of 128"),
        (1, {"initial_batch": 8, "max_batch": 64, "max_local_batch": 4}, "local: from 8 to 4 samples"),
    ],
)
def test_limits_that_nothing_fits_are_refused(replicas: int, limits: dict[str, int], message: str) -> None:
    with pytest.raises(training.TrainingError, match=message):
        Limits(**{"min_local_batch": 8, "max_local_batch": 256, **limits}).ways(replicas)


class World:
    """Iterations on a clock of its own: each gradient of m samples takes 0.1 + 0.002·m, the rest 0.3."""

    def __init__(self, batch: AdaptiveBatch, *, noise: tuple[float, float]) -> None:
        self.batch, self.noise, self.now = batch, noise, 0.0
        batch.clock = lambda: self.now
        self.sampler = Sampler(10_000, seed=1, rank=0, world_size=batch.replicas)

    def iterate(self, times: int) -> Iterator[Way]:
        for _ in range(times):
            for share in self.batch.gradients(self.sampler):
                assert len(share) == self.batch.local_batch
                self.now += 0.1 + 0.002 * len(share)
            with self.batch.synchronising():
                self.now += 0.3
            count = self.batch.replicas * (self.batch.accumulation + 1)
            if count > 1:
                sqr, var = self.noise
                each, mean = sqr + var * count / self.batch.scale, sqr + var / self.batch.scale
                self.batch.noise.observe([each], [mean], count=count, scale=self.batch.scale)
            self.batch.finish_iteration()
            yield Way(self.batch.local_batch, self.batch.accumulation)


def test_the_batch_grows_where_gradients_are_noisy_and_steps_are_counted_by_what_they_are_worth() -> None:
    batch = AdaptiveBatch(LIMITS, replicas=4)
    assert (batch.batch_size, batch.scale, batch.lr_factor) == (128, 1.0, 1.0)
    world = World(batch, noise=(1.0, 1000.0))
    ways = list(world.iterate(100))
    times = times_by(0.1, 0.002, 0.3, replicas=4)
    expected = best_way(LIMITS, 4, times, known_noise(1.0, 1000.0))
    assert expected.batch(4) > 1000
    assert ways[-1] == expected
    assert batch.lr_factor == pytest.approx(batch.noise.gain(batch.scale))
    assert 1.0 < batch.lr_factor < batch.scale
    assert 100 < batch.progress < batch.samples / 128


def test_the_batch_stays_where_gradients_have_no_noise() -> None:
    batch = AdaptiveBatch(LIMITS, replicas=4)
    assert {way.batch(4) for way in World(batch, noise=(1.0, 0.0)).iterate(100)} == {128}
    assert batch.progress == pytest.approx(100)


def test_less_than_a_twentieth_more_changes_nothing() -> None:
    """The batch that it has is kept against a better one of 4 %, and left for one of 6 %."""
    times = times_by(0.1, 0.002, 0.3, replicas=4)
    way = LIMITS.ways(4)[0]

    def predicted(variance: float) -> float:
        noise = known_noise(1.0, variance)
        best = best_way(LIMITS, 4, times, noise)
        return goodput(best, LIMITS, 4, times, noise) / goodput(way, LIMITS, 4, times, noise)

    variances = [10 ** (power / 100) for power in range(-200, 200)]
    little = max(variance for variance in variances if predicted(variance) < WORTHWHILE - 0.005)
    enough = min(variance for variance in variances if predicted(variance) > WORTHWHILE + 0.005)
    assert predicted(little) > 1.03
    state = {**AdaptiveBatch(LIMITS, replicas=4).state(), "times": times.state()}
    for variance, stays in ((little, True), (enough, False)):
        noise = known_noise(1.0, variance).state()
        batch = AdaptiveBatch(LIMITS, replicas=4, state={**state, "noise": noise})
        assert (Way(batch.local_batch, batch.accumulation) == way) is stays


def test_another_number_of_replicas_goes_on_with_what_was_measured() -> None:
    world = World(AdaptiveBatch(LIMITS, replicas=4), noise=(1.0, 100.0))
    list(world.iterate(100))
    state = json.loads(json.dumps(world.batch.state()))
    fewer = AdaptiveBatch(LIMITS, replicas=2, state=state)
    assert fewer.noise.estimate() == pytest.approx(world.batch.noise.estimate())
    assert (fewer.progress, fewer.samples) == (world.batch.progress, world.batch.samples)
    expected = best_way(LIMITS, 2, times_by(0.1, 0.002, 0.3, replicas=4), known_noise(1.0, 100.0))
    assert Way(fewer.local_batch, fewer.accumulation) == expected, "before it has measured anything itself"
    assert fewer.batch_size > 128
    elsewhere = AdaptiveBatch(LIMITS, replicas=2, gpu_model="K80", state=state)
    assert elsewhere.batch_size == 128, "times on another GPU model say nothing here"
    with pytest.raises(training.TrainingError, match="counts its progress in batches of 128"):
        AdaptiveBatch(Limits(initial_batch=64, max_batch=128, max_local_batch=64), replicas=2, state=state)


def test_all_ranks_have_the_batch_that_rank_0_chooses() -> None:
    """Each measures other times; only rank 0's count."""
    spoken: list[int] = []

    def says(number: int) -> int:
        spoken.append(number)
        return number

    def hears(number: int) -> int:
        assert number == 0
        return spoken.pop(0)

    first = World(AdaptiveBatch(LIMITS, replicas=4, agree=says), noise=(1.0, 1000.0))
    other = World(AdaptiveBatch(LIMITS, replicas=4, agree=hears, is_first=False), noise=(1.0, 1000.0))
    for one, another in zip(first.iterate(100), other.iterate(100), strict=True):
        assert one == another
        other.now += 1.0
    assert first.batch.batch_size > 128


def test_lines_tell_times_over_a_second_and_what_is_known() -> None:
    batch = AdaptiveBatch(LIMITS, replicas=4)
    world = World(batch, noise=(1.0, 10.0))
    assert "grad_sqr" not in batch.line()
    list(world.iterate(2))
    assert "timed_iterations" not in batch.line(), "the first is not timed, and one lasts half a second"
    list(world.iterate(2))
    line = batch.line()
    assert (line["batch_size"], line["local_batch"], line["accumulation"]) == (128, 32, 0)
    assert (line["grad_sqr"], line["grad_var"]) == (pytest.approx(1.0), pytest.approx(10.0))
    assert line["gradient_seconds"] == pytest.approx(0.164)
    assert line["iteration_seconds"] == pytest.approx(0.464)
    assert line["timed_iterations"] == 3
    assert "timed_iterations" not in batch.line(), "they are told once"


def test_what_measuring_costs_is_told_as_a_part_of_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    # One gradient of 128 samples and what is beyond it: 0.1 + 0.002 * 128 + 0.3 s.
    limits = Limits(initial_batch=128, max_batch=128, min_local_batch=128, max_local_batch=128)
    batch = AdaptiveBatch(limits, replicas=1)
    world = World(batch, noise=(1.0, 10.0))
    monkeypatch.setattr("allot.training.adaptive.time.perf_counter", lambda: world.now)

    def iterate(times: int, seconds: float) -> None:
        for _ in world.iterate(times):
            with batch.measuring():
                world.now += seconds

    # The first, all of which are measured, do not count.
    iterate(15, 0.5)
    iterate(64, 0.00656)
    assert "overhead" not in batch.line()
    iterate(1, 0.0)
    assert batch.line()["overhead"] == pytest.approx(0.01)


def test_a_step_that_is_skipped_counts_as_none(alone: Callable[..., training.Session]) -> None:
    with alone() as run:
        batch = run.adaptive_batch(initial=16, most=16, local=(8, 8))
        sampler, seen = run.sampler(1000), []
        for step in run.steps(4):
            seen.append(step)
            for _share in batch.gradients(sampler):
                pass
            if len(seen) in (2, 3):
                batch.skip_step()
    assert seen == [0, 1, 1, 1, 2, 3]
    assert (run.step, batch.progress, batch.samples) == (4, 4.0, 6 * 16.0)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], training.Session]:
    for name in ("WORLD_SIZE", "RANK", "ALLOT_ATTEMPT", "ALLOT_CHECKPOINT_DIR", "ALLOT_PROGRESS"):
        monkeypatch.delenv(name, raising=False)

    def begin(**options: object) -> training.Session:
        return training.session(folder=tmp_path / "job", save_bytes=lambda: b"x", **options)  # type: ignore[arg-type]

    return begin


def train(run: training.Session, total: int) -> AdaptiveBatch:
    """Learn nothing, from gradients of which larger batches are worth as much as their samples."""
    batch = run.adaptive_batch(initial=16, most=256, local=(4, 16))
    sampler = run.sampler(1000, seed=3)
    for _ in run.steps(total):
        parts = [len(share) for share in batch.gradients(sampler)]
        if len(parts) == 1:
            batch.noise.observe_pair([1.0], [1.0], [0.0], scale=1.0)
        else:
            batch.noise.observe([float(len(parts))], [1.0], count=len(parts), scale=batch.scale)
        run.report(loss=0.0)
    return batch


def test_a_session_counts_steps_at_the_initial_batch_and_keeps_what_was_measured(
    alone: Callable[..., training.Session], tmp_path: Path
) -> None:
    with alone(every_steps=50) as run:
        batch = train(run, 400)
        assert batch.scale > 1
        assert run.step == int(batch.progress) >= 400
        assert batch.iterations < 400, "larger batches took fewer steps"
        stopped_at, samples = batch.progress, batch.samples
    lines = [json.loads(line) for line in (tmp_path / "job" / "progress.jsonl").read_text().splitlines()]
    assert lines[-1]["batch_size"] == batch.batch_size
    assert lines[-1]["samples"] == samples
    assert lines[-1]["step"] <= lines[-1]["total_steps"] == 400
    with alone(every_steps=50) as again:
        assert again.restored is not None
        assert again.step == int(stopped_at)
        batch = again.adaptive_batch(initial=16, most=256, local=(4, 16))
        assert (batch.progress, batch.samples) == (stopped_at, samples)
        assert batch.scale > 1


@pytest.mark.parametrize("measured", [[], [12]])
def test_a_start_that_ran_out_of_memory_lowers_the_limit_of_those_that_follow(
    alone: Callable[..., training.Session], monkeypatch: pytest.MonkeyPatch, measured: list[int]
) -> None:
    """To what went well before, or to half of what did not; on other GPUs it says nothing."""
    limits = {"initial": 16, "most": 256, "local": (4, 16)}
    monkeypatch.setenv("ALLOT_GPU_MODEL", "V100")
    with alone(every_steps=1) as run:
        batch = run.adaptive_batch(**limits)
        for size in measured:
            batch._times.add(size, 1, gradient=1.0, rest=0.0)
        for _ in run.steps(1):
            pass

    def run_out_of_memory() -> None:
        with alone() as run:
            assert run.adaptive_batch(**limits).local_batch == 16
            raise MemoryError

    with pytest.raises(MemoryError):
        run_out_of_memory()
    with alone() as run:
        assert run.adaptive_batch(**limits).limits.max_local_batch == (measured[0] if measured else 8)
    monkeypatch.setenv("ALLOT_GPU_MODEL", "A100")
    with alone() as run:
        assert run.adaptive_batch(**limits).limits.max_local_batch == 16


def test_a_run_that_becomes_adaptive_goes_on_from_its_steps(alone: Callable[..., training.Session]) -> None:
    with alone() as run:
        for _ in run.steps(10):
            pass
    with alone() as run:
        batch = run.adaptive_batch(initial=16, most=256, local=(4, 16))
        assert (batch.progress, batch.samples) == (10.0, 160.0)


def test_ranks_that_cannot_agree_are_refused(
    alone: Callable[..., training.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("ALLOT_ATTEMPT", "1")):
        monkeypatch.setenv(name, value)
    with alone() as run, pytest.raises(training.TrainingError, match="give session"):
        run.adaptive_batch(initial=16, most=256, local=(4, 16))
    with pytest.raises(training.TrainingError, match="rule: 'cubic'; it must be one of adascale, adam"):
        AdaptiveBatch(LIMITS, replicas=1, rule="cubic")


def test_the_manifest_of_a_run_that_is_not_adaptive_is_as_it_was() -> None:
    plain = Manifest(step=1, rank=0, parts=1, world_size=1, samples=None)
    assert json.loads(plain.encode())["format"] == 1
    assert "adaptive" not in json.loads(plain.encode())
    adaptive = Manifest(step=1, rank=0, parts=1, world_size=1, samples=None, adaptive={"progress": 1.5})
    assert json.loads(adaptive.encode())["format"] == 2
    assert [Manifest.decode(each.encode()) for each in (plain, adaptive)] == [plain, adaptive]


def test_it_imports_the_standard_library_only() -> None:
    code = "import sys, allot.training; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0
