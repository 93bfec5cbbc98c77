"""CPUs that jobs leave to the platform: more for who needs more, given and taken back while it runs."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import Installation
from tests.patience import PATIENCE_SECONDS, until

#: As fast as it can be: a window of its own rate at a time, in CPU seconds per second.
BUSY = """
import json, os, time
with open(os.environ["ALLOT_PROGRESS"], "a") as progress:
    for step in range(10_000):
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() < began + 0.5:
            pass
        rate = (time.process_time() - used) / (time.monotonic() - began)
        progress.write(json.dumps({"step": step, "rate": rate}) + "\\n")
        progress.flush()
"""


@pytest.fixture(scope="module")
def machine(platform: Installation) -> Installation:
    """One node with two GPUs and one CPU, so that half a CPU is the part of a GPU."""
    gpus = [{"index": index, "memory_bytes": 2**34} for index in range(2)]
    inventory = {"kind": "simulated", "gpu_model": "T4", "gpus": gpus, "cpus": 1, "memory_bytes": 2**33}
    platform.add_node("few-cpus", gpus=2, inventory=inventory, rack="rack-5")
    platform.call("POST", "tenants", {"name": "hungry", "title": "Hungry"})
    members = [{"tenant": "hungry", "weight": 1}]
    platform.call("POST", "virtual-clusters", {"name": "few", "guaranteed": {"T4": 2}, "members": members})
    return platform


def submit(platform: Installation, name: str, command: list[str], cpus: dict[str, float] | None) -> int:
    return platform.submit(
        name=name,
        tenant="hungry",
        virtual_cluster="few",
        command=command,
        resources={"gpu": 1, "gpu_model": "T4", "cpu": "auto", "memory": "auto"},
        sensitivity={"cpu": cpus} if cpus else None,
        checkpoint={"grace_seconds": 1},
    )


def cpus_of(platform: Installation, job: int) -> float | None:
    """Return what its attempt has now; None while it does not run."""
    attempt: dict[str, Any] | None = platform.job(job)["attempt"]
    if attempt is None or attempt["state"] != "running" or attempt["auxiliary"] is None:
        return None
    cpus: float = attempt["auxiliary"]["replicas"][0]["cpus"]
    return cpus


def quota_of(attempt: int) -> float:
    """Return the CPUs that the kernel lets its replica have; it counts in microseconds of 100,000."""
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        for file in Path("/sys/fs/cgroup").rglob(f"allotment-few-cpus-*/attempt-{attempt}-rank-0/{name}"):
            return int(file.read_text().split()[0]) / 100_000
    return 0.0


def rates(platform: Installation, job: int) -> list[float]:
    points = platform.call("GET", f"jobs/{job}/progress")["points"]
    return [point["values"]["rate"] for point in points]


@pytest.mark.slow
def test_who_needs_more_gets_it_from_who_needs_less_and_gives_it_back_while_it_runs(
    machine: Installation,
) -> None:
    heavy = submit(machine, "heavy", ["python", "-c", BUSY], {"0.5": 1, "0.9": 1.8})
    waits = 'until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.2; done'
    light = submit(machine, "light", ["sh", "-c", waits], {"0.1": 1})
    until(lambda: cpus_of(machine, heavy) == 0.9 and cpus_of(machine, light) == 0.1)
    attempt = machine.job(heavy)["attempt"]
    assert attempt["auxiliary"]["replicas"][0]["proportional_cpus"] == 0.5
    is_enforced = machine.call("GET", "nodes/few-cpus")["isolation"]["cpu"]
    if is_enforced:
        assert quota_of(attempt["id"]) == 0.9
    until(lambda: rates(machine, heavy))
    (machine.home.parent / "checkpoints" / str(light) / "go").touch()
    machine.wait_for(light, "succeeded")
    # Of this one nobody knows what it needs: it has its part of the node, of which the other has some.
    other = submit(machine, "other", ["sleep", "600"], None)
    until(lambda: cpus_of(machine, other) == 0.5 and cpus_of(machine, heavy) == 0.5)
    if is_enforced:
        until(lambda: quota_of(attempt["id"]) == 0.5)
        until(lambda: all(rate < 0.6 for rate in rates(machine, heavy)[-3:]), what="no more than its part")
    now = machine.job(heavy)
    assert (now["attempts"], now["attempt"]["id"]) == (1, attempt["id"])
    for job in (heavy, other):
        machine.call("POST", f"jobs/{job}/cancel")
        machine.wait_for(job, "cancelled")


#: A batch takes a fifth of a CPU-second of as many processes as the node has CPUs.
DECODER = """
import json, os, time
from multiprocessing import Pool

def decode(_):
    used = time.process_time()
    while time.process_time() < used + 0.05:
        pass

if __name__ == "__main__":
    with open(os.environ["ALLOT_PROGRESS"], "a") as progress, Pool(2) as pool:
        for step in range(100_000):
            pool.map(decode, range(4))
            progress.write(json.dumps({"step": step, "samples": 4 * step}) + "\\n")
            progress.flush()
"""


@pytest.mark.slow
def test_the_platform_finds_out_how_many_cpus_a_job_needs(machine: Installation) -> None:
    if not machine.call("GET", "nodes/few-cpus")["isolation"]["cpu"]:
        pytest.skip("this node does not enforce limits of CPUs")
    job = machine.submit(
        name="decoder",
        tenant="hungry",
        virtual_cluster="few",
        command=["python", "-c", DECODER],
        resources={"gpu": 1, "gpu_model": "T4", "cpu": "auto", "memory": "auto", "measure_cpu": True},
        checkpoint={"grace_seconds": 1},
    )

    def found() -> dict[str, Any]:
        (task,) = machine.call("GET", f"jobs/{job}/sensitivity")["tasks"]
        return dict(task)

    machine.wait_for(job, "running")
    attempt = machine.job(job)["attempt"]["id"]
    quotas: set[float] = set()

    def is_over() -> bool:
        quotas.add(quota_of(attempt))
        return bool(found()["measured"]["is_over"])

    until(is_over, "the end of the trials", seconds=4 * PATIENCE_SECONDS)
    # The kernel held it to its share, to all of the node, and to a quarter of its share.
    assert quotas >= {0.5, 1.0, 0.125}
    assert found()["measured"]["trials"] >= 3
    # What it is given then is what the curve says, whatever else this machine had to do meanwhile.
    (best,) = [point["amount"] for point in found()["by_cpus"] if "best" in point["marks"]]
    until(lambda: cpus_of(machine, job) == best)
    until(lambda: quota_of(attempt) == pytest.approx(best, abs=0.001))
    machine.call("POST", f"jobs/{job}/cancel")
    machine.wait_for(job, "cancelled")
