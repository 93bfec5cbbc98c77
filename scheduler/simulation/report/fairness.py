"""Finish-time fairness and Jain's index.

Finish-time fairness (Themis) is rho = T_shared / T_isolated. T_shared is the job completion time. T_isolated
is the time that the job would have taken on its equal share of the cluster. With n jobs in the system
(submitted and not ended) on average over its life, in a cluster of C GPUs, its share is C / n GPUs. A gang of
s GPUs that takes turns on fewer than s of them runs s·n / C times as long as alone, and never faster than
alone (the share of Gavel's "isolated" policy):

    rho = JCT / (run time alone · max(1, s · mean n / C))

rho <= 1 means that sharing did not harm the job. Deviations: Themis counts applications, which traces seldom
state, so jobs count here, as in Gavel and Shockwave. All GPUs count equally, while the run time alone is that
on the best model the job accepts, so on mixed clusters rho is slightly strict. Weights and guarantees of
virtual clusters are left out.
"""

from __future__ import annotations

import numpy as np

from scheduler.simulation.report.distribution import Floats


def mean_contention(began: Floats, ended: Floats, *, among_began: Floats, among_ended: Floats) -> Floats:
    """Return how many intervals, on average, cover an instant of each [began, ended), including itself."""
    if not len(began):
        return np.empty(0)
    times = np.concatenate((among_began, among_ended))
    steps = np.concatenate((np.ones(len(among_began)), -np.ones(len(among_ended))))
    order = np.argsort(times, kind="stable")
    times = times[order]
    present = np.cumsum(steps[order])
    integral = np.concatenate(([0.0], np.cumsum(present[:-1] * np.diff(times))))
    area: Floats = np.interp(ended, times, integral) - np.interp(began, times, integral)
    return np.divide(area, ended - began, out=np.ones_like(area), where=ended > began)


def finish_time_fairness(
    completion_seconds: Floats,
    alone_seconds: Floats,
    gang_gpus: Floats,
    contention: Floats,
    cluster_gpus: int,
) -> Floats:
    """Return rho of each job; all arrays have one number per job, and run times alone are above zero."""
    shares = np.maximum(1.0, gang_gpus * contention / max(1, cluster_gpus))
    return completion_seconds / (alone_seconds * shares)


def jain_index(amounts: Floats) -> float | None:
    """Return (sum x)² / (n · sum x²): 1 when all are equal, 1/n when one has everything; None for nothing."""
    squares = float((amounts * amounts).sum())
    if not squares:
        return None
    return float(amounts.sum()) ** 2 / (len(amounts) * squares)
