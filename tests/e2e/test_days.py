"""A day of each kind of person, from the first command to the last, on the whole platform."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, expect, sync_playwright

from allot.client import Client
from tests.chromium import launch
from tests.e2e.installation import Agent, Installation
from tests.e2e.terminal import Terminal
from tests.patience import PATIENCE_SECONDS, until

PASSWORD = "nine tulips in a row"
MODEL = "L4"
#: Runs until a file says that it is enough.
WAITS = 'until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.1; done'


@pytest.fixture(scope="module")
def laboratory(platform: Installation) -> Installation:
    """One node of four GPUs, in a virtual cluster of two tenants, in which vera is an admin."""
    platform.add_node("lab-1", gpus=4, gpu_model=MODEL, rack="rack-7")
    for tenant in ("lab", "atelier"):
        platform.call("POST", "tenants", {"name": tenant, "title": tenant.title()})
    members = [{"tenant": tenant, "weight": 1} for tenant in ("lab", "atelier")]
    body = {"name": "bench", "guaranteed": {MODEL: 4}, "members": members}
    platform.call("POST", "virtual-clusters", body)
    return platform


@pytest.fixture
def arrives(laboratory: Installation, tmp_path: Path) -> Callable[..., Terminal]:
    """Make a user of a tenant, who signs in at a terminal."""

    def arrive(name: str, tenant: str, role: str = "member") -> Terminal:
        laboratory.call("POST", "users", {"username": name, "password": PASSWORD})
        laboratory.call("PUT", f"tenants/{tenant}/members/{name}", {"role": role})
        return signed_in(laboratory, name, tmp_path)

    return arrive


def signed_in(platform: Installation, name: str, folder: Path) -> Terminal:
    home = folder / name
    home.mkdir()
    terminal = Terminal(home)
    terminal(f"allot login {platform.url} --username {name} --password-stdin", stdin=f"{PASSWORD}\n")
    assert name in terminal("allot whoami")
    return terminal


@pytest.fixture
def operator(laboratory: Installation, tmp_path: Path) -> Terminal:
    home = tmp_path / "operator"
    home.mkdir()
    terminal = Terminal(home)
    terminal(f"allot login {laboratory.url} --token {laboratory.token}")
    return terminal


@pytest.fixture
def browser() -> Iterator[Browser]:
    # For this test alone: while it is open, Playwright keeps an event loop running.
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


def go_on(platform: Installation, job: int | str) -> None:
    """Let a job that `WAITS` end."""
    folder = platform.checkpoints / str(job)
    folder.mkdir(exist_ok=True)
    (folder / "go").touch()


def rows(table: str, **options: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table), **options))


def test_a_researcher(laboratory: Installation, arrives: Callable[..., Terminal]) -> None:
    """A part of a GPU, a job that waits for it and is changed, an array with a task that runs twice."""
    rosa = arrives("rosa", "lab")
    rosa.folder.joinpath("train.py").write_text(
        "import os, pathlib, time\n"
        "folder = pathlib.Path(os.environ['ALLOT_CHECKPOINT_DIR'])\n"
        "print('begins', flush=True)\n"
        "while not (folder / 'go').exists(): time.sleep(0.1)\n"
        "(folder / 'model.txt').write_text('weights')\n"
        "print('ends', flush=True)\n"
    )
    train = rosa("allot submit -q --upload . -g 0.5 --model L4 --name train -- python train.py").strip()
    laboratory.wait_for(int(train), "running")
    follower = rosa.start(f"allot logs -f {train}")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "begins\n"

    large = rosa("allot submit -q -g 4 --model L4 --name large -- true").strip()
    why = until(lambda: "Expected to start at" in (said := rosa(f"allot why {large}")) and said, "a forecast")
    assert "\n  1. Virtual cluster bench guarantees 4 L4" in why
    rosa(f"allot update {large} --priority 7 --time-limit 2h --label paper=icml")
    changed = json.loads(rosa(f"allot show {large} -o json"))
    assert (changed["priority"], changed["spec"]["time_limit"], changed["labels"]) == (
        7, 7200, {"paper": "icml"},
    )  # fmt: skip

    go_on(laboratory, train)
    with follower:
        assert follower.stdout.read() == "ends\n"
        assert follower.wait(PATIENCE_SECONDS) == 0
    rosa(f"allot wait {train} {large}")
    rosa(f"allot artefacts {train} model.txt --download best.txt")
    assert rosa.folder.joinpath("best.txt").read_text() == "weights"

    rosa.folder.joinpath("sweep.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "sweep",
                "resources": {"gpu": 1, "gpu_model": MODEL},
                "array": {"indices": "0-2"},
                "checkpoint": {"grace_seconds": 1},
                "command": ["sh", "-c", f'echo "index $ALLOT_ARRAY_INDEX"; {WAITS}'],
            }
        )
    )
    sweep = rosa("allot submit -q sweep.yaml").split()[0]
    tasks = {
        each["array"]["index"]: each["id"]
        for each in json.loads(rosa(f"allot ls --array {sweep} --all -o json"))
    }
    assert sorted(tasks) == [0, 1, 2]
    for task in tasks.values():
        laboratory.wait_for(task, "running")
    rosa(f"allot requeue {tasks[1]}")
    until(lambda: laboratory.job(tasks[1])["attempts"] == 2, "the task to run again")
    for task in tasks.values():
        go_on(laboratory, task)
    rosa(f"allot wait {' '.join(map(str, tasks.values()))}")
    # A busy node reports an end before its last output.
    until(lambda: "index 1" in rosa(f"allot logs {tasks[1]} --attempt 2"), "the output of the second attempt")

    history = rows(
        rosa("allot hist --mine --since 1h --csv --all --format id,name,state,attempts,label:paper")
    )
    told = {(each["name"], each["state"], each["attempts"]) for each in history}
    assert told == {
        ("train", "SUCCEEDED", "1"),
        ("large", "SUCCEEDED", "1"),
        ("sweep[0]", "SUCCEEDED", "1"),
        ("sweep[1]", "SUCCEEDED", "2"),
        ("sweep[2]", "SUCCEEDED", "1"),
    }
    assert [each["id"] for each in history if each["label:paper"] == "icml"] == [large]


SWEEP = """#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --partition=bench
#SBATCH --array=1-3%3
#SBATCH --gres=gpu:L4:1
#SBATCH --time=00:30:00
#SBATCH --output=logs/%A_%a.out
ARGS=$(sed -n "${SLURM_ARRAY_TASK_ID}p" args.txt)
echo "trains with $ARGS, start ${SLURM_RESTART_COUNT:-0}"
until [ -e "$ALLOT_CHECKPOINT_DIR/go" ]; do sleep 0.1; done
"""


def test_a_slurm_user_on_monday(laboratory: Installation, arrives: Callable[..., Terminal]) -> None:
    """Slurm's commands and files only, from the first `sbatch` to `sacct`."""
    simon = arrives("simon", "lab")
    simon("allot slurm-shims bin")
    simon.first.append(simon.folder / "bin")
    simon.settings["ALLOT_SBATCH_UPLOAD"] = "auto"
    assert "bench" in simon('sinfo -h -o "%P %a %D %G"')
    simon.folder.joinpath("sweep.sbatch").write_text(SWEEP)
    simon.folder.joinpath("args.txt").write_text("--lr 1\n--lr 2\n--lr 3\n")

    sweep = simon("sbatch --parsable sweep.sbatch").strip()
    evaluation = simon(
        f"sbatch --parsable --dependency=afterok:{sweep} -p bench -G 1 -J evaluation --wrap 'echo evaluates'"
    ).strip()

    def queue() -> dict[str, tuple[str, str]]:
        said = simon('squeue --me -h -o "%i|%T|%r"').splitlines()
        return {job: (state, reason) for job, state, reason in (line.split("|") for line in said)}

    tasks = {f"{sweep}_{index}" for index in (1, 2, 3)}
    running = until(
        lambda: {job for job, (state, _) in queue().items() if state == "RUNNING"} == tasks and queue(),
        "the three tasks to run",
    )
    assert running[evaluation] == ("PENDING", "Dependency")
    shown = simon(f"scontrol -o show job {sweep}_2")
    assert f"ArrayJobId={sweep} ArrayTaskId=2 JobName=sweep " in shown
    assert "JobState=RUNNING" in shown
    assert "TimeLimit=00:30:00" in shown
    assert "NodeList=lab-1 BatchHost=lab-1" in shown

    def accounts(*fields: str) -> list[dict[str, str]]:
        return rows(simon(f"sacct -X -P -j {sweep},{evaluation} -o {','.join(fields)}"), delimiter="|")

    def starts() -> dict[str, str]:
        return {each["JobID"]: each["Restarts"] for each in accounts("JobID", "State", "Restarts")}

    raw = {each["JobID"]: each["JobIDRaw"] for each in accounts("JobID", "JobIDRaw")}
    until(lambda: "start 0" in simon(f"allot logs {raw[f'{sweep}_2']}"), "the second task to begin")
    simon(f"scontrol requeue {sweep}_2")
    until(lambda: starts()[f"{sweep}_2"] == "1" and queue()[f"{sweep}_2"][0] == "RUNNING", "it to run again")
    until(lambda: "start 1" in simon(f"allot logs {raw[f'{sweep}_2']}"), "the second task to begin again")
    assert starts() == {f"{sweep}_1": "0", f"{sweep}_2": "1", f"{sweep}_3": "0", evaluation: "0"}

    waste = simon("sbatch --parsable --hold -p bench -G 4 -J waste --wrap true").strip()
    assert queue()[waste] == ("PENDING", "JobHeldUser")
    simon(f"scancel {waste}")
    assert simon(f"sacct -X -n -P -j {waste} -o State") == "CANCELLED\n"

    for task in tasks:
        go_on(laboratory, raw[task])
    until(lambda: not queue(), "the queue to be empty")
    ended = {
        each["JobID"]: (each["State"], each["ExitCode"]) for each in accounts("JobID", "State", "ExitCode")
    }
    assert ended == dict.fromkeys([*tasks, evaluation], ("COMPLETED", "0:0"))
    said = {simon(f"allot logs {raw[task]}").split(",")[0] for task in tasks}
    assert said == {f"trains with --lr {number}" for number in (1, 2, 3)}


