"""squeue and scancel as scripts call them: which jobs they mean, and what they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.allot.fake_api import NOW, FakeApi, make_attempt, refusal, running
from tests.allot.in_process import Allot, lines, refused

# squeue


def test_squeue_says_what_scripts_ask(allot: Allot, queue: FakeApi) -> None:
    asked = ("squeue", "-u", "ann", "-h", "-o", "%i %T %j")
    assert lines(allot, *asked) == ["2 RUNNING train", "4_0 PENDING sweep", "4_7 PENDING sweep"]
    assert lines(allot, "squeue", "--me", "--noheader", "--format=%A|%t|%a|%P|%u|%D") == [
        "2|R|research|shared|ann|1",
        "4|PD|research|shared|ann|1",
        "5|PD|research|shared|ann|1",
    ]
    assert lines(allot, "squeue", "-h", "-j", "3", "-o", "%r %R") == ["Priority (Priority)"]
    assert lines(allot, "squeue", "-h", "-j", "2", "-o", "%N %R %B %b %C") == [
        "v100-1 v100-1 v100-1 gres/gpu:2 1"
    ]
    assert lines(allot, "squeue", "-h", "-j", "4", "-o", "%F %K") == ["4 0", "4 7"]
    assert lines(allot, "squeue", "-h", "-j", "4_7", "-o", "%i") == ["4_7"]
    assert lines(allot, "squeue", "-h", "-t", "PD", "-n", "eval,none", "-o", "%i") == ["3"]
    assert lines(allot, "squeue", "-h", "-t", "running", "-o", "%i") == ["2"]
    assert lines(allot, "squeue", "-h", "-t", "CG", "-o", "%i") == []
    assert lines(allot, "squeue", "-h", "-j", "2", "-t", "CG,S", "-o", "%i") == []
    assert lines(allot, "squeue", "-h", "-t", "all", "-w", "v100-[1-2]", "-o", "%i") == ["2", "6"]
    assert lines(allot, "squeue", "-h", "-S", "-i", "-o", "%i") == ["4_7", "4_0", "3", "2"]


def test_squeue_as_a_person_sees_it(allot: Allot, queue: FakeApi) -> None:
    header, first, *_ = lines(allot, "squeue")
    assert header == ("             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)")
    assert first.startswith("                 2    shared    train      ann  R")
    assert first.endswith("      1 v100-1")


def test_squeue_asks_the_server_for_no_more_than_it_shows(
    allot: Allot, queue: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []
    answer = queue._list
    monkeypatch.setattr(queue, "_list", lambda query: asked.append(query) or answer(query))
    lines(allot, "squeue", "-u", "ann", "-t", "PD", "-n", "sweep", "-p", "shared", "-A", "research")
    assert asked[0] == {
        "page_size": "200", "state": "queued", "submitted_by": "ann", "name": "sweep",
        "virtual_cluster": "shared", "tenant": "research",
    }  # fmt: skip


def test_squeue_sorts_durations_and_sizes_by_what_they_are(allot: Allot, api: FakeApi) -> None:
    for number, (ran, limit, mebibytes) in enumerate(
        ((540, 36_000, 900), (700, None, 16_384), (100_000, 200_000, 0), (7_200, 8_000, 2_048)), start=1
    ):
        at = (datetime.now(UTC) - timedelta(seconds=ran)).isoformat()
        job = api.add(number, **running(attempt=make_attempt(running_at=at)))
        job["spec"] |= {"time_limit": limit} if limit else {}
        job["spec"]["tasks"][0]["resources"]["memory"] = mebibytes * 2**20

    def order(key: str) -> str:
        return "".join(lines(allot, "squeue", "-h", "-S", key, "-o", "%i"))

    assert {key: order(key) for key in ("M", "-M", "l", "L", "m")} == {
        "M": "1243", "-M": "3421", "l": "4132", "L": "4132", "m": "3142",
    }  # fmt: skip


def test_squeue_shows_what_a_job_has_on_a_node(allot: Allot, api: FakeApi) -> None:
    part = make_attempt()["placement"][0]
    gpus = [{"id": number, "index": number} for number in range(4)]
    placement = [
        {**part, "node": "n1", "gpus": gpus, "ranks": [0, 1]},
        {**part, "node": "n2", "gpus": gpus[:2], "ranks": [2]},
    ]
    for number, state in ((1, running(attempt=make_attempt(placement=placement))), (2, {})):
        job = api.add(number, gpus=6, **state)
        job["spec"]["tasks"][0] |= {"replicas": 3, "resources": {"gpu": 2, "memory": 64 * 2**30}}
    assert lines(allot, "squeue", "-h", "-o", "%b|%m|%D") == [
        "gres/gpu:4|131072M|2", "gres/gpu:2|65536M|3",
    ]  # fmt: skip


def test_squeue_json(allot: Allot, queue: FakeApi) -> None:
    found = json.loads("\n".join(lines(allot, "squeue", "--json", "--me")))
    first = found["jobs"][0]
    assert [job["job_id"] for job in found["jobs"]] == [2, 4, 5]
    assert (first["job_state"], first["user_name"], first["nodes"]) == (["RUNNING"], "ann", "v100-1")
    assert first["submit_time"] == {
        "set": True, "infinite": False, "number": int(datetime.fromisoformat(NOW).timestamp())
    }  # fmt: skip
    assert found["jobs"][2]["array_task_id"]["number"] == 7


@pytest.mark.parametrize("indices", ["[0-9:0]", "[,]", "[-]", "[0-]", "[]", "[3:1]"])
def test_indices_that_are_none_are_refused(allot: Allot, queue: FakeApi, indices: str) -> None:
    assert "is not a job" in refused(allot, "squeue", "-j", f"4_{indices}")


@pytest.mark.parametrize("nodes", ["n[-3]", "n[3-1]", "n[1", "n]", "n[a]", "n[1-99999999]"])
def test_a_list_of_nodes_that_is_none_is_refused(allot: Allot, queue: FakeApi, nodes: str) -> None:
    for command in (["squeue", "-w"], ["sinfo", "-n"], ["scontrol", "show", "hostnames"]):
        assert "is not a list of" in refused(allot, *command, nodes)


def test_a_job_that_is_not_there(allot: Allot, queue: FakeApi) -> None:
    assert allot("slurm", "squeue", "-j", "99").exit_code == 3


# scancel


def cancelled(api: FakeApi) -> list[int]:
    return sorted(number for number, job in api.jobs.items() if job["state"] == "cancelled")


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["3"], [3]),
        (["4"], [4, 5]),
        (["4_7"], [5]),
        (["4_[0-3]", "3"], [3, 4]),
        (["1"], []),
        (["-u", "ann"], [2, 4, 5]),
        (["--me", "-t", "PENDING"], [4, 5]),
        (["-u", "ann", "--state=RUNNING"], [2]),
        (["-n", "sweep"], [4, 5]),
        # Those of others only where they are named.
        (["-t", "PENDING"], [4, 5]),
        (["-p", "shared"], [2, 4, 5]),
        (["-u", "bob"], [3]),
        (["-n", "eval"], []),
        (["-n", "eval", "3"], [3]),
        (["-t", "CG", "2"], []),
        (["--name=eval", "-u", "ann"], []),
        (["-t", "PD", "4", "2"], [4, 5]),
    ],
)
def test_scancel_ends_what_is_meant(
    allot: Allot, queue: FakeApi, arguments: list[str], ids: list[int]
) -> None:
    assert lines(allot, "scancel", *arguments) == []
    assert cancelled(queue) == ids


def test_scancel_says_which_job_is_not_there_and_cancels_the_others(allot: Allot, queue: FakeApi) -> None:
    result = allot("slurm", "scancel", "99", "3")
    assert result.exit_code == 1
    assert result.stderr == "scancel: error: Kill job error on job id 99: Invalid job id specified\n"
    assert cancelled(queue) == [3]


@pytest.mark.parametrize("meant", ["3_1", "4_8", "5_7"])
def test_scancel_leaves_a_job_that_has_no_such_task(allot: Allot, queue: FakeApi, meant: str) -> None:
    """3 is no array, 4 has the tasks 0 and 7, and 5 is one of them."""
    result = allot("slurm", "scancel", meant)
    assert result.exit_code == 1
    assert "Invalid job id specified" in result.stderr
    assert cancelled(queue) == []


@pytest.mark.parametrize("option", ["-u", "-n", "-p", "-A", "-t", "-w", "-j"])
@pytest.mark.parametrize("text", ["", " ", ","])
def test_an_empty_list_chooses_nothing(allot: Allot, queue: FakeApi, option: str, text: str) -> None:
    """It is how a variable reads that is not set, and would mean every job."""
    for command in (["scancel"], ["scancel", "--me"], ["squeue"]):
        if command[-1] != "--me" or option != "-u":
            assert "the list is empty" in refused(allot, *command, option, text)
    assert cancelled(queue) == []


@pytest.mark.parametrize("words", [["2.0"], ["2.batch"], ["--me", ""], ["-j", "2.0"], ["3", ""]])
def test_scancel_takes_a_step_or_nothing_for_no_job(allot: Allot, queue: FakeApi, words: list[str]) -> None:
    assert "is not a job" in refused(allot, "scancel", *words)
    assert cancelled(queue) == []


def test_scancel_goes_on_after_a_refusal(
    allot: Allot, queue: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = queue.handle

    def handle(method: str, path: str, *rest: Any) -> Any:
        if path.endswith("/4/cancel"):
            raise refusal(403, "not_allowed", "You may not.")
        return answer(method, path, *rest)

    monkeypatch.setattr(queue, "handle", handle)
    result = allot("slurm", "scancel", "--me")
    assert result.exit_code == 1
    assert result.stderr == "scancel: error: Kill job error on job id 4: You may not.\n"
    assert cancelled(queue) == [2, 5]
