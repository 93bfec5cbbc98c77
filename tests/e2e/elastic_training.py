"""The same set of real training jobs, elastic and rigid: how well they learn, and when they have ended.

Each job is trained for real, with NumPy (examples/digits) or PyTorch (examples/pytorch). Only the time of a
gradient is made up: it waits as long as a heavier model would compute on a GPU, so that a machine with
two cores can stand for one with four GPUs. Two jobs begin, and two competitors come while these run.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.installation import ROOT, Installation
from tests.patience import PATIENCE_SECONDS, until

GPUS = 4
VIRTUAL_CLUSTER = "training"
HAS_TORCH = importlib.util.find_spec("torch") is not None
#: Long against the second or two that a resize takes here, as the usual minute is on a real cluster.
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "pollux": {"cycle_seconds": 3.0, "restart_seconds": 5.0},
    "fifo": {},
    "singularity": {
        "premium": ["vision"],
        "basic": ["students"],
        "interval_seconds": 3.0,
        "window_seconds": 60.0,
    },
}
#: How a job of the set is run.
ADAPTIVE, RIGID, FIXED_WORLD = "adaptive", "rigid", "fixed_world"
#: Examples, by library and way of running.
COMMANDS = {
    ("digits", ADAPTIVE): "digits/adaptive.py --steps {steps} --step-seconds {seconds} --seed {seed}",
    ("digits", RIGID): "digits/adaptive.py --steps {steps} --step-seconds {seconds} --seed {seed} --most 16",
    ("digits", FIXED_WORLD): "digits/train.py --steps {steps} --step-seconds {seconds} --seed {seed}",
    ("pytorch", ADAPTIVE): "pytorch/adaptive.py --steps {steps} --gradient-seconds {seconds} --seed {seed}",
    ("pytorch", RIGID): (
        "pytorch/adaptive.py --steps {steps} --gradient-seconds {seconds} --seed {seed} --fixed"
    ),
    ("pytorch", FIXED_WORLD): (
        "pytorch/fixed_world.py --steps {steps} --gradient-seconds {seconds} --seed {seed}"
    ),
}


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A job of the set. Its own size, at which it is rigid, is `replicas` GPUs."""

    name: str
    library: str
    tenant: str
    arrives_seconds: float
    #: At the initial batch.
    steps: int
    #: Of the initial batch on one GPU.
    gradient_seconds: float
    replicas: int

    def command(self, way: str, seed: int, *, is_paced: bool = True) -> str:
        seconds = self.gradient_seconds if is_paced else 0.0
        if way == FIXED_WORLD:
            # There a rank's gradient is paced, of its part of the batch.
            seconds /= self.replicas
        return COMMANDS[self.library, way].format(steps=self.steps, seconds=seconds, seed=seed)

    def specification(self, way: str, seed: int) -> dict[str, Any]:
        elastic: dict[str, Any] = {
            ADAPTIVE: {"elastic": {"min_gpus": 1, "max_gpus": GPUS, "mode": "adaptive"}},
            RIGID: {},
            FIXED_WORLD: {"elastic": {"min_gpus": 1, "mode": "fixed_world"}},
        }[way]
        task = {
            "name": "worker",
            "replicas": self.replicas,
            "resources": {"gpu": 1, "gpu_model": "V100"},
            "command": ["sh", "-c", f'exec python "$ALLOT_EXAMPLES"/{self.command(way, seed)}'],
            "env": {"OMP_NUM_THREADS": "1"},
        }
        return {
            "name": self.name,
            "tenant": self.tenant,
            "virtual_cluster": VIRTUAL_CLUSTER,
            "guarantee": "guaranteed",
            "tasks": [task],
            "checkpoint": {"grace_seconds": 30},
            "labels": {"emulated-speed": "transformer"},
            **elastic,
        }


