"""cancel, hold, release, requeue, update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import Result

from tests.allot.fake_api import FakeApi, ended, running

Allot = Callable[..., Result]


def test_one_that_refuses_does_not_keep_the_others_from_being_cancelled(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.add(2, **ended())
    api.add(3)
    result = allot("cancel", "1", "2", "3")
    assert result.exit_code == 1
    assert result.stdout == "Job 1 cancelled.\nJob 3 cancelled.\n"
    assert result.stderr == "allot: job 2: The job has already succeeded.\n"
    assert allot("cancel", "9").exit_code == 3


def test_many_jobs_are_cancelled_by_one_request(allot: Allot, api: FakeApi) -> None:
    for number in (1, 2, 3):
        api.add(number)
    api.cancelled_at_once = 1_000
    assert allot("cancel", "1", "3", "1").stdout == "2 jobs cancelled, or being stopped.\n"
    assert [api.jobs[number]["state"] for number in (1, 2, 3)] == ["cancelled", "queued", "cancelled"]
    assert api.bulk_cancels == 1


def test_cancelling_by_state(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.add(2, **running())
    assert allot("cancel", "--state", "queued", "--dry-run").stderr == (
        "This would cancel 1 job (1 queued, 0 running).\n"
    )
    assert (
        allot("cancel", "--state", "queued,running", "--yes").stdout
        == "2 jobs cancelled, or being stopped.\n"
    )
    assert allot("cancel", "1", "--state", "queued").exit_code == 2


@pytest.mark.parametrize("filters", [["--filter", "name="], ["--filter", "label=a=1", "--state", " , "]])
@pytest.mark.parametrize("action", ["cancel", "hold"])
def test_an_empty_filter_is_refused(allot: Allot, api: FakeApi, action: str, filters: list[str]) -> None:
    api.add(1)
    result = allot(action, *filters, "--yes")
    assert (result.exit_code, "is empty" in result.stderr) == (2, True)
    assert api.sent("POST", "/jobs/actions") == []


def test_a_job_is_changed_by_the_flags_of_submit(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.add(2, **running())
    result = allot(
        "update",
        "1",
        "--priority",
        "5",
        "--time-limit",
        "2h",
        "--vc",
        "b",
        "--label",
        "k=v",
        "--opportunistic",
    )
    assert result.stdout == "Job 1 changed.\n"
    labels, guarantee = {"k": "v"}, "opportunistic"
    changes = {"virtual_cluster": "b", "priority": 5, "time_limit": "2h"}
    assert api.changes == [(1, changes | {"labels": labels, "guarantee": guarantee})]
    refused = allot("update", "2", "--guaranteed")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "allot: guarantee cannot be changed while job 2 has GPUs.\n",
    )
    assert allot("update", "2", "--no-time-limit").exit_code == 0
    assert api.changes[-1] == (2, {"time_limit": None})
    assert allot("update", "1", "--reservation", "paper").exit_code == 0
    assert api.changes[-1] == (1, {"reservation": "paper"})
    assert allot("update", "1", "--no-reservation").exit_code == 0
    assert api.changes[-1] == (1, {"reservation": None})
    assert allot("update", "1", "--reservation", "x", "--no-reservation").exit_code == 2
    assert allot("update", "1").exit_code == 2
    assert allot("update", "1", "--gpus", "2").exit_code == 2


def test_hold_and_release(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    assert allot("hold", "1").stdout == "Job 1 held.\n"
    assert api.jobs[1]["held"] is True
    assert allot("release", "1").stdout == "Job 1 released.\n"
    assert api.jobs[1]["held"] is False


def test_cancelling_all_queued_is_confirmed_and_only_ones_own(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.add(2, submitted_by="bob")
    api.add(3)
    refused = allot("cancel", "--all-queued")
    assert refused.exit_code == 2
    assert "2 jobs" in refused.stderr
    assert {job["state"] for job in api.jobs.values()} == {"queued"}
    assert allot("cancel", "--all-queued", "--yes").exit_code == 0
    assert [api.jobs[number]["state"] for number in (1, 2, 3)] == ["cancelled", "queued", "cancelled"]
    assert allot("cancel", "--all-queued", "--yes").stderr == ("This would cancel no job.\n")


def test_cancelling_by_filter_counts_asks_and_goes_on_to_the_last(allot: Allot, api: FakeApi) -> None:
    for number in (1, 2, 3):
        api.add(number, submitted_by="bob" if number == 2 else "ann")
    counted = allot("cancel", "--filter", "submitted_by=ann", "--filter", "state=queued", "--dry-run")
    assert counted.stderr == "This would cancel 2 jobs (2 queued, 0 running).\n"
    assert {job["state"] for job in api.jobs.values()} == {"queued"}
    assert allot("cancel", "--filter", "submitted_by=ann").exit_code == 2
    done = allot("cancel", "--filter", "submitted_by=ann", "--yes")
    assert done.stdout == "2 jobs cancelled, or being stopped.\n"
    assert [api.jobs[number]["state"] for number in (1, 2, 3)] == ["cancelled", "queued", "cancelled"]
    assert allot("cancel", "--filter", "queued", "-y").exit_code == 2


def test_many_are_held_by_a_filter(allot: Allot, api: FakeApi) -> None:
    for number in (1, 2, 3):
        api.add(number, submitted_by="bob" if number == 2 else "ann")
    which = ("--filter", "submitted_by=ann")
    assert allot("hold", *which, "--dry-run").stderr == "This would hold 2 jobs (2 queued, 0 running).\n"
    assert allot("hold", *which).exit_code == 2
    assert allot("hold", *which, "-y").stdout == "2 jobs held.\n"
    assert [job["held"] for job in api.jobs.values()] == [True, False, True]
    assert allot("hold", *which, "-y").stderr == "This would hold no job.\n"
    assert allot("release", "1").stdout == "Job 1 released.\n"
    assert allot("release").exit_code == allot("requeue", "1", "--state", "running").exit_code == 2


def test_cancel_wants_either_numbers_or_all(allot: Allot, api: FakeApi) -> None:
    assert allot("cancel").exit_code == 2
    assert allot("cancel", "1", "--all-queued").exit_code == 2
    assert not api.requests
