"""POP: solve many small problems instead of a large one.

D. Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP",
SOSP'21. The GPUs of every model are split evenly, jobs are dealt out at random, and each part is solved
separately. Two departures: similar jobs are dealt out evenly over the parts, so that the parts are similar;
and the GPUs of a model that remain after an even split are dealt out as well, not left unused.

Each part is fair within itself, but the parts are not fair to each other. Where weights are skewed, the
worst-off of all jobs may have less than in the exact optimum, whatever the sum is.
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.errors import PartitionError
from scheduler.core.solvers.instance import Floats, Instance


def parts_of(instance: Instance, parts: int, seed: int) -> list[tuple[NDArray[np.intp], Floats]]:
    """Return the jobs and the GPUs of each part.

    Raises PartitionError when a job's gang fits on no model in its part.
    """
    if parts == 1:
        return [(np.arange(instance.jobs), instance.gpus)]
    rng = random.Random(seed)
    shuffled = np.array(rng.sample(range(instance.jobs), instance.jobs), dtype=np.intp)
    looks = np.column_stack([instance.weight, instance.gang, instance.job_class, instance.throughput])
    alike = shuffled[np.lexsort(looks[shuffled].T)]
    over = instance.gpus % parts
    # The remaining GPUs of each model are dealt out from where those of the model before it ended.
    dealt = np.cumsum(over) - over
    found = []
    for part in range(parts):
        jobs = np.sort(alike[part::parts])
        gpus = instance.gpus // parts + ((part - dealt) % parts < over)
        room = instance.throughput[jobs] * (instance.gang[jobs][:, None] <= gpus)
        if (stuck := jobs[room.max(axis=1, initial=0.0) <= 0]).size:
            job = instance.names[stuck[0]]
            raise PartitionError(
                f"parts: with {parts} of them job {job} fits into no model of its part; take fewer"
            )
        found.append((jobs, np.asarray(gpus, dtype=np.float64)))
    return found
