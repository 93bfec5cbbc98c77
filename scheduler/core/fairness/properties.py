"""Measure two properties of a fair division over time: the sharing incentive and envy-freeness.

The sharing incentive: over a while, no tenant's jobs do less here than they would on its own part alone. K.
Mahajan et al., "Themis", NSDI 2020, section 2.1, states it for finish times. Here it is measured while jobs
run: the mean speed here against the mean speed alone, over a window that begins with the tenant's demand.

Envy: whether a tenant would prefer what another one received, by its own speeds and per weight, as in A.
Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, section 3. Envy 0: no other part would have been worth
more to it. 0.25: its own part is worth a quarter less than the best of the others' parts. 1: it had nothing
of use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

WINDOW_SECONDS = 600.0
#: The shortest window that counts, since the first round after a job's submission may not have seen it.
LEAST_SECONDS = 30.0
#: A shortfall up to this part is ignored, because turns do not divide a window evenly.
TOLERANCE = 0.05
#: The most rounds that an interval between two rounds counts for, since nothing within it was observed.
MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Sums of a tenant in a virtual cluster; speeds in GPUs of each job's best model."""

    seconds: float = 0.0
    here_gpu_seconds: float = 0.0
    alone_gpu_seconds: float = 0.0

    @property
    def gain(self) -> float | None:
        """Return what its jobs did here as a part of what they would have done alone; None without demand."""
        if self.alone_gpu_seconds <= 0:
            return None
        return self.here_gpu_seconds / self.alone_gpu_seconds

    @property
    def is_violated(self) -> bool:
        gain = self.gain
        return gain is not None and self.seconds >= LEAST_SECONDS and gain < 1 - TOLERANCE


def counted_seconds(before: float | None, now: float, round_seconds: float) -> float:
    """Return how long the facts of an instant count: since the last ones, or 0 if the clock went back."""
    if before is None:
        return 0.0
    return min(max(0.0, now - before), MOST_ROUNDS * round_seconds)


#: Less envy than this is rounding.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a tenant had over a while."""

    weight: float
    #: The GPU-seconds that it could have used.
    demand: float
    #: How fast its jobs are by model, on average, relative to each one's best.
    speeds: Mapping[str, float]
    #: GPU-seconds by model.
    received: Mapping[str, float]


class Envy(NamedTuple):
    """The amount of envy, and the envied tenant; empty when the amount is 0."""

    amount: float
    of: str


def envies(had: Mapping[str, Bundle]) -> dict[str, Envy]:
    """Return the envy of each tenant."""
    return {tenant: _envy(tenant, had) for tenant in had}


def _envy(tenant: str, had: Mapping[str, Bundle]) -> Envy:
    own = had[tenant]
    if not (own.weight > 0 and own.demand > 0):
        return Envy(0.0, "")
    worth = _worth(own, own.received, 1.0)
    best, of = worth, ""
    for other in sorted(had):
        theirs = had[other]
        if other != tenant and theirs.weight > 0:
            per_weight = _worth(own, theirs.received, own.weight / theirs.weight)
            if per_weight > best:
                best, of = per_weight, other
    amount = 1 - worth / best if best > 0 else 0.0
    return Envy(amount, of) if amount > NEGLIGIBLE else Envy(0.0, "")


def _worth(own: Bundle, received: Mapping[str, float], factor: float) -> float:
    """Return the worth of GPU-seconds to it, counting no more of them than it could have used."""
    room, worth = own.demand, 0.0
    for model, speed in sorted(own.speeds.items(), key=lambda pair: (-pair[1], pair[0])):
        used = min(received.get(model, 0.0) * factor, room)
        worth, room = worth + speed * used, room - used
    return worth
