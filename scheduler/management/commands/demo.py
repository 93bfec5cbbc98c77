"""Make the demonstration: `prepare` the cluster and its tenants, then submit `jobs` once agents report.

Both may be run again: what is there stays as it is, passwords are printed only when they are made.
"""

import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from nodeagent.isolation_levels import IsolationLevel, isolation_level
from scheduler.core.model.lifecycle import JobState
from scheduler.jobs.services.control import job_hold, job_submit
from scheduler.management import demonstration as demo
from scheduler.management.closed_folders import JobFolders, reachable_folders, usual_folders
from scheduler.management.stream import Stream
from scheduler.models.jobs import Job
from scheduler.models.market import MarketRule
from scheduler.models.nodes import GpuModel, Node, NodeState
from scheduler.nodes.services.managing import node_create, node_token_rotate
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from scheduler.virtual_clusters.cells.services import cells_apply
from scheduler.virtual_clusters.market.services.credits import allowance_set
from scheduler.virtual_clusters.market.services.offers import offer_make
from scheduler.virtual_clusters.market.services.rules import rule_make
from scheduler.virtual_clusters.market.services.terms import Terms
from scheduler.virtual_clusters.services import VirtualClusterSettings, virtual_cluster_create
from scheduler.wiring.clock import database_now
from tenants.models import Membership, Role, Tenant, User, VirtualCluster
from tenants.selectors import Viewer, viewer_of
from tenants.services import member_set, quota_set, tenant_create, user_create

ACTOR = "demo"
#: Mark the demonstration's jobs, so that those are submitted once that are.
LABEL = "demo"
LABELS = {LABEL: demo.DIGITS}
#: In <home>/demo, while the stream is paused.
PAUSED = "paused"
READY_PATIENCE_SECONDS = 60
START_PATIENCE_SECONDS = 15
POLL_SECONDS = 0.1
#: What keeps jobs apart on some nodes, in words for a console.
_SUMMARIES: Mapping[IsolationLevel, str] = {
    "sandbox": "in a sandbox",
    "landlock": "kept to their files by Landlock",
    "none": "with NOTHING that keeps them apart",
    "unknown": "as their nodes have not reported yet",
}
_READ_ON = "docs/isolation.md says what that leaves open."


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        steps = parser.add_subparsers(dest="step", required=True)
        prepare = steps.add_parser("prepare", help="nodes with their agents' configuration, tenants, people")
        prepare.add_argument("--home", type=Path, default=None, help="where <home>/demo goes (ALLOT_HOME)")
        prepare.add_argument(
            "--server-url", default="http://127.0.0.1:8000", help="where the agents meet the server"
        )
        prepare.add_argument(
            "--unsafe-jobs",
            action="store_true",
            help="let the agents run jobs also where nothing isolates them",
        )
        steps.add_parser("isolation", help="say what keeps jobs apart on the demonstration's nodes")
        steps.add_parser("jobs", help="virtual clusters and digits jobs, once every node is ready")
        steps.add_parser("stream", help="go on submitting a small job now and then")
        steps.add_parser("pause", help="let the stream submit nothing until it is resumed")
        steps.add_parser("resume", help="let the stream go on")

    def handle(self, *args: Any, step: str, **options: Any) -> None:
        if step == "prepare":
            home = options["home"] or settings.ALLOT_HOME
            self._prepare(home.absolute() / "demo", options["server_url"], options["unsafe_jobs"])
        elif step == "isolation":
            self._isolation()
        elif step == "jobs":
            self._jobs()
        else:
            self._stream(step, settings.ALLOT_HOME / "demo" / PAUSED)

    def _prepare(self, folder: Path, server_url: str, is_unsafe: bool) -> None:
        by = _operator()
        for name, memory_bytes in demo.GPU_MODELS.items():
            GpuModel.objects.get_or_create(name=name, defaults={"memory_bytes": memory_bytes})
        choices = {"server_url": server_url, "sandbox": "preferred" if is_unsafe else "required"}
        first = _prepare_agent(demo.NODES[0], folder, usual_folders(folder), choices)
        folders = reachable_folders(folder, Path(first))
        _make_checkpoint_folder(folder, folders.data)
        agents = [_prepare_agent(node, folder, folders, choices) for node in demo.NODES]
        logins = [login for tenant in demo.TENANTS if (login := _prepare_tenant(tenant, by))]
        self.stdout.write(json.dumps({"logins": logins, "agents": agents}))

    def _isolation(self) -> None:
        names = [node.name for node in demo.NODES]
        isolations = list(Node.objects.filter(name__in=names).values_list("isolation", flat=True))
        words = isolation_words(isolations)
        self.stdout.write(json.dumps({"summary": words.summary, "warnings": words.warnings}))

    def _jobs(self) -> None:
        submitted = 0
        if not _submitted(demo.JOBS):
            _wait_for_nodes()
            with transaction.atomic():
                _prepare_virtual_clusters()
                _divide_by_cells()
                _open_market(_operator())
                submitted += _submit_all(demo.JOBS)
        if not _submitted(demo.LATE_JOBS):
            _wait_for_start(demo.PREEMPTED)
            with transaction.atomic():
                submitted += _submit_all(demo.LATE_JOBS)
        self.stdout.write(json.dumps({"jobs": submitted}))

    def _stream(self, step: str, paused: Path) -> None:
        if step == "pause":
            paused.parent.mkdir(parents=True, exist_ok=True)
            paused.touch()
        elif step == "resume":
            paused.unlink(missing_ok=True)
        else:
            self.stdout.write("The stream goes on.")
            Stream(paused, submit=_submit, offer=lambda: _offer(_operator())).run()


