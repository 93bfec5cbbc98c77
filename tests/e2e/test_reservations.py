"""A reservation on a whole platform: its job starts when it begins, and those of others when it ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.installation import Installation
from tests.patience import until

WAITS = 'until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.2; done'
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def machine(platform: Installation) -> Installation:
    """One node, in a virtual cluster of two tenants."""
    platform.add_node("paper-1", gpus=1, gpu_model="A10", rack="rack-9")
    for name in ("authors", "readers"):
        platform.call("POST", "tenants", {"name": name, "title": name.title()})
    members = [{"tenant": name, "weight": 1} for name in ("authors", "readers")]
    platform.call("POST", "virtual-clusters", {"name": "desk", "guaranteed": {"A10": 1}, "members": members})
    return platform


def submit(machine: Installation, name: str, tenant: str, **fields: Any) -> int:
    return machine.submit(
        name=name,
        tenant=tenant,
        virtual_cluster="desk",
        command=["sh", "-c", WAITS],
        resources={"gpu": 1, "gpu_model": "A10"},
        checkpoint={"grace_seconds": 1},
        **fields,
    )


def move(machine: Installation, reservation: int, column: str) -> None:
    """Let the reservation begin, or end, now."""
    with machine.database() as database:
        database.execute(f"UPDATE scheduler_reservation SET {column} = now() WHERE id = %s", [reservation])


def is_running(machine: Installation, job: int) -> bool:
    attempt = machine.job(job)["attempt"]
    return attempt is not None and attempt["state"] == "running"


def test_its_job_runs_from_its_start_and_that_of_others_from_its_end(machine: Installation) -> None:
    def first_reason(job: int) -> str | None:
        reasons = machine.job(job)["reasons"]
        return reasons[0]["code"] if reasons else None

    outside = submit(machine, "outside", "readers", guarantee="opportunistic")
    until(lambda: is_running(machine, outside))
    start = datetime.now(UTC) + HOUR
    made = machine.call(
        "POST",
        "reservations",
        {
            "name": "paper",
            "tenant": "authors",
            "gpu_model": "A10",
            "gpus": 1,
            "starts_at": start.isoformat(),
            "ends_at": (start + HOUR).isoformat(),
        },
    )
    assert made["nodes"] == ["paper-1"]
    inside = submit(machine, "inside", "authors", reservation="paper")
    until(lambda: first_reason(inside) == "reserved")
    predicted = until(lambda: machine.call("GET", f"jobs/{inside}/why")["prediction"])
    assert datetime.fromisoformat(predicted["starts_at"]) >= start - timedelta(seconds=1)
    assert is_running(machine, outside)

    move(machine, made["id"], "starts_at")
    until(lambda: is_running(machine, inside))
    first, *_ = machine.call("GET", f"jobs/{outside}/attempts")["results"]
    assert (first["outcome"], first["stop_cause"]) == ("preempted", "preempted")
    assert machine.job(outside)["state"] == "queued"

    move(machine, made["id"], "ends_at")
    (machine.checkpoints / str(inside) / "go").touch()
    machine.wait_for(inside, "succeeded")
    until(lambda: is_running(machine, outside))
    (machine.checkpoints / str(outside) / "go").touch()
    machine.wait_for(outside, "succeeded")
    assert machine.call("GET", f"reservations/{made['id']}")["state"] == "over"