def test_an_admin_of_a_tenant(
    laboratory: Installation,
    operator: Terminal,
    arrives: Callable[..., Terminal],
    browser: Browser,
    tmp_path: Path,
) -> None:
    """A member comes by a link, has limits within the tenant's, is accounted for, and goes."""
    operator("allot admin quota set atelier '*=4'")
    operator("allot admin budget set atelier 100 --action hold")
    vera = arrives("vera-a", "atelier", "admin")

    link = vera("allot admin invite add atelier").split()[0]
    page = browser.new_page(base_url=laboratory.url)
    page.set_default_timeout(1000 * PATIENCE_SECONDS)
    page.goto(link)
    page.get_by_label("User name").fill("tilda")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make an account and join").click()
    expect(page.get_by_role("heading", name="Atelier", exact=True)).to_be_visible(
        timeout=1000 * PATIENCE_SECONDS
    )
    tilda = signed_in(laboratory, "tilda", tmp_path)
    assert "tilda" in vera("allot admin member list atelier")

    vera("allot admin quota user set atelier tilda --gpus 2")
    assert "9 is more than tenant atelier may hold, 4" in vera(
        "allot admin quota user set atelier tilda --gpus 9", code=1
    )
    vera("allot admin budget user set atelier tilda 20 --action hold")
    assert "100" in vera("allot admin budget user set atelier tilda 200", code=1)
    (limits,) = json.loads(vera("allot admin quota user list atelier --json"))
    assert (limits["username"], limits["quota"]["gpus"], limits["budget"]["amount"]) == ("tilda", 2, 20)

    assert "User tilda may hold at most 2 GPUs" in tilda("allot submit -g 3 --model L4 -- true", code=1)
    job = tilda(f"allot submit -q -g 2 --model L4 --name within -- sh -c '{WAITS}'").strip()
    laboratory.wait_for(int(job), "running")
    refused = tilda("allot admin quota user set atelier tilda --gpus 4", code=3)
    assert "needs the role admin" in refused

    vera("allot usage --by user,model")
    (used,) = rows(vera("allot usage --by user,model --since 1d --csv"))
    assert (used["user"], used["gpu_model"], used["jobs"]) == ("tilda", MODEL, "1")
    assert float(used["gpu_hours"]) > 0
    assert "tilda" not in tilda("allot usage --csv")

    vera("allot admin member remove atelier tilda --yes")
    tilda(f"allot show {job}", code=3)
    assert tilda("allot ls -q") == ""
    tilda("allot submit --tenant atelier -g 1 --model L4 -- true", code=3)
    assert json.loads(vera("allot admin quota user list atelier --json")) == []
    # The job that ran goes on: it is the tenant's.
    go_on(laboratory, job)
    vera(f"allot wait {job}")


