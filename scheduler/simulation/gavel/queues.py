"""First come, first served, as in Gavel's published code: a whole share on one model, or none.

The head of the queue waits until it fits, and all other jobs wait behind it. The paper states a linear
program instead (`scheduler.core.solvers.objectives.Fifo`), but all published curves come from these queues.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit

#: Two jobs share GPUs only when together they are this many times as fast as one alone.
WORTH_SHARING = 1.5


class FastestFirst:
    """Place each job on the model with room on which it is fastest, again at each decision.

    With sharing, jobs that found no room then join the job with which they do best. The first job that finds
    none ends the sharing, because no job passes the head of the queue.
    """

    knows_speeds: ClassVar[bool] = True
    strict: ClassVar[bool] = True

    def __init__(self, *, sharing: bool = False) -> None:
        self.sharing = sharing

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        cluster, room = standing.cluster, list(standing.cluster.gpus)
        placed: dict[Unit, int] = {}
        queue = list(standing.jobs)
        while queue and any(count > 0 for count in room):
            # A job that does not fit is left out, and does not share GPUs, either.
            number = queue.pop(0)
            job = standing.jobs[number]
            models = [model for model in by_name(cluster) if room[model] >= job.gang]
            if not models:
                break
            best = max(models, key=lambda model: job.rates[model])
            if job.rates[best] > 0:
                placed[number,] = best
                room[best] -= job.gang
        if self.sharing:
            _join(queue, placed, cluster, standing.jobs)
        return whole_shares(placed, cluster)


def _join(
    queue: Sequence[int], placed: dict[Unit, int], cluster: Cluster, jobs: Mapping[int, RoundJob]
) -> None:
    for number in queue:
        best, worth = None, WORTH_SHARING
        for unit, model in placed.items():
            if len(unit) > 1:
                continue
            gain = _gain(cluster, jobs[unit[0]], jobs[number], model)
            if gain > worth:
                best, worth = unit, gain
        if best is None:
            return
        placed[best[0], number] = placed.pop(best)


def _gain(cluster: Cluster, first: RoundJob, second: RoundJob, model: int) -> float:
    together = cluster.together(first, second)
    if together is None:
        return 0.0
    alone = first.rates[model], second.rates[model]
    return sum(rate / own for rate, own in zip(together[model], alone, strict=True) if rate > 0)


class AnyModel:
    """Place each job on a model drawn from those with room, where it stays to its end."""

    knows_speeds: ClassVar[bool] = False
    sharing: ClassVar[bool] = False
    strict: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._placed: dict[int, int] = {}

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        cluster, jobs = standing.cluster, standing.jobs
        self._placed = {number: model for number, model in self._placed.items() if number in jobs}
        room = list(cluster.gpus)
        for number, model in self._placed.items():
            room[model] -= jobs[number].gang
        for number, job in jobs.items():
            if number in self._placed:
                continue
            models = [model for model in by_name(cluster) if room[model] >= job.gang and job.rates[model] > 0]
            if not models:
                break
            model = self._random.choice(models)
            self._placed[number] = model
            room[model] -= job.gang
        return whole_shares({(number,): model for number, model in self._placed.items()}, cluster)


class PublishedAnyModel:
    """What the published code does instead of `AnyModel`, of which all published FIFO curves are.

    It draws a model and then takes the last one of the list (by name: V100, then P100, then K80), whether the
    gang fits there or not; when that one is full, it strikes the model that was drawn off the list. The job
    at the head takes the place of the job that ended, whatever else is in use there.
    """

    knows_speeds: ClassVar[bool] = False
    sharing: ClassVar[bool] = False
    strict: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        #: The model of each job, and its gang size, which is still needed once the job is gone.
        self._placed: dict[int, int] = {}

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        cluster, jobs = standing.cluster, standing.jobs
        room = list(cluster.gpus)
        queue = [number for number in jobs if number not in self._placed]
        for number in sorted(self._placed):
            model = self._placed[number]
            if number in jobs:
                room[model] -= jobs[number].gang
                continue
            if queue and jobs[queue[0]].gang <= room[model] and jobs[queue[0]].rates[model] > 0:
                head = queue.pop(0)
                self._placed[head] = model
                room[model] -= jobs[head].gang
            del self._placed[number]
        self._deal(queue, room, standing)
        return whole_shares({(number,): model for number, model in self._placed.items()}, cluster)

    def _deal(self, queue: list[int], room: list[int], standing: Standing) -> None:
        listed = [model for model in by_name(standing.cluster) if room[model] > 0]
        while queue and listed:
            number = queue.pop(0)
            job = standing.jobs[number]
            fitting = [place for place, model in enumerate(listed) if room[model] >= job.gang]
            if not fitting:
                break
            drawn = fitting[self._random.randrange(len(fitting))]
            model = listed[-1]
            if job.rates[model] > 0:
                self._placed[number] = model
                room[model] -= job.gang
                if room[model] == 0:
                    listed.pop(drawn)


def by_name(cluster: Cluster) -> list[int]:
    """Return the models in the order of their names, as in the published code."""
    return sorted(range(len(cluster.models)), key=lambda model: cluster.models[model])


def whole_shares(placed: Mapping[Unit, int], cluster: Cluster) -> dict[Unit, tuple[float, ...]]:
    """Return a share of 1 for each unit on the model where it is placed."""
    count = len(cluster.models)
    return {
        unit: tuple([1.0 if model == chosen else 0.0 for model in range(count)])
        for unit, chosen in placed.items()
    }
