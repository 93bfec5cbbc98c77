"""Submitting: what reaches the server, once, and what the person is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from allot.describe import asked_words, gpus_wanted, nodes_of
from tests.allot.conftest import Command
from tests.allot.fake_api import FakeApi, ended, refusal, running

Allot = Callable[..., Result]

ONE = "name: one\ngpus: 2\ncommand: [python, train.py]\n"
TWO = "name: one\ncommand: 'true'\n---\nname: two\ncommand: 'true'\n"


def test_flags_and_a_command_after_two_dashes(command: Command, api: FakeApi) -> None:
    flags = (
        "--name x --gpus 4 --model V100,P100 --replicas 2 --opportunistic --vc research --tenant t "
        "--time-limit 1h --env K=V --priority 5 -- python train.py --lr 1 -- rest"
    )
    result = command("submit", *flags.split())
    assert result.returncode == 0, result.stderr
    (body,) = api.sent("POST", "/jobs")
    assert body["tenant"] == "t"
    assert body["guarantee"] == "opportunistic"
    (task,) = body["tasks"]
    assert task["command"] == ["python", "train.py", "--lr", "1", "--", "rest"]
    assert task["resources"] == {"gpu": 4, "gpu_model": ["V100", "P100"]}
    assert result.stdout.splitlines() == [
        "Submitted job 1 x: 2 GPUs of V100 or P100 in shared.",
        "  main ×2, 4 GPUs each: python train.py --lr 1 -- rest",
        "  time limit: 1h",
        "  allot why 1         why it waits, and its place in the queue",
        "  allot logs -f 1     its output as it comes",
        "  allot cancel 1      stop it",
    ]


def test_flags_for_where_it_runs_and_what_it_gives_way_to(allot: Allot, api: FakeApi) -> None:
    flags = "--pinned-cell demo --nodes n1,n2 --avoid-nodes n3 --on-reclaim downgrade --secret HF --secret S3"
    assert allot("submit", *flags.split(), "--", "true").exit_code == 0
    (body,) = api.sent("POST", "/jobs")
    assert (body["pinned_cell"], body["on_reclaim"]) == ("demo", "downgrade")
    assert body["nodes"] == {"only": ["n1", "n2"], "avoid": ["n3"]}
    assert body["secrets"] == ["HF", "S3"]
    refused = allot("submit", "--on-reclaim", "wait", "--", "true")
    assert refused.exit_code == 2
    assert "'preempt', 'downgrade'" in refused.stderr


def test_a_file_and_standard_input(allot: Allot, api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    spec = {"name": "one", "gpus": 2, "command": ["python", "train.py"]}
    assert allot("submit", "one.yaml", "-q").stdout == "1\n"
    assert allot("submit", "-", "-q", stdin=json.dumps(spec)).stdout == "2\n"
    assert api.sent("POST", "/jobs") == [spec, spec]


def test_several_documents_go_in_one_request(allot: Allot, api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "two.yaml").write_text(TWO)
    result = allot("submit", "one.yaml", "two.yaml", "--tenant", "t")
    assert result.exit_code == 0
    assert result.stdout.startswith("Submitted 3 jobs: 1 to 3.\n")
    (body,) = api.sent("POST", "/jobs/bulk")
    assert body["tenant"] == "t"
    assert [spec["name"] for spec in body["jobs"]] == ["one", "one", "two"]
    assert all("tenant" not in spec for spec in body["jobs"])


def test_output_as_json_is_the_whole_job(allot: Allot) -> None:
    job = json.loads(allot("submit", "-o", "json", "--", "true").stdout)
    assert (job["id"], job["name"], job["state"]) == (1, "true", "queued")


@pytest.mark.parametrize("trouble", ["lose_answers", "busy_answers"])
def test_a_failing_network_never_submits_twice(command: Command, api: FakeApi, trouble: str) -> None:
    setattr(api, trouble, 2)
    result = command("submit", "-q", "--", "true")
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert "Trying again" in result.stderr
    keys = {headers["idempotency-key"] for method, *_, headers, _ in api.requests if method == "POST"}
    assert len(api.sent("POST", "/jobs")) == 3
    assert len(keys) == 1
    assert list(api.jobs) == [1]


def test_two_submissions_are_two_jobs(allot: Allot, api: FakeApi) -> None:
    allot("submit", "--", "true")
    allot("submit", "--", "true")
    assert list(api.jobs) == [1, 2]


def test_the_servers_field_errors_are_told_one_a_line(allot: Allot, api: FakeApi) -> None:
    problems = [
        {"field": "tasks.0.resources.gpu", "problem": "99 is too many", "expected": "1 to 16"},
        {"field": "colour", "problem": "is not a field", "expected": ""},
    ]
    api.refuse = refusal(400, "invalid", "2 fields are wrong: tasks.0.resources.gpu, colour.", problems)
    result = allot("submit", "-g", "99", "--", "true")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "allot: 2 mistakes:",
        "  tasks.0.resources.gpu: 99 is too many. Expected: 1 to 16.",
        "  colour: is not a field.",
    ]


def test_field_errors_of_many_name_the_file_and_document(allot: Allot, api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "two.yaml").write_text("name: a\n---\ncommand: 'true'\n")
    result = allot("submit", "one.yaml", "two.yaml")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "allot: None of the 3 jobs was submitted.",
        "  two.yaml, document 2: name: is missing. Expected: 1 to 63 letters, digits or -.",
    ]
    assert not api.jobs


def test_a_message_that_tells_the_problem_is_not_repeated(allot: Allot, api: FakeApi) -> None:
    problem = "shared guarantees 4 V100; this needs 9"
    fields = [{"field": "tasks.0.resources.gpu", "problem": problem, "expected": "at most 4"}]
    api.refuse = refusal(400, "invalid", f"This job could never run: {problem}.", fields)
    assert allot("submit", "--", "true").stderr.splitlines() == [
        f"allot: This job could never run: {problem}.",
        "  tasks.0.resources.gpu: Expected: at most 4.",
    ]


def test_over_quota_keeps_the_servers_sentence(allot: Allot, api: FakeApi) -> None:
    api.refuse = refusal(409, "quota_exceeded", "research may use 16 GPUs; this job needs 32.")
    result = allot("submit", "--", "true")
    assert (result.exit_code, result.stderr) == (1, "allot: research may use 16 GPUs; this job needs 32.\n")


def test_dry_run_creates_nothing(allot: Allot, api: FakeApi) -> None:
    result = allot("submit", "--dry-run", "-g", "2", "--", "python", "train.py")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "train: would be taken, 2 GPUs. Would start at once.",
        "  main ×1, 2 GPUs: python train.py",
        "  time limit: none",
        "  warning: No time limit.",
    ]
    result = allot("submit", "--dry-run", "-", stdin="command: 'true'")
    assert result.exit_code == 1
    assert "  name: is missing. Expected: 1 to 63" in result.stdout
    assert not api.jobs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Nothing to submit"),
        (["missing.yaml"], "no file 'missing.yaml'"),
        (["--env", "A", "--", "true"], "KEY=VALUE"),
        (["--gpus", "many", "--", "true"], "--gpus"),
        (["--follow", "two.yaml"], "one job"),
        (["tenants.yaml"], "several tenants (a, b)"),
        (["thousand.yaml"], "at most 1,000"),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(
    allot: Allot, api: FakeApi, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "tenants.yaml").write_text("tenant: a\n---\ntenant: b\n")
    (tmp_path / "thousand.yaml").write_text(json.dumps([{"name": "a"}] * 1001))
    result = allot("submit", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not api.requests


def on_submit(api: FakeApi, *steps: dict[str, Any]) -> None:
    """What becomes of job 1, one step for each time somebody looks."""
    api.timeline[1] = list(steps)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended(), 0),
        (ended("failed", 3, message="ValueError"), 3),
        (ended("failed", -9), 137),
        (ended("failed", None, message="The node was lost."), 1),
        (ended("cancelled", None), 1),
    ],
)
def test_wait_exits_as_the_job_did(allot: Allot, api: FakeApi, end: dict[str, Any], code: int) -> None:
    on_submit(api, {}, {}, running(), running(), end)
    result = allot("submit", "--wait", "--", "true")
    assert result.exit_code == code
    assert result.stderr.splitlines()[:3] == [
        "Submitted job 1 true: 2 GPUs of V100 or P100 in shared.",
        "Job 1 true QUEUED: #3 in the queue: All V100 are in use.",
        "Job 1 true RUNNING: on v100-1 ×2",
    ]
    assert f"Job 1 true {end['state'].upper()}" in result.stderr.splitlines()[3]
    assert result.stdout == "", "stdout is for data"


def test_an_array_is_told_as_one_and_waited_for_as_all(allot: Allot, api: FakeApi) -> None:
    result = allot("submit", "--array", "0-1%1", "--", "true")
    assert result.stdout.splitlines()[0] == "Submitted array 1 true: 2 jobs."
    assert "allot cancel --filter array=1 " in result.stdout
    assert api.requests[-1][3]["array"] == {"indices": "0-1%1"}
    listed = allot("ls", "--array", "1").stdout
    assert "true[0]" in listed
    assert "train[1]" in listed
    assert "Array            1, of which this is one of 2 tasks\n" in allot("show", "1").stdout
    assert allot("submit", "--array", "0-1", "--follow", "--", "true").exit_code == 2
    api.timeline = {4: [ended("failed", 3)], 3: [ended()]}
    assert allot("submit", "--array", "0-1", "--wait", "--", "true").exit_code == 3


def test_follow_prints_the_output_and_exits_as_the_job_did(command: Command, api: FakeApi) -> None:
    on_submit(api, {}, running(), ended("failed", 7))
    api.logs[1, 1, 0] = ["epoch 1\n", "epo", "ch 2\n"]
    api.complete.add((1, 1, 0))
    result = command("submit", "--follow", "--", "true")
    assert result.returncode == 7
    assert result.stdout == "epoch 1\nepoch 2\n"
    assert "Job 1 true FAILED: exit code 7" in result.stderr


def test_wait_for_many_takes_the_first_that_did_not_succeed(allot: Allot, api: FakeApi) -> None:
    api.timeline = {1: [ended()], 2: [running(), ended("failed", 5)], 3: [ended("failed", 6)]}
    result = allot("submit", "-", "--wait", "-q", stdin=TWO + "---\nname: three\ncommand: x\n")
    assert (result.exit_code, result.stdout) == (5, "1\n2\n3\n")


def test_an_sbatch_script_is_translated_and_said_line_by_line(
    allot: Allot, api: FakeApi, tmp_path: Path
) -> None:
    script = "#!/bin/bash\n#SBATCH -p gpu --time=60\n#SBATCH --gres=gpu:V100:2\npython train.py\n"
    (tmp_path / "train.sbatch").write_text(script)
    result = allot("submit", "train.sbatch", "--map-partition", "gpu=research", "--priority", "5", "-q")
    assert (result.exit_code, result.stdout) == (0, "1\n")
    (body,) = api.sent("POST", "/jobs")
    assert (body["name"], body["virtual_cluster"], body["time_limit"]) == ("train", "research", 3600)
    assert (body["priority"], body["tasks"][0]["resources"]["gpu_model"]) == (5, ["V100"])
    assert "train.sbatch, line 3: --gres=gpu:V100:2: translated: 2 GPUs of model V100" in result.stderr


def test_account_qos_and_hold_are_flags_as_in_slurm(allot: Allot, api: FakeApi, tmp_path: Path) -> None:
    flags = "-A research --qos scavenger -H"
    assert allot("submit", *flags.split(), "--", "true").exit_code == 0
    # In a script they count, too; a flag wins over it.
    script = "#!/bin/bash\n#SBATCH -A elsewhere\n#SBATCH -q high --hold\n#SBATCH -G 1\ntrue\n"
    (tmp_path / "a.sbatch").write_text(script)
    assert allot("submit", "a.sbatch").exit_code == 0
    assert allot("submit", "a.sbatch", "--account", "research", "--qos=low").exit_code == 0
    asked = ("tenant", "guarantee", "priority", "hold")
    assert [tuple(body.get(name) for name in asked) for body in api.sent("POST", "/jobs")] == [
        ("research", "opportunistic", None, True),
        (None, None, 50, True),
        ("research", None, -50, True),
    ]
    refused = allot("submit", "--qos", "gold", "--", "true")
    assert refused.exit_code == 2
    assert "--qos gold: it means no tier or priority here" in refused.stderr


def test_an_sbatch_script_that_would_be_another_job_is_not_submitted(
    allot: Allot, api: FakeApi, tmp_path: Path
) -> None:
    (tmp_path / "a.sbatch").write_text("#!/bin/bash\n#SBATCH -n 3 -G 1\nsrun true\n")
    result = allot("submit", "a.sbatch")
    assert result.exit_code == 2
    assert "script: GPUs: not possible" in result.stderr
    assert api.sent("POST", "/jobs") == []


def test_a_job_without_gpus_is_told_by_what_it_takes_instead(allot: Allot, api: FakeApi) -> None:
    flags = "--gpus 0 --cpu 4 --memory 8GiB"
    assert allot("submit", *flags.split(), "--", "true").exit_code == 0
    (body,) = api.sent("POST", "/jobs")
    assert body["tasks"][0]["resources"] == {"gpu": 0, "cpu": 4, "memory": "8GiB"}
    one = {"replicas": 1, "resources": {"gpu": 0, "cpu": 4.0, "memory": 2**33}}
    assert asked_words(0, [one]) == "4 CPUs, 8 GiB"
    assert asked_words(0, [{**one, "replicas": 2}]) == "2×4 CPUs, 8 GiB"
    assert asked_words(2, [{"replicas": 2, "resources": {"gpu": 1}}]) == "2 GPUs"
    assert gpus_wanted({"gpus": 0, "gpu_models": [], "spec": {"tasks": [one]}}) == "4 CPUs, 8 GiB"
    placement = [{"node": "cpu-1", "gpus": []}, {"node": "v100-1", "gpus": [{"index": 0}, {"index": 1}]}]
    assert nodes_of({"placement": placement}) == "cpu-1, v100-1 ×2"