def test_an_operator(laboratory: Installation, operator: Terminal, arrives: Callable[..., Terminal]) -> None:
    """The site as a file, another node, a reservation, a window, a drain, and a user who leaves."""
    olaf = arrives("olaf", "lab")
    operator("allot export > site.yaml")
    unchanged = operator("allot apply -f site.yaml --yes 2>&1")
    assert unchanged == "No changes.\n"
    site = operator.folder / "site.yaml"
    document = yaml.safe_load(site.read_text())
    (lab,) = [tenant for tenant in document["tenants"] if tenant["name"] == "lab"]
    lab["title"] = "Laboratory"
    lab["quota"] = {MODEL: 4}
    site.write_text(yaml.safe_dump(document))
    shown = operator("allot apply -f site.yaml --dry-run")
    assert laboratory.call("GET", "tenants/lab")["title"] == "Lab"
    assert operator("allot apply -f site.yaml --yes") == shown
    assert laboratory.call("GET", "tenants/lab")["title"] == "Laboratory"
    assert operator("allot apply -f site.yaml --yes 2>&1") == "No changes.\n"

    operator("allot admin node add lab-2 --rack rack-7 --simulated L4 > agent.json; chmod 600 agent.json")
    configuration = operator.folder / "agent.json"
    told = json.loads(configuration.read_text())
    told |= {"work_folder": str(operator.folder / "work"), "checkpoint_folder": str(laboratory.checkpoints)}
    configuration.write_text(json.dumps(told))
    agent = Agent("lab-2", configuration, operator.folder / "agent.log")
    laboratory.agents.append(agent)
    agent.start()
    until(lambda: "READY" in operator("allot nodes lab-2"), "the node to be ready")

    def runs_on(job: str) -> str | None:
        attempt = laboratory.job(int(job))["attempt"]
        return attempt["placement"][0]["node"] if attempt and attempt["state"] == "running" else None

    submit = f"allot submit -q -g 1 --model L4 --grace 1 --opportunistic --nodes lab-2 -- sh -c '{WAITS}'"
    job = olaf(submit).strip()
    until(lambda: runs_on(job) == "lab-2", "a job on the new node")

    made = json.loads(
        operator(
            "allot admin reservation create paper --tenant lab --gpus 4 --gpu-model L4"
            " --start 36h --end 2h --json"
        )
    )
    (reserved,) = made["nodes"]
    other = {"lab-1": "lab-2", "lab-2": "lab-1"}[reserved]
    refused = operator(f"allot admin maintenance add {reserved} -m fans --start 36h --end 4h", code=1)
    assert "paper" in refused
    window = json.loads(operator(f"allot admin maintenance add {other} -m fans --start 36h --end 4h --json"))
    assert "fans" in olaf("allot maintenance")
    assert "paper" in olaf("allot admin reservation ls")

    operator("allot drain lab-2 -m 'a loose cable'")
    until(lambda: runs_on(job) is None and laboratory.job(int(job))["state"] == "queued", "the job to leave")
    assert "a loose cable" in operator("allot nodes lab-2")
    assert "lab-2" in until(lambda: "  1. " in (said := olaf(f"allot why {job}")) and said, "why it waits")

    leaving = json.loads(operator("allot admin user deactivate olaf --yes --json"))
    assert (leaving["running"], leaving["held"]) == (0, 1)
    olaf("allot whoami", code=3)
    assert laboratory.job(int(job))["held"]
    operator(f"allot cancel {job}")
    operator("allot resume lab-2")
    operator(f"allot admin reservation cancel {made['id']} --yes")
    operator(f"allot admin maintenance cancel {window['id']} --yes")

    def log() -> set[tuple[str, str]]:
        entries = map(json.loads, operator("allot audit --export --who operator --since 1h").splitlines())
        return {(entry["action"], entry["subject"]) for entry in entries}

    expected = {
        ("tenant.change", "lab"),
        ("quota.create", MODEL),
        ("node.create", "lab-2"),
        ("reservation.create", "paper"),
        ("node.drain", "lab-2"),
        ("user.disable", "olaf"),
        ("node.uncordon", "lab-2"),
        ("reservation.cancel", "paper"),
    }
    # An entry is exported once no older transaction can add another before it.
    until(lambda: expected <= log(), "every change to be in the audit log")


