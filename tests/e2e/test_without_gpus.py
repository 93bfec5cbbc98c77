"""A node without GPUs, and jobs that take CPUs and memory alone."""

from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.patience import until

#: Says what it sees, and waits until the test lets it end.
SAYS_AND_WAITS = (
    'echo "GPUs [$CUDA_VISIBLE_DEVICES] on $ALLOT_NODE, rank $RANK of $WORLD_SIZE";'
    ' until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.2; done'
)


@pytest.fixture(scope="module")
def machine(platform: Installation) -> Installation:
    """A node with one GPU and few CPUs, and one without GPUs."""
    gpus = [{"index": 0, "memory_bytes": 2**34}]
    few = {"kind": "simulated", "gpu_model": "L4", "gpus": gpus, "cpus": 2, "memory_bytes": 2**33}
    platform.add_node("one-l4", gpus=1, inventory=few, rack="rack-6")
    platform.add_node(
        "only-cpus", gpus=0, inventory={"kind": "none", "cpus": 4, "memory_bytes": 2**33}, rack="rack-6"
    )
    platform.call("POST", "tenants", {"name": "prepare", "title": "Prepare"})
    members = [{"tenant": "prepare", "weight": 1}]
    platform.call(
        "POST", "virtual-clusters", {"name": "prepares", "guaranteed": {"L4": 1}, "members": members}
    )
    return platform


def submit(platform: Installation, name: str, resources: dict[str, object]) -> int:
    return platform.submit(
        name=name,
        tenant="prepare",
        virtual_cluster="prepares",
        command=["sh", "-c", SAYS_AND_WAITS],
        resources=resources,
        nodes={"only": ["one-l4", "only-cpus"]},
        checkpoint={"grace_seconds": 1},
    )


def output(platform: Installation, job: int) -> str:
    chunks = platform.call("GET", f"jobs/{job}/logs?rank=0&limit=1000")["chunks"]
    return "".join(chunk["text"] for chunk in chunks)


def let_end(platform: Installation, job: int) -> None:
    (platform.home.parent / "checkpoints" / str(job) / "go").touch()
    platform.wait_for(job, "succeeded")


def limit_of(attempt: int, name: str) -> str | None:
    """Return what the kernel holds its replica to; None where the agent has no groups of its own."""
    for file in Path("/sys/fs/cgroup").rglob(f"allotment-only-cpus-*/attempt-{attempt}-rank-0/{name}"):
        return file.read_text().strip()
    return None


def test_a_job_without_gpus_runs_on_a_node_without_gpus_beside_one_that_has_some(
    machine: Installation,
) -> None:
    node = machine.call("GET", "nodes/only-cpus")
    assert (node["gpus"], node["gpu_model"], node["cpus"]) == ([], None, 4)
    trains = submit(machine, "trains", {"gpu": 1, "gpu_model": "L4", "cpu": 1})
    until(lambda: machine.job(trains)["state"] == "running")
    prepares = submit(machine, "prepares", {"gpu": 0, "cpu": 3, "memory": "1GiB"})
    until(lambda: machine.job(prepares)["state"] == "running")

    job = machine.job(prepares)
    assert (job["gpus"], job["attempt"]["gpu_model"]) == (0, "")
    assert [(part["node"], part["gpus"], part["ranks"]) for part in job["attempt"]["placement"]] == [
        ("only-cpus", [], [0])
    ]
    resources = job["spec"]["tasks"][0]["resources"]
    assert (resources["cpu"], resources["memory"]) == (3.0, 2**30)
    until(lambda: "GPUs [] on only-cpus, rank 0 of 1" in output(machine, prepares))
    if node["isolation"]["cpu"]:
        quota = limit_of(job["attempt"]["id"], "cpu.max") or limit_of(
            job["attempt"]["id"], "cpu.cfs_quota_us"
        )
        assert quota is not None
        assert int(quota.split()[0]) == 300_000
    if node["isolation"]["memory"]:
        limit = limit_of(job["attempt"]["id"], "memory.max") or limit_of(
            job["attempt"]["id"], "memory.limit_in_bytes"
        )
        assert limit == str(2**30)

    # The next one finds neither CPUs there nor beside the job with a GPU, which nothing disturbs.
    waits = submit(machine, "waits", {"gpu": 0, "cpu": 2})
    until(lambda: machine.call("GET", f"jobs/{waits}/why")["reasons"])
    why = machine.call("GET", f"jobs/{waits}/why")["reasons"][0]["message"]
    assert why.startswith("CPUs and memory for it are available, but not on the nodes that it may use")
    let_end(machine, prepares)
    until(lambda: machine.job(waits)["state"] == "running")
    let_end(machine, waits)
    trained = machine.job(trains)
    assert (trained["state"], trained["attempts"], trained["preemptions"]) == ("running", 1, 0)
    let_end(machine, trains)
