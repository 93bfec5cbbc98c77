"""AlloX as Gavel re-implements it: jobs of one GPU, matched to GPUs and places in their queues.

T. Le et al., "AlloX", EuroSys 2020 (the platform's own is `core.policies.allox.policy`). A job that has a GPU
keeps it. All others are matched to the GPUs without a job: the k-th place from the end of a GPU's queue costs
k times the job's time there. The first job of each queue starts. Which of several equally good matchings is
found decides which jobs wait, so every place of every GPU is a column, as in the published code, though equal
places could share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from scheduler.core.model.errors import PolicyError
from scheduler.simulation.gavel.jobs import Standing, Unit
from scheduler.simulation.gavel.queues import by_name, whole_shares

#: Stands for a rate of zero.
LEAST_RATE = 1e-10


class AlloX:
    """`alpha` is the part of the waiting jobs, the oldest ones, that are matched."""

    knows_speeds: ClassVar[bool] = True
    sharing: ClassVar[bool] = False
    strict: ClassVar[bool] = False

    def __init__(self, *, alpha: float = 1.0) -> None:
        self._alpha = alpha
        self._placed: dict[int, int] = {}

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        cluster, jobs = standing.cluster, standing.jobs
        if any(job.gang > 1 for job in jobs.values()):
            raise PolicyError("allox: a gang has more than one GPU; this policy only matches jobs of one GPU")
        self._placed = {number: model for number, model in self._placed.items() if number in jobs}
        held = list(self._placed.values())
        free = [model for model in by_name(cluster) for _ in range(cluster.gpus[model] - held.count(model))]
        waiting = sorted(
            [number for number in jobs if number not in self._placed],
            key=lambda number: jobs[number].arrived_at,
        )
        waiting = waiting[: max(int(self._alpha * len(waiting)), len(free))]
        if waiting and free:
            self._match(waiting, free, standing)
        return whole_shares({(number,): model for number, model in self._placed.items()}, cluster)

    def _match(self, waiting: Sequence[int], free: Sequence[int], standing: Standing) -> None:
        # SciPy takes a third of a second to load, and most runs do not need it.
        from scipy.optimize import linear_sum_assignment

        seconds = np.array(
            [
                [
                    standing.steps_left[number] / (standing.jobs[number].rates[model] or LEAST_RATE)
                    for model in free
                ]
                for number in waiting
            ]
        )
        age = np.array([[standing.now - standing.jobs[number].arrived_at] for number in waiting])
        places = np.concatenate([place * seconds for place in range(1, len(waiting) + 1)], axis=1)
        rows, columns = linear_sum_assignment(places + age)
        first: dict[int, tuple[int, int]] = {}
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            place, gpu = divmod(column, len(free))
            # The place furthest from the end is the first.
            if gpu not in first or place > first[gpu][0]:
                first[gpu] = place, waiting[row]
        for gpu, (_, number) in first.items():
            self._placed[number] = free[gpu]
