"""The parameters of a job on each GPU model (Sia, SOSP'23): fitted where it ran, else projected.

A job that has run with several replicas on a model has its own parameters there. Until then:

- If it ran with one replica there, computing is as measured. Synchronising is projected from the model where
  it ran with the most replicas, by the ratio of the times for computing the same per-GPU batches. So the
  throughput of N replicas is that model's throughput of N, times the ratio of one replica's throughputs.
- If it ran with several replicas nowhere, its parameters are as measured, and N replicas count as N times as
  fast (`fit`).
- If it never ran there, all times are scaled by `relative_speed`, a ratio that was measured or declared in
  some other way. Without it, the model has no parameters.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.goodput.fit import Measurement, fit
from scheduler.core.goodput.throughput import GoodputError, Parameters, gradient_seconds


@dataclass(frozen=True, slots=True)
class OnGpuModel:
    """Parameters of a job on a GPU model. `projected_from` is the model they partly come from, or empty."""

    parameters: Parameters
    projected_from: str = ""


def fit_gpu_models(
    measurements: Mapping[str, Sequence[Measurement]], relative_speed: Mapping[str, float] | None = None
) -> dict[str, OnGpuModel]:
    """Return parameters by GPU model, for each model with a measurement or a known speed.

    `relative_speed` is how fast the job is on each model, in one unit. Raises GoodputError where it is not
    above 0.
    """
    speeds = relative_speed or {}
    for model, speed in speeds.items():
        if not 0 < speed < math.inf:
            raise GoodputError(f"relative_speed[{model}]: {speed}; it must be a number above 0")
    ran = {model: rows for model, rows in sorted(measurements.items()) if rows}
    fitted = {model: fit(rows) for model, rows in ran.items()}
    found = {model: OnGpuModel(parameters) for model, parameters in fitted.items()}
    if not ran:
        return found
    known_best = best_known(ran)
    for model, rows in ran.items():
        if _most(rows) == 1 and _most(ran[known_best]) > 1:
            own, other = fitted[model], fitted[known_best]
            longer = other.times(_ratio(own, other, rows))
            found[model] = OnGpuModel(Parameters._make(own[:2] + longer[2:]), known_best)
    return found | projected(fitted[known_best], known_best, speeds, but=ran)


def best_known(measurements: Mapping[str, Sequence[Measurement]]) -> str:
    """Return the model with the most replicas measured; among several, the one with the most measurements."""
    return max(measurements, key=lambda model: (_most(measurements[model]), len(measurements[model]), model))


def projected(
    parameters: Parameters, known_on: str, speeds: Mapping[str, float], *, but: Collection[str]
) -> dict[str, OnGpuModel]:
    """Return parameters on models where the job never ran, scaled by speed from a model where it ran.

    `but` has the models with parameters of their own. Speeds that are not above 0 are ignored.
    """
    here = speeds.get(known_on, 0.0)
    others = [model for model in sorted(speeds) if model not in but and speeds[model] > 0]
    return {
        model: OnGpuModel(parameters.times(here / speeds[model]), known_on) for model in others if here > 0
    }


def _most(rows: Sequence[Measurement]) -> int:
    return max(measured.replicas for measured in rows)


def _ratio(own: Parameters, other: Parameters, rows: Sequence[Measurement]) -> float:
    """Return how many times as long computing takes, averaged over the measured per-GPU batches."""
    ratios = [
        gradient_seconds(own, measured.local_batch) / gradient_seconds(other, measured.local_batch)
        for measured in rows
    ]
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
