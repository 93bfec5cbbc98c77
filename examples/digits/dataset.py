"""The handwritten digits inside scikit-learn's wheel, and the order in which they are learned.

1,797 images of 8 x 8 pixels from the UCI repository ("Optical Recognition of Handwritten Digits",
E. Alpaydin and C. Kaynak, 1998). This is what `sklearn.datasets.load_digits` reads.
"""

import gzip
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from errors import BadSettings, JobError

PIXELS = 64
CLASSES = 10
IMAGES = 1797
TEST_IMAGES = 360
TRAINING_IMAGES = IMAGES - TEST_IMAGES
# The split is the same for every seed: accuracies of different runs stay comparable.
SPLIT_SEED = 1998


@dataclass(frozen=True)
class Digits:
    """Images are float64 of shape (count, 64) in 0..1, labels are integers 0..9 of shape (count,)."""

    training_images: np.ndarray
    training_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits() -> Digits:
    """Read the table straight out of the installed package.

    Importing scikit-learn for one file takes over a second, and a gang pays that once per replica.
    """
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise BadSettings(
            "scikit-learn is not installed here; its wheel holds the data: pip install scikit-learn"
        )
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    try:
        with gzip.open(path, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",")
    except (OSError, EOFError, ValueError) as error:
        raise JobError(f"cannot read the digits at {path}: {error}") from error
    if table.shape != (IMAGES, PIXELS + 1):
        raise JobError(f"{path} holds a table of shape {table.shape}, expected {(IMAGES, PIXELS + 1)}")
    table = table[np.random.default_rng(SPLIT_SEED).permutation(IMAGES)]
    images, labels = table[:, :PIXELS] / 16.0, table[:, PIXELS].astype(np.int64)
    return Digits(
        training_images=images[TEST_IMAGES:],
        training_labels=labels[TEST_IMAGES:],
        test_images=images[:TEST_IMAGES],
        test_labels=labels[:TEST_IMAGES],
    )


@lru_cache(maxsize=1)
def _epoch_order(seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(TRAINING_IMAGES)


def batch_indices(*, seed: int, step: int, batch: int) -> np.ndarray:
    """Which training images step number `step` (from 0) learns from.

    A function of its arguments alone: no position in a stream has to be saved, so a resumed run sees
    exactly what an uninterrupted one sees.
    """
    epoch, position = divmod(step, TRAINING_IMAGES // batch)
    return _epoch_order(seed, epoch)[position * batch : (position + 1) * batch]
