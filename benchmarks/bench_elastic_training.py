"""Real training that is resized while it runs: is it as good as at a fixed size, and is the set done sooner?

    python benchmarks/bench_elastic_training.py [--seeds 5] [--part 1.0]

Starts a platform of its own (`manage.py up --no-demo`, one node with four simulated GPUs, the round every
2 s). A set of jobs (tests/e2e/elastic_training.py: digits in NumPy, and PyTorch on the CPU where it is
installed; two begin, two competitors come while these run) is trained for each seed once under `pollux`,
elastic with adaptive batches, and once under `fifo`, each at its own number of GPUs with its own batch. Then
once under `singularity`, with fixed worlds: the weights must be those of runs by hand that nobody disturbed.
The arithmetic is real; a gradient waits until as much time is over as a heavier model would take on a GPU.

PyTorch must lie where jobs may read it: in this Python's own environment.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.elastic_training import (
    ADAPTIVE,
    FIXED_WORLD,
    HAS_TORCH,
    RIGID,
    Outcome,
    TrainingJob,
    prepare,
    seed_of,
    train,
    training_set,
    undisturbed_weights,
)
from tests.e2e.installation import Installation, installation

#: Of Student's t, two-sided 95 %, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seeds", type=int, default=5, help="how many, up to 10 (5)")
    arguments.add_argument("--part", type=float, default=1.0, help="of the steps of each job (1)")
    options = arguments.parse_args()
    print(describe_machine())
    if not HAS_TORCH:
        print("PyTorch is not installed (pip install torch): only the jobs in NumPy")
    jobs = training_set(options.part)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder,
        installation(Path(folder)) as platform,
    ):
        prepare(platform)
        compare(platform, jobs, range(1, options.seeds + 1))
        check_weights(platform, jobs, Path(folder))
    print(f"\n{time.monotonic() - began:.0f} s in all, {load()}")


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


def compare(platform: Installation, jobs: Sequence[TrainingJob], seeds: Sequence[int]) -> None:
    """Run the set elastic and rigid by every seed; print each run, then both ways beside each other."""
    elastic, rigid = [], []
    print("\n| seed | policy | job | completion, s | test accuracy | GPUs, by attempt |")
    print("|---:|---|---|---:|---:|---|")
    for seed in seeds:
        # Who begins alternates, so that whatever else the machine does falls on both.
        ways = [(elastic, "pollux", ADAPTIVE), (rigid, "fifo", RIGID)]
        for found, policy, way in ways if seed % 2 else reversed(ways):
            found.append(train(platform, jobs, policy=policy, way=way, seed=seed))
            for each in found[-1]:
                print_outcome(seed, policy, each)
                for why in each.again:
                    print(f"| {seed} | {policy} | {each.name} began again | | | {why} |")
            print(
                f"| {seed} | {policy} | mean of the set, {load()} | {mean_seconds(found[-1]):.1f} | | |",
                flush=True,
            )
    report_accuracy(jobs, elastic, rigid)
    report_completion(elastic, rigid)


def print_outcome(seed: int, policy: str, each: Outcome) -> None:
    gpus = " ".join(map(str, each.gpus))
    print(f"| {seed} | {policy} | {each.name} | {each.seconds:.1f} | {each.accuracy:.4f} | {gpus} |")


def mean_seconds(outcomes: Sequence[Outcome]) -> float:
    return statistics.mean(each.seconds for each in outcomes)


def report_accuracy(
    jobs: Sequence[TrainingJob], elastic: Sequence[Sequence[Outcome]], rigid: Sequence[Sequence[Outcome]]
) -> None:
    print("\n| job | accuracy under pollux, mean and deviation over seeds | rigid | difference, 95 % |")
    print("|---|---|---|---|")
    for place, job in enumerate(jobs):
        pair = [[run[place].accuracy for run in runs] for runs in (elastic, rigid)]
        shown = [f"{statistics.mean(each):.4f} ± {deviation(each):.4f}" for each in pair]
        differences = [one - other for one, other in zip(*pair, strict=True)]
        print(f"| {job.name} | {shown[0]} | {shown[1]} | {with_interval(differences, '+.4f')} |")
    means = [
        statistics.mean(a.accuracy - b.accuracy for a, b in zip(one, other, strict=True))
        for one, other in zip(elastic, rigid, strict=True)
    ]
    print(f"| mean of the set | | | {with_interval(means, '+.4f')} |")


def report_completion(elastic: Sequence[Sequence[Outcome]], rigid: Sequence[Sequence[Outcome]]) -> None:
    ratios = [mean_seconds(one) / mean_seconds(other) for one, other in zip(elastic, rigid, strict=True)]
    raw = " ".join(f"{ratio:.3f}" for ratio in ratios)
    for name, runs in (("pollux", elastic), ("rigid", rigid)):
        means = [mean_seconds(run) for run in runs]
        last = [max(each.seconds for each in run) for run in runs]
        print(
            f"{name}: mean completion time {statistics.mean(means):.1f} s over seeds, the longest job "
            f"{statistics.mean(last):.1f} s, {sum(len(each.resizes) for run in runs for each in run)} resizes"
        )
    print(f"pollux / rigid, mean completion time of the set: {with_interval(ratios, '.3f')} (raw: {raw})")


def with_interval(values: Sequence[float], form: str) -> str:
    """Return the mean and the half width of its 95 % interval by Student's t, as text."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:{form}}"
    half = T_95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:{form}} ± {half:{form.removeprefix('+')}}"


def deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def check_weights(platform: Installation, jobs: Sequence[TrainingJob], folder: Path) -> None:
    """Run the set once under singularity, with fixed worlds; compare its weights with undisturbed ones."""
    outcomes = train(platform, jobs, policy="singularity", way=FIXED_WORLD, seed=1)
    print("\n| fixed world | completion, s | GPUs, by attempt | resizes | weights | undisturbed |")
    print("|---|---:|---|---:|---|---|")
    alike = []
    for place, (job, each) in enumerate(zip(jobs, outcomes, strict=True)):
        expected = undisturbed_weights(job, seed_of(1, place), folder / f"undisturbed-{place}")
        alike.append(each.weights == expected)
        print(
            f"| {job.name} | {each.seconds:.1f} | {' '.join(map(str, each.gpus))} | {len(each.resizes)} "
            f"| {str(each.weights)[:12]} | {expected[:12]}{'' if alike[-1] else ' DIFFERS'} |",
            flush=True,
        )
    resizes = sum(len(each.resizes) for each in outcomes)
    print(
        f"{sum(alike)} of {len(jobs)} ended with the weights of the undisturbed run, with {resizes} resizes"
    )
    if not all(alike) or not resizes:
        raise SystemExit("weights differ, or nothing was resized")


if __name__ == "__main__":
    main()
