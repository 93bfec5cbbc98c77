"""The remaining work of a job whose batch size may change: Shockwave's forecast (NSDI'23).

The division of a job's epochs among its batch sizes is modelled as a draw from a Dirichlet distribution. At
first every batch size is as likely as any other, and together they weigh as much as all epochs of the job;
every epoch that was seen counts one for its batch size. The epochs left of each batch size are those expected
less those done. The batch sizes that the job may use are known, those to come are not.

Departures from the authors' code: fractions of epochs count, not only whole ones; and the epochs left of all
batch sizes sum to what the job has left, even if more were seen of one than are expected in all.

Wrong facts are ignored: a batch size whose epoch takes no or infinite time, and all facts of a job without a
usable batch size or without a usable number of epochs above 0. A job that has done as many epochs as there
are, or more, is expected to do one more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.model.training import Regime, Training

#: No job has more.
MOST_EPOCHS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Work in seconds of the job's own gang, alone, on the GPU model that its epochs are stated for."""

    done_seconds: float
    left_seconds: float
    #: Part of all its epochs that is done, from 0 to below 1.
    done: float


def outlook(training: Training) -> Outlook | None:
    """Return the job's progress by epochs; None where the facts are unusable."""
    regimes = [regime for regime in training.regimes if 0 < regime.epoch_seconds < math.inf]
    if not regimes or not 0 < training.epochs <= MOST_EPOCHS:
        return None
    seen = [regime.epochs if 0 < regime.epochs <= MOST_EPOCHS else 0.0 for regime in regimes]
    all_seen = sum(seen)
    epochs = training.epochs if all_seen < training.epochs else all_seen + 1.0
    done_seconds = _seconds(seen, regimes)
    left_seconds = _seconds(_expected_left(seen, epochs), regimes)
    if not 0 < done_seconds + left_seconds < math.inf:
        return None
    return Outlook(done_seconds=done_seconds, left_seconds=left_seconds, done=all_seen / epochs)


def _expected_left(seen: Sequence[float], epochs: float) -> list[float]:
    """Return how many epochs with each batch size are to come; the sum is all epochs left."""
    prior = epochs / len(seen)
    whole = epochs + sum(seen)
    left = [max(0.0, epochs * ((prior + count) / whole) - count) for count in seen]
    scale = (epochs - sum(seen)) / sum(left)
    return [count * scale for count in left]


def _seconds(epochs: Sequence[float], regimes: Sequence[Regime]) -> float:
    return sum([count * regime.epoch_seconds for count, regime in zip(epochs, regimes, strict=True)])