def test_a_program_author(laboratory: Installation, arrives: Callable[..., Terminal], tmp_path: Path) -> None:
    """A sweep is submitted once though it is sent twice, followed, listed, and edited by edition."""
    paula = arrives("paula", "lab")
    token = json.loads(paula("allot token create program --scope read --scope submit -o json"))["token"]
    command = {"resources": {"gpu": 1, "gpu_model": MODEL}, "command": ["true"]}
    specs = [{"name": f"point-{number}", "labels": {"sweep": "lr"}, **command} for number in range(5)]
    with Client(laboratory.url, token=token) as client:
        sent = client.submit_many(specs, idempotency_key="sweep of lr")
        again = client.submit_many(specs, idempotency_key="sweep of lr")
        ids = [job["id"] for job in sent]
        assert [job["id"] for job in again] == ids
        last = ids[-1]
        submitted_at = datetime.fromisoformat(client.job(last)["submitted_at"])
        kinds = []
        for event in client.events.follow(since=submitted_at, job=last):
            kinds.append(event["kind"])
            if event["kind"] == "job.succeeded":
                break
        assert kinds[0] == "job.submitted"
        assert "attempt.running" in kinds
    # The command says the same, one object a line.
    with paula.start(f"allot events --follow --json --job {last} --since 1h") as follower:
        assert follower.stdout is not None
        told = [json.loads(follower.stdout.readline())["kind"] for _ in kinds]
        follower.terminate()
    assert told == kinds

    with httpx.Client(base_url=f"{laboratory.url}/api/v1/", timeout=PATIENCE_SECONDS) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        listed, address = [], "jobs?label=sweep=lr&page_size=2"
        while address:
            page = http.get(address).json()
            assert len(page["results"]) <= 2
            listed += [job["id"] for job in page["results"]]
            address = page["next"]
        assert listed == sorted(ids, reverse=True)

        held = http.post("jobs", json={"name": "waits", "hold": True, **command}).json()["id"]
        edition = http.get(f"jobs/{held}").headers["ETag"]
        first = http.patch(f"jobs/{held}", json={"priority": 3}, headers={"If-Match": edition})
        assert (first.status_code, first.json()["priority"]) == (200, 3)
        second = http.patch(f"jobs/{held}", json={"priority": 4}, headers={"If-Match": edition})
        problem = second.json()
        assert (second.status_code, problem["code"]) == (412, "outdated")
        assert http.get(f"jobs/{held}").json()["priority"] == 3

        wrong = http.post("jobs", json={"name": "wrong", "gpus": -1}, headers={"X-Request-ID": "paula-1"})
        assert wrong.headers["Content-Type"] == "application/problem+json"
        assert wrong.headers["X-Request-ID"] == "paula-1"
        problem = wrong.json()
        assert (wrong.status_code, problem["status"], problem["code"]) == (400, 400, "invalid")
        assert problem["fields"]
        http.post(f"jobs/{held}/cancel").raise_for_status()
