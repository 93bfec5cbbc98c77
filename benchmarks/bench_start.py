"""From the submit request to the job's own process, on an idle cluster: how long, and of what.

    python benchmarks/bench_start.py [--runs 20]

Starts a platform of its own (`manage.py up --no-demo`, two nodes of four simulated GPUs, the round
every 5 s, so that only hints can be fast), submits one job after another and reads the time that each
job's first command wrote down. Clock: this machine's, on both ends. Beside it, as a lower bound, the
time to start the same command by this script itself.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import FAST, Installation, installation

COMMAND = ["sh", "-c", 'date +%s.%N >"$ALLOT_CHECKPOINT_DIR/began"']


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=20)
    runs = arguments.parse_args().runs
    print(describe_machine())
    FAST["ALLOT_ROUND_SECONDS"] = "5"
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        measure(Path(folder), runs)


def measure(folder: Path, runs: int) -> None:
    with installation(folder) as platform:
        for name in ("left", "right"):
            platform.add_node(name, gpus=4)
        platform.call("POST", "tenants", {"name": "vision"})
        vc = {"name": "research", "guaranteed": {"V100": 8}, "members": [{"tenant": "vision", "weight": 1}]}
        platform.call("POST", "virtual-clusters", vc)
        for replicas, what in ((1, "one process"), (6, "a gang of 6 over two nodes")):
            seconds = [one(platform, replicas) for _ in range(runs)]
            report(f"submit -> process started, {what}", seconds)
        report("lower bound: the same command started directly", [direct(folder) for _ in range(runs)])


def one(platform: Installation, replicas: int) -> float:
    task = {
        "name": "main",
        "replicas": replicas,
        "resources": {"gpu": 1},
        "command": COMMAND,
    }
    sent = time.time()
    job = platform.submit(name="bench", tenant="vision", tasks=[task])
    platform.wait_for(job, "succeeded")
    began = platform.home.parent / "checkpoints" / str(job) / "began"
    return float(began.read_text()) - sent


def direct(folder: Path) -> float:
    sent = time.time()
    subprocess.run(COMMAND, env={"ALLOT_CHECKPOINT_DIR": str(folder)}, check=True)
    return float((folder / "began").read_text()) - sent


def report(what: str, seconds: list[float]) -> None:
    raw = " ".join(f"{value:.3f}" for value in seconds)
    print(f"{what}: median {statistics.median(seconds):.3f} s of {len(seconds)}\n  raw: {raw}")


if __name__ == "__main__":
    main()
