"""Real training that is resized while it runs; benchmarks/bench_elastic_training.py says what that saves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.elastic_training import (
    ADAPTIVE,
    FIXED_WORLD,
    RIGID,
    prepare,
    seed_of,
    train,
    training_set,
    undisturbed_weights,
)
from tests.e2e.installation import Installation, installation

pytestmark = pytest.mark.slow

JOBS = training_set()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(tmp_path_factory.mktemp("elastic")) as platform:
        prepare(platform)
        yield platform


def test_elastic_jobs_learn_as_well_as_rigid_ones(platform: Installation) -> None:
    elastic = train(platform, JOBS, policy="pollux", way=ADAPTIVE, seed=1)
    rigid = train(platform, JOBS, policy="fifo", way=RIGID, seed=1)
    assert any(each.resizes for each in elastic)
    assert not any(each.resizes for each in rigid)
    for one, other in zip(elastic, rigid, strict=True):
        # So few steps leave seeds and batches some 2 % apart.
        assert one.accuracy == pytest.approx(other.accuracy, abs=0.04)
        assert one.accuracy > 0.85


def test_a_fixed_world_that_is_resized_ends_with_the_weights_of_one_that_is_not(
    platform: Installation, tmp_path: Path
) -> None:
    outcomes = train(platform, JOBS, policy="singularity", way=FIXED_WORLD, seed=1)
    assert any(each.resizes for each in outcomes)
    for place, (job, each) in enumerate(zip(JOBS, outcomes, strict=True)):
        assert each.weights == undisturbed_weights(job, seed_of(1, place), tmp_path / job.name)
