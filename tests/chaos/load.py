"""A steady load: jobs of all shapes, so many that some always wait. Drawn from the seed, in this order."""

import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.world import World
from tests.e2e.installation import ROOT

UNFINISHED = 10
LOOK_SECONDS = 1.0
#: How long after its end the load asks what became of a job whose submission was never answered.
LAST_ANSWER_SECONDS = 60.0
#: Few, so that the undisturbed runs are few too.
TRAININGS = ((60, 1), (90, 2), (120, 3))
STEP_SECONDS = 0.1
PLAIN_STEPS = (10, 40)
#: Of a GPU: two of them fit, or three.
PARTS = (0.3, 0.4, 0.6, 0.7)
#: Whatever is done to a job is no reason to give it up.
RETRY = {"max_attempts": 20, "attempts": dict.fromkeys(("user", "engine", "unknown", "platform"), 20)}
TENANT = "chaos"
#: Resizes elastic jobs every few seconds: up into what is idle, down again for whoever comes.
POLICY = {"name": "optimus", "parameters": {"interval_seconds": 8.0}}
#: Of the jobs with which a loud tenant fills its queue (`flood`).
LOUD_NAME = "loud"


@dataclass(frozen=True)
class Submitted:
    """A job of the load, and what its accounts have to show."""

    shape: str
    steps: int
    seed: int | None


class Load:
    """Keeps the platform busy until told to stop, however often it does not answer."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(f"load {seed}")
        self.jobs: dict[int, Submitted] = {}
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._keep_busy, name="load", daemon=True)
        self.api = client(world)

    def prepare(self) -> None:
        """Make the tenant and its two virtual clusters; half of the jobs borrow what the others own."""
        self.world.platform.call("POST", "tenants", {"name": TENANT, "title": "Chaos"})
        member = {"tenant": TENANT, "weight": 1}
        body = {"name": "steady", "guaranteed": {"V100": 4}, "members": [member], "policy_plugin": POLICY}
        self.world.platform.call("POST", "virtual-clusters", body)
        self.world.platform.call("PATCH", "cluster/settings", {"spare_policy_plugin": POLICY})

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join()

    def unfinished(self, **only: str) -> int | None:
        """Return how many jobs, under a filter, are not done; None when the platform does not say."""
        try:
            counts = self.api.get("jobs/counts", params=only).raise_for_status().json()
            return counts["queued"] + counts["running"]
        except (httpx.HTTPError, ValueError):
            return None

    def _keep_busy(self) -> None:
        wanted: tuple[Submitted, dict[str, Any]] | None = None
        while not self.is_over.is_set():
            unfinished = self.unfinished(tenant=TENANT)
            while unfinished is not None and unfinished < UNFINISHED and not self.is_over.is_set():
                wanted = wanted or self._draw()
                if not self._submit(*wanted):
                    break
                wanted = None
                unfinished += 1
            self.is_over.wait(LOOK_SECONDS)
        if wanted is not None:
            # It may have arrived, and is to be held to account then.
            deadline = time.monotonic() + LAST_ANSWER_SECONDS
            while not self._submit(*wanted) and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)

    def _submit(self, job: Submitted, specification: dict[str, Any]) -> bool:
        # The same key until there is an answer: a job is never submitted twice by a lost one.
        key = {"Idempotency-Key": f"chaos-{len(self.jobs)}"}
        try:
            answer = self.api.post("jobs", json=specification, headers=key).raise_for_status()
        except (httpx.HTTPError, ValueError):
            return False
        self.jobs[answer.json()["id"]] = job
        return True

    def _draw(self) -> tuple[Submitted, dict[str, Any]]:
        shapes = ("single", "gang", "elastic", "plain", "part", "busy part")
        shape = self.chance.choices(shapes, (3, 2, 4, 2, 2, 2))[0]
        steps, seed = self.chance.choice(TRAININGS)
        words = ["train", str(steps), str(STEP_SECONDS), str(seed)]
        if shape in ("plain", "busy part"):
            steps, seed = self.chance.randint(*PLAIN_STEPS), None
            words = [shape.split()[0], str(steps), str(STEP_SECONDS)]
        # A gang's replica takes a whole node: two of them meet over the network.
        gpus, replicas = {"gang": (2, 2), "elastic": (1, 2)}.get(shape, (1, 1))
        resources: dict[str, Any] = {"gpu": gpus, "gpu_model": "V100"}
        has_part = shape.endswith("part")
        if has_part:
            resources |= {"gpu": self.chance.choice(PARTS), "gpu_limit": 1.0}
        specification = {
            "name": f"chaos-{shape.replace(' ', '-')}",
            "tenant": TENANT,
            "virtual_cluster": "steady",
            "guarantee": self.chance.choice(("guaranteed", "opportunistic")),
            "tasks": [
                {
                    "name": "main",
                    "replicas": replicas,
                    "resources": resources,
                    "command": ["python", str(self.world.program), *words],
                    "env": environment(self.world) | ({"GPU_PART": "1"} if has_part else {}),
                }
            ],
            "checkpoint": {"grace_seconds": 5},
            "retry": RETRY,
        }
        if shape == "elastic":
            specification["elastic"] = {"min_gpus": 1, "max_gpus": 4}
        return Submitted(shape, steps, seed), specification


def client(world: World, token: str = "") -> httpx.Client:
    """Return one that speaks as the operator, or as whose token it is."""
    headers = {"Authorization": f"Bearer {token or world.platform.token}"}
    return httpx.Client(base_url=f"{world.platform.url}/api/v1/", timeout=10, headers=headers)


def environment(world: World) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "platform"), "GPU_LOCKS": str(world.gpu_locks)}


@lru_cache
def undisturbed(program: Path, folder: Path, steps: int, seed: int) -> str:
    """Return the ledger of the same training by itself: no platform, one process, never interrupted."""
    folder = folder / f"{steps}-{seed}"
    folder.mkdir(parents=True)
    settings = {
        "ALLOT_CHECKPOINT_DIR": str(folder),
        "ALLOT_EXAMPLES": str(ROOT / "examples"),
        "PYTHONPATH": str(ROOT / "platform"),
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, str(program), "train", str(steps), "0", str(seed)]
    subprocess.run(command, env=settings, check=True, capture_output=True)
    return (folder / "ledger").read_text()
