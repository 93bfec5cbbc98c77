"""The demonstration: made once, the same when made again, and never in plain sight of others."""

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from nodeagent.messages import PROTOCOL, Inventory, InventoryGpu, Report
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.plan import ActionKind
from scheduler.core.round.decide import decide
from scheduler.jobs.services.control import job_cancel
from scheduler.management import closed_folders
from scheduler.management import demonstration as demo
from scheduler.management.commands import demo as command
from scheduler.management.commands.demo import isolation_words
from scheduler.management.stream import Stream
from scheduler.models import CreditAccount, Job, MarketRule, Node, Offer
from scheduler.nodes.services.managing import node_of_token
from scheduler.rounds.snapshot import read_snapshot
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from scheduler.virtual_clusters.market.services.offers import offer_withdraw
from tenants.models import Guarantee
from tests.agent.builders import read_configuration
from tests.scheduler.builders import make_user

pytestmark = pytest.mark.django_db


def call(*arguments: str) -> dict[str, Any]:
    output = io.StringIO()
    call_command("demo", *arguments, stdout=output)
    return json.loads(output.getvalue())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """No patience with nodes, and no second of work for each password."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(command, "READY_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(command, "START_PATIENCE_SECONDS", 0)


def report_all(home: Path) -> None:
    """Let every node report what its agent's configuration says."""
    for path in (home / "demo" / "agents").glob("*.json"):
        configuration = read_configuration(path)
        node = node_of_token(configuration.token)
        assert node is not None
        wanted = configuration.inventory
        inventory = Inventory(
            gpu_model=wanted.gpu_model,
            gpus=tuple(
                InventoryGpu(
                    index=gpu.index,
                    uuid=f"{node.name}-{gpu.index}",
                    memory_bytes=gpu.memory_bytes,
                    socket=gpu.socket,
                    switch=gpu.switch,
                )
                for gpu in wanted.gpus
            ),
            cpus=wanted.cpus or 0,
            memory_bytes=wanted.memory_bytes or 0,
            address=configuration.address,
            agent_version="test",
        )
        report_apply(node, Report(protocol=PROTOCOL, boot="b", generation=0, inventory=inventory))


def test_prepare_makes_everything_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no operator"):
        call("prepare", "--home", str(tmp_path))
    make_user("operator", operator=True)

    first = call("prepare", "--home", str(tmp_path))
    assert len(first["agents"]) == len(demo.NODES) == Node.objects.count()
    for login in first["logins"]:
        assert authenticate(username=login["username"], password=login["password"]) is not None
    files = {path: Path(path).read_bytes() for path in first["agents"]}
    assert all(Path(path).stat().st_mode & 0o077 == 0 for path in files)

    again = call("prepare", "--home", str(tmp_path))
    assert again == {"logins": [], "agents": first["agents"]}
    assert {path: Path(path).read_bytes() for path in again["agents"]} == files


def test_another_port_keeps_the_tokens(tmp_path: Path) -> None:
    make_user("operator", operator=True)
    (path, *_) = call("prepare", "--home", str(tmp_path))["agents"]
    before = json.loads(Path(path).read_text())
    call("prepare", "--home", str(tmp_path), "--server-url", "http://127.0.0.1:9000")
    after = json.loads(Path(path).read_text())
    assert after == {**before, "server_url": "http://127.0.0.1:9000"}


def test_a_lost_file_gets_a_new_token(tmp_path: Path) -> None:
    make_user("operator", operator=True)
    (path, *_) = call("prepare", "--home", str(tmp_path))["agents"]
    old = json.loads(Path(path).read_text())["token"]
    Path(path).unlink()
    call("prepare", "--home", str(tmp_path))
    new = json.loads(Path(path).read_text())["token"]
    assert node_of_token(old) is None
    assert node_of_token(new) is not None


