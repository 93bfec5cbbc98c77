"""The batch sizes of a simulated job over its work, and the past ones, which a scheduler may see."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from scheduler.core.model.training import Regime, Training
from scheduler.core.sim.workload import Phase

#: Work within this of the end of a phase has reached it; the difference is rounding.
NOTHING_SECONDS = 1e-6


class Schedule:
    """The batch sizes of a job: `begun` is what was known at its beginning, `phases` is what will come.

    Without phases the job keeps its batch size, and its epochs divide its work evenly.
    """

    def __init__(self, begun: Training, phases: Sequence[Phase], work_seconds: float) -> None:
        self._begun = begun
        self._phases = tuple(phases) or _as_now(begun, work_seconds)
        #: Work done by the end of each phase.
        self._ends = list(accumulate([phase.seconds for phase in self._phases]))

    def at(self, done_seconds: float) -> Training:
        """Return what a scheduler may see after this much work, in seconds on the reference model."""
        begun, present = self._begun, self._present(done_seconds)
        if present is None:
            return begun
        more = {phase.batch_size: 0.0 for phase in self._phases}
        for phase in self._phases[:present]:
            more[phase.batch_size] += phase.epochs
        here = self._phases[present]
        into = done_seconds - (self._ends[present] - here.seconds)
        more[here.batch_size] += min(max(0.0, into / here.epoch_seconds), here.epochs)
        known = {regime.batch_size: regime for regime in begun.regimes}
        # A batch size becomes known once the job has used it.
        for phase in self._phases[: present + 1]:
            fresh = Regime(batch_size=phase.batch_size, epoch_seconds=phase.epoch_seconds)
            known.setdefault(phase.batch_size, fresh)
        regimes = [
            Regime(
                batch_size=size,
                epochs=known[size].epochs + more.get(size, 0.0),
                epoch_seconds=known[size].epoch_seconds,
            )
            for size in sorted(known)
        ]
        return Training(epochs=begun.epochs, batch_size=here.batch_size, regimes=tuple(regimes))

    def next_change(self, done_seconds: float) -> float | None:
        """Return the work in seconds after which the batch size changes next; None if it never does."""
        present = self._present(done_seconds)
        if present is None:
            return None
        size = self._phases[present].batch_size
        later = range(present + 1, len(self._phases))
        changed = next((place for place in later if self._phases[place].batch_size != size), None)
        return None if changed is None else self._ends[changed - 1]

    def _present(self, done_seconds: float) -> int | None:
        if not self._phases:
            return None
        return min(bisect_right(self._ends, done_seconds + NOTHING_SECONDS), len(self._phases) - 1)


def _as_now(begun: Training, work_seconds: float) -> tuple[Phase, ...]:
    """Return the rest of a job, from its known facts, as one phase; none where the facts are unusable."""
    left = begun.epochs - sum([regime.epochs for regime in begun.regimes])
    if not (0 < left < math.inf and 0 < work_seconds < math.inf):
        return ()
    return (Phase(batch_size=begun.batch_size, epochs=left, epoch_seconds=work_seconds / left),)
