"""What measuring and adapting costs a step of training, by pairs of steps with it and without.

    python benchmarks/bench_adaptive.py [--periods 10] [--threads 1] [--ranks 1,2]

A convolutional network of 2.2 million weights learns random images in a batch that stays: with the plain
loop, and with `AdaptiveOptimiser` around the same optimiser. Both take turns step by step in one process, so
that whatever else the machine does falls on both; a pair is one step of each, and who begins alternates. Time
is the processor's, of rank 0, and beside it the clock's. Steps in which gradients are measured are few and
cost more than the others: the figure is the median difference of the pairs of each kind, weighted by how
often they come. Its interval (95 %) is by the bootstrap over pairs. Several ranks are processes that meet by
gloo. Without torch, and with --core, only what is plain Python is measured.

Each case is measured twice. What adapting adds does not depend on how long the network computes, only on how
many weights it has, so that it is told best where computing takes next to nothing: *fixed* has the same
weights in a network whose loss is their sum. *Whole* is the convolutional network, whose own steps vary by
more than what adapting adds to them. The fixed cost relative to the whole's step is the overhead.
"""

import argparse
import importlib.util
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from machine import describe_machine

import allot.training
from allot.training.adaptive import AdaptiveBatch
from allot.training.batch_choice import Limits, Times, best_way
from allot.training.noise import GradientNoise

BATCH = 32
# Pairs before the first that counts: both are warm then, and the iterations are over that are all measured.
WARM_PAIRS = 32
RESAMPLES = 2000
CORE_STEPS = 20_000
CASES = {
    # Name: optimiser, gradients of a step.
    "sgd": ("sgd", 1),
    "sgd, accumulating": ("sgd", 2),
    "adam": ("adam", 1),
}


def median(values: list[float]) -> float:
    return statistics.median(values)


def microseconds_per_step() -> dict[str, float]:
    """Of the session's loop: plain, and with an adaptive batch, noise and a report."""

    def seconds(is_adaptive: bool, folder: str) -> float:
        with allot.training.session(folder=folder) as run:
            sampler = run.sampler(10**6)
            batch = run.adaptive_batch(initial=16, most=16, local=(8, 8)) if is_adaptive else None
            started = time.perf_counter()
            for _ in run.steps(CORE_STEPS):
                if batch is None:
                    sampler.take(16)
                else:
                    for _share in batch.gradients(sampler):
                        pass
                    batch.noise.observe([2.0], [1.0], count=2, scale=1.0)
                run.report(loss=0.0)
            return (time.perf_counter() - started) / CORE_STEPS

    pairs = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            pairs.append((seconds(False, one), seconds(True, other)))
    return {
        "plain": 1e6 * median([plain for plain, _ in pairs]),
        "adaptive": 1e6 * median([adaptive for _, adaptive in pairs]),
    }


def milliseconds_to_choose() -> float:
    """Of a batch, for limits under which all that are tried are possible."""
    limits = Limits(initial_batch=128, max_batch=4096, min_local_batch=8, max_local_batch=256)
    noise, times = GradientNoise(), Times()
    noise.observe([30.0], [16.0], count=2, scale=1.0)
    for size in (16, 64, 256):
        times.add(size, 4, gradient=0.1 + 0.002 * size, rest=0.1)

    def seconds() -> float:
        started = time.perf_counter()
        best_way(limits, 4, times, noise)
        return time.perf_counter() - started

    return 1e3 * median([seconds() for _ in range(51)])


class Pair(NamedTuple):
    """One step of each kind, in seconds of the processor and by the clock."""

    plain: float
    adaptive: float
    plain_by_clock: float
    adaptive_by_clock: float
    #: Whether the adaptive one measured its gradients.
    is_measured: bool


