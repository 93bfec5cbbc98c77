"""Fit the workload generator to a workload, to make one that is longer, denser or has another seed.

The fit covers the rate of submissions by hour of day and by weekday (both counted from the first submission,
since a workload has no other clock); the mix of gang sizes; for each size, a log-normal duration with the
same median and mean, cut at the longest duration, and the average CPUs and memory of a replica; and the mixes
of kinds, submitters and ends. It leaves out correlations between these (a tenant that favours large gangs),
bursts within an hour, and trends over weeks.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, median

from scheduler.core.model.snapshot import Job, Task
from scheduler.core.sim.workload import Workload
from scheduler.simulation.errors import GeneratorError
from scheduler.simulation.generator_spec import (
    HOUR_SECONDS,
    Application,
    Arrivals,
    GeneratorSpec,
    LogNormal,
    LogUniform,
    Submitter,
)
from scheduler.simulation.traces.parts import amount

_DAY_HOURS, _WEEK_DAYS = 24, 7
#: The least duration, because a logarithm needs one.
_SHORTEST_SECONDS = 1.0
#: The largest sigma; beyond it, a log-normal has only very short and very long jobs.
_WIDEST_SIGMA = 6.0


def fit(workload: Workload) -> GeneratorSpec:
    """Return the generator whose workloads resemble this one. Raise GeneratorError when there are no jobs."""
    arrivals = workload.arrivals
    if not arrivals:
        raise GeneratorError(f"{workload.name}: it has no jobs to fit a generator to")
    durations: dict[float, list[float]] = defaultdict(list)
    for arrival in arrivals:
        durations[_size(arrival.job)].append(max(_SHORTEST_SECONDS, arrival.truth.work_seconds))
    kinds = Counter(arrival.job.application for arrival in arrivals)
    submitters = Counter((arrival.job.tenant, arrival.job.virtual_cluster) for arrival in arrivals)
    by_size: dict[str, LogNormal | LogUniform] = {
        str(size): log_normal(found) for size, found in sorted(durations.items())
    }
    jobs = [arrival.job for arrival in arrivals]
    return GeneratorSpec(
        jobs=len(arrivals),
        arrivals=fit_arrivals([arrival.job.submitted_at for arrival in arrivals]),
        sizes={str(size): float(len(found)) for size, found in sorted(durations.items())},
        cpus=_by_size(jobs, lambda task: task.cpus),
        memory_gib=_by_size(jobs, lambda task: task.memory_bytes / 2**30),
        durations=by_size,
        applications=tuple(
            Application(name=name, weight=float(count)) for name, count in sorted(kinds.items()) if any(kinds)
        ),
        submitters=tuple(
            Submitter(tenant=tenant, virtual_cluster=vc, weight=float(count))
            for (tenant, vc), count in sorted(submitters.items())
        ),
        statuses={
            status: float(count)
            for status, count in sorted(Counter(arrival.truth.status for arrival in arrivals).items())
        },
    )


def _size(job: Job) -> float:
    """Return the GPUs of a job, or its part of one; for a gang with several parts, the GPUs that it is on."""
    return amount(job.tasks) if job.has_parts and job.gpus == 1 else job.gpus


def _by_size(jobs: Sequence[Job], amount_of: Callable[[Task], float]) -> dict[str, float]:
    """Return the average amount of a replica by size of gang, where it is not zero."""
    amounts: dict[float, list[float]] = defaultdict(list)
    for job in jobs:
        amounts[_size(job)] += [amount_of(task) for task in job.tasks for _ in range(task.replicas)]
    means = {str(size): fmean(found) for size, found in sorted(amounts.items())}
    return {size: mean for size, mean in means.items() if mean}


def fit_arrivals(submissions: Sequence[float]) -> Arrivals:
    """Return the process of these ascending submissions: static when all come at once, else diurnal.

    A factor is the rate in that hour of the day (on that weekday) relative to the whole; 1 where the
    workload is too short to have one. With the base rate, the expected number of jobs is that of the
    workload.
    """
    span = submissions[-1] - submissions[0]
    if span <= 0:
        return Arrivals(process="static")
    hours = math.ceil(span / HOUR_SECONDS)
    seen = Counter(min(hours - 1, int((at - submissions[0]) // HOUR_SECONDS)) for at in submissions)
    lengths = [min(HOUR_SECONDS, span - hour * HOUR_SECONDS) / HOUR_SECONDS for hour in range(hours)]
    mean_rate = len(submissions) * HOUR_SECONDS / span
    by_hour = _factors(seen, lengths, [hour % _DAY_HOURS for hour in range(hours)], _DAY_HOURS, mean_rate)
    weekdays = [hour // _DAY_HOURS % _WEEK_DAYS for hour in range(hours)]
    by_weekday = _factors(seen, lengths, weekdays, _WEEK_DAYS, mean_rate)
    expected = sum(
        length * by_hour[hour % _DAY_HOURS] * by_weekday[weekdays[hour]]
        for hour, length in enumerate(lengths)
    )
    return Arrivals(
        process="diurnal",
        jobs_per_hour=len(submissions) / expected,
        by_hour=by_hour,
        by_weekday=by_weekday,
    )


def _factors(
    seen: Counter[int], lengths: Sequence[float], groups: Sequence[int], count: int, mean_rate: float
) -> tuple[float, ...]:
    jobs, hours = [0.0] * count, [0.0] * count
    for hour, length in enumerate(lengths):
        jobs[groups[hour]] += seen[hour]
        hours[groups[hour]] += length
    return tuple(job / (hour * mean_rate) if hour else 1.0 for job, hour in zip(jobs, hours, strict=True))


def log_normal(durations: Sequence[float]) -> LogNormal:
    """Return the log-normal with the median and the mean of these durations, cut at the longest of them.

    Durations are heavy-tailed: the log-normal of greatest likelihood can have several times their mean, but
    the mean determines the load of a cluster. Where the mean is not above the median, all durations are the
    mean.
    """
    middle, mean, most = median(durations), fmean(durations), max(durations)
    if mean <= middle:
        return LogNormal(median_seconds=mean, sigma=0.0)
    low, high = 0.0, _WIDEST_SIGMA
    if _mean_cut(middle, high, most) < mean:
        # Too many durations are near the longest for a cut log-normal to have this mean, so do not cut.
        return LogNormal(median_seconds=middle, sigma=math.sqrt(2 * math.log(mean / middle)))
    for _ in range(60):
        sigma = (low + high) / 2
        if _mean_cut(middle, sigma, most) < mean:
            low = sigma
        else:
            high = sigma
    return LogNormal(median_seconds=middle, sigma=high, most_seconds=most)


def _mean_cut(median_seconds: float, sigma: float, most: float) -> float:
    """Return the mean of min(X, most) for a log-normal X."""
    normal = NormalDist()
    edge = math.log(most / median_seconds)
    below = median_seconds * math.exp(sigma**2 / 2) * normal.cdf(edge / sigma - sigma)
    return below + most * (1 - normal.cdf(edge / sigma))
