"""Goodput: how long fits and speedups take, and how near both are to the published code.

    python benchmarks/bench_goodput.py [--data ../shared/data/pollux] [--jobs 1000] [--runs 5]
    python benchmarks/bench_goodput.py --reference adaptdl/simulator/goodput.py

- *fits*: the six applications of Pollux's artifact, all that was measured of each (278 to 1,004 ways to run),
  and 12 of these: processor time, RMSLE of iterations.
- *speedups*: as many jobs as said, each one of the applications with a noise and speed of its own, with 1 to
  64 GPUs on one node and on several: processor time for all of them, and for a generation of a search (100
  allocations of every job at random) once they are known.
- *reference*: the same fits by the authors' code (petuum/adaptdl, branch osdi21-artifact; it needs the
  package autograd): what both minimise, and processor time. Then, both with the authors' parameters, at five
  epochs on all allocations of 16 nodes of four GPUs: how often the authors' batch is larger than allowed;
  where it is not, how often ours is the same, and by how much goodput and speedup differ at most; how often
  it is the same in all cases once theirs is cut to the limit, as their simulator does. Last, how far speedups
  are apart when each has its own fit.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

from scheduler.core.goodput.batch import GoodputModel, Limits, Noise
from scheduler.core.goodput.fit import Measurement, fit, log_error
from scheduler.core.goodput.speedups import Speedups
from scheduler.core.goodput.throughput import Parameters
from scheduler.simulation.profiles import read_application
from scheduler.simulation.traces.pollux import read_profile

MOST = 64


def timed(function: Callable[[], Any], runs: int) -> tuple[Any, str]:
    """Return what it returns, and the median and all runs in milliseconds of processor time."""
    seconds, value = [], None
    for _ in range(runs):
        began = time.process_time()
        value = function()
        seconds.append(time.process_time() - began)
    raw = " ".join(f"{each * 1e3:.1f}" for each in seconds)
    return value, f"{statistics.median(seconds) * 1e3:8.1f} ms  ({raw})"


def fits(rows_of: dict[str, list[Measurement]], runs: int) -> dict[str, Parameters]:
    print("application   ways  RMSLE   a fit of all")
    fitted = {}
    for name, rows in rows_of.items():
        fitted[name], took = timed(lambda rows=rows: fit(rows), runs)
        print(f"{name:<12} {len(rows):5} {log_error(fitted[name], rows):6.3f} {took}", flush=True)
    for name, rows in rows_of.items():
        few = rows[:: max(1, len(rows) // 12)][:12]
        _, took = timed(lambda few=few: fit(few), runs)
        print(f"{name:<12} {len(few):5} {'':6} {took}", flush=True)
    return fitted


def limits_and_noise(folder: Path, rows: list[Measurement]) -> tuple[Limits, list[Noise]]:
    """Return what the job may do, and the noise of each epoch at its smallest batch."""
    profile = read_profile(folder)
    batches = sorted(profile.epochs)
    limits = Limits(
        initial_batch=batches[0],
        max_batch=batches[-1],
        min_local_batch=min(measured.local_batch for measured in rows),
        max_local_batch=profile.largest_pass,
    )
    return limits, [Noise(epoch.sqr, epoch.var) for epoch in profile.epochs[batches[0]]]


def speedups(models: list[GoodputModel], jobs: int, runs: int) -> None:
    rng = np.random.default_rng(0)
    several = [
        replace(
            model,
            parameters=model.parameters.times(float(rng.uniform(0.5, 2.0))),
            noise=Noise(model.noise.squared_norm, model.noise.variance * float(rng.uniform(0.2, 5.0))),
        )
        for model in (models[job % len(models)] for job in range(jobs))
    ]
    job = np.arange(jobs)[:, None, None]
    nodes, replicas = np.array([1, 2])[:, None], np.arange(2, MOST + 1)

    def all_of_them() -> Speedups:
        table = Speedups(several, [MOST] * jobs)
        table(job, nodes, replicas)
        return table

    table, took = timed(all_of_them, runs)
    print(f"speedups of {jobs} jobs on {2 * MOST} allocations each: {took}")
    counts = rng.integers(0, MOST + 1, size=(100, jobs))
    spread = np.minimum(rng.integers(1, 3, size=counts.shape), np.maximum(counts, 1))
    _, took = timed(lambda: table(np.arange(jobs), spread, counts), runs)
    print(f"looked up again, 100 allocations of every job: {took}", flush=True)


def beside(
    reference: Path, rows_of: dict[str, list[Measurement]], ours: dict[str, Parameters], data: Path
) -> None:
    specification = importlib.util.spec_from_file_location("reference_goodput", reference)
    assert specification is not None
    assert specification.loader is not None
    theirs = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(theirs)
    print("              minimised: ours, theirs; their seconds")
    fitted = {}
    for name, rows in rows_of.items():
        columns = np.array(
            [
                (row.nodes, row.replicas, row.local_batch, row.gradient_seconds, row.iteration_seconds)
                for row in rows
            ]
        ).T
        began = time.process_time()
        fitted[name] = Parameters(*map(float, theirs.fit_perf_params(*columns)))
        seconds = time.process_time() - began
        values = (float(theirs._obj_fn(np.array(each), *columns)) for each in (ours[name], fitted[name]))
        print(f"{name:<12} {next(values):.5f} {next(values):.5f} {seconds:6.1f} s", flush=True)
    print(
        "              cases  theirs too large  else same batch   goodput   speedup differ by"
        "   same batch when cut   speedups of own fits: median, largest"
    )
    for name, parameters in fitted.items():
        limits, noises = limits_and_noise(data / "profiles" / name, rows_of[name])
        compared = [
            allocations_beside(theirs, GoodputModel(parameters, noise, limits), ours[name])
            for noise in noises[:: max(1, len(noises) // 5)]
        ]
        too_large, same, cut, goodput, speedup, own = map(np.concatenate, zip(*compared, strict=True))
        fine = ~too_large
        columns = [
            f"{name:<12} {fine.size:6} {too_large.sum():10} {same[fine].mean():21.1%}",
            f"{goodput[fine].max():12.1e} {speedup[fine].max():9.1e} {cut.mean():23.1%}",
            f"{np.median(own[fine]):24.1e} {own[fine].max():.1e}",
        ]
        print(*columns, flush=True)


def allocations_beside(theirs: Any, model: GoodputModel, own: Parameters) -> list[np.ndarray]:
    """Return, by allocation: whether their batch is too large, whether ours is the same, and the same as
    theirs when it is cut; how far apart goodput and speedup are, and the speedup by our own parameters."""
    nodes, replicas = np.array([(n, k) for n in range(1, 17) for k in range(n, 4 * n + 1)]).T
    limits = model.limits
    replicas_that_fit = replicas * limits.min_local_batch <= limits.max_batch
    nodes, replicas = nodes[replicas_that_fit], replicas[replicas_that_fit]
    function = theirs.GoodputFunction(model.parameters, model.noise, limits.initial_batch)
    bounds = limits.min_local_batch, limits.max_local_batch
    goodput, local_batch, accumulation = function.optimize(
        nodes, replicas, limits.max_batch, bounds, accumulation=True
    )
    best = model.best(nodes, replicas)
    assert (best.goodput > 0).all()
    gradients = replicas * (accumulation + 1)
    same_accumulation = best.accumulation == accumulation
    differences = [
        Speedups([each], [MOST])(0, nodes, replicas) / (goodput / goodput[0]) - 1
        for each in (model, replace(model, parameters=own))
    ]
    return [
        gradients * local_batch > limits.max_batch,
        same_accumulation & (best.local_batch == local_batch),
        same_accumulation & (best.local_batch == np.minimum(local_batch, limits.max_batch // gradients)),
        *map(abs, (best.goodput / goodput - 1, *differences)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/pollux")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--reference", type=Path, help="The authors' goodput.py.")
    options = parser.parse_args()
    print(describe_machine())
    folder = options.data / "profiles"
    if not folder.is_dir():
        print(f"the public data are not here: {folder}")
        return
    rows_of = {path.name: list(read_application(path).measurements()) for path in sorted(folder.iterdir())}
    fitted = fits(rows_of, options.runs)
    models = []
    for name, rows in rows_of.items():
        limits, noises = limits_and_noise(folder / name, rows)
        models.append(GoodputModel(fitted[name], noises[len(noises) // 2], limits))
    speedups(models, options.jobs, options.runs)
    if options.reference:
        beside(options.reference, rows_of, fitted, options.data)


if __name__ == "__main__":
    main()