def training_set(part: float = 1.0) -> list[TrainingJob]:
    """Return the set; `part` of its steps and of the times between arrivals. Without PyTorch only digits."""
    long, short = ("students", "vision")
    rows = [
        ("digits-long", "digits", long, 0.0, 500, 0.08, 4),
        ("pytorch-long", "pytorch", long, 0.0, 300, 0.1, 4),
        ("digits-short", "digits", short, 5.0, 250, 0.08, 2),
        ("digits-late", "digits", short, 10.0, 250, 0.08, 2),
    ]
    return [
        TrainingJob(
            name=name,
            library=library,
            tenant=tenant,
            arrives_seconds=part * arrives,
            steps=round(part * steps),
            gradient_seconds=seconds,
            replicas=replicas,
        )
        for name, library, tenant, arrives, steps, seconds, replicas in rows
        if library == "digits" or HAS_TORCH
    ]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a job of the set: seconds from its submission to its end, and how good it is."""

    name: str
    seconds: float
    accuracy: float
    #: GPUs of each attempt, in order.
    gpus: Sequence[int]
    #: What the events say: GPUs before and after each resize.
    resizes: Sequence[tuple[int, int]]
    #: How each attempt but the last ended that was not resized: its outcome, and what was said of it.
    again: Sequence[str]
    #: SHA-256 of the weights, where the example writes it down.
    weights: str | None


def prepare(platform: Installation) -> None:
    """Make a node, two tenants and the virtual cluster in which all of it runs."""
    platform.add_node("trainer", gpus=GPUS)
    members = []
    for tenant in ("students", "vision"):
        platform.call("POST", "tenants", {"name": tenant})
        members.append({"tenant": tenant, "weight": 1})
    body = {"name": VIRTUAL_CLUSTER, "guaranteed": {"V100": GPUS}, "members": members}
    platform.call("POST", "virtual-clusters", body)


def train(
    platform: Installation, jobs: Sequence[TrainingJob], *, policy: str, way: str, seed: int
) -> list[Outcome]:
    """Run the set to its end; jobs arrive at their times, seeds of the jobs follow from that of the set."""
    plugin = {"name": policy, "parameters": dict(POLICIES[policy])}
    platform.call("PUT", f"virtual-clusters/{VIRTUAL_CLUSTER}", {"policy_plugin": plugin})
    began, numbers = time.monotonic(), []
    for place, job in enumerate(jobs):
        until(lambda job=job: time.monotonic() >= began + job.arrives_seconds, "the next arrival")
        numbers.append(platform.submit(**job.specification(way, seed_of(seed, place))))
    return [_outcome(platform, number, job, way) for number, job in zip(numbers, jobs, strict=True)]


def seed_of(seed: int, place: int) -> int:
    return 100 * seed + place


def _outcome(platform: Installation, number: int, job: TrainingJob, way: str) -> Outcome:
    done = platform.wait_for(number, "succeeded", seconds=5 * PATIENCE_SECONDS)
    times = [datetime.fromisoformat(done[name]) for name in ("submitted_at", "ended_at")]
    result: dict[str, Any] = {}
    if way == FIXED_WORLD:
        folder = platform.home.parent / "checkpoints" / str(number)
        result = json.loads((folder / "result.json").read_text())
        assert result["steps"] == job.steps
    events = platform.call("GET", f"jobs/{number}/events?limit=500")["results"]
    resized = [event["data"] for event in reversed(events) if event["kind"] == "job.resized"]
    attempts = platform.call("GET", f"jobs/{number}/scaling")["allocations"]
    return Outcome(
        name=job.name,
        seconds=(times[1] - times[0]).total_seconds(),
        accuracy=result["accuracy"] if result else _final_accuracy(platform, number),
        gpus=[attempt["gpus"] for attempt in attempts],
        resizes=[(data["gpus_before"], data["gpus"]) for data in resized],
        again=_ends_before_the_last(platform, number, way),
        weights=result.get("weights_sha256"),
    )


def _ends_before_the_last(platform: Installation, number: int, way: str) -> list[str]:
    attempts = platform.call("GET", f"jobs/{number}/attempts")["results"]
    *before, _ = sorted(attempts, key=lambda attempt: attempt["number"])
    return [
        f"{each['outcome']} {each['failure'] or each['stop_cause']}: {each['message']}"
        for each in before
        if way == RIGID or each["stop_cause"] not in ("migrated", "resized")
    ]


def _final_accuracy(platform: Installation, number: int) -> float:
    """Return what the job's last progress line says, that after its last step."""

    def told() -> dict[str, Any] | None:
        points = platform.call("GET", f"jobs/{number}/progress")["points"]
        values = points[-1]["values"] if points else {}
        return values if "accuracy" in values and "loss" not in values else None

    return float(until(told, f"the final accuracy of job {number}")["accuracy"])


def undisturbed_weights(job: TrainingJob, seed: int, folder: Path) -> str:
    """Run a job of a fixed world by hand, all its ranks as processes to the end, not paced; return the
    SHA-256 of its weights. No platform has a part in it."""
    folder.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    script, *options = job.command(FIXED_WORLD, seed, is_paced=False).split()
    # Nothing else, as in a job: what a machine sets for OpenBLAS changes the last digits.
    place = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "platform"),
        "ALLOT_ATTEMPT": "1",
        "ALLOT_CHECKPOINT_DIR": str(folder),
        "ALLOT_LOGICAL_WORLD_SIZE": str(job.replicas),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(job.replicas),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / script), *options],
            env={**place, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(job.replicas)
    ]
    outputs = [rank.communicate(timeout=5 * PATIENCE_SECONDS)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), outputs
    return str(json.loads((folder / "result.json").read_text())["weights_sha256"])
