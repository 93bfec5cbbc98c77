"""A light helper for training code: standard library only, with the platform and without.

    import allot.training

    with allot.training.session(save=save, load=load, every_seconds=300) as run:
        for step in run.steps(10_000):
            loss = train_one_step(step)
            run.report(loss=loss)

It restores the newest whole checkpoint, reports to the platform how far the training is, saves at intervals
and when it has to stop, and lets no older attempt get in the way of a newer one. docs/training.md has the
rest.
"""

from allot.training.adaptive import AdaptiveBatch
from allot.training.errors import FENCED_EXIT_CODE, Fenced, Stopped, StoreError, TrainingError
from allot.training.noise import legw
from allot.training.restoring import RestoredCheckpoint
from allot.training.sampler import Sampler
from allot.training.session import Session, session

__all__ = [
    "FENCED_EXIT_CODE",
    "AdaptiveBatch",
    "Fenced",
    "RestoredCheckpoint",
    "Sampler",
    "Session",
    "Stopped",
    "StoreError",
    "TrainingError",
    "legw",
    "session",
]
