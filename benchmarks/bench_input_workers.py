"""What it costs to have batches made by input workers: against the same work in the trainer's own process.

    python benchmarks/bench_input_workers.py [--processor-a 0 --processor-b 1] [--shared]

Batches of 32 pictures are read, decoded and transformed as by `examples/images/dataset.py`: to features (36
KiB a batch), to cropped pictures of bytes (1.5 MiB), and of 32-bit numbers (6 MiB). Each run is a process of
its own.

- *wall*: batches a second, made by the trainer itself on processor A, and by one worker on processor A with a
  trainer on processor B that does nothing else: equal processors for the work.
- *processor time* a batch, of trainer and worker together, against that of making it: what the way costs.

With `--shared` one worker serves one, two and four trainers that follow one stream (the jobs of a search), on
all processors: the processor time of all of them for each batch that a trainer had, against one trainer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from machine import describe_machine

DATASET = Path(__file__).resolve().parents[1] / "examples" / "images"
sys.path.insert(0, str(DATASET))

RUNS, PICTURES, BATCH = 5, 64, 32
BATCHES, WARM_UP = 40, 5
FUNCTIONS = ("features", "pixels", "numbers")


def items(count: int) -> list[dict[str, Any]]:
    return [
        {"epoch": number, "rows": [(number * BATCH + row) % PICTURES for row in range(BATCH)]}
        for number in range(count)
    ]


def features(item: dict[str, Any]) -> object:
    return _dataset().make(item)


def pixels(item: dict[str, Any]) -> Any:
    import numpy as np

    dataset = _dataset()
    return np.array([dataset.picture(row)[: dataset.CROP, : dataset.CROP] for row in item["rows"]])


def numbers(item: dict[str, Any]) -> Any:
    import numpy as np

    return pixels(item).astype(np.float32) / 255


def _dataset() -> Any:
    return importlib.import_module("dataset")


def local(function: str, processor: int) -> dict[str, float]:
    os.sched_setaffinity(0, {processor})
    make = globals()[function]
    for item in items(WARM_UP):
        make(item)
    began, used = time.perf_counter(), time.process_time()
    for item in items(BATCHES):
        make(item)
    return _rates(time.perf_counter() - began, time.process_time() - used)


def remote(function: str, processor: int, worker_processor: int) -> dict[str, float]:
    import allot.training

    os.sched_setaffinity(0, {processor})
    secret = secrets.token_hex()
    with (
        tempfile.TemporaryDirectory() as folder,
        allot.training.session(folder=folder) as run,
        run.input_workers(secret=secret, buffer=4) as inputs,
    ):
        command = [sys.executable, "-m", "allot.training.input_workers", f"bench_input_workers:{function}"]
        worker = subprocess.Popen(
            ["taskset", "-c", str(worker_processor), *command, "--trainer", f"127.0.0.1:{inputs.port}"],
            env={**os.environ, "ALLOT_INPUT_SECRET": secret, "PYTHONPATH": str(Path(__file__).parent)},
        )
        batches = inputs.batches(items(WARM_UP + BATCHES))
        for _ in range(WARM_UP):
            next(batches)
        began, used = time.perf_counter(), time.process_time() + _used(worker.pid)
        for _ in batches:
            pass
        found = _rates(time.perf_counter() - began, time.process_time() + _used(worker.pid) - used)
    assert worker.wait() == 0
    return found


def shared(function: str, trainers: int) -> dict[str, float]:
    """Let one worker serve so many trainers; return what a batch that one of them had costs."""
    secret = secrets.token_hex()
    environment = {**os.environ, "ALLOT_INPUT_SECRET": secret, "PYTHONPATH": str(Path(__file__).parent)}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        followers = []
        for number in range(trainers):
            command = [sys.executable, __file__, "--only", "follow", str(Path(folder, str(number)))]
            follower = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            followers.append(processes.enter_context(follower))
        ports = [_line_of(follower) for follower in followers]
        listed = Path(folder, "trainers")
        listed.write_text(",".join(f"127.0.0.1:{port}" for port in ports) + "\n")
        make = f"bench_input_workers:shared_{function}"
        module = ["-m", "allot.training.input_workers", make, "--trainers-file", str(listed)]
        worker = processes.enter_context(subprocess.Popen([sys.executable, *module], env=environment))
        for follower in followers:
            _line_of(follower)
        began = _used(worker.pid)
        for follower in followers:
            assert follower.stdin is not None
            follower.stdin.write("go\n")
            follower.stdin.flush()
        told = [json.loads(_line_of(follower)) for follower in followers]
        used = _used(worker.pid) - began + sum(each["used"] for each in told)
        worker.terminate()
    had = sum(each["had"] for each in told)
    return {"used": 1000 * used / had, "had": had, "skipped": sum(each["skipped"] for each in told)}


def follow(folder: str) -> None:
    """Follow a stream as the trainer of one job: warm up, wait for the word, and take batches."""
    import allot.training

    with allot.training.session(folder=folder) as run, run.input_workers(shared=True) as inputs:
        print(inputs.port, flush=True)
        batches = inputs.stream()
        for _ in range(WARM_UP):
            next(batches)
        print("warm", flush=True)
        sys.stdin.readline()
        used, skipped = time.process_time(), inputs.skipped
        for _ in range(BATCHES):
            next(batches)
        told = {"had": BATCHES, "used": time.process_time() - used, "skipped": inputs.skipped - skipped}
        print(json.dumps(told), flush=True)


def shared_pixels(number: int) -> Any:
    return pixels({"epoch": 0, "rows": [(number * BATCH + row) % PICTURES for row in range(BATCH)]})


def shared_features(number: int) -> object:
    return features({"epoch": number, "rows": [(number * BATCH + row) % PICTURES for row in range(BATCH)]})


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()[:-1]


def _used(pid: int) -> float:
    """Return a process's processor time so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rates(seconds: float, used: float) -> dict[str, float]:
    return {"wall": BATCHES / seconds, "used": 1000 * used / BATCHES}


