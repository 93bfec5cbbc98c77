"""Slurm's commands as scripts call them: what they print, what they ask for, and what they refuse."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from allot.slurm import submitting, words
from allot.slurm.options import listed_ids
from allot.slurm.submitting import options_before, parts
from scheduler.core.model.reasons import REASONS
from scheduler.simulation.traces.registry import read_trace
from tests.allot.fake_api import NOW, FakeApi, ended, make_attempt, running
from tests.allot.in_process import Allot, lines, refused
from tests.allot.test_listing import NODE, VC

ROOT = Path(__file__).resolve().parents[2]
LOCAL = f"{datetime.fromisoformat(NOW).astimezone():%Y-%m-%dT%H:%M:%S}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["squeue", "--iterate=5"], "--iterate=5"),
        (["squeue", "-o", "%i %Y"], "%Y"),
        (["squeue", "-t", "DREAMING"], "DREAMING"),
        (["squeue", "-j", "twelve"], "twelve"),
        (["scancel", "--signal=USR1", "2"], "--signal=USR1"),
        (["scancel"], "scancel"),
        (["scancel", "--me", "-u", "bob"], "either --me or -u"),
        (["squeue", "--me", "-u", "bob"], "either --me or -u"),
        (["sacct", "-o", "JobID,Energy"], "Energy"),
        (["sacct", "--units=G"], "--units=G"),
        (["sinfo", "-o", "%C"], "%C"),
        (["sinfo", "--summarize"], "--summarize"),
        (["sinfo", "-t", "idle,foo"], "foo"),
        (["scontrol", "reboot", "n1"], "reboot"),
        (["scontrol", "update", "JobId=2", "Nodes=4"], "Nodes=4"),
        (["sbatch", "--burst-buffer=x", "a.sh"], "--burst-buffer=x"),
        (["srun", "--pty", "bash"], "--pty"),
        (["sbatch", "--hold=no", "a.sh"], "--hold takes no value"),
        (["sbatch", "-QZ", "a.sh"], "-QZ"),
        (["srun", "--test-only", "true"], "--test-only"),
        (["sprio"], "sprio"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    allot: Allot, queue: FakeApi, arguments: list[str], named: str
) -> None:
    assert named in refused(allot, *arguments)
    assert not [path for method, path, *_ in queue.requests if method == "POST"]


# sacct


def test_sacct_says_what_scripts_ask(allot: Allot, queue: FakeApi) -> None:
    asked = ("sacct", "-j", "1,6,2", "-n", "-X", "-o", "JobID,State,ExitCode", "--parsable2")
    assert sorted(lines(allot, *asked)) == ["1|COMPLETED|0:0", "2|RUNNING|0:0", "6|FAILED|3:0"]
    assert lines(allot, "sacct", "-nXP", "-j", "4", "--format=jobid,jobname,user,alloctres") == [
        "4_0|sweep|ann|",
        "4_7|sweep|ann|",
    ]
    assert lines(allot, "sacct", "-p", "-j", "2", "-o", "JobIDRaw,Start,NodeList,ReqTRES,Timelimit") == [
        "JobIDRaw|Start|NodeList|ReqTRES|Timelimit|",
        f"2|{LOCAL}|v100-1|cpu=1,node=1,billing=2,gres/gpu=2|UNLIMITED|",
    ]
    assert lines(allot, "sacct", "-j", "1", "-o", "JobID,JobName%20,State%-12") == [
        "JobID                     JobName State       ",
        "------------ -------------------- ------------",
        "1                            prep COMPLETED   ",
    ]
    assert lines(allot, "sacct", "-nP", "-s", "F,CD", "-S", "now-7days", "-o", "JobID") == ["1", "6"]


def test_the_simulator_reads_what_sacct_prints(allot: Allot, queue: FakeApi, tmp_path: Path) -> None:
    ran = make_attempt(running_at=NOW, ended_at="2026-01-31T12:10:00+00:00")
    queue.add(7, name="done", **ended(attempt=ran))
    asked = re.search(r"-o (JobID,User,Account\S+)", (ROOT / "docs" / "coming-from-slurm.md").read_text())
    assert asked is not None
    printed = lines(allot, "sacct", "-aXP", "-j", "2,3,7", "-o", asked[1])
    (tmp_path / "jobs.txt").write_text("\n".join(printed))
    reading = read_trace(tmp_path / "jobs.txt", "slurm")
    (arrival,) = reading.workload.arrivals
    job = arrival.job
    assert (job.tenant, job.virtual_cluster, job.user, job.gpus) == ("research", "shared", "ann", 2)
    assert (arrival.truth.work_seconds, arrival.truth.status, job.time_limit_seconds) == (600, "passed", None)
    assert not reading.problems
    assert reading.workload.left_out[0].startswith("2 jobs that have not ended were left out.")


def test_sacct_shows_own_jobs_unless_others_are_asked_for(allot: Allot, queue: FakeApi) -> None:
    asked = ("sacct", "-nXP", "-S", "now-7days", "-o", "JobID,User")
    own, of_bob = {"1|ann", "2|ann", "4_0|ann", "4_7|ann", "6|ann"}, {"3|bob"}
    assert set(lines(allot, *asked)) == own
    assert set(lines(allot, *asked, "-a")) == own | of_bob
    assert set(lines(allot, *asked, "-u", "bob")) == of_bob
    assert lines(allot, "sacct", "-nXP", "-j", "3.batch", "-o", "JobID") == ["3"]
    assert "the list is empty" in refused(allot, "sacct", "-u", "")


def test_sacct_says_when_a_job_is_not_there(allot: Allot, queue: FakeApi) -> None:
    result = allot("slurm", "sacct", "-n", "-j", "99")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "there is no job 99" in result.stderr


# sinfo, scontrol


@pytest.fixture
def cluster(api: FakeApi) -> FakeApi:
    gpus = [{**gpu, "state": "free"} for gpu in NODE["gpus"]]
    held = [{**gpu, "state": "held"} for gpu in gpus]
    api.nodes = [
        {**NODE, "gpus": gpus},
        {**NODE, "name": "v100-2", "gpus": held},
        {**NODE, "name": "v100-3", "gpus": held[:1] + gpus[1:]},
        {**NODE, "name": "v100-4", "gpus": gpus, "cordoned": True},
        {**NODE, "name": "k80-1", "gpu_model": "K80", "gpus": gpus, "state": "lost"},
    ]
    api.virtual_clusters = [
        {**VC, "default_time_limit_seconds": 86_400.0, "guaranteed": {"V100": 4}},
        {**VC, "name": "spare", "default_time_limit_seconds": 3_600.0, "guaranteed": {}},
    ]
    return api


def test_sinfo_says_what_scripts_ask(allot: Allot, cluster: FakeApi) -> None:
    assert lines(allot, "sinfo", "-h", "-p", "shared", "-o", "%P %a %l %D %t %N") == [
        "shared up 1-00:00:00 1 idle v100-1",
        "shared up 1-00:00:00 1 alloc v100-2",
        "shared up 1-00:00:00 1 mix v100-3",
        "shared up 1-00:00:00 1 drain v100-4",
    ]
    assert lines(allot, "sinfo", "-h", "-o", "%R %D %N %G") == [
        "shared 4 v100-[1-4] gpu:V100:3",
        "spare 4 v100-[1-4] gpu:V100:3",
        "spare 1 k80-1 gpu:K80:3",
    ]
    assert lines(allot, "sinfo", "-h", "-N", "-p", "spare", "-t", "down", "-o", "%n %c %m %f") == [
        "k80-1 8 32768 K80"
    ]
    assert lines(allot, "sinfo", "-h", "-n", "v100-[2-3]", "-p", "shared", "-o", "%n") == ["v100-2", "v100-3"]
    assert lines(allot, "sinfo", "-h", "-t", "DRAIN,comp", "-p", "shared", "-o", "%N") == ["v100-4"]
    assert lines(allot, "sinfo", "-h", "-t", "comp") == []
    assert len(lines(allot, "sinfo", "-h", "-N", "-t", "all", "-p", "shared")) == 4
    found = json.loads("\n".join(lines(allot, "sinfo", "--json")))
    assert [node["state"] for node in found["nodes"]] == [
        ["IDLE"],
        ["ALLOCATED"],
        ["MIXED"],
        ["DRAINED"],
        ["DOWN"],
    ]
    assert found["nodes"][4]["partitions"] == ["spare"]
    assert lines(allot, "sinfo")[0] == "PARTITION AVAIL TIMELIMIT  NODES  STATE  NODELIST"


def test_scontrol_shows_jobs_and_nodes(allot: Allot, queue: FakeApi, cluster: FakeApi) -> None:
    shown = " ".join(" ".join(lines(allot, "scontrol", "show", "job", "2")).split())
    for part in (
        "JobId=2 JobName=train",
        "JobState=RUNNING Reason=None",
        "TimeLimit=UNLIMITED",
        "NodeList=v100-1",
    ):
        assert part in shown
    (line,) = lines(allot, "scontrol", "-o", "show", "job", "4_7")
    assert line.startswith("JobId=5 ArrayJobId=4 ArrayTaskId=7 JobName=sweep ")
    assert "NodeName=v100-2" in lines(allot, "scontrol", "show", "node", "v100-2")[0]
    assert lines(allot, "scontrol", "show", "hostnames", "n[1-3,07],login") == [
        "n1",
        "n2",
        "n3",
        "n07",
        "login",
    ]
    assert lines(allot, "scontrol", "show", "hostnames", "r[1-2]n[08-09]") == [
        "r1n08", "r1n09", "r2n08", "r2n09",
    ]  # fmt: skip
    assert lines(allot, "scontrol", "show", "hostlist", "n3,n1,n2,login") == ["n[1-3],login"]


def test_a_description_forges_no_row_and_no_field(allot: Allot, queue: FakeApi) -> None:
    spec = queue.jobs[2]["spec"]
    spec["description"] = "two\nlines|x\n   JobState=COMPLETED"
    spec["tasks"][0]["command"] = ["sh", "-c", "a\nb"]
    asked = ("sacct", "-nP", "-j", "2", "-o", "JobID,Comment,SubmitLine,State")
    assert lines(allot, *asked) == ["2|two lines x JobState=COMPLETED|sh -c 'a b'|RUNNING"]
    assert len(lines(allot, "sacct", "-n", "-j", "2", "-o", "JobID,Comment%60")) == 1
    shown = lines(allot, "scontrol", "show", "job", "2")
    assert [line.strip() for line in shown if line.strip().startswith("JobState=")] == [
        "JobState=RUNNING Reason=None Dependency=(null)"
    ]
    (line,) = lines(allot, "scontrol", "-o", "show", "job", "2")
    assert re.findall(r"JobState=(\w+)", line) == ["RUNNING", "COMPLETED"]


def test_scontrol_changes_jobs(allot: Allot, queue: FakeApi) -> None:
    lines(allot, "scontrol", "hold", "3")
    assert queue.jobs[3]["held"]
    lines(allot, "scontrol", "release", "3")
    assert not queue.jobs[3]["held"]
    lines(allot, "scontrol", "requeue", "2")
    assert queue.sent("POST", "/jobs/2/requeue") == [{}]
    lines(allot, "scontrol", "update", "JobId=4", "TimeLimit=2:00:00", "Priority=5", "JobName=again")
    changes = {"time_limit": 7200, "priority": 5, "name": "again"}
    assert queue.changes == [(4, changes), (5, changes)]


def test_scontrol_holds_the_tasks_that_wait(allot: Allot, queue: FakeApi) -> None:
    """The first task of the array runs."""
    queue.jobs[4]["state"] = "running"
    lines(allot, "scontrol", "hold", "4")
    assert [queue.jobs[number]["held"] for number in (4, 5)] == [False, True]
    refused = allot("slurm", "scontrol", "hold", "2", "3")
    assert refused.exit_code != 0
    assert "running" in refused.stderr
    assert queue.jobs[3]["held"]


# sbatch, srun


SCRIPT = "#!/bin/bash\n#SBATCH -J sweep -p gpu\n#SBATCH --gres=gpu:1\n#SBATCH --time=60\npython train.py $1\n"


def test_sbatch_prints_what_scripts_read(allot: Allot, api: FakeApi, tmp_path: Any) -> None:
    (tmp_path / "a.sh").write_text(SCRIPT)
    assert lines(allot, "sbatch", "a.sh") == ["Submitted batch job 1"]
    assert lines(
        allot, "sbatch", "--parsable", "--gres=gpu:2", "-J", "other", "-t", "2:00:00", "a.sh", "7", "-x"
    ) == ["2"]
    first, second = api.sent("POST", "/jobs")
    assert (first["name"], first["time_limit"], first["tasks"][0]["resources"]["gpu"]) == ("sweep", 3600, 1)
    # The command line wins over the script, and the words behind the script are its own.
    assert (second["name"], second["time_limit"], second["tasks"][0]["resources"]["gpu"]) == (
        "other",
        7200,
        2,
    )
    assert second["tasks"][0]["command"][-3:] == ["script", "7", "-x"]
    assert lines(allot, "sbatch", "--parsable", "--gres=gpu:1", "--wrap", "python -c 'print(1)'") == ["3"]
    assert "python -c 'print(1)'" in api.sent("POST", "/jobs")[2]["tasks"][0]["command"][2]


def test_sbatch_takes_a_partition_for_a_virtual_cluster_and_an_account_for_a_tenant(
    allot: Allot, api: FakeApi, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.virtual_clusters = [{**VC, "name": "vision"}]
    (tmp_path / "a.sh").write_text(SCRIPT)
    lines(allot, "sbatch", "-p", "vision", "-A", "research", "--export=ALL,LR=0.1", "a.sh")
    monkeypatch.setenv("ALLOT_PARTITIONS", "gpu=vision")
    lines(allot, "sbatch", "a.sh")
    first, second = api.sent("POST", "/jobs")
    assert (first["virtual_cluster"], first["tenant"], first["tasks"][0]["env"]) == (
        "vision", "research", {"LR": "0.1"},
    )  # fmt: skip
    assert second["virtual_cluster"] == "vision"


def test_sbatch_on_hold_is_submitted_so(allot: Allot, api: FakeApi, tmp_path: Any) -> None:
    lines(allot, "sbatch", "--hold", "-G", "1", "--wrap", "true")
    (tmp_path / "a.sh").write_text("#!/bin/bash\n#SBATCH -H\n#SBATCH -G 1\ntrue\n")
    lines(allot, "sbatch", "a.sh")
    lines(allot, "sbatch", "-G", "1", "--wrap", "true")
    assert [body.get("hold") for body in api.sent("POST", "/jobs")] == [True, True, None]


def test_components_of_a_job_stand_between_colons(allot: Allot, api: FakeApi, tmp_path: Any) -> None:
    (tmp_path / "a.sh").write_text("#!/bin/bash\nsrun learn : act\n")
    lines(allot, "sbatch", "-G", "4", ":", "-n", "2", "-c", "3", "a.sh")
    options, commands = parts(["-G", "4", "learn", ":", "-n", "2", "-c", "3", "act", "--fast"])
    assert commands == [["learn"], ["act", "--fast"]]
    assert options == [
        ("gpus", "4"), ("hetjob", None), ("ntasks", "2"), ("cpus-per-task", "3"),
    ]  # fmt: skip
    (body,) = api.sent("POST", "/jobs")
    assert [(task["replicas"], task["resources"]) for task in body["tasks"]] == [
        (1, {"gpu": 4, "cpu": 1}),
        (2, {"gpu": 0, "cpu": 3}),
    ]


def test_srun_of_several_components_runs_each_of_its_parts(
    allot: Allot, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "stay", lambda client, staying, spec, tenant: client.submit(spec) and 0)
    lines(allot, "srun", "-G", "4", "learn", ":", "-n", "2", "act", "--fast")
    (body,) = api.sent("POST", "/jobs")
    assert [task["replicas"] for task in body["tasks"]] == [1, 2]
    assert "srun learn : act --fast\n" in body["tasks"][1]["command"][2]


@pytest.mark.parametrize(
    ("command", "line", "options", "rest"),
    [
        ("sbatch", "-QW a.sh", [("quiet", None), ("wait", None)], ["a.sh"]),
        ("sbatch", "-HN2 a.sh", [("hold", None), ("nodes", "2")], ["a.sh"]),
        ("sbatch", "-Hn 2 a.sh", [("hold", None), ("ntasks", "2")], ["a.sh"]),
        ("sbatch", "--nice --exclusive=user a.sh", [("nice", None), ("exclusive", "user")], ["a.sh"]),
        ("srun", "-W 60 python x.py", [("wait", "60")], ["python", "x.py"]),
        ("srun", "-lu --wait=9 -K1 a", [
            ("label", None), ("unbuffered", None), ("wait", "9"), ("kill-on-bad-exit", "1"),
        ], ["a"]),
    ],
)  # fmt: skip
def test_options_are_read_as_getopt_does(
    command: str, line: str, options: list[tuple[str, str | None]], rest: list[str]
) -> None:
    assert options_before(command, line.split()) == (options, rest)


def test_sbatch_that_can_not_come_over_submits_nothing(allot: Allot, api: FakeApi, tmp_path: Any) -> None:
    (tmp_path / "odd.sh").write_text("#!/bin/bash\n#SBATCH -n 3 -G 1\nsrun true\n")
    assert "Nothing was submitted." in refused(allot, "sbatch", "odd.sh")
    assert api.sent("POST", "/jobs") == []
    assert (
        "Would start at once." in allot("slurm", "sbatch", "--test-only", "-G", "1", "--wrap", "true").stderr
    )
    assert api.sent("POST", "/jobs") == []


def test_sbatch_waits(allot: Allot, api: FakeApi) -> None:
    api.timeline[1] = [running(), ended("failed", 4)]
    assert lines(allot, "sbatch", "--wait", "--parsable", "-G", "1", "--wrap", "exit 4", code=4) == ["1"]


def test_srun_runs_as_a_local_command_would(allot: Allot, api: FakeApi) -> None:
    api.timeline[1] = [running(), ended("failed", 5)]
    api.logs[1, 1, 0] = ["hello\n"]
    api.complete.add((1, 1, 0))
    assert lines(allot, "srun", "--gres=gpu:1", "-t", "10", "python", "train.py", "-n", "3", code=5) == [
        "hello"
    ]
    (body,) = api.sent("POST", "/jobs")
    assert "srun python train.py -n 3" in body["tasks"][0]["command"][2]
    assert body["time_limit"] == 600


# Words


@pytest.mark.parametrize(
    ("changes", "state", "code"),
    [
        ({}, "PENDING", "0:0"),
        (running(), "RUNNING", "0:0"),
        (ended(), "COMPLETED", "0:0"),
        (ended("cancelled", None), "CANCELLED", "0:0"),
        (ended("failed", 3), "FAILED", "3:0"),
        (ended("failed", -15, attempt=make_attempt(stop_cause="time_limit")), "TIMEOUT", "0:15"),
        (ended("failed", -9, attempt=make_attempt(failure="cpu_out_of_memory")), "OUT_OF_MEMORY", "0:9"),
        (ended("failed", 1, attempt=make_attempt(failure="gpu_out_of_memory")), "OUT_OF_MEMORY", "1:0"),
        (ended("failed", None, attempt=make_attempt(outcome="lost")), "NODE_FAIL", "0:0"),
        (ended("failed", None, attempt=make_attempt(outcome="preempted")), "PREEMPTED", "0:0"),
    ],
)
def test_every_end_has_slurms_word(api: FakeApi, changes: dict[str, Any], state: str, code: str) -> None:
    job: Any = api.add(1, **changes)
    assert (words.state_of(job), words.exit_code(job)) == (state, code)
    assert words.OURS[state] == job["state"]
    assert state in words.COMPACT


def test_reasons_are_those_that_are_declared() -> None:
    assert set(words._REASONS) - set(REASONS) == set()


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n01", "n02"], "n[01-02]"),
        (["login", "n1"], "n1,login"),
        (["a-1", "b-1", "b-2"], "a-1,b-[1-2]"),
        ([], ""),
    ],
)
def test_lists_of_nodes_are_short_and_read_back(names: list[str], short: str) -> None:
    assert words.hostlist(names) == short
    assert sorted(words.hostnames(short)) == names


def test_times_are_slurms() -> None:
    assert [words.span(seconds) for seconds in (0, 61, 3_723, 93_784, None)] == [
        "0:00", "1:01", "1:02:03", "1-02:03:04", "UNLIMITED",
    ]  # fmt: skip
    assert words.span(61, padded=True) == "00:01:01"
    assert listed_ids("12,13_4,14_[0-3,7]", "squeue") == [(12, ""), (13, "4"), (14, "0-3,7")]
