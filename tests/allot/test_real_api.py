"""The command against the real REST API over HTTP: the fake server must not promise what the real one
does not keep."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from allot import schema
from allot.client import Client
from allot.errors import NotSignedIn, Refused
from scheduler.core.model.lifecycle import AttemptState, HoldPhase, JobState
from scheduler.models import Job, LogChunk, Node
from tenants.models import Guarantee, Role, Token, User
from tests.allot.in_process import Allot, run
from tests.api.caller import forget_wrong_passwords
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

PASSWORD = "correct horse battery"


@pytest.fixture
def url(live_server: Any, redis_url: str, settings: Any) -> str:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    forget_wrong_passwords()
    user = make_user("ann", password=PASSWORD)
    tenant = make_tenant("research", members={user: Role.MEMBER})
    make_vc("shared", members=[tenant], guaranteed={"V100": 8})
    make_node("v100-1", gpus=4)
    make_node("v100-2", gpus=4)
    return str(live_server.url)


@pytest.fixture
def allot(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as ann by password."""
    for name in ("ALLOT_URL", "ALLOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALLOT_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.chdir(tmp_path)

    signed_in = run("login", url, "-u", "ann", "--password-stdin", stdin=PASSWORD + "\n")
    assert signed_in.exit_code == 0, signed_in.stderr
    return run


@pytest.fixture
def client(allot: Allot) -> Iterator[Client]:
    with Client.from_environment() as client:
        yield client


def job_of(name: str) -> Job:
    return Job.objects.get(name=name)


def ended_job(like: Job, state: JobState, exit_code: int, replicas: int = 1) -> Job:
    """A job of the same owner that ran once on two GPUs, wrote two lines, and ended."""
    job = make_job(
        name=state.value,
        tenant=like.tenant,
        virtual_cluster=like.virtual_cluster,
        submitted_by=like.submitted_by,
        gpus=2 // replicas,
        replicas=replicas,
        state=state,
        columns={"exit_code": exit_code},
    )
    gpus = gpus_of(Node.objects.get(name="v100-1"))[:2]
    attempt = make_attempt(job, gpus, state=AttemptState.ENDED, phase=HoldPhase.RELEASED, outcome=state.value)
    for sequence, text in enumerate(["one\ntw", "o\n"]):
        LogChunk.objects.create(attempt=attempt, rank=0, sequence=sequence, at=timezone.now(), text=text)
    return job


def test_signing_in_and_out(allot: Allot, client: Client) -> None:
    assert allot("whoami").stdout.splitlines()[1:] == ["  member of research"]
    assert client.me()["user"]["username"] == "ann"
    assert allot("logout").exit_code == 0
    with pytest.raises(NotSignedIn):
        client.me()


def test_a_part_of_a_gpu_is_answered_as_the_part_that_it_is(allot: Allot) -> None:
    asked = ["--name", "part", "--gpus", "0.3", "--vc", "shared", "--tenant", "research", "--", "true"]
    checked = allot("submit", "--dry-run", *asked)
    assert checked.stdout.startswith("part: would be taken, 0.3 of one GPU. "), checked.stderr
    submitted = allot("submit", *asked)
    assert submitted.stdout.splitlines()[0].endswith(" part: 0.3 of one GPU of any model in shared.")


def test_everything_that_flags_can_say_is_taken_and_shown(allot: Allot) -> None:
    flags = (
        "--name x --gpus 2 --model V100 --replicas 2 --opportunistic --vc shared --tenant research --cpu 1 "
        "--memory 4GiB --time-limit 1h --env K=V --label team=vision --priority 5 --topology rack "
        "--deadline 2h --topology-required --grace 60 --max-attempts 2 --description warm-up --min-gpus 2 "
        "--max-gpus 8 --elastic-mode adaptive "
        "-- python train.py --lr 1"
    )
    checked = allot("submit", "--dry-run", *flags.split(" "))
    assert checked.exit_code == 0, checked.stderr
    assert checked.stdout.startswith("x: would be taken, 4 GPUs. Would start at once.")
    assert not Job.objects.exists()
    submitted = allot("submit", *flags.split(" "))
    assert submitted.exit_code == 0, submitted.stderr
    spec = json.loads(allot("show", str(job_of("x").id), "-o", "json").stdout)["spec"]
    assert (spec["time_limit"], spec["deadline"]) == (3600, 7200)
    assert spec["topology"] == {"level": "rack", "required": True}
    assert spec["tasks"][0]["resources"] == {"gpu": 2, "gpu_model": ["V100"], "cpu": 1.0, "memory": 4 * 2**30}
    elastic = {"min_gpus": 2, "max_gpus": 8, "mode": "adaptive"}
    assert (spec["elastic"], spec["description"]) == (elastic, "warm-up")
    shown = allot("show", str(job_of("x").id)).stdout
    assert re.search(r"Description +warm-up", shown)
    assert "4 GPUs of V100, opportunistic" in shown
    asked = "main ×2, 2 GPUs, 1 CPU, 4 GiB each: python train.py --lr 1"
    assert asked in shown
    assert re.search(r"Time limit +1h\n", shown)
    for said in (checked.stdout, submitted.stdout):
        assert f"\n  {asked}\n  time limit: 1h\n" in said
    for label, found in (
        ("team=vision", f"{job_of('x').id}\n"),
        ("team", f"{job_of('x').id}\n"),
        ("team=b", ""),
    ):
        assert allot("ls", "-q", "--label", label).stdout == found


def test_what_show_prints_can_be_submitted_again(allot: Allot) -> None:
    first = allot("submit", "-q", "-g", "2", "-e", "A=1", "--", "true").stdout.strip()
    printed = allot("show", first, "--spec").stdout
    second = allot("submit", "-q", "-", stdin=printed).stdout.strip()
    specs = [json.loads(allot("show", number, "-o", "json").stdout)["spec"] for number in (first, second)]
    assert specs[0] == specs[1]


def test_a_repeated_key_is_one_job(client: Client) -> None:
    spec = {"name": "once", "gpus": 1, "command": ["true"]}
    first = client.submit(spec, idempotency_key="k-1")
    assert client.submit(spec, idempotency_key="k-1")["id"] == first["id"]
    with pytest.raises(Refused) as caught:
        client.submit({**spec, "name": "other"}, idempotency_key="k-1")
    assert caught.value.code == "idempotency_mismatch"
    assert Job.objects.count() == 1


def test_many_at_once_are_all_or_none(allot: Allot, tmp_path: Path) -> None:
    one = {"name": "a", "gpus": 1, "command": ["true"]}
    (tmp_path / "good.json").write_text(json.dumps([one, {**one, "name": "b"}]))
    (tmp_path / "bad.yaml").write_text("name: c\ngpus: 0\ncommand: 'true'\n")
    refused = allot("submit", "good.json", "bad.yaml")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("allot: None of the 3 jobs was submitted.\n  bad.yaml: ")
    assert not Job.objects.exists()
    assert allot("submit", "good.json", "-q").stdout.count("\n") == 2


MISTAKES = {
    "-g 99": "tasks.0.resources.gpu: ",
    "-g 9": "tasks.0.resources.gpu: ",
    "-m H100": "tasks.0.resources.gpu_model: ",
    "--time-limit soon": "time_limit: ",
    "--vc no-such": "virtual_cluster: ",
    "--priority 1000": "priority: ",
}


def test_mistakes_are_named_with_what_would_be_right(allot: Allot) -> None:
    for flags, field in MISTAKES.items():
        for more in ([], ["--dry-run"]):
            result = allot("submit", *more, "-g", "1", *flags.split(), "--", "true")
            assert result.exit_code == 1
            lines = (result.stderr + result.stdout).splitlines()
            told = [line for line in lines if line.startswith(f"  {field}")]
            assert len(told) == 1, (flags, lines)
            assert "Expected: " in told[0]
    assert not Job.objects.exists()


def test_jobs_in_every_state_are_listed_explained_and_followed(allot: Allot) -> None:
    number = allot("submit", "-q", "-g", "2", "--name", "waits", "--", "true").stdout.strip()
    assert allot("why", number).stdout.startswith(f"Job {number} waits has waited ")
    waits = job_of("waits")
    for state, code in ((JobState.SUCCEEDED, 0), (JobState.FAILED, 3)):
        ran = ended_job(waits, state, code)
        for arguments in (("logs",), ("logs", "-f"), ("logs", "--tail", "9")):
            assert allot(*arguments, str(ran.id)).stdout == "one\ntwo\n"
        assert allot("wait", str(ran.id)).exit_code == code
        assert allot("show", str(ran.id)).exit_code == 0
    assert allot("ls", "-q", "-s", "queued").stdout == f"{number}\n"
    assert len(allot("ls", "--vc", "shared", "--mine").stdout.splitlines()) == 4
    assert len(allot("ls", "--all").stdout.splitlines()) == 4


def test_output_of_several_ranks_is_merged_found_and_downloaded(allot: Allot, tmp_path: Path) -> None:
    allot("submit", "-q", "-g", "1", "--name", "gang", "--replicas", "2", "--", "true")
    ran = ended_job(job_of("gang"), JobState.SUCCEEDED, 0, replicas=2)
    attempt = ran.attempts.get()
    for sequence, text in enumerate(("from the ot", "her\nloss 2")):
        LogChunk.objects.create(attempt=attempt, rank=1, sequence=sequence, at=timezone.now(), text=text)
    number = str(ran.id)
    merged = "[main 0] one\n[main 0] two\n[main 1] from the other\n[main 1] loss 2\n"
    for more in (("--all",), ("--task", "main"), ("--all", "-f"), ("--all", "--tail", "9")):
        assert sorted(allot("logs", number, *more).stdout.splitlines()) == merged.splitlines()
    assert allot("logs", number, "--task", "main", "--rank", "1").stdout == "from the other\nloss 2"
    found = allot("logs", number, "--all", "--grep", "^LOSS [0-9]", "-i", "-C", "1")
    assert (found.exit_code, found.stdout) == (0, "[main 1] 1-from the other\n[main 1] 2:loss 2\n")
    assert allot("logs", number, "--grep", "t.o").stdout == "2:two\n"
    nothing = allot("logs", number, "--grep", "LOSS")
    assert (nothing.exit_code, nothing.stderr) == (1, "Nothing found in 2 lines.\n")
    wrong = allot("logs", number, "--grep", "(loss")
    assert (wrong.exit_code, "parentheses" in wrong.stderr) == (1, True)
    allot("logs", number, "--rank", "1", "--download", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "from the other\nloss 2"
    assert allot("logs", number, "--download", str(tmp_path)).exit_code == 0
    with zipfile.ZipFile(tmp_path / f"job-{number}-attempt-1.zip") as archive:
        assert len(archive.namelist()) == 2
    assert allot("logs", number, "--all", "--rank", "1").exit_code == 2


def test_hold_release_and_cancel(allot: Allot) -> None:
    number = allot("submit", "-q", "-g", "1", "--", "true").stdout.strip()
    assert allot("hold", number).stdout == f"Job {number} held.\n"
    assert " HELD " in allot("ls").stdout
    assert allot("release", number).stdout == f"Job {number} released.\n"
    assert allot("cancel", "--filter", f"id={number}", "-y").stdout == "1 job cancelled, or being stopped.\n"
    assert allot("wait", number).exit_code == 1
    assert allot("show", "999999").exit_code == 3


def test_secrets_are_set_from_standard_input_listed_and_deleted(allot: Allot) -> None:
    kept = run("secret", "set", "HF_TOKEN", stdin="hf_a-value-of-ann\n")
    assert (kept.exit_code, kept.stdout) == (0, "secret HF_TOKEN is kept\n")
    assert "is not masked" in run("secret", "set", "short", stdin="abc").stderr
    (short, token) = json.loads(allot("secret", "list", "-o", "json").stdout)
    assert (token["name"], token["scope"], token["changed_by"]) == ("HF_TOKEN", "user", "ann")
    assert set(short) == {*schema.Secret.__annotations__, "tenant"}
    assert "hf_a-value" not in allot("secret", "list").stdout
    number = run(
        "submit", "-q", "-", stdin='{"name": "a", "gpus": 1, "command": "true", "secrets": ["HF_TOKEN"]}'
    )
    assert "HF_TOKEN (the submitter's own) as $HF_TOKEN" in allot("show", number.stdout.strip()).stdout
    # A member uses his tenant's, and admins set them.
    assert run("secret", "set", "all", "--tenant", "research", stdin="x").exit_code == 3
    assert allot("secret", "list", "--tenant", "research").exit_code == 0
    assert allot("secret", "delete", "HF_TOKEN").stdout == "secret HF_TOKEN is deleted\n"
    assert allot("secret", "delete", "HF_TOKEN").exit_code == 3


def test_nodes_virtual_clusters_and_events(allot: Allot) -> None:
    allot("submit", "-q", "-g", "1", "--", "true")
    assert allot("nodes", "-q").stdout.split() == ["v100-1", "v100-2"]
    assert "Node v100-1" in allot("nodes", "v100-1").stdout
    assert "V100:8" in allot("vcs").stdout
    assert "Virtual cluster shared" in allot("vcs", "shared").stdout
    assert "job.submitted" in allot("events").stdout
    assert allot("events", "--kind", "node.").stderr == "No events.\n"


def test_an_operator_takes_a_node_out_of_service_and_back(allot: Allot, client: Client) -> None:
    assert allot("drain", "v100-1").exit_code == 3
    User.objects.filter(username="ann").update(is_operator=True)
    Token.objects.filter(user__username="ann").update(scopes=["read", "submit", "manage", "operate"])
    told = allot("drain", "v100-1", "--deadline", "2099-01-01", "--why", "new fans")
    assert told.exit_code == 1, "that is too far ahead"
    told = allot("drain", "v100-1", "--deadline", "2h30s", "--why", "new fans")
    assert told.stderr.endswith("; 0 of its 4 GPUs are in use.\n")
    assert " CLOSING " in allot("nodes").stdout
    assert "by ann: new fans; emptied in 2h\n" in allot("nodes", "v100-1").stdout
    msgspec.convert(client.node("v100-1"), type=schema.Node)
    assert allot("resume", "v100-1").stderr == "Node v100-1 accepts jobs again.\n"
    assert allot("cordon", "v100-1", "--why", "smoke").exit_code == 0
    assert " CORDONED " in allot("nodes").stdout
    assert allot("drain", "v100-1").stderr.startswith("Node v100-1 is drain")
    assert allot("drain", "v100-1", "--deadline", "soon").exit_code == 2


def test_an_operator_lends_a_node_of_a_serving_pool_and_asks_it_back(allot: Allot, client: Client) -> None:
    assert allot("serving", "make", "chat").exit_code == 3
    User.objects.filter(username="ann").update(is_operator=True)
    Token.objects.filter(user__username="ann").update(scopes=["read", "submit", "manage", "operate"])
    assert allot("serving", "make", "chat", "--return", "10m").exit_code == 0
    # Nobody is guaranteed what a pool may ask back.
    refused = allot("serving", "assign", "v100-1", "chat")
    assert refused.exit_code == 1
    assert "guarantee" in refused.stderr
    Guarantee.objects.filter(virtual_cluster__name="shared").update(gpus=4)
    assert allot("serving", "assign", "v100-1", "chat").exit_code == 0
    assert " SERVING " in allot("nodes").stdout
    assert allot("serving", "lend", "v100-1", "--until", "8h", "--why", "a quiet night").exit_code == 0
    assert "LENT; of serving pool chat; lent for 7h59m; a quiet night" in allot("nodes", "v100-1").stdout
    assert allot("serving", "return", "v100-1", "--deadline", "5m").stderr.startswith(
        "Node v100-1 goes back in 4m"
    )
    assert " RETURNING " in allot("nodes").stdout
    assert allot("serving", "lend", "v100-1").exit_code == 0
    told = allot("serving", "return", "--pool", "chat", "--nodes", "2")
    assert told.stdout == "v100-1: stops 0 jobs, shrinks 0 jobs\n"
    assert allot("serving", "set", "chat", "--needs", "08:00=1", "--needs", "20:00=0").exit_code == 0
    assert "08:00=1 20:00=0" in allot("serving", "list").stdout
    msgspec.convert(client.serving.list_pools(), type=list[schema.ServingPool])
    assert allot("serving", "set", "chat", "--needs", "noon=1").exit_code == 1
    assert allot("serving", "set", "chat").exit_code == 2
    assert allot("serving", "assign", "v100-1").exit_code == 0
    assert client.node("v100-1")["loan"] is None


def test_answers_are_what_their_types_promise(allot: Allot, client: Client) -> None:
    number = int(allot("submit", "-q", "-g", "1", "--", "true").stdout)
    ran = ended_job(job_of("true"), JobState.SUCCEEDED, 0)
    spec = {"name": "a", "gpus": 1, "command": "true"}
    answers: list[tuple[Any, Any]] = [
        (client.me(), schema.Me),
        (list(client.jobs()), list[schema.Job]),
        (client.attempts(ran.id), list[schema.Attempt]),
        (client.why(number), schema.Why),
        (client.what_if({"spec": spec}, patience_seconds=0), schema.WhatIf),
        (client.check(spec), schema.CheckAnswer),
        (client.check({**spec, "gpus": 99}), schema.CheckAnswer),
        (client.submit_many([spec]), list[schema.ShortJob]),
        (client.logs.page(ran.id), schema.LogPage),
        (client.logs.page(number), schema.LogPage),
        (client.logs.merged(ran.id), schema.MergedLogPage),
        (list(client.logs.search(ran.id, "t")), list[schema.LogSearch]),
        (client.nodes(), list[schema.Node]),
        (client.virtual_clusters(), list[schema.VirtualCluster]),
        (list(client.events.listed()), list[schema.Event]),
    ]
    for answer, kind in answers:
        assert answer
        msgspec.convert(answer, type=kind)


def test_a_template_is_kept_listed_submitted_and_deleted(allot: Allot) -> None:
    spec = '{"name": "resnet", "gpus": 1, "command": "true"}'
    kept = run("template", "save", "resnet", "-", "--summary", "Start here.", stdin=spec)
    assert kept.stdout == "template resnet of research is kept\n", kept
    (row,) = json.loads(allot("template", "list", "-o", "json").stdout)
    assert (row["name"], row["summary"], row["tenant"]) == ("resnet", "Start here.", "research")
    assert "Start here." in allot("template", "list").stdout
    shown = allot("template", "show", "resnet").stdout
    assert json.loads(run("submit", "-", "-o", "json", stdin=shown).stdout)["name"] == "resnet"
    wrong = run("template", "save", "resnet", "-", stdin='{"name": "resnet", "gpus": 1}')
    assert (wrong.exit_code, "spec.command" in wrong.stderr) == (1, True), wrong.stderr
    assert allot("template", "delete", "resnet").stdout == "template resnet of research is deleted\n"
    assert run("template", "show", "resnet").exit_code == 3


def test_a_folded_array_is_as_its_tasks_are(allot: Allot) -> None:
    """The first of three has ended."""
    submitted = allot("submit", "--name", "sweep", "--array", "0-2", "--gpus", "1", "--quiet", "--", "true")
    assert submitted.exit_code == 0, submitted.stderr
    first = Job.objects.filter(name="sweep").earliest("id")
    first.state, first.ended_at = JobState.FAILED, timezone.now()
    first.save()
    _, line = allot("ls", "--fold").stdout.splitlines()
    assert line.split()[:5] == [str(first.id), "sweep", "(3", "tasks)", "QUEUED"]
    assert line.endswith("2 queued, 1 failed")