def _operator() -> Viewer:
    user = User.objects.filter(is_operator=True, is_active=True).order_by("id").first()
    if user is None:
        raise CommandError("There is no operator yet: run `manage.py create_operator` first.")
    return viewer_of(user)


def _make_checkpoint_folder(home: Path, data: Path) -> None:
    """Make the folder that all nodes share. The server looks for it in `home` (`controlplane.up`)."""
    shared = data / "checkpoints"
    shared.mkdir(mode=0o711, parents=True, exist_ok=True)
    if data != home and not os.path.lexists(home / "checkpoints"):
        (home / "checkpoints").symlink_to(shared)


def _prepare_agent(node: demo.DemoNode, folder: Path, folders: JobFolders, choices: Mapping[str, Any]) -> str:
    """Expect the node and write its agent's configuration; return the file's path.

    What a user added to the file stays, but for `choices` and where things are.
    """
    path = folder / "agents" / f"{node.name}.json"
    row = Node.objects.filter(name=node.name).first()
    known = json.loads(path.read_text()) if path.exists() and row is not None else {}
    if known:
        token = known["token"]
    elif row is not None:
        token = node_token_rotate(node=row, actor=ACTOR).token
    else:
        token = node_create(name=node.name, rack=node.rack, actor=ACTOR).token
    configuration = {
        "node": node.name,
        "token": token,
        "address": "127.0.0.1",
        "inventory": node.inventory(),
        "limits": {"disk_bytes": demo.DISK_BYTES, "checkpoint_bytes": demo.DISK_BYTES},
        **known,
        **choices,
        "work_folder": str(folders.data / "nodes" / node.name),
        "checkpoint_folder": str(folders.data / "checkpoints"),
        "examples_folder": str(folders.examples),
        "python": str(folders.python),
    }
    if configuration != known:
        _write_secret(path, json.dumps(configuration, indent=2))
    return str(path)


