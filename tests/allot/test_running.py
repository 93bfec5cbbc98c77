"""run: a job submitted, followed, and left with its exit code, or one that says what else became of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.allot.conftest import Command
from tests.allot.fake_api import FakeApi, ended, make_attempt, refusal, running
from tests.allot.in_process import Allot
from tests.patience import PATIENCE_SECONDS

RUN = ("run", "--name", "x", "--gpus", "2", "--", "python", "train.py")


def after_submission(api: FakeApi, *states: dict[str, Any], log: tuple[str, ...] = ("hello\n",)) -> None:
    """What job 1 does once it is submitted."""
    api.timeline[1] = list(states)
    api.logs[1, 1, 0] = list(log)
    api.complete.add((1, 1, 0))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended(), 0),
        (ended("failed", 3), 3),
        (ended("failed", -9), 137),
        (ended("failed", -15), 143),
        (ended("cancelled", None), 121),
        (ended("failed", None, message="The image cannot be had."), 122),
    ],
)
def test_output_goes_to_stdout_and_the_exit_code_is_the_jobs(
    allot: Allot, api: FakeApi, end: dict[str, Any], code: int
) -> None:
    after_submission(api, running(), end, log=("one\n", "two\n", "three\n"))
    result = allot(*RUN)
    assert (result.exit_code, result.stdout) == (code, "one\ntwo\nthree\n")
    (body,) = api.sent("POST", "/jobs")
    assert body["tasks"][0]["command"] == ["python", "train.py"]
    assert result.stderr.splitlines()[0].startswith("Submitted job 1 x: 2 GPUs")


def test_a_job_that_never_starts_has_no_output(allot: Allot, api: FakeApi) -> None:
    api.timeline[1] = [{}, ended("failed", None, message="It failed to start.")]
    result = allot(*RUN)
    assert (result.exit_code, result.stdout) == (122, "")
    assert "It failed to start." in result.stderr


def test_it_goes_on_into_the_next_attempt(allot: Allot, api: FakeApi) -> None:
    lost = {"state": "queued", "phase": "waiting", "attempt": make_attempt(1, state="ended", outcome="lost")}
    after_submission(api, running(), lost, running(2), ended())
    api.logs[1, 2, 0] = ["again\n"]
    api.complete.add((1, 2, 0))
    assert allot(*RUN).stdout == "hello\nagain\n"


def test_a_file_can_be_run_but_not_many_jobs(allot: Allot, api: FakeApi, tmp_path: Any) -> None:
    (tmp_path / "job.yaml").write_text("name: y\ngpus: 1\ncommand: [python, a.py]\n")
    after_submission(api, running(), ended())
    assert allot("run", "job.yaml").exit_code == 0
    (tmp_path / "two.yaml").write_text("name: y\n---\nname: z\n")
    for more in (("two.yaml",), ("job.yaml", "--array", "0-3"), ()):
        assert allot("run", *more).exit_code == 2
    assert len(api.sent("POST", "/jobs")) == 1


def test_what_is_refused_has_the_exit_code_of_a_submission(allot: Allot, api: FakeApi) -> None:
    api.refuse = refusal(400, "invalid", "name: is not a name.")
    assert allot(*RUN).exit_code == 1
    api.refuse = refusal(403, "not_allowed", "You are a viewer.")
    assert allot(*RUN).exit_code == 3


def test_ctrl_c_asks_to_cancel_and_stays_until_it_has_ended(
    command: Command, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_submission(api, running())
    api.complete.clear()
    answer = api.on_jobs

    def on_jobs(method: str, parts: list[str], *more: Any) -> Any:
        if parts[1:] != ["cancel"]:
            return answer(method, parts, *more)
        job = api.jobs[1]
        # It stops a while later, and writes meanwhile.
        job.update(cancelling=True)
        api.logs[1, 1, 0].append("checkpoint written\n")
        api.timeline[1] = [{}, {}, ended("cancelled", None)]
        api.complete.add((1, 1, 0))
        return job

    monkeypatch.setattr(api, "on_jobs", on_jobs)
    process = command.start(*RUN)
    api.wait_for_request("GET", "/jobs/1/logs")
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (121, "hello\ncheckpoint written\n"), said
    assert len(api.sent("POST", "/jobs/1/cancel")) == 1
    assert "Cancelling job 1" in said
    assert "Traceback" not in said


def test_ctrl_c_twice_leaves_it_running(
    command: Command, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_submission(api, running())
    api.complete.clear()
    answer = api.on_jobs

    def on_jobs(method: str, parts: list[str], *more: Any) -> Any:
        # The job takes its time.
        return api.jobs[1] if parts[1:] == ["cancel"] else answer(method, parts, *more)

    monkeypatch.setattr(api, "on_jobs", on_jobs)
    process = command.start(*RUN)
    api.wait_for_request("GET", "/jobs/1/logs")
    process.send_signal(signal.SIGINT)
    api.wait_for_request("POST", "/jobs/1/cancel")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, said
    assert "Job 1 goes on. See it with `allot logs -f 1`" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_detached_on_exit_it_is_left_at_once(command: Command, api: FakeApi, number: int) -> None:
    after_submission(api, running())
    api.complete.clear()
    process = command.start("run", "--detach-on-exit", *RUN[1:])
    api.wait_for_request("GET", "/jobs/1/logs")
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, said
    assert "Job 1 goes on." in said
    assert api.sent("POST", "/jobs/1/cancel") == []
    assert api.jobs[1]["state"] == "running"


def test_a_server_that_stays_away_has_a_code_of_its_own(
    command: Command, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_submission(api, running())
    api.complete.clear()
    answer, looks = api.on_jobs, []

    def on_jobs(method: str, parts: list[str], *more: Any) -> Any:
        if parts[1:] == ["logs"]:
            looks.append(1)
            if len(looks) > 1:
                raise refusal(503, "unavailable", "The database is restarting.")
        return answer(method, parts, *more)

    monkeypatch.setattr(api, "on_jobs", on_jobs)
    result = command("run", "--reconnect", "1s", *RUN[1:])
    assert (result.returncode, result.stdout) == (123, "hello\n"), result.stderr
    assert "job 1 goes on there" in result.stderr
    assert len(looks) > 2


def test_a_server_that_comes_back_is_gone_on_with(
    allot: Allot, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_submission(api, running(), ended())
    answer, looks = api.on_jobs, []

    def on_jobs(method: str, parts: list[str], *more: Any) -> Any:
        if parts[1:] == ["logs"]:
            looks.append(1)
            if len(looks) == 1:
                raise refusal(503, "unavailable", "The database is restarting.")
        return answer(method, parts, *more)

    monkeypatch.setattr(api, "on_jobs", on_jobs)
    result = allot(*RUN)
    assert (result.exit_code, result.stdout) == (0, "hello\n")
    assert "The database is restarting." in result.stderr
