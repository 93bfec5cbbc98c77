"""Trial packing: let two jobs share GPUs, measure them, and keep them together only if that pays.

W. Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018, section 3.2. A pair
pays when together the two make more progress than they would taking turns: the sum of their measured speeds,
each relative to having the GPUs alone, is above 1. Deviations:

- Gandiva tries the job of lowest GPU utilisation on the GPU of lowest utilisation. We do not know
  utilisation: a gang is tried with the first waiting job of its shape, unless such a pair failed before.
- Whether the memory of the GPUs suffices is not known beforehand either: a pair that does not fit fails.
- The result of a pair counts for all jobs of the same applications, where these are known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from scheduler.core.fitting.demand import shape_of
from scheduler.core.model.snapshot import Job, JobId, Running

Pair = tuple[JobId, JobId]


def pays(running: Running, least_gain: float) -> bool | None:
    """Return whether jobs that share make enough more progress than taking turns; None: not measured yet."""
    if any(job not in running.speeds for job in running.jobs):
        return None
    return sum([running.speeds[job] for job in running.jobs]) >= 1 + least_gain


def name_of(jobs: Sequence[Job]) -> str:
    """Return the name under which a pair's result is remembered: its applications, or its jobs where
    unknown.
    """
    return " + ".join(sorted([job.application or f"job {job.id}" for job in jobs]))


def _is_like(guest: Job, host: Job, gpu_model: str) -> bool:
    """Whether a guest asks for what its host has; under a quota a running job accepts only the model it is
    on.
    """
    accepts = not guest.gpu_models or gpu_model in guest.gpu_models
    return accepts and shape_of(replace(guest, gpu_models=())) == shape_of(replace(host, gpu_models=()))


def next_pair(
    running: Sequence[Job], waiting: Sequence[Job], failed: Collection[str], holdings: Mapping[JobId, Running]
) -> Pair | None:
    """Return the first job that runs alone and the first waiting job that are worth a trial together, or
    None.

    Both have the same priority and ask for the same: only then do their replicas share GPUs one to one.
    """
    for guest in waiting:
        for host in running:
            if (
                len(holdings[host.id].jobs) == 1
                and host.priority == guest.priority
                and len(holdings[host.id].gpus) == host.gpus == guest.gpus
                and _is_like(guest, host, holdings[host.id].gpu_model)
                and name_of((host, guest)) not in failed
            ):
                return host.id, guest.id
    return None
