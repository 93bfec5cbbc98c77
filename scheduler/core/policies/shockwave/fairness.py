"""When a job would have ended if all jobs had always had the same share: the bound that Shockwave keeps.

At each plan the job's end is estimated again, with the present equal share. The fair end is nine tenths of
the time-weighted average of these estimates plus one tenth of the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AVERAGE_PART = 0.9


@dataclass(frozen=True, slots=True)
class FairEnd:
    """Estimates of how long after its submission a job would end with its uniform share."""

    #: Sum of the estimates before the latest, each times the seconds for which it was valid; and these
    #: seconds.
    weighted: float
    stood_seconds: float
    latest_seconds: float
    #: When the latest was made.
    at: float

    @classmethod
    def remembered(cls, values: Sequence[float]) -> FairEnd:
        """Return what `to_json` gave."""
        return cls(*map(float, values))

    def to_json(self) -> list[float]:
        """Return what `remembered` takes."""
        return [self.weighted, self.stood_seconds, self.latest_seconds, self.at]

    def with_estimate(self, estimate_seconds: float, now: float) -> FairEnd:
        """Return the same with another estimate, made now."""
        stood = max(0.0, now - self.at)
        weighted = self.weighted + stood * self.latest_seconds
        return FairEnd(weighted, self.stood_seconds + stood, estimate_seconds, now)

    @property
    def seconds(self) -> float:
        """Seconds from submission to the job's fair end, as of the latest estimate."""
        if self.stood_seconds <= 0:
            return self.latest_seconds
        average = self.weighted / self.stood_seconds
        return AVERAGE_PART * average + (1 - AVERAGE_PART) * self.latest_seconds


def first_estimate(estimate_seconds: float, now: float) -> FairEnd:
    """Return the estimates of a job that was estimated once."""
    return FairEnd(0.0, 0.0, estimate_seconds, now)