def test_agents_keep_jobs_apart_and_from_filling_the_disk_unless_told_otherwise(tmp_path: Path) -> None:
    make_user("operator", operator=True)
    (path, *_) = call("prepare", "--home", str(tmp_path))["agents"]
    configuration = read_configuration(Path(path))
    assert configuration.sandbox == "required"
    assert configuration.limits.disk_bytes == configuration.limits.checkpoint_bytes == demo.DISK_BYTES
    # What an earlier version wrote gets what it lacks; what somebody chose stays.
    old = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps({**old, "limits": {"disk_bytes": 7}, "mps": True} | {"sandbox": "off"}))
    call("prepare", "--home", str(tmp_path), "--unsafe-jobs")
    kept = read_configuration(Path(path))
    assert (kept.limits.disk_bytes, kept.mps, kept.sandbox) == (7, True, "preferred")
    del old["limits"]
    Path(path).write_text(json.dumps(old))
    call("prepare", "--home", str(tmp_path))
    again = read_configuration(Path(path))
    assert (again.limits.disk_bytes, again.sandbox) == (demo.DISK_BYTES, "required")


@pytest.mark.parametrize(
    ("isolation", "summary", "warning"),
    [
        ({"sandbox": True, "user": True}, "in a sandbox, with a user account for each tenant", ""),
        ({"sandbox": True}, "in a sandbox, as the user who started this", ""),
        ({"landlock": True, "user": True}, "by Landlock, with a user account for each tenant", ""),
        ({"landlock": True}, "by Landlock, as the user who started this", "without a sandbox"),
        ({"required": True}, "do not run", "--unsafe-jobs"),
        ({"user": True}, "NOTHING", "read each other's files"),
        ({"cpu": True}, "NOTHING", "passwords included"),
    ],
)
def test_the_console_is_told_what_keeps_jobs_apart(
    isolation: dict[str, bool], summary: str, warning: str
) -> None:
    # The least isolated of them counts.
    told = isolation_words([{"sandbox": True, "user": True}, isolation])
    assert summary in told.summary
    assert warning in "".join(told.warnings)
    assert bool(told.warnings) == bool(warning)


def test_below_a_closed_folder_jobs_get_folders_and_programs_that_every_user_gets_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, as which jobs have users of their own")
    base, prefix, project = (tmp_path / "closed" / name for name in ("python", "environment", "project"))
    for folder in (
        base / "bin",
        prefix / "bin",
        prefix / "lib/python3.11/site-packages",
        project / "examples",
    ):
        folder.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    (base / "bin" / "python3").write_text("#!/bin/sh\necho python\n")
    (base / "bin" / "python3").chmod(0o755)
    (prefix / "bin" / "python").symlink_to(base / "bin" / "python3")
    (prefix / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    elsewhere = Path(tempfile.mkdtemp(prefix="allotment-demo-"))
    monkeypatch.setattr(closed_folders, "ELSEWHERE", elsewhere)
    monkeypatch.setattr(closed_folders, "_has_sandbox", lambda configuration: False)
    monkeypatch.setattr(closed_folders.settings, "EXAMPLES_FOLDER", project / "examples")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "base_prefix", str(base))
    elsewhere.chmod(0o755)
    try:
        folders = closed_folders.reachable_folders(tmp_path / "closed" / "home", Path("/nowhere"))
        assert all(map(closed_folders.is_open, (folders.data, folders.examples, folders.python)))
        as_nobody = subprocess.run(
            [folders.python], capture_output=True, text=True, user=65_534, group=65_534, check=False
        )
        assert as_nobody.stdout == "python\n"
        assert str(elsewhere) in (folders.data / "environment" / "pyvenv.cfg").read_text()
        assert str(base) in (prefix / "pyvenv.cfg").read_text()
        # The same again, without copying anew; and where a sandbox works, all stays where it is.
        assert closed_folders.reachable_folders(tmp_path / "closed" / "home", Path("/nowhere")) == folders
        monkeypatch.setattr(closed_folders, "_has_sandbox", lambda configuration: True)
        home = tmp_path / "closed" / "home"
        assert closed_folders.reachable_folders(home, Path("/nowhere")).data == home
    finally:
        shutil.rmtree(elsewhere)


