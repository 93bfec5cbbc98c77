"""Estimate how long a job runs from how long similar jobs ran, and how far off such estimates have been.

Q. Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters" (PAI), NSDI 2022, section 5.2 (from memory): most jobs recur, and the jobs of one group (the same
program of the same user) run for about as long. A job is compared with the jobs of its user that train the
same application with as many GPUs. If fewer than `FEWEST` of these have ended, it is compared with all jobs
of its user that train the same application, then with all of its user. A job is never compared with the jobs
of other users. The estimate is the mean of the latest jobs: the mean wait is shortest when the jobs with the
least expected run time start first. Deviations:

- The paper fits regression trees on these features; the simulator published with it uses means, as here.
- A group in the paper is a tag made of the program's name, its arguments and what it asks for. Here it is the
  application that a job states, or else its name.
- Only the latest `LATEST` of a kind count, so that outdated run times are forgotten.

The error is that of estimates made before their jobs ended: the median of |estimate - truth| as a part of the
truth.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

SIZE, APPLICATION, USER = "size", "application", "user"
#: What jobs are compared by, the most similar first.
LEVELS = (SIZE, APPLICATION, USER)
#: The fewest jobs that predict the next one.
FEWEST = 2
#: The number of latest jobs of each kind that count.
LATEST = 20


class Like(NamedTuple):
    """What decides which jobs are similar to a job."""

    tenant: str
    user: str
    application: str
    gpus: int


class Usual(NamedTuple):
    """How long similar jobs ran."""

    seconds: float
    #: One of `LEVELS`.
    by: str
    #: How many of them ended.
    jobs: int
    #: The error as a part of the truth; None if no estimate of this kind was ever compared with a run time.
    error: float | None


class _Kind:
    """Similar jobs: how long the latest ran, and how far off their estimates were."""

    __slots__ = ("errors", "seconds")

    def __init__(self) -> None:
        self.seconds: deque[float] = deque(maxlen=LATEST)
        self.errors: deque[float] = deque(maxlen=LATEST)

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)


class Recurrence:
    """The run times of jobs that have ended. `levels` is what jobs are compared by."""

    def __init__(self, levels: Sequence[str] = LEVELS) -> None:
        self._levels = tuple(levels)
        self._kinds: defaultdict[tuple[object, ...], _Kind] = defaultdict(_Kind)

    def usual(self, like: Like) -> Usual | None:
        """Return how long similar jobs ran; None if too few ended."""
        for level in self._levels:
            kind = self._kinds.get(_key(level, like))
            if kind is not None and len(kind.seconds) >= FEWEST:
                error = median(kind.errors) if kind.errors else None
                return Usual(kind.mean, level, len(kind.seconds), error)
        return None

    def ended(self, like: Like, seconds: float) -> None:
        """Note a job that ended after `seconds` in all with its own gang; 0 seconds do not count."""
        if not 0 < seconds < float("inf"):
            return
        foretold = self.usual(like)
        if foretold is not None:
            known = self._kinds[_key(foretold.by, like)]
            known.errors.append(abs(foretold.seconds - seconds) / seconds)
        for level in self._levels:
            self._kinds[_key(level, like)].seconds.append(seconds)


def _key(level: str, like: Like) -> tuple[object, ...]:
    whose = level, like.tenant, like.user
    if level == USER:
        return whose
    return (*whose, like.application) if level == APPLICATION else (*whose, like.application, like.gpus)
