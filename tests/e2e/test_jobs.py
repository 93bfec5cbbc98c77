"""A job from submit to finished, on real processes, and the way back after a preemption."""

import json
import subprocess

import pytest
import yaml

from nodeagent.procfs import processes_with_setting
from tests.agent.builders import read_configuration
from tests.e2e.installation import ROOT, Agent, Installation
from tests.patience import until

DIGITS = 'exec python "$ALLOT_EXAMPLES/digits/train.py" '


def spec(command: str, *, gpus: int = 1, replicas: int = 1, **fields) -> dict:
    return {
        "name": "e2e",
        "tenant": "vision",
        "tasks": [
            {
                "name": "main",
                "replicas": replicas,
                "resources": {"gpu": gpus, "gpu_model": "V100"},
                "command": ["sh", "-c", command],
            }
        ],
        "checkpoint": {"grace_seconds": 10},
        **fields,
    }


def log_of(platform: Installation, job: int, rank: int = 0) -> str:
    chunks = platform.call("GET", f"jobs/{job}/logs?rank={rank}&limit=1000")["chunks"]
    return "".join(chunk["text"] for chunk in chunks)


def result(platform: Installation, job: int) -> dict:
    return json.loads((platform.home.parent / "checkpoints" / str(job) / "result.json").read_text())


def test_a_job_runs_writes_its_log_and_succeeds(platform):
    job = platform.submit(
        **spec('echo "rank $RANK of $WORLD_SIZE on $ALLOT_GPU_MODEL $CUDA_VISIBLE_DEVICES"')
    )
    done = platform.wait_for(job, "succeeded")
    assert (done["exit_code"], done["attempts"]) == (0, 1)
    text = until(lambda: log_of(platform, job), "the log")
    assert text.startswith("rank 0 of 1 on V100 ")
    kinds = [event["kind"] for event in platform.call("GET", f"jobs/{job}/events")["results"]]
    for kind in ("job.succeeded", "attempt.ended", "attempt.running", "attempt.starting"):
        assert kind in kinds


def test_a_failing_job_says_why(platform):
    job = platform.submit(**spec("python -c 'raise KeyError(\"lost key\")'"))
    failed = platform.wait_for(job, "failed")
    assert failed["exit_code"] == 1
    assert "KeyError" in failed["message"]


def test_a_gang_over_two_nodes_trains_to_the_same_weights_as_one_process(platform):
    alone = platform.submit(**spec(DIGITS + "--steps 120"))
    # Six replicas of one GPU on nodes of four: it cannot fit on one.
    gang = platform.submit(**spec(DIGITS + "--steps 120", replicas=6))
    platform.wait_for(alone, "succeeded")
    done = platform.wait_for(gang, "succeeded")
    assert len(done["attempt"]["placement"]) == 2
    one, many = result(platform, alone), result(platform, gang)
    assert many["world_size"] == 6
    assert many["weights_sha256"] == one["weights_sha256"]
    assert many["accuracy"] == one["accuracy"] > 0.9


def test_the_example_specs_are_accepted_as_they_are(platform):
    for path in sorted((ROOT / "examples").glob("*/*.yaml")):
        checked = platform.call(
            "POST", "jobs/check", {**yaml.safe_load(path.read_text()), "tenant": "vision"}
        )
        assert checked["ok"], (path, checked)


def test_an_opportunistic_job_is_preempted_and_resumes_from_its_checkpoint(platform):
    """It borrows everything, gives way to a guaranteed job, comes back, and ends with the weights of a
    run that nobody interrupted."""
    whole = platform.submit(**spec(DIGITS + "--steps 150 --seed 5"))
    platform.wait_for(whole, "succeeded")
    borrower = platform.submit(
        **spec(DIGITS + "--steps 150 --seed 5 --step-seconds 0.05", replicas=8, guarantee="opportunistic")
    )
    platform.wait_for(borrower, "running")
    until(lambda: platform.call("GET", f"jobs/{borrower}/progress")["points"], "its first progress")
    owner = platform.submit(**spec("echo mine", gpus=4))
    platform.wait_for(owner, "succeeded")
    done = platform.wait_for(borrower, "succeeded")
    assert done["preemptions"] == 1
    first, second = sorted(
        platform.call("GET", f"jobs/{borrower}/attempts")["results"], key=lambda each: each["number"]
    )
    assert (first["outcome"], first["stop_cause"]) == ("preempted", "preempted")
    assert str(owner) in json.dumps(first)
    assert second["outcome"] == "succeeded"
    assert result(platform, borrower)["weights_sha256"] == result(platform, whole)["weights_sha256"]
    events = platform.call("GET", f"jobs/{borrower}/events")["results"]
    assert any(f"{owner}" in event["message"] for event in events if event["kind"] == "attempt.stop")


