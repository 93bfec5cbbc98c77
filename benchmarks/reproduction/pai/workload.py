"""Jobs that recur, made to the figures that PAI's published table gives away, and their estimates.

The table (README of the simulator named in the package) has, for 20,000 jobs on 6,500 GPUs that come at 1,000
a minute, mean completion times and waits. By them the mean run time is 5,038.7 s; its makespan, 535,706 s, is
about the longest job. A log-normal distribution with that mean, whose largest of 20,000 is that long, has a
spread of 1.476 and a median of 1,695 s. That is what is fitted of run times; `gangs`, the part of jobs with
two GPUs or more, is left for whoever fits the wait under FIFO, 2,879.8 s. Assumed, not fitted: how many users
(1,300, as the trace has) and groups there are; that jobs spread among users, and among a user's groups, as
1/rank; that half of what varies is between users; that within a group nearly four of five jobs are within a
quarter of the middle (as the paper has it, from memory).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import accumulate

from benchmarks.reproduction.pai.queue import PaiJob
from scheduler.core.perf.recurrence import Like, Recurrence

MEAN_SECONDS, SPREAD = 5_038.7, 1.476
JOBS_A_MINUTE = 1_000
USERS, GROUPS_MOST = 1_300, 40
#: Of the logarithm of run times: among jobs alike, and among sizes of a group.
AMONG_ALIKE, AMONG_SIZES = 0.2, 0.2
SMALL, GANGS = (250, 500, 1_000), (2_000, 4_000, 8_000, 16_000, 32_000)
#: How often a job has the size that is usual in its group.
USUAL_SIZE = 0.9


def make_jobs(count: int, *, gangs: float, seed: int) -> list[PaiJob]:
    """Return so many jobs in the order of their submission."""
    dice = random.Random(seed)
    left = SPREAD**2 - AMONG_ALIKE**2 - AMONG_SIZES**2
    of_users = of_groups = math.sqrt(left / 2)
    users = [dice.gauss(0.0, of_users) for _ in range(USERS)]
    weights = list(accumulate(1 / rank for rank in range(1, GROUPS_MOST + 1)))
    by_user = list(accumulate(1 / rank for rank in range(1, USERS + 1)))
    middle = math.log(MEAN_SECONDS) - SPREAD**2 / 2
    groups: dict[tuple[int, int], tuple[float, int]] = {}
    sizes: dict[tuple[int, int, int], float] = {}
    jobs = []
    for number in range(count):
        (user,) = dice.choices(range(USERS), cum_weights=by_user)
        (group,) = dice.choices(range(GROUPS_MOST), cum_weights=weights)
        if (user, group) not in groups:
            groups[user, group] = dice.gauss(0.0, of_groups), _size(dice, gangs)
        offset, size = groups[user, group]
        if dice.random() > USUAL_SIZE:
            size = _size(dice, gangs)
        if (user, group, size) not in sizes:
            sizes[user, group, size] = dice.gauss(0.0, AMONG_SIZES)
        offset += users[user] + sizes[user, group, size] + dice.gauss(0.0, AMONG_ALIKE)
        seconds = max(1.0, round(math.exp(middle + offset)))
        jobs.append(PaiJob(number * 60 / JOBS_A_MINUTE, seconds, size, f"user-{user}", f"group-{group}"))
    return jobs


def scaled(jobs: Sequence[PaiJob]) -> list[PaiJob]:
    """Return jobs whose mean run time is the published one: few users have most of them, and set it."""
    factor = MEAN_SECONDS * len(jobs) / sum([job.seconds for job in jobs])
    return [job._replace(seconds=max(1.0, round(job.seconds * factor))) for job in jobs]


def estimates(past: Sequence[PaiJob], jobs: Sequence[PaiJob], levels: Sequence[str]) -> list[float]:
    """Return what each job is expected to take by past ones, all of which have ended; by their mean if none
    of them is like it."""
    known = Recurrence(levels)
    for job in past:
        known.ended(_like(job), job.seconds)
    mean = sum([job.seconds for job in past]) / len(past)
    usual = [known.usual(_like(job)) for job in jobs]
    return [mean if each is None else each.seconds for each in usual]


def _like(job: PaiJob) -> Like:
    return Like("pai", job.user, job.group, job.milligpus)


def _size(dice: random.Random, gangs: float) -> int:
    return dice.choice(GANGS if dice.random() < gangs else SMALL)
