"""Real jobs on three simulated GPU models: who knows how fast each runs where lets them end sooner.

The jobs do nothing but take as long for a step as their kind of training would on the GPU they are given;
what they have done is kept in their checkpoint, so that they may be stopped and moved.
"""

import json
import statistics
from datetime import datetime

import pytest

from tests.e2e.installation import Installation

#: Samples a second by model: one kind gains much from the fast GPU, the other next to nothing.
SPEEDS = {"keen": {"A100": 20.0, "T4": 1.0, "M60": 0.5}, "easy": {"A100": 1.5, "T4": 3.6, "M60": 3.2}}
#: Samples that each job has to do.
WORK = {"keen": 60, "easy": 20}
JOBS = ("keen", "easy", "keen", "easy", "keen")

TRAINING = """
import json, os, pathlib, signal, sys, time
done_file = pathlib.Path(os.environ["ALLOT_CHECKPOINT_DIR"]) / "done"
speed, work = json.loads(os.environ["SPEEDS"])[os.environ["ALLOT_GPU_MODEL"]], int(os.environ["WORK"])
done = int(done_file.read_text()) if done_file.exists() else 0
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
began, before = time.monotonic(), done
with open(os.environ["ALLOT_PROGRESS"], "a") as progress:
    while done < work and not stopping:
        time.sleep(max(0.0, began + (done + 1 - before) / speed - time.monotonic()))
        done += 1
        progress.write(json.dumps({"step": done, "samples": done}) + "\\n")
        progress.flush()
done_file.write_text(str(done))
sys.exit(0 if done == work else 1)
"""


@pytest.fixture(scope="module")
def mixed(platform: Installation) -> Installation:
    """One GPU of each model for a virtual cluster of a tenant of its own."""
    for model in SPEEDS["keen"]:
        platform.add_node(f"one-{model.lower()}", gpus=1, gpu_model=model, rack="rack-3")
    platform.call("POST", "tenants", {"name": "hardware", "title": "Hardware"})
    platform.call(
        "POST",
        "virtual-clusters",
        {
            "name": "mixed",
            "guaranteed": dict.fromkeys(SPEEDS["keen"], 1),
            "members": [{"tenant": "hardware", "weight": 1}],
        },
    )
    return platform


def spec(kind: str) -> dict:
    return {
        "name": kind,
        "tenant": "hardware",
        "virtual_cluster": "mixed",
        "application": kind,
        "throughput": SPEEDS[kind],
        "estimate": round(WORK[kind] / max(SPEEDS[kind].values())),
        "tasks": [
            {
                "name": "main",
                "resources": {"gpu": 1, "gpu_model": list(SPEEDS[kind])},
                "command": ["python", "-c", TRAINING],
                "env": {"SPEEDS": json.dumps(SPEEDS[kind]), "WORK": str(WORK[kind])},
            }
        ],
        "checkpoint": {"grace_seconds": 5},
    }


def choose(platform: Installation, **parameters: object) -> None:
    same = {"objective": "shortest_job", "lease_seconds": 3.0, "interval_seconds": 3.0}
    choice = {"policy": "gavel", "policy_parameters": {**same, "profiling": 0.0, **parameters}}
    platform.call("PUT", "virtual-clusters/mixed", choice)


def completion_seconds(platform: Installation) -> list[float]:
    """Submit all jobs at once, wait for their ends, and return how long each took."""
    numbers = [platform.submit(**spec(kind)) for kind in JOBS]
    took = []
    for number in numbers:
        done = platform.wait_for(number, "succeeded", seconds=120)
        begun, ended = [datetime.fromisoformat(done[at]) for at in ("submitted_at", "ended_at")]
        took.append((ended - begun).total_seconds())
    return took


def test_jobs_end_sooner_when_the_policy_knows_how_fast_they_are(mixed: Installation) -> None:
    choose(mixed, aware=False)
    agnostic = completion_seconds(mixed)
    choose(mixed, aware=True)
    aware = completion_seconds(mixed)
    assert statistics.mean(aware) < 0.92 * statistics.mean(agnostic), (aware, agnostic)
