"""Assumed remaining run times of jobs: the true ones are unknown, so each forecast states its assumption.

A job ends at its time limit at the latest; the limit holds for each attempt. Before that, the best source
counts: its steps; else its estimate; else the run times of similar jobs, as parts of their limits; else every
part of the limit is assumed to be equally likely. A job that has run for a while is compared with similar
jobs that ran at least as long, so what is left is never negative.
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
    """The source of the expected run time of a job."""

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
        """Return how long the job will still run, or will run once it starts; never negative.

        `default_limit_seconds` is the limit of a job that has none; a job that outlives it is assumed to run
        as long again as it has run. `rate` is the speed of the job on its GPUs relative to its own gang,
        above 0. If it is None, the speed is unknown, and a second there counts as one of its own gang.
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
                    # Steps are measured in GPU-seconds; later steps need as many as the timed ones.
                    to_do *= job.gpus / len(running.gpus)
            elif rate is not None:
                to_do = (job.estimate_seconds - executed_seconds(job, None, now)) / rate - attempt
            # A job that has outlived its estimate counts like any other job.
            typical = to_do if to_do > 0 else typical
        if kind is Assumption.EARLY:
            typical = min(typical, self._quantile(job, attempt / whole, EARLY_QUANTILE) * whole - attempt)
        return min(max(0.0, typical), most)

    def source(self, job: Job) -> Source:
        """Return the source of the job's expected run time."""
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
        """Return this quantile of the used parts of the limit, among jobs that used more than `used`."""
        examples = self._examples(job)
        first = bisect_right(examples, used)
        if first == len(examples):
            return used + (1.0 - used) * quantile
        return examples[first + int((len(examples) - first) * quantile)]


def attempt_seconds(job: Job, running: Running | None, now: float) -> float:
    """Return how long the present attempt has had its GPUs; 0 when there is none."""
    if running is None or running.is_nominated:
        return 0.0
    return max(0.0, now - running.since_of(job.id))