def test_jobs_are_submitted_once_and_some_start_at_once(tmp_path: Path) -> None:
    make_user("operator", operator=True)
    call("prepare", "--home", str(tmp_path))
    with pytest.raises(CommandError, match="did not report"):
        call("jobs")
    report_all(tmp_path)

    assert call("isolation") == {"summary": "as their nodes have not reported yet", "warnings": []}
    assert call("jobs") == {"jobs": len(demo.JOBS) + len(demo.LATE_JOBS)}
    assert call("jobs") == {"jobs": 0}
    jobs = {job.name: job for job in Job.objects.select_related("submitted_by", "virtual_cluster")}
    assert jobs["digits-wide"].submitted_by.username == "vera"
    assert jobs["digits-later"].held
    assert sum(Guarantee.objects.values_list("gpus", flat=True)) < sum(node.gpus for node in demo.NODES)

    layout = cells_in_force().layout
    assert layout.gpu_models == {"V100", "K80"}
    for tenant in demo.TENANTS:
        by_cells = {model: n for model, n in tenant.guaranteed.items() if model in layout.gpu_models}
        assert layout.guaranteed(tenant.name) == by_cells
    assert layout.guaranteed(demo.SHARED) == dict(sorted(demo.SHARED_GUARANTEED.items()))

    offer, rule = Offer.objects.get(), MarketRule.objects.get()
    assert (offer.lender.name, offer.state, rule.virtual_cluster.name) == ("speech", "open", "robotics")
    accounts = CreditAccount.objects.exclude(virtual_cluster=None)
    assert [account.balance for account in accounts] == [demo.ALLOWANCE_MILLICREDITS] * len(demo.TENANTS)

    plan = decide(read_snapshot(1))
    started = {job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs}
    names = {job.name for job in jobs.values() if job.id in started}
    assert {"digits-quick", "digits-wide", "digits-speech", "digits-arm", "digits-spare"} <= names
    waiting = {jobs[name].id for name in ("digits-next", "digits-later")}
    assert waiting <= set(plan.reasons)

    # Who tries it out as vera has room at once for what README.md submits first, once digits-quick has ended.
    on_v100 = [job for job in demo.JOBS if job.tenant == "vision" and job.gpu_model == "V100"]
    lasting = sum([job.replicas * job.gpus for job in on_v100 if jobs[job.name].id in started])
    quick = next(job for job in on_v100 if job.name == "digits-quick")
    (vision,) = [tenant for tenant in demo.TENANTS if tenant.name == "vision"]
    assert vision.guaranteed["V100"] - (lasting - quick.gpus) >= 2
    assert all(jobs[job.name].priority < 0 for job in on_v100 if jobs[job.name].id not in started)

    # And for what it submits then, on four V100, once hello has ended: digits-spare is moved to P100 when the
    # late jobs take theirs, and nothing else that is opportunistic holds V100 for longer than half a minute.
    v100 = sum([node.gpus for node in demo.NODES if node.gpu_model == "V100"])
    assert v100 - (lasting - quick.gpus) - demo.SHARED_GUARANTEED["V100"] >= 4
    for job in demo.JOBS:
        if job.fields.get("guarantee") == "opportunistic" and "V100" in job.gpu_model and not job.held:
            words = job.options.split()
            seconds = int(words[words.index("--steps") + 1]) * float(words[words.index("--step-seconds") + 1])
            assert job.name == demo.PREEMPTED or seconds <= 30, job.name

    # Who gains most from a V100 shall have most of it: those that declare their speeds show it at once.
    targets = plan.memory[demo.SHARED]["targets"]
    on_v100 = {job.name: targets[str(jobs[job.name].id)].get("V100", 0.0) for job in demo.LATE_JOBS}
    assert on_v100["digits-translate-1"] > 2 * on_v100["digits-recommend-1"]


@pytest.fixture
def stream(tmp_path: Path, settings: Any) -> Stream:
    """That of a demonstration whose nodes have reported."""
    settings.ALLOT_HOME = tmp_path
    make_user("operator", operator=True)
    call("prepare")
    report_all(tmp_path)
    call("jobs")
    return Stream(
        tmp_path / "demo" / command.PAUSED,
        submit=command._submit,
        offer=lambda: command._offer(command._operator()),
    )


