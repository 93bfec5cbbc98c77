"""What a preemption costs: until the successor runs, and until the job that gave way trains again.

    python benchmarks/bench_preemption.py [--runs 15]

Starts a platform of its own (`manage.py up --no-demo`, one node with one simulated GPU, the round every 5 s,
so that only hints can be fast). A training job (examples/plain) runs there opportunistically; a
guaranteed job is submitted and takes the GPU back; when it has ended the training job goes on from its
checkpoint. All times are by this machine's clock, written down by the processes themselves:

- *grace used*: from SIGTERM to the end of the training job's process, most of it the checkpoint;
- *hand-over*: from that end to the first instruction of the successor's command; the target is 0.3 s;
- *asked to stop*: from the submit request to SIGTERM;
- *goes on*: from the end of the successor's process to the first instruction of the training job's;
- *trains again*: from that instruction to its first step done; the bound: the same without a platform.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import FAST, ROOT, Installation, installation

#: Says when it begins, is told to stop, and ends. The shim signals the whole group.
TRAINING = """
mark() { date +%s.%N >"$ALLOT_CHECKPOINT_DIR/$1-$ALLOT_ATTEMPT"; }
mark began
trap 'mark asked' TERM
python "$ALLOT_EXAMPLES/plain/train.py" --steps 1000000 --step-seconds 0.01 & child=$!
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
mark ended
exit $code
"""
SUCCESSOR = 'date +%s.%N >"$ALLOT_CHECKPOINT_DIR/began"; sleep 1; date +%s.%N >"$ALLOT_CHECKPOINT_DIR/ended"'
WAIT_SECONDS = 60.0


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--runs", type=int, default=15)
    runs = arguments.parse_args().runs
    print(describe_machine())
    FAST["ALLOT_ROUND_SECONDS"] = "5"
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        measure(Path(folder), runs)


def measure(folder: Path, runs: int) -> None:
    with installation(folder) as platform:
        platform.add_node("only", gpus=1)
        platform.call("POST", "tenants", {"name": "vision"})
        vc = {"name": "research", "guaranteed": {"V100": 1}, "members": [{"tenant": "vision", "weight": 1}]}
        platform.call("POST", "virtual-clusters", vc)
        training = submit(platform, TRAINING, guaranteed=False)
        times: dict[str, list[float]] = {}
        for _ in range(runs):
            for what, seconds in one(platform, training).items():
                times.setdefault(what, []).append(seconds)
        platform.call("POST", f"jobs/{training}/cancel", {})
    for what, values in times.items():
        report(what, values)
    report(
        "bound for trains again: the same checkpoint without a platform", [alone(folder) for _ in range(5)]
    )


def one(platform: Installation, training: int) -> dict[str, float]:
    """Preempt the training job once; return what took how many seconds."""
    folder = platform.home.parent / "checkpoints" / str(training)
    before = newest_attempt(platform, training, "running")
    first_step(platform, training, before)
    sent = time.time()
    successor = submit(platform, SUCCESSOR, guaranteed=True)
    platform.wait_for(successor, "succeeded")
    own = platform.home.parent / "checkpoints" / str(successor)
    after = newest_attempt(platform, training, "running", but=before)
    first_step_at = first_step(platform, training, after)
    asked, ended = read(folder / f"asked-{before}"), read(folder / f"ended-{before}")
    began_again = read(folder / f"began-{after}")
    return {
        "asked to stop": asked - sent,
        "grace used": ended - asked,
        "hand-over": read(own / "began") - ended,
        "goes on": began_again - read(own / "ended"),
        "trains again": first_step_at - began_again,
    }


def submit(platform: Installation, script: str, *, guaranteed: bool) -> int:
    task = {"name": "main", "replicas": 1, "resources": {"gpu": 1}, "command": ["sh", "-c", script]}
    guarantee = "guaranteed" if guaranteed else "opportunistic"
    return platform.submit(name="bench", tenant="vision", tasks=[task], guarantee=guarantee)


def newest_attempt(platform: Installation, job: int, state: str, but: int | None = None) -> int:
    """Wait for an attempt in that state; return its id."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        attempts = platform.call("GET", f"jobs/{job}/attempts")["results"]
        found = [one["id"] for one in attempts if one["state"] == state and one["id"] != but]
        if found:
            return int(max(found))
        time.sleep(0.05)
    raise SystemExit(f"job {job} has no {state} attempt after {WAIT_SECONDS:g} s")


def first_step(platform: Installation, job: int, attempt: int) -> float:
    """Wait for the first progress line of an attempt; return when it was written."""
    deadline = time.monotonic() + WAIT_SECONDS
    path = platform.home.parent / "nodes" / "only" / "attempts" / str(attempt) / "progress-0"
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        if lines and lines[0].endswith("\n"):
            return float(json.loads(lines[0])["at"])
        time.sleep(0.01)
    raise SystemExit(f"attempt {attempt} of job {job} told of no step within {WAIT_SECONDS:g} s")


def alone(folder: Path) -> float:
    """Stop and start the same training by hand; return how long it is until its first step is done."""
    place = folder / "alone"
    place.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "ALLOT_CHECKPOINT_DIR": str(place)}
    command = [sys.executable, str(ROOT / "examples/plain/train.py"), "--steps", "1000000"]
    for _ in range(2):
        progress = place / f"progress-{time.monotonic_ns()}"
        began = time.time()
        process = subprocess.Popen(
            [*command, "--step-seconds", "0.01"],
            env={**environment, "ALLOT_PROGRESS": str(progress)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not progress.exists() or not progress.read_text().endswith("\n"):
            time.sleep(0.005)
        first_step_at = float(json.loads(progress.read_text().splitlines()[0])["at"])
        process.send_signal(signal.SIGTERM)
        process.wait()
    return first_step_at - began


def read(path: Path) -> float:
    return float(path.read_text())


def report(what: str, seconds: list[float]) -> None:
    raw = " ".join(f"{value:.3f}" for value in seconds)
    print(f"{what}: median {statistics.median(seconds):.3f} s of {len(seconds)}\n  raw: {raw}")


if __name__ == "__main__":
    main()