def measure(*arguments: str) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--processor-a", type=int, default=0)
    made.add_argument("--processor-b", type=int, default=1)
    made.add_argument("--shared", action="store_true")
    made.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    given = made.parse_args()
    if given.only:
        place, function, *processors = given.only
        if place == "follow":
            follow(function)
            return
        run = {"local": local, "remote": remote}[place]
        print(json.dumps(run(function, *map(int, processors))))
        return
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        for row in range(PICTURES):
            _dataset().written(Path(folder), row)
        os.environ |= {"IMAGES_FOLDER": folder, "OMP_NUM_THREADS": "1"}
        if given.shared:
            for function in ("features", "pixels"):
                for trainers in (1, 2, 4):
                    found = [shared(function, trainers) for _ in range(RUNS)]
                    used = [one["used"] for one in found]
                    skipped = sum(one["skipped"] for one in found)
                    print(
                        f"{function}, {trainers} trainers: {[round(each, 1) for each in used]} ms a batch,"
                        f" median {statistics.median(used):.1f}; {skipped:g} batches skipped"
                    )
            return
        first, second = str(given.processor_a), str(given.processor_b)
        for function in FUNCTIONS:
            runs = [
                (
                    measure("--only", "local", function, first),
                    measure("--only", "remote", function, second, first),
                )
                for _ in range(RUNS)
            ]
            print(function)
            for what, unit in (("wall", "batches/s"), ("used", "ms of processor time a batch")):
                own = [one[what] for one, _ in runs]
                away = [other[what] for _, other in runs]
                ratio = statistics.median(away) / statistics.median(own)
                print(
                    f"  {unit}: own {[round(each, 1) for each in own]}"
                    f"  worker {[round(each, 1) for each in away]}  ratio of medians {ratio:.3f}"
                )


if __name__ == "__main__":
    main()
