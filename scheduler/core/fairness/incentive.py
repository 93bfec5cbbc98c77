"""The sharing incentive: over a while, nobody's jobs do less here than they would on its own part alone.

K. Mahajan et al., "Themis", NSDI 2020, section 2.1, states it of finish times; here it is watched while jobs
run: the mean speed here against the mean speed alone, over a window that begins with the tenant's demand.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_SECONDS = 600.0
#: Nobody is judged by less: the first round after a job came may have seen nothing of it.
LEAST_SECONDS = 30.0
#: So much less is not worth a word: turns do not divide a window evenly.
TOLERANCE = 0.05
#: An interval between two rounds counts at most as so many rounds: what was in between, nobody saw.
MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Sums of a tenant in a virtual cluster; speeds in GPUs of each job's best model."""

    seconds: float = 0.0
    here_gpu_seconds: float = 0.0
    alone_gpu_seconds: float = 0.0

    @property
    def gain(self) -> float | None:
        """What its jobs did here as a part of what they would have done alone; None: they wanted nothing."""
        if self.alone_gpu_seconds <= 0:
            return None
        return self.here_gpu_seconds / self.alone_gpu_seconds

    @property
    def is_violated(self) -> bool:
        gain = self.gain
        return gain is not None and self.seconds >= LEAST_SECONDS and gain < 1 - TOLERANCE


def counted_seconds(before: float | None, now: float, round_seconds: float) -> float:
    """Return for how long the facts of an instant count: since the last ones; 0 when a clock jumped back."""
    if before is None:
        return 0.0
    return min(max(0.0, now - before), MOST_ROUNDS * round_seconds)
