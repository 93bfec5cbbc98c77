"""A maintenance window on a whole platform: a job leaves at its start, and another comes at its end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.installation import Installation
from tests.patience import until

WAITS = 'until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.2; done'
NODES = ["fans-1", "fans-2"]


@pytest.fixture(scope="module")
def machine(platform: Installation) -> Installation:
    for name in NODES:
        platform.add_node(name, gpus=1, gpu_model="T4", rack="rack-8")
    platform.call("POST", "tenants", {"name": "cool", "title": "Cool"})
    members = [{"tenant": "cool", "weight": 1}]
    platform.call("POST", "virtual-clusters", {"name": "cool", "guaranteed": {"T4": 2}, "members": members})
    return platform


def submit(machine: Installation, name: str, nodes: list[str]) -> int:
    return machine.submit(
        name=name,
        tenant="cool",
        virtual_cluster="cool",
        command=["sh", "-c", WAITS],
        resources={"gpu": 1, "gpu_model": "T4"},
        nodes={"only": nodes},
        checkpoint={"grace_seconds": 1},
    )


def move(machine: Installation, window: int, column: str) -> None:
    """Let the window start, or end, now."""
    with machine.database() as database:
        database.execute(f"UPDATE scheduler_maintenancewindow SET {column} = now() WHERE id = %s", [window])


def node_of(machine: Installation, job: int) -> str | None:
    """Return where the job runs."""
    shown = machine.job(job)
    is_there = shown["attempt"] is not None and shown["attempt"]["state"] == "running"
    return str(shown["attempt"]["placement"][0]["node"]) if is_there else None


def test_a_job_leaves_its_node_at_the_start_and_the_node_takes_jobs_again_at_the_end(
    machine: Installation,
) -> None:
    def window() -> dict[str, Any]:
        return machine.call("GET", f"maintenance/{number}")

    job = submit(machine, "stays", NODES)
    node = until(lambda: node_of(machine, job))
    (other,) = set(NODES) - {node}
    start = datetime.now(UTC) + timedelta(hours=1)
    body = {
        "reason": "new fans",
        "nodes": [node],
        "starts_at": start.isoformat(),
        "ends_at": (start + timedelta(hours=1)).isoformat(),
    }
    made = machine.call("POST", "maintenance", body)
    number = made["id"]
    assert [each["id"] for each in made["jobs"]] == [job]
    assert machine.job(job)["maintenance"]["node"] == node
    long = submit(machine, "long", [node])
    (reason,) = until(lambda: machine.job(long)["reasons"])[:1]
    assert node_of(machine, job) == node, reason

    move(machine, number, "starts_at")
    until(lambda: node_of(machine, job) == other)
    until(lambda: window()["state"] == "open")
    assert machine.job(long)["state"] == "queued"
    events = machine.call("GET", f"events?job={job}&page_size=100")["results"]
    assert "attempt.maintenance" in {event["kind"] for event in events}
    first, *_ = sorted(
        machine.call("GET", f"jobs/{job}/attempts")["results"], key=lambda each: each["number"]
    )
    assert (first["outcome"], first["stop_cause"]) == ("preempted", "drained")
    assert machine.call("GET", f"nodes/{node}")["cordoned"] is False

    move(machine, number, "ends_at")
    until(lambda: node_of(machine, long) == node)
    assert window()["state"] == "over"
    assert machine.call("GET", f"nodes/{node}")["maintenance"] is None
    for each in (job, long):
        (machine.home.parent / "checkpoints" / str(each) / "go").touch()
        machine.wait_for(each, "succeeded")