def test_the_stream_submits_as_many_as_may_be_unfinished_and_goes_on_when_one_has_ended(stream: Stream):
    turns = [stream.turn() for _ in range(demo.STREAM_MOST + 2)]
    assert turns == [*range(1, demo.STREAM_MOST + 1), None, None]
    first = Job.objects.get(name="stream-1")
    job_cancel(job_id=first.id, actor="test")
    assert stream.turn() == demo.STREAM_MOST + 1
    # What it submits is no part of the jobs that are submitted once.
    assert call("jobs") == {"jobs": 0}


def test_the_stream_can_be_paused(stream: Stream) -> None:
    call_command("demo", "pause")
    assert stream.turn() is None
    assert not Job.objects.filter(labels__demo=demo.STREAM).exists()
    call_command("demo", "resume")
    assert stream.turn() == 1


def test_the_stream_keeps_an_offer_on_the_market(stream: Stream) -> None:
    stream.turn()
    offer = Offer.objects.get()
    offer_withdraw(by=command._operator(), offer=offer)
    stream.turn()
    assert [each.state for each in Offer.objects.order_by("id")] == ["withdrawn", "open"]


def test_jobs_of_the_stream_can_be_submitted_and_leave_a_visitor_the_gpus_of_the_readme(
    stream: Stream,
) -> None:
    jobs = [demo.stream_job(number) for number in range(1, 61)]
    assert jobs == [demo.stream_job(number) for number in range(1, 61)]
    for job in jobs:
        command._submit(job)
        wants_v100 = job.gpu_model == "any" or "V100" in job.gpu_model
        assert not wants_v100 or job.fields["virtual_cluster"] == demo.SHARED
    # Every tenant, and every kind.
    assert {job.tenant for job in jobs} == {tenant.name for tenant in demo.TENANTS}
    kinds = {job.fields.get("virtual_cluster", job.fields.get("guarantee")) for job in jobs}
    assert kinds == {demo.SHARED, "guaranteed", "opportunistic"}
    assert any(job.options == "--batch 3" for job in jobs)


def test_every_job_is_labelled_with_its_pace_and_some_declare_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "digits")
    pacing = importlib.import_module("pacing")
    for job in (*demo.JOBS, *demo.LATE_JOBS):
        spec = command._spec(job)
        (task,) = spec["tasks"]
        assert spec["labels"]["emulated-speed"] == job.like
        assert task["command"][-1].endswith(f"--like {job.like}")
        assert spec.get("application") in (None, job.like)

    declared = {like: speeds["V100"] * demo.STEP_SECONDS for like, speeds in demo.DECLARED.items()}
    assert declared == dict.fromkeys(pacing.STEPS_PER_SECOND, 64.0)
    for like, speeds in demo.DECLARED.items():
        for model, speed in speeds.items():
            step_seconds = pacing.paced_step_seconds(demo.STEP_SECONDS, model, like=like)
            assert speed == pytest.approx(64 / step_seconds, abs=0.1)
    competing = [job for job in demo.LATE_JOBS if job.fields["virtual_cluster"] == demo.SHARED]
    assert len(competing) > sum(demo.SHARED_GUARANTEED.values())
    assert {"throughput" in job.fields for job in competing} == {True, False}


def test_what_states_one_application_has_one_pace_and_one_batch(settings: Any):
    """Otherwise its throughputs on two GPU models would compare two programs."""
    paces: dict[str, set[str]] = {}
    folder = Path(settings.EXAMPLES_FOLDER) / "digits"
    for path in sorted(folder.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())
        ((_, _, program),) = [task["command"] for task in spec["tasks"]]
        paces.setdefault(spec["application"], set()).add(program)
    for job in [*demo.JOBS, *demo.LATE_JOBS]:
        if (application := command._spec(job).get("application")) is not None:
            options = [word for word in job.options.split() if not word.isdecimal() and word != "--steps"]
            paces.setdefault(application, set()).add(" ".join(options))
    assert {name: len(found) for name, found in paces.items()} == dict.fromkeys(paces, 1)
    assert len(paces) == 5