def _write_secret(path: Path, text: str) -> None:
    """Write a file that no other user can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


@transaction.atomic
def _prepare_tenant(tenant: demo.DemoTenant, by: Viewer) -> dict[str, str] | None:
    """Make the tenant and its person; return the login if the person is new."""
    row = Tenant.objects.filter(name=tenant.name).first()
    if row is None:
        row = tenant_create(by=by, name=tenant.name, title=tenant.title)
        quota_set(by=by, tenant=row, limits=tenant.quota)
    if User.objects.filter(username=tenant.username).exists():
        return None
    user, password = user_create(by=ACTOR, username=tenant.username)
    member_set(by=by, tenant=row, username=user.username, role=Role(tenant.role))
    return {"username": user.username, "password": password or "", "role": tenant.name}


def _wait_for_nodes() -> None:
    """Return when every node of the demonstration has reported its GPUs."""
    names = [node.name for node in demo.NODES]
    end = time.monotonic() + READY_PATIENCE_SECONDS
    ready = Node.objects.filter(name__in=names, state=NodeState.READY).exclude(gpu_model=None)
    while ready.count() < len(names):
        if time.monotonic() > end:
            missing = sorted(set(names) - set(ready.values_list("name", flat=True)))
            raise CommandError(
                f"These nodes did not report within {READY_PATIENCE_SECONDS} s: {', '.join(missing)}."
            )
        time.sleep(POLL_SECONDS)


def _prepare_virtual_clusters() -> None:
    own = [
        VirtualClusterSettings(
            name=tenant.name, title=tenant.title, guaranteed=tenant.guaranteed, members={tenant.name: 1.0}
        )
        for tenant in demo.TENANTS
    ]
    shared = VirtualClusterSettings(
        name=demo.SHARED,
        title="Shared by all groups",
        policy_plugin=demo.SHARED_POLICY,
        guaranteed=demo.SHARED_GUARANTEED,
        members={tenant.name: 1.0 for tenant in demo.TENANTS},
    )
    there = set(VirtualCluster.objects.values_list("name", flat=True))
    for desired in (*own, shared):
        if desired.name not in there:
            virtual_cluster_create(desired=desired, actor=ACTOR)


def _divide_by_cells() -> None:
    if cells_in_force().version == 0:
        cells_apply(document=demo.CELLS, version=0, actor=ACTOR)


def _open_market(by: Viewer) -> None:
    """Grant allowances, and let one virtual cluster lend by a rule and one by hand."""
    if MarketRule.objects.exists():
        return
    clusters = {row.name: row for row in VirtualCluster.objects.all()}
    for tenant in demo.TENANTS:
        allowance_set(
            by=by,
            virtual_cluster=clusters[tenant.name],
            millicredits=demo.ALLOWANCE_MILLICREDITS,
            every_seconds=demo.ALLOWANCE_SECONDS,
        )
    rule_make(by=by, virtual_cluster=clusters[demo.LENDER_BY_RULE], terms=demo.LENDING)
    _offer(by)


def _offer(by: Viewer) -> None:
    now = database_now()
    terms = Terms(
        lot=demo.OFFERED,
        starts_at=now + demo.OFFER_FROM,
        ends_at=now + demo.OFFER_UNTIL,
        price=demo.OFFER_MILLICREDITS,
    )
    offer_make(by=by, virtual_cluster=VirtualCluster.objects.get(name=demo.LENDER_BY_HAND), terms=terms)


def _submitted(jobs: Sequence[demo.DemoJob]) -> bool:
    return Job.objects.filter(labels__contains=LABELS, name__in=[job.name for job in jobs]).exists()


def _wait_for_start(name: str) -> None:
    """Return when the job runs; also when it takes long, since all that is lost is something to see."""
    end = time.monotonic() + START_PATIENCE_SECONDS
    started = Job.objects.filter(labels__contains=LABELS, name=name).exclude(state=JobState.QUEUED)
    while time.monotonic() < end and not started.exists():
        time.sleep(POLL_SECONDS)


def _submit_all(jobs: Sequence[demo.DemoJob]) -> int:
    for job in jobs:
        _submit(job)
    return len(jobs)


def _submit(job: demo.DemoJob) -> None:
    membership = Membership.objects.filter(tenant__name=job.tenant, role__in=[Role.MEMBER, Role.ADMIN])
    person = membership.select_related("user").order_by("id").first()
    if person is None:
        raise CommandError(f"Tenant {job.tenant} has no member: run `manage.py demo prepare` first.")
    row = job_submit(viewer=viewer_of(person.user), tenant=job.tenant, spec=_spec(job))
    if job.held:
        job_hold(job_id=row.id, actor=f"user {person.user.username}")


def _spec(job: demo.DemoJob) -> dict[str, Any]:
    """Return the example's specification with the demonstration's sizes and options."""
    spec = yaml.safe_load((settings.EXAMPLES_FOLDER / "digits" / job.example).read_text())
    # A kind of job has one speed, and their paces differ: most are of a kind of their own.
    del spec["application"]
    (task,) = spec["tasks"]
    task["replicas"] = job.replicas
    task["resources"] |= {"gpu": job.gpus, "gpu_model": job.gpu_model}
    script = 'exec python "$ALLOT_EXAMPLES/digits/train.py"'
    options = [*shlex.split(job.options), "--like", job.like]
    task["command"] = ["sh", "-c", f"{script} {shlex.join(options)}"]
    labels = {LABEL: job.part, demo.EMULATED_LABEL: job.like, **job.fields.get("labels", {})}
    return {**spec, **job.fields, "name": job.name, "labels": labels}


@dataclass(frozen=True, slots=True)
class IsolationWords:
    """One line, and what operators should know beside it."""

    summary: str
    warnings: tuple[str, ...] = ()


def isolation_words(isolations: Sequence[Mapping[str, bool]]) -> IsolationWords:
    """Return the words for the least isolated of the nodes; there is at least one."""
    order: list[IsolationLevel] = ["sandbox", "landlock", "unknown", "none"]
    worst = max(isolations, key=lambda one: (order.index(isolation_level(one)), not one.get("user")))
    level, has_users = isolation_level(worst), bool(worst.get("user"))
    if level == "none" and worst.get("required"):
        summary = "do not run: nothing keeps them apart here"
        warning = (
            "No job starts: neither bubblewrap nor Landlock works on this machine. The page of each node says"
            " why. To run jobs that you trust all the same, start with --unsafe-jobs."
        )
        return IsolationWords(summary, (warning,))
    if level == "unknown":
        return IsolationWords(_SUMMARIES[level])
    who = "with a user account for each tenant" if has_users else "as the user who started this"
    summary = f"{_SUMMARIES[level]}, {who}"
    if level == "none":
        can = (
            "read each other's files" if has_users else "read and change whatever you can, passwords included"
        )
        return IsolationWords(summary, (f"Nothing isolates jobs: they can {can}. {_READ_ON}",))
    if level == "landlock" and not has_users:
        return IsolationWords(
            summary, (f"All tenants' jobs run as your user, without a sandbox around them. {_READ_ON}",)
        )
    return IsolationWords(summary)
