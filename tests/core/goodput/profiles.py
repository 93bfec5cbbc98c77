"""The measured applications that Pollux's authors published, as goodput models."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from scheduler.core.goodput.batch import GoodputModel, Limits, Noise
from scheduler.core.goodput.fit import Measurement, fit
from scheduler.simulation.profiles import read_application
from scheduler.simulation.traces.pollux import read_profile

PROFILES = Path(__file__).resolve().parents[4] / "shared" / "data" / "pollux" / "profiles"
NAMES = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")

are_here = pytest.mark.skipif(not PROFILES.is_dir(), reason="../shared/data/pollux/profiles is not here")


@cache
def measurements(name: str) -> list[Measurement]:
    return list(read_application(PROFILES / name).measurements())


@cache
def model(name: str) -> GoodputModel:
    """An application in the middle of its training, with all that was measured of it known."""
    profile = read_profile(PROFILES / name)
    batches = sorted(profile.epochs)
    epochs = profile.epochs[batches[0]]
    middle = epochs[len(epochs) // 2]
    return GoodputModel(
        fit(measurements(name)),
        Noise(middle.sqr, middle.var),
        Limits(
            initial_batch=batches[0],
            max_batch=batches[-1],
            min_local_batch=min(measured.local_batch for measured in measurements(name)),
            max_local_batch=profile.largest_pass,
        ),
    )
