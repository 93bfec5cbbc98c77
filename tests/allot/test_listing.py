"""Looking at things: tables for people, whole objects for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from typer.testing import Result

from tests.allot.conftest import Command
from tests.allot.fake_api import NOW, FakeApi, ended, make_attempt, running

Allot = Callable[..., Result]

NODE: dict[str, Any] = {
    "id": 1,
    "name": "v100-1",
    "rack": "r1",
    "gpu_model": "V100",
    "address": "10.0.0.1",
    "state": "ready",
    "cordoned": False,
    "draining": False,
    "drained": False,
    "drain_deadline": None,
    "maintenance": None,
    "withdrawn": None,
    "loan": None,
    "health": [
        {"name": "clock", "verdict": "warning", "message": "9 s behind", "gpu": None, "since": NOW},
        {"name": "gpu-1", "verdict": "failed", "message": "is off the bus", "gpu": 1, "since": NOW},
    ],
    "isolation": {"cpu": True, "memory": False, "gpu_parts": False, "gpu_tokens": True},
    "isolation_level": "landlock",
    "enforcement": "cooperative",
    "cpus": 8.0,
    "memory_bytes": 32 * 2**30,
    "storage_bandwidth": 2.0 * 2**30,
    "cache_bytes": 500 * 2**30,
    "agent_version": "0.1.0",
    "lease_expires_at": NOW,
    "gpus": [
        {"id": 1, "index": 0, "socket": 0, "switch": 0, "healthy": True, "problem": "", "state": "held"},
        {
            "id": 2,
            "index": 1,
            "socket": 0,
            "switch": 0,
            "healthy": False,
            "problem": "is off the bus",
            "state": "free",
        },
        {"id": 3, "index": 2, "socket": 1, "switch": 1, "healthy": True, "problem": "", "state": "free"},
    ],
    "version": 1,
}

VC: dict[str, Any] = {
    "name": "shared",
    "title": "For everyone",
    "policy_plugin": {"name": "fifo", "parameters": {"backfill": True}},
    "placer_plugin": {"name": "consolidate", "parameters": {}},
    "default_time_limit_seconds": 3600,
    "sharing": "never",
    "min_run_seconds": 300.0,
    "reclaim_min_run_seconds": 0.0,
    "longest_wait_seconds": 0.0,
    "overcommit": "predicted",
    "overcommit_margin": 0.1,
    "overcommit_violations": {"samples": 4000, "exceeded": 5, "rate": 0.00125},
    "guaranteed": {"V100": 8},
    "own_guaranteed": {"V100": 8},
    "lent": [],
    "borrowed": [],
    "members": [{"tenant": "research", "weight": 1}, {"tenant": "vision", "weight": 2}],
    "other_members": 2,
    "usage": {
        "V100": {"guaranteed_in_use": 2, "opportunistic_in_use": 0},
        "K80": {"guaranteed_in_use": 0, "opportunistic_in_use": 4},
    },
    "queued": 3,
    "running": 1,
    "has_targets": False,
    "overrun": None,
    "version": 1,
}


def columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_piped_table_is_whole_and_without_colour(command: Command, api: FakeApi) -> None:
    long_name, long_reason = "a-name-of-a-job-" * 4, "All V100 are in use by jobs that are worth more. " * 5
    api.add(1, **running())
    api.add(2, name=long_name[:63], reasons=[{"message": long_reason}])
    api.add(3, **{**running(), **ended("failed", 3, message="ValueError:\x1b[31m boom")})
    result = command("ls", COLUMNS="80", TERM="xterm-256color")
    assert result.returncode == 0, result.stderr
    header, failed, queued, started = result.stdout.splitlines()
    assert columns(header) == ["ID", "NAME", "STATE", "GPUS", "MODEL", "VC", "USER", "AGE", "TIME", "DETAIL"]
    assert columns(failed)[:7] == ["3", "train", "FAILED", "2", "V100", "shared", "ann"]
    assert failed.endswith("ValueError: [31m boom"), "no escape sequence reaches the terminal"
    assert long_name[:63] in queued
    assert queued.endswith(f"#3 in the queue: {long_reason.strip()}")
    assert columns(started)[4] == "V100"
    assert started.endswith("on v100-1 ×2")
    assert "\x1b" not in result.stdout


def test_waits_between_attempts_are_no_time_that_a_job_ran(allot: Allot, api: FakeApi) -> None:
    """It began to run at noon, waited an hour and ran for half a minute more."""
    times = {"running_at": "2026-01-01T13:00:00Z", "ended_at": "2026-01-01T13:00:30Z"}
    attempt = make_attempt(2, state="ended", outcome="cancelled", **times)
    job = {**ended("cancelled", None), "started_at": "2026-01-01T12:00:00Z", "ended_at": times["ended_at"]}
    api.add(1, **job, attempt=attempt)
    header, row = map(columns, allot("ls").stdout.splitlines())
    assert dict(zip(header, row, strict=False))["TIME"] == "30s"
    assert "1h after its first start" in allot("show", "1").stdout


def test_an_elastic_job_that_runs_shows_what_it_has_and_its_range(allot: Allot, api: FakeApi) -> None:
    """Of a job that waits, or that is not elastic, what it asks for is shown."""
    spec = {**api.add(1)["spec"], "elastic": {"min_gpus": 1, "max_gpus": 4, "mode": "adaptive"}}
    api.add(2, gpus=3, spec=spec, **running())
    api.add(3, gpus=3, spec={**spec, "elastic": {"min_gpus": 1}}, **running())
    api.add(4, gpus=3, spec=spec)
    api.add(5, **running())
    rows = [columns(line) for line in allot("ls").stdout.splitlines()[1:]]
    assert {row[0]: row[3] for row in rows} == {"5": "2", "4": "3", "3": "2 (1-3)", "2": "2 (1-4)", "1": "2"}


def test_parts_of_gpus_are_shown_as_parts(allot: Allot, api: FakeApi) -> None:
    """Replicas with parts have a GPU each, so that they are not added up."""
    attempt = make_attempt()
    attempt["placement"][0]["gpus"] = [{"id": 1, "index": 0, "part": 0.3}]
    spec = api.add(1)["spec"]
    part = {**spec["tasks"][0], "replicas": 1, "resources": {"gpu": 0.3}}
    gang = {**part, "replicas": 4, "resources": {"gpu": 0.25}}
    api.add(2, **{**running(), "gpus": 1, "spec": {**spec, "tasks": [part]}, "attempt": attempt})
    api.add(3, gpus=6, spec={**spec, "tasks": [*spec["tasks"], gang]})
    rows = {row[0]: row for row in map(columns, allot("ls").stdout.splitlines()[1:])}
    assert {number: row[3] for number, row in rows.items()} == {"1": "2", "2": "0.3", "3": "2 + 4×0.25"}
    assert rows["2"][-1] == "on v100-1 ×0.3"
    assert "0.3 of one GPU of " in allot("show", "2").stdout


def test_a_job_without_gpus_has_no_model_though_its_node_has_one(allot: Allot, api: FakeApi) -> None:
    api.add(1, **{**running(), "gpus": 0})
    assert columns(allot("ls").stdout.splitlines()[1])[3:5] == ["0", "-"]


def test_the_tenant_gets_a_column_when_there_are_several(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    assert "TENANT" not in allot("ls").stdout
    api.add(2, tenant="vision")
    assert "TENANT" in allot("ls").stdout


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"phase": "held"}, "HELD"),
        ({"phase": "planned"}, "PLANNED"),
        (running(phase="starting"), "STARTING"),
        (running(phase="stopping"), "STOPPING"),
        (ended("cancelled", None), "CANCELLED"),
    ],
)
def test_states_are_upper_case_words(allot: Allot, api: FakeApi, changes: dict[str, Any], word: str) -> None:
    api.add(1, **changes)
    assert columns(allot("ls").stdout.splitlines()[1])[2] == word


def test_a_list_can_be_longer_than_a_page(allot: Allot, api: FakeApi) -> None:
    for number in range(1, 451):
        api.add(number)
    assert allot("ls", "--all", "-q").stdout.split() == [str(number) for number in range(450, 0, -1)]
    result = allot("ls", "-q", "-n", "230")
    assert result.stdout.split() == [str(number) for number in range(450, 220, -1)]
    result = allot("ls")
    assert len(result.stdout.splitlines()) == 51
    assert result.stderr == "The newest 50 jobs; there are more. Use -n NUMBER or --all.\n"


def test_filters_reach_the_server(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.add(2, **running())
    api.add(3, submitted_by="bob", **ended())
    assert allot("ls", "-q", "-s", "running", "-s", "succeeded").stdout == "3\n2\n"
    assert allot("ls", "-q", "--mine").stdout == "2\n1\n"
    both = allot("ls", "--mine", "--by", "bob")
    assert (both.exit_code, both.stderr) == (2, "allot: Give either --mine or --by.\n")
    flags = "--tenant t --vc v --name n --model V100 --guarantee opportunistic --by bob"
    requests_before = len(api.requests)
    allot("ls", *flags.split())
    assert len(api.requests) == requests_before + 1


def test_no_jobs_says_so_and_keeps_stdout_empty(allot: Allot) -> None:
    result = allot("ls", "--state", "failed")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No jobs that are failed.\n")
    assert json.loads(allot("ls", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    "arguments", [("ls",), ("show", "1"), ("why", "1"), ("nodes",), ("vcs",), ("events",)]
)
def test_json_and_yaml_carry_everything_that_the_server_sent(
    allot: Allot, api: FakeApi, arguments: tuple[str, ...]
) -> None:
    api.add(1)["a_field_of_tomorrow"] = {"é": [1, None]}
    api.nodes, api.virtual_clusters = [NODE], [VC]
    as_json = json.loads(allot(*arguments, "-o", "json").stdout)
    assert yaml.safe_load(allot(*arguments, "-o", "yaml").stdout) == as_json
    if arguments[0] in ("ls", "show"):
        assert "a_field_of_tomorrow" in (as_json[0] if arguments[0] == "ls" else as_json)


def test_show_tells_the_story_of_a_job(allot: Allot, api: FakeApi) -> None:
    api.add(1, labels={"team": "vision"}, preemptions=1, **running())
    lines = allot("show", "1").stdout.splitlines()
    assert lines[0] == "Job 1 train"
    facts = {line[2:18].strip(): line[19:] for line in lines[1:14]}
    assert facts["State"].startswith("RUNNING for ")
    assert facts["GPUs"] == "2 GPUs of V100 or P100, guaranteed"
    assert facts["Tasks"] == "main ×1, 2 GPUs: python train.py"
    assert facts["Labels"] == "team=vision"
    assert facts["Preempted"] == "1 time; 1m15s of work lost, 4s to stop and start"
    assert facts["Progress"] == "step 12 of 100, 340 samples/s"
    assert facts["Run time"] == "declared 2h, by its steps 4h10m on V100"
    assert columns(lines[-2]) == ["ATTEMPT", "STATE", "MODEL", "TIME", "NODES", "DETAIL"]
    assert columns(lines[-1])[:3] == ["1", "RUNNING", "V100"]


def test_show_tells_what_it_waits_for_and_what_waits_for_it(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    one = {"name": "prepare", "job_state": "running", "when": "succeeded", "state": "awaited"}
    api.dependencies = {
        "waits_for": [{"job": 3, **one}, {"job": 4, **one, "when": "ended", "state": "never"}],
        "awaited_by": [{"job": job, **one} for job in range(30, 10, -1)],
        "awaited_by_count": 1_200,
    }
    shown = allot("show", "1").stdout
    assert "  Waits for        job 3 prepare to succeed: it is running\n" in shown
    assert " job 4 prepare to end: it never will\n" in shown
    assert "  Awaited by       jobs 30, 29, 28, 27, 26, 25, 24, 23, 22, 21 and 1,190 more\n" in shown


def test_show_tells_of_input_workers_and_for_whom_one_works(allot: Allot, api: FakeApi) -> None:
    api.add(1, **running(), spec={"name": "train", "input_workers": {"command": ["true"]}})
    worker = {"state": "running", "started_at": NOW, "node": "node-1"}
    api.input_workers = {
        "desired": 3,
        "running": 2,
        "connected": 2,
        "stall": 0.123,
        "skipped": None,
        "problem": "Tenant research has 9 unfinished jobs.",
        "workers": [{"job": 8, **worker}, {"job": 9, **worker}],
    }
    shown = allot("show", "1").stdout
    assert "  Input workers    2 run, 3 desired; its trainer waits for batches 12% of the time\n" in shown
    assert "                   jobs 8, 9\n" in shown
    assert "                   Tenant research has 9 unfinished jobs.\n" in shown
    api.input_workers |= {"skipped": 1_234}
    assert "of the time; it skipped 1,234 of the stream's batches\n" in allot("show", "1").stdout
    api.add(8, serves=1)
    assert "  Works for        job 1, as an input worker\n" in allot("show", "8").stdout


def test_show_names_the_signal_that_ended_an_attempt(allot: Allot, api: FakeApi) -> None:
    attempt = make_attempt(state="ended", outcome="failed", exit_code=137, signal="SIGKILL", ended_at=NOW)
    api.add(1, **{**running(), **ended("failed", 137), "attempt": attempt})
    assert columns(allot("show", "1").stdout.splitlines()[-1])[-1] == "ended by SIGKILL"
    attempt["message"] = "The kernel ran out of memory and killed it."
    said = columns(allot("show", "1").stdout.splitlines()[-1])[-1]
    assert said == "The kernel ran out of memory and killed it. (SIGKILL)"


@pytest.mark.parametrize(
    ("cause", "word"), [("resized", "RESIZED"), ("migrated", "MOVED"), ("preempted", "PREEMPTED")]
)
def test_show_tells_a_resize_and_a_move_from_a_preemption(
    allot: Allot, api: FakeApi, cause: str, word: str
) -> None:
    why = "Resized from 2 to 4 GPUs: there were idle GPUs for it."
    attempt = make_attempt(
        state="ended", outcome="preempted", stop_cause=cause, message=why, exit_code=0, ended_at=NOW
    )
    api.add(1, **{**running(), "attempt": attempt})
    line = columns(allot("show", "1").stdout.splitlines()[-1])
    assert (line[1], line[-1]) == (word, why)


def test_the_specification_that_show_prints_can_be_submitted(allot: Allot, api: FakeApi) -> None:
    spec = api.add(1)["spec"]
    printed = allot("show", "1", "--spec").stdout
    assert yaml.safe_load(printed) == spec
    assert allot("submit", "-", "-q", stdin=printed).stdout == "2\n"


def test_why_gives_reasons_amounts_and_advice(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    lines = allot("why", "1").stdout.splitlines()
    assert lines[0].endswith(", #3 of 7 in its queue.")
    assert lines[1:4] == [
        "  1. All V100 are in use.",
        "     needs V100 2, available V100 0",
        "     It would start at once on P100.",
    ]
    assert lines[4] == "No start is predicted: It was put on hold."
    assert lines[5].startswith("Decided in round 41, ")
    api.jobs[1].update(running())
    assert allot("why", "1").stdout == "Job 1 train RUNNING: on v100-1 ×2. It does not wait.\n"
    api.jobs[1].update(state="failed", phase="ended", message="The secret hf was deleted.")
    assert allot("why", "1").stdout == "Job 1 train FAILED: The secret hf was deleted. It does not wait.\n"


def test_nodes(allot: Allot, api: FakeApi) -> None:
    withdrawn = {"by": "health", "why": "clock: 9 s behind", "since": NOW, "returns_itself": True}
    cordoned = {"cordoned": True, "gpu_model": None, "withdrawn": withdrawn}
    api.nodes = [NODE, {**NODE, **cordoned, "name": "v100-2"}]
    header, first, second = allot("nodes").stdout.splitlines()
    assert dict(zip(columns(header), columns(first), strict=True)) == {
        "NAME": "v100-1",
        "STATE": "READY",
        "RACK": "r1",
        "MODEL": "V100",
        "GPUS": "3",
        "HELD": "1",
        "FREE": "1",
        "CPUS": "8",
        "MEMORY": "32 GiB",
        "DETAIL": "GPU 1: is off the bus; clock: 9 s behind",
    }
    assert columns(second)[1:7] == ["CORDONED", "r1", "-", "3", "1", "0"]
    assert allot("nodes", "-q").stdout == "v100-1\nv100-2\n"
    assert columns(second)[-1].startswith(
        "by health: clock: 9 s behind; returns when its checks are ok; GPU 1"
    )
    shown = allot("nodes", "v100-1").stdout
    assert "Jobs in    Landlock\n" in shown
    assert "Storage    2 GiB/s, cache 500 GiB\n" in shown
    assert "Enforces   cpu\n" in shown
    assert "GPU parts  cooperative: jobs that ask for their time on the GPU are held\n" in shown
    gpus, checks = shown.split("\n\n")[1:]
    assert columns(gpus.splitlines()[2]) == ["1", "UNHEALTHY", "V100", "0", "0", "is off the bus"]
    assert [columns(line)[:2] for line in checks.splitlines()[1:]] == [
        ["clock", "WARNING"],
        ["gpu-1", "FAILED"],
    ]


def test_virtual_clusters(allot: Allot, api: FakeApi) -> None:
    api.virtual_clusters = [VC]
    header, row = allot("vcs").stdout.splitlines()
    assert dict(zip(columns(header), columns(row), strict=True)) == {
        "NAME": "shared",
        "POLICY": "fifo",
        "PLACER": "consolidate",
        "GUARANTEED": "V100:8",
        "IN USE": "V100:2",
        "EXTRA": "K80:4",
        "RUNNING": "1",
        "QUEUED": "3",
        "MEMBERS": "research, vision, and 2 others",
    }
    lines = allot("vcs", "shared").stdout.splitlines()
    assert lines[0] == "Virtual cluster shared (For everyone)"
    assert columns(lines[-1]) == ["V100", "8", "2", "0"]
    assert columns(lines[-2]) == ["K80", "0", "0", "4"]


def test_events_end_with_the_newest(allot: Allot, api: FakeApi) -> None:
    def event(number: int, **changes: Any) -> dict[str, Any]:
        return {
            "id": number,
            "at": NOW,
            "kind": "state",
            "subject": "job",
            "subject_id": 1,
            "from": None,
            "to": None,
            "actor": "",
            "message": f"event {number}",
            "data": {},
            "job": 1,
            "node": None,
            "tenant": "research",
            **changes,
        }

    api.events = [event(3), event(2, **{"from": "queued", "to": "running", "actor": "round 41"}), event(1)]
    assert allot("events", "-q", "-n", "2").stdout == "2\n3\n"
    header, *rows = allot("events", "--job", "1").stdout.splitlines()
    assert columns(header) == ["AGE", "KIND", "SUBJECT", "CHANGE", "BY", "MESSAGE"]
    assert [columns(row)[-1] for row in rows] == ["event 1", "event 2", "event 3"]
    assert columns(rows[1])[1:5] == ["state", "job 1", "QUEUED → RUNNING", "round 41"]


def test_a_lapsed_guarantee_and_lost_work_are_told(api: FakeApi, allot: Allot) -> None:
    message = "2 of its 2 GPUs were reclaimed by guaranteed job 3 of virtual cluster speech."
    attempt = make_attempt(state="ended", outcome="preempted", message=message, lost_seconds=75.0)
    api.add(1, **{**running(), "attempt": attempt}, guarantee_lapsed=True)
    shown = allot("show", "1").stdout
    assert "guaranteed (lapsed: its cells no longer exist" in shown
    assert f"{message} 1m15s of work lost." in shown


def test_show_says_plainly_where_nothing_holds_a_job_to_its_part_of_a_gpu(allot: Allot, api: FakeApi) -> None:
    api.add(1, **{**running(), "attempt": make_attempt(enforcement="placement_only")})
    api.add(2, **running())
    assert "GPU part         placement only: nothing holds it" in allot("show", "1").stdout
    assert "GPU part" not in allot("show", "2").stdout


def test_why_of_the_job_that_was_submitted_last(allot: Allot, api: FakeApi) -> None:
    for number, user in enumerate(("ann", "ann", "ben"), start=1):
        api.add(number, submitted_by=user)
    assert allot("why", "--last").stdout.startswith("Job 2 train has waited ")
    for wrong in (("why",), ("why", "3", "--last")):
        assert allot(*wrong).exit_code == 2
