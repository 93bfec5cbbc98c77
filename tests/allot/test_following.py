"""logs and wait: nothing lost, nothing twice, and a quiet Ctrl-C."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from tests.allot.conftest import Command
from tests.allot.fake_api import REASON, FakeApi, ended, make_attempt, running
from tests.patience import PATIENCE_SECONDS

Allot = Callable[..., Result]


def test_logs_prints_what_there_is(allot: Allot, api: FakeApi) -> None:
    api.add(1, **running(2))
    api.logs[1, 2, 0] = ["a\n", "b\n", "c\n", "d\n", "e"]
    api.logs[1, 2, 1] = ["other rank\n"]
    api.logs[1, 1, 0] = ["earlier\n"]
    assert allot("logs", "1").stdout == "a\nb\nc\nd\ne"
    assert allot("logs", "1", "--rank", "1").stdout == "other rank\n"
    assert allot("logs", "1", "--attempt", "1").stdout == "earlier\n"


@pytest.mark.parametrize(("lines", "shown"), [(0, ""), (1, "e"), (2, "d\ne"), (99, "a\nb\nc\nd\ne")])
def test_tail(allot: Allot, api: FakeApi, lines: int, shown: str) -> None:
    api.add(1, **running())
    api.logs[1, 1, 0] = ["a\nb", "\nc\n", "d\n", "e"]
    assert allot("logs", "1", "--tail", str(lines)).stdout == shown


def test_tail_with_whole_lines(allot: Allot, api: FakeApi) -> None:
    api.add(1, **running())
    api.logs[1, 1, 0] = ["a\n", "b\n", "c\n"]
    assert allot("logs", "1", "--tail", "2").stdout == "b\nc\n"


def test_a_rank_that_the_job_does_not_have(allot: Allot, api: FakeApi) -> None:
    api.add(1, **running())
    for more in ((), ("-f",), ("--tail", "3")):
        result = allot("logs", "1", "--rank", "7", *more)
        assert result.exit_code == 2
        assert result.stderr.endswith("allot: Job 1 has no rank 7. Expected a number from 0 to 1.\n")


def test_logs_of_a_waiting_job_say_why(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    result = allot("logs", "1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Job 1 waits: #3 in the queue: All V100 are in use.\n"


def test_following_goes_on_into_the_next_attempt(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    preempted = {
        "state": "queued",
        "phase": "waiting",
        "reasons": [REASON],
        "attempt": make_attempt(1, state="ended", outcome="preempted"),
    }
    api.timeline[1] = [{}, running(1), preempted, running(2), ended()]
    api.logs[1, 1, 0] = ["one\n", "two\n", "three\n"]
    api.logs[1, 2, 0] = ["four\n"]
    api.complete |= {(1, 1, 0), (1, 2, 0)}
    result = allot("logs", "-f", "1")
    assert result.exit_code == 0
    assert result.stdout == "one\ntwo\nthree\nfour\n"
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
        "Job 1 waits",
        "Attempt 1 on v100-1 ×2",
        "Job 1 waits",
        "Attempt 2 on v100-1 ×2",
        "Job 1 train SUCCEEDED",
    ]


def test_output_that_comes_after_the_end_is_not_lost(
    allot: Allot, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add(1, **running())
    states = iter(["live", "live", "ended", "late"])

    def read_log(job: dict[str, Any], query: dict[str, str]) -> Any:
        state = next(states, "over")
        if state == "ended":
            api.complete.add((1, 1, 0))
            job.update(ended())
        if state == "late":
            api.logs[1, 1, 0].append("last words\n")
        return answer(job, query)

    answer = api._log
    api.logs[1, 1, 0] = ["first\n"]
    monkeypatch.setattr(api, "_log", read_log)
    assert allot("logs", "-f", "1").stdout == "first\nlast words\n"


def test_following_with_a_tail_repeats_nothing(allot: Allot, api: FakeApi) -> None:
    api.add(1, **{**running(), **ended()})
    api.logs[1, 1, 0] = ["a\n", "b\n", "c\n"]
    api.complete.add((1, 1, 0))
    assert allot("logs", "-f", "1", "--tail", "1").stdout == "c\n"


def test_ctrl_c_stops_the_watching_and_says_that_the_job_goes_on(command: Command, api: FakeApi) -> None:
    api.add(1, **running())
    api.logs[1, 1, 0] = ["hello\n"]
    for arguments in (("logs", "-f", "1"), ("wait", "1")):
        api.requests.clear()
        process = command.start(*arguments)
        api.wait_for_request("GET", "/jobs/1")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 130, arguments
        assert "Job 1 goes on." in said
        assert "Traceback" not in said
    assert api.jobs[1]["state"] == "running"


def test_wait_for_several(allot: Allot, api: FakeApi) -> None:
    for number in (1, 2, 3):
        api.add(number)
    api.timeline = {
        1: [running(), ended()],
        2: [ended("failed", 4)],
        3: [running(), running(), ended("failed", 5)],
    }
    result = allot("wait", "3", "1", "2", "-o", "json")
    assert result.exit_code == 5
    assert [job["id"] for job in json.loads(result.stdout)] == [3, 1, 2]


def test_wait_gives_up_in_time(allot: Allot, api: FakeApi) -> None:
    api.add(1, **running())
    result = allot("wait", "1", "--timeout", "0.1")
    assert result.exit_code == 124
    assert "not ended within 0.1 seconds: 1." in result.stderr


def test_wait_outlasts_a_restart_of_the_server(allot: Allot, api: FakeApi, monkeypatch: Any) -> None:
    api.add(1, **running())
    looks = iter(["busy", "busy", "there"])
    handle = api.on_jobs

    def on_jobs(*arguments: Any) -> Any:
        from tests.allot.fake_api import refusal

        if next(looks, "there") == "busy":
            raise refusal(503, "unavailable", "The database is restarting.")
        api.jobs[1].update(ended())
        return handle(*arguments)

    monkeypatch.setattr(api, "on_jobs", on_jobs)
    result = allot("wait", "1")
    assert result.exit_code == 0
    assert result.stderr.count("The database is restarting. Trying again.") == 1
