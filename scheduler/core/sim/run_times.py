"""Assumed remaining run times of jobs: they are unknown, so each forecast states its assumption.

A job ends at the latest with its time limit (each attempt has one of its own). Before that, the best known
source counts: its steps; else its estimate; else the run times of similar jobs, as parts of their limits;
else every part of the limit is assumed to be equally likely. A job that has run for a while is compared with
those of its kind that ran at least as long, so what is left is never negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.core.building_blocks.run_time import relative_speeds, remaining_seconds
from scheduler.core.building_blocks.service import executed_seconds
from scheduler.core.model.snapshot import Job, Running

#: By (tenant, application): parts of the time limit (0 to 1) that ended attempts used, in ascending order.
#: The application "" stands for all jobs of the tenant, and the tenant "" for all tenants.
Parts = Mapping[tuple[str, str], Sequence[float]]

#: With fewer examples than this, history is not used.
FEWEST_EXAMPLES = 5
#: The quantile of the early assumption: nine of ten such jobs run longer.
EARLY_QUANTILE = 0.1
EXPECTED_QUANTILE = 0.5


class Assumption(StrEnum):
    """The assumed run times of jobs."""

    EARLY = "early"
    EXPECTED = "expected"
    LATE = "late"


class Source(StrEnum):
    """What the expected run time of a job comes from."""

    STEPS = "steps"
    ESTIMATE = "estimate"
    HISTORY = "history"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """The known facts about run times of jobs."""

    parts: Parts = field(default_factory=dict)

    def left_seconds(
        self,
        job: Job,
        running: Running | None,
        now: float,
        default_limit_seconds: float,
        kind: Assumption,
        rate: float | None = None,
    ) -> float:
        """Return for how long the job runs on, or will run when it starts; never negative.

        `default_limit_seconds`: the limit of a job that has none; a job that outlives it is assumed to run as
        long again as it has run. `rate`: how many times as fast as its own gang the job is on the GPUs that
        it has, above 0; None: unknown, and a second there counts as one of its own gang.
        """
        attempt = attempt_seconds(job, running, now)
        limit = job.time_limit_seconds
        whole = default_limit_seconds if limit is None else limit
        most = max(0.0, whole - attempt)
        if limit is None and attempt >= whole:
            whole, most = 2 * attempt, attempt
        if kind is Assumption.LATE:
            return most
        typical = self._quantile(job, attempt / whole, EXPECTED_QUANTILE) * whole - attempt
        if job.estimate_seconds is not None:
            to_do = remaining_seconds(job, running, now, default_limit_seconds)
            if job.measured and running is not None:
                to_do /= relative_speeds(job, [running.gpu_model])[running.gpu_model] or 1.0
                if rate is not None and running.gpus:
                    # Steps count in GPU-seconds; later steps take as many as the timed ones.
                    to_do *= job.gpus / len(running.gpus)
            elif rate is not None:
                to_do = (job.estimate_seconds - executed_seconds(job, None, now)) / rate - attempt
            # A job that has outlived its estimate counts like any other job.
            typical = to_do if to_do > 0 else typical
        if kind is Assumption.EARLY:
            typical = min(typical, self._quantile(job, attempt / whole, EARLY_QUANTILE) * whole - attempt)
        return min(max(0.0, typical), most)

    def source(self, job: Job) -> Source:
        """Return what the expected run time of the job comes from."""
        if job.measured:
            return Source.STEPS
        if job.estimate_seconds is not None:
            return Source.ESTIMATE
        return Source.HISTORY if self._examples(job) else Source.LIMIT

    def _examples(self, job: Job) -> Sequence[float]:
        for key in ((job.tenant, job.application), (job.tenant, ""), ("", "")):
            examples = self.parts.get(key, ())
            if len(examples) >= FEWEST_EXAMPLES:
                return examples
        return ()

    def _quantile(self, job: Job, used: float, quantile: float) -> float:
        """Return the part of the limit used by the end, of those that used more than `used`."""
        examples = self._examples(job)
        first = bisect_right(examples, used)
        if first == len(examples):
            return used + (1.0 - used) * quantile
        return examples[first + int((len(examples) - first) * quantile)]


def attempt_seconds(job: Job, running: Running | None, now: float) -> float:
    """Return for how long the present attempt has had its GPUs; 0 when there is none."""
    if running is None or running.is_nominated:
        return 0.0
    return max(0.0, now - running.since_of(job.id))