def pairs_of_one_case(kind: str, gradients: int, periods: int, threads: int, *, is_fixed: bool) -> list[Pair]:
    """Return what was timed of each pair; all ranks do this together."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from allot.training.pytorch import MEASURED_EVERY, AdaptiveOptimiser
    from allot.training.sampler import Sampler

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    images, labels = torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,))

    class SumOfWeights(torch.nn.Module):
        """Has the weights of a network, and computes their sum."""

        def __init__(self, network) -> None:
            super().__init__()
            self.network = network

        def forward(self, _inputs):
            return sum(weights.sum() for weights in self.network.parameters())

    def task():
        network = torch.nn.Sequential(
            *(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU()),
            *(torch.nn.Conv2d(32, 64, 3, padding=1, stride=2), torch.nn.ReLU()),
            *(torch.nn.Conv2d(64, 128, 3, padding=1, stride=2), torch.nn.ReLU(), torch.nn.Flatten()),
            *(torch.nn.Linear(128 * 64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)),
        )
        network = SumOfWeights(network) if is_fixed else network
        model = DistributedDataParallel(network) if world_size > 1 else network
        optimisers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
        sampler = Sampler(len(labels), seed=0, rank=rank, world_size=world_size)
        return model, optimisers[kind](network.parameters(), lr=1e-4), sampler

    def loss_of(model, share):
        if is_fixed:
            return model(share)
        return torch.nn.functional.cross_entropy(model(images[share]), labels[share])

    whole = BATCH * gradients * world_size
    model, optimiser, sampler = task()

    def plain() -> None:
        share = sampler.take_whole(whole)
        for begin in range(0, len(share), BATCH):
            part = share[begin : begin + BATCH]
            if world_size > 1 and begin + BATCH < len(share):
                with model.no_sync():
                    (loss_of(model, part) / gradients).backward()
            else:
                (loss_of(model, part) / gradients).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    adaptive_model, adaptive_optimiser, adaptive_sampler = task()
    limits = Limits(initial_batch=whole, max_batch=whole, min_local_batch=BATCH, max_local_batch=BATCH)
    batch = AdaptiveBatch(limits, replicas=world_size, agree=(lambda number: number))
    tuned = AdaptiveOptimiser(batch, adaptive_optimiser, adaptive_model)

    def adaptive() -> None:
        for share in tuned.gradients(adaptive_sampler):
            tuned.backward(loss_of(adaptive_model, share))
        tuned.step()
        batch.finish_iteration()
        batch.line()

    def seconds(step) -> tuple[float, float]:
        if world_size > 1:
            dist.barrier()
        started = time.process_time(), time.perf_counter()
        step()
        return time.process_time() - started[0], time.perf_counter() - started[1]

    found = []
    for pair in range(WARM_PAIRS + periods * MEASURED_EVERY):
        # Whether the first or the second of two measured steps comes first changes from period to period.
        is_plain_first = (pair + pair // MEASURED_EVERY) % 2 == 0
        timed = {step: seconds(step) for step in ((plain, adaptive) if is_plain_first else (adaptive, plain))}
        processor, clock = zip(timed[plain], timed[adaptive], strict=True)
        found.append(Pair(*processor, *clock, tuned.is_measured))
    return found[WARM_PAIRS:]


def more(pairs: Sequence[Pair], *, by_clock: bool = False) -> float:
    """Return by how many seconds an adaptive step is longer, on average."""
    found = 0.0
    for kind in (False, True):
        differences = [
            pair.adaptive_by_clock - pair.plain_by_clock if by_clock else pair.adaptive - pair.plain
            for pair in pairs
            if pair.is_measured == kind
        ]
        found += len(differences) / len(pairs) * median(differences)
    return found


def interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the middle 95 % of `more` of pairs drawn from these; each kind keeps its number."""
    generator = random.Random(0)
    kinds = [[pair for pair in pairs if pair.is_measured == kind] for kind in (False, True)]
    found = sorted(
        more([pair for kind in kinds for pair in generator.choices(kind, k=len(kind))])
        for _ in range(RESAMPLES)
    )
    return found[RESAMPLES // 40], found[-RESAMPLES // 40]


def measure_as_rank(case: str, periods: int, threads: int, *, is_fixed: bool) -> None:
    """Print what rank 0 measured of one case."""
    import torch.distributed as dist

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    pairs = pairs_of_one_case(*CASES[case], periods, threads, is_fixed=is_fixed)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(pairs))
    if dist.is_initialized():
        dist.destroy_process_group()


def gang(case: str, ranks: int, periods: int, threads: int, *, is_fixed: bool) -> list[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    command = [sys.executable, __file__, "--case", case, "--periods", str(periods), "--threads", str(threads)]
    command += ["--fixed"] if is_fixed else []
    processes = [
        subprocess.Popen(
            command, env={**os.environ, **place, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{case} on {ranks} ranks failed")
    return [Pair(*pair) for pair in json.loads(outputs[0].splitlines()[-1])]


def row(ranks: int, case: str, periods: int, threads: int) -> str:
    """Measure a case; return its line of the table."""
    # Short steps: many cost little.
    fixed = gang(case, ranks, 4 * periods, threads, is_fixed=True)
    by_kind = " / ".join(
        f"{1e6 * median([pair.adaptive - pair.plain for pair in fixed if pair.is_measured == kind]):.0f}"
        for kind in (False, True)
    )
    added, (least, most) = more(fixed), interval(fixed)
    cells = [str(ranks), case, by_kind, f"{1e6 * added:.0f} ({1e6 * least:.0f} to {1e6 * most:.0f})"]
    whole = gang(case, ranks, periods, threads, is_fixed=False)
    step = median([pair.plain for pair in whole])
    by_clock = more(whole, by_clock=True) / median([pair.plain_by_clock for pair in whole])
    low, high = (100 * seconds / step for seconds in interval(whole))
    cells += [
        f"{1e3 * step:.1f}",
        f"{100 * added / step:.2f} % ({100 * least / step:.2f} to {100 * most / step:.2f})",
        f"{100 * more(whole) / step:.2f} % ({low:.2f} to {high:.2f})",
        f"{100 * by_clock:.2f} %",
        f"{len(fixed)}, {len(whole)}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--periods", type=int, default=10, help="of measuring, of each case (10)")
    parser.add_argument("--threads", type=int, default=1, help="of each rank (1)")
    parser.add_argument("--ranks", default="1,2", help="how many (1,2)")
    parser.add_argument("--core", action="store_true", help="without PyTorch")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--fixed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure_as_rank(options.case, options.periods, options.threads, is_fixed=options.fixed)
        return
    print(describe_machine())
    core = microseconds_per_step()
    print(
        f"plain Python, a step: {core['plain']:.1f} µs in the session's loop, {core['adaptive']:.1f} µs with "
        f"an adaptive batch and a report; a choice of a batch: {milliseconds_to_choose():.2f} ms"
    )
    if options.core:
        return
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed (pip install torch): nothing more to measure")
        return
    print(
        "| ranks | optimiser | fixed, µs: not measured / measured | a step, µs | whole step, ms "
        "| fixed of it | whole | by the clock | pairs |"
    )
    print("|---:|---|---|---|---:|---|---|---|---|")
    for ranks in map(int, options.ranks.split(",")):
        for case in CASES:
            print(row(ranks, case, options.periods, options.threads), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