def test_a_cancelled_job_leaves_no_process_and_no_gpu(platform):
    deaf = spec("trap '' TERM; echo deaf; while :; do sleep 0.1; done", checkpoint={"grace_seconds": 2})
    job = platform.submit(**deaf)
    platform.wait_for(job, "running")
    until(lambda: log_of(platform, job), "the log")
    # In its sandbox the job counts its processes from 1; the machine knows them by their environment.
    mark = f"ALLOT_CHECKPOINT_DIR={platform.home.parent / 'checkpoints' / str(job)}"
    assert processes_with_setting(mark)
    platform.call("POST", f"jobs/{job}/cancel", {})
    platform.wait_for(job, "cancelled")
    assert not processes_with_setting(mark)
    until(lambda: platform.call("GET", "cluster")["gpus"]["held"] == 0, "no GPU to be held")


def test_a_job_over_its_time_limit_is_stopped_and_failed(platform):
    job = platform.submit(**spec("sleep 600", time_limit=2))
    failed = platform.wait_for(job, "failed")
    assert "limit" in failed["message"]


def test_a_waiting_job_says_why_in_the_next_round(platform):
    holder = platform.submit(**spec("sleep 600", gpus=4, replicas=2))
    platform.wait_for(holder, "running")
    waiting = platform.submit(**spec("true", gpus=2))
    why = until(lambda: platform.call("GET", f"jobs/{waiting}/why")["reasons"], "a reason")
    assert why[0]["code"]
    assert "vision-vc" in why[0]["message"]
    platform.call("POST", f"jobs/{holder}/cancel", {})
    platform.wait_for(waiting, "succeeded")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpus_wanted": 4}, "gpus_wanted"),
        ({"priority": 1_000}, "priority"),
        ({"time_limit": -5}, "time_limit"),
        ({"virtual_cluster": "nowhere"}, "virtual_cluster"),
    ],
)
def test_a_bad_spec_is_refused_with_the_field_and_nothing_is_written(platform, change, field):
    before = platform.call("GET", "jobs?page_size=1")["results"]
    answer = platform.api.post("jobs", json={**spec("true"), **change})
    assert answer.status_code in (400, 409), answer.text
    assert field in [each["field"] for each in answer.json()["fields"]]
    assert platform.call("GET", "jobs?page_size=1")["results"] == before


def test_a_job_that_can_never_run_is_refused_at_submit(platform):
    answer = platform.api.post("jobs", json=spec("true", gpus=8))
    assert answer.status_code in (400, 409)
    assert "4" in answer.json()["detail"] + json.dumps(answer.json()["fields"])


def test_every_round_of_this_run_is_decided_again_to_the_same_plan(platform):
    rounds = platform.call("GET", "rounds?page_size=200")["results"]
    assert {item["state"] for item in rounds} == {"applied"}
    busy = [item["number"] for item in rounds if item["started"] or item["stopped"]]
    assert len(busy) > 5
    said = platform.manage("replay_round", *map(str, busy))
    assert said.count("identical plan") == len(busy)


def test_a_node_joins_by_the_file_and_the_command_that_the_api_gives(platform):
    """As they are: written to the folder in which an operator would be, and run there."""
    new = platform.call("POST", "nodes", {"name": "joining", "rack": "rack-8"})
    setup, folder = new["agent"], platform.home.parent / "joining"
    folder.mkdir()
    file = folder / setup["file"]
    file.write_text(json.dumps(setup["simulated"]))
    shell, _, command = setup["command"].rpartition(" && ")
    subprocess.run(shell, shell=True, check=True, cwd=folder)
    assert file.stat().st_mode & 0o777 == 0o600
    assert command.split() == ["python", "-m", "nodeagent", "--config", setup["file"]]
    agent = Agent("joining", file, folder / "agent.log")
    agent.start()
    platform.agents.append(agent)
    node = until(
        lambda: (node := platform.call("GET", "nodes/joining"))["state"] == "ready" and node,
        "the node to join",
    )
    assert (node["gpu_model"], len(node["gpus"])) == ("simulated", 4)
    resources = {"gpu": 4, "gpu_model": "simulated"}
    task = {"name": "main", "resources": resources, "command": ["sh", "-c", "echo hello"]}
    job = platform.submit(name="first", tenant="vision", guarantee="opportunistic", tasks=[task])
    assert platform.wait_for(job, "succeeded")["attempt"]["placement"][0]["node"] == "joining"

    real = file.with_name("real.json")
    real.write_text(json.dumps(setup["real"]))
    assert read_configuration(real).inventory.kind == "nvml"
