"""Streams that jobs of a search share: one set of workers for the jobs of one user."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, DesiredPart, PartReport, ProgressLine, Report, SecretsRequest
from scheduler.agents.services.reports import report_apply
from scheduler.jobs.attempts.services.input_pools import input_secret, stream_of, trainers_of
from scheduler.jobs.attempts.services.secrets import secrets_hand_out
from scheduler.jobs.services.control import job_cancel
from scheduler.jobs.services.input_workers import input_workers_match
from scheduler.models import Attempt, InputPool, Job, Node
from scheduler.rounds.run import run_round
from tenants.models import Membership, Tenant
from tests.scheduler.builders import GIB, gpus_of, make_attempt, make_node, make_user
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db

COMMAND = ["python", "-m", "allot.training.input_workers", "dataset:make"]
WORKERS = {"command": COMMAND, "min": 1, "max": 4, "shared": True}


@pytest.fixture
def cpus(world: World) -> Node:
    return make_node("cpus", gpus=0, cpus=16, memory_bytes=64 * GIB)


def submitted(world: World, **fields: object) -> Job:
    answer = world.member.post("/jobs", spec(**{"search": "lr", "input_workers": WORKERS, **fields}))
    assert answer.status_code == 201, answer.content
    return Job.objects.get(id=answer.json()["id"])


def trainer(world: World, gpu: int, **fields: object) -> Attempt:
    """An attempt of a trial that runs on this GPU of node-a and waits for input workers at 2000 + gpu."""
    attempt = make_attempt(submitted(world, **fields), [gpus_of(world.node)[gpu]], state="starting")
    report(world.node, running(attempt, gpu))
    return Attempt.objects.get(id=attempt.id)


def report(node: Node, *parts: PartReport) -> Sequence[DesiredPart]:
    return report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=parts)).parts


def running(attempt: Attempt, gpu: int, **fields: object) -> PartReport:
    ports = {"0": 2_000 + gpu}
    return PartReport(attempt=attempt.id, state="running", input_ports=ports, **fields)  # type: ignore[arg-type]


def ask(world: World, attempt: Attempt, gpu: int, workers: int, *, skipped: int = 0) -> None:
    values = {"input_workers_desired": float(workers), "input_workers": 1.0, "input_skipped": float(skipped)}
    line = ProgressLine(sequence=1, at=timezone.now().timestamp(), step=1, values=values)
    report(world.node, running(attempt, gpu, progress=(line,)))
    InputPool.objects.update(requested_since=timezone.now() - timedelta(seconds=60))
    input_workers_match()


def workers() -> list[Job]:
    there = Job.objects.filter(serves__isnull=False, state__in=["queued", "running"], cancelling=False)
    return list(there.order_by("id"))


def test_one_worker_serves_all_jobs_of_a_search_and_hears_of_one_that_comes_late(
    world: World, cpus: Node
) -> None:
    first, second = trainer(world, 0), trainer(world, 1)
    input_workers_match()
    input_workers_match()
    (worker,) = workers()
    run_round()
    (part,) = report(cpus)
    assert (part.job, part.trainers) == (worker.id, "127.0.0.1:2000,127.0.0.1:2001")
    assert part.replicas[0].env == {}
    trainer(world, 2)
    input_workers_match()
    (part,) = report(cpus)
    assert part.trainers == "127.0.0.1:2000,127.0.0.1:2001,127.0.0.1:2002"
    assert workers() == [worker]
    for attempt in (first, second):
        answer = world.member.get(f"/jobs/{attempt.job_id}/input-workers").json()
        assert (answer["desired"], [each["job"] for each in answer["workers"]]) == (1, [worker.id])
    (trial, *_) = report(world.node)
    assert trial.replicas[0].env["ALLOT_INPUT_SHARED"] == "1"


def test_their_number_is_that_of_the_job_that_wants_the_most(world: World, cpus: Node) -> None:
    first, second = trainer(world, 0), trainer(world, 1)
    ask(world, first, 0, 1)
    ask(world, second, 1, 3, skipped=7)
    assert len(workers()) == 3
    shown = world.member.get(f"/jobs/{second.job_id}/input-workers").json()
    assert (shown["desired"], shown["skipped"]) == (3, 7)
    assert world.member.get(f"/jobs/{first.job_id}/input-workers").json()["skipped"] == 0


def test_a_job_that_ends_leaves_its_workers_to_the_others_and_the_last_ends_them(
    world: World, cpus: Node
) -> None:
    first, second = trainer(world, 0), trainer(world, 1)
    input_workers_match()
    (worker,) = workers()
    assert worker.serves_id == first.id
    run_round()
    report(cpus)
    job_cancel(job_id=first.job_id, actor="user mia")
    input_workers_match()
    (kept,) = workers()
    assert (kept.id, kept.serves_id) == (worker.id, second.id)
    assert report(cpus)[0].trainers == "127.0.0.1:2001"
    assert not InputPool.objects.get(attempt=first).is_open
    assert world.member.get(f"/jobs/{first.job_id}/input-workers").json()["workers"] == []
    job_cancel(job_id=second.job_id, actor="user mia")
    input_workers_match()
    assert workers() == []
    for part in report(cpus):
        report(cpus, PartReport(attempt=part.attempt, state="exited", exit_code=0, category="stopped"))
    input_workers_match()
    assert not InputPool.objects.filter(is_open=True).exists()


def test_one_that_died_is_replaced_once_for_all(world: World, cpus: Node) -> None:
    trainer(world, 0), trainer(world, 1)
    input_workers_match()
    (worker,) = workers()
    Job.objects.filter(id=worker.id).update(state="failed", ended_at=timezone.now())
    input_workers_match()
    (other,) = workers()
    assert other.id != worker.id


@pytest.mark.parametrize(
    "other",
    [
        {"search": "depth"},
        {"input_workers": WORKERS | {"command": ["python", "other.py"]}},
        {"input_workers": {**WORKERS, "shared": False}},
        {"env": {"DATA": "/other"}},
    ],
    ids=["another search", "another command", "not shared", "other variables"],
)
def test_jobs_whose_batches_would_differ_have_workers_of_their_own(
    world: World, cpus: Node, other: dict[str, object]
) -> None:
    first, second = trainer(world, 0), trainer(world, 1, **other)
    input_workers_match()
    assert sorted(worker.serves_id or 0 for worker in workers()) == [first.id, second.id]


def test_jobs_that_differ_in_what_they_train_share(world: World, cpus: Node) -> None:
    first = submitted(world, name="one", priority=3, command=["python", "train.py", "--lr", "0.1"])
    second = submitted(world, name="two", input_workers=WORKERS | {"max": 2})
    assert stream_of(first) == stream_of(second) != ""


def test_no_other_user_and_no_other_tenant_gets_on_the_stream(world: World, cpus: Node) -> None:
    """Same search, same workers; but another secret, so that neither end accepts the other."""
    first = trainer(world, 0)
    job = first.job
    colleague, stranger = (submitted(world) for _ in range(2))
    colleague.submitted_by = make_user("noa")
    Membership.objects.create(tenant=job.tenant, user=colleague.submitted_by, role="member")
    colleague.save()
    stranger.tenant = Tenant.objects.create(name="elsewhere", title="Elsewhere")
    stranger.save()
    for number, other in enumerate((colleague, stranger), 1):
        attempt = make_attempt(other, [gpus_of(world.node)[number]], state="starting")
        report(world.node, running(attempt, number))
    input_workers_match()
    trainers = trainers_of([worker.serves_id or 0 for worker in workers()]).values()
    assert sorted(each.addresses for each in trainers) == [
        "127.0.0.1:2000",
        "127.0.0.1:2001",
        "127.0.0.1:2002",
    ]
    secrets = {input_secret(each, 0) for each in (job, colleague, stranger)}
    assert len(secrets) == 3
    assert input_secret(submitted(world), 17) == input_secret(job, 0), "of the same user and search"


def test_worker_and_trainers_get_the_secret_of_the_stream(world: World, cpus: Node) -> None:
    trainer(world, 0)
    input_workers_match()
    run_round()
    (worker,) = workers()
    attempt = Attempt.objects.get(job=worker)
    Attempt.objects.filter(id=attempt.id).update(go=True)
    (of_worker,) = secrets_hand_out(cpus, SecretsRequest(attempt=attempt.id)).secrets
    late = make_attempt(submitted(world), [gpus_of(world.node)[1]], state="starting")
    Attempt.objects.filter(id=late.id).update(go=True)
    (of_trainer,) = secrets_hand_out(world.node, SecretsRequest(attempt=late.id)).secrets
    assert (of_worker.env, of_worker.value) == (of_trainer.env, of_trainer.value)


def test_what_can_not_share_is_refused(world: World, cpus: Node) -> None:
    assert submitted(world).spec["input_workers"]["shared"] is True
    for fields, problem in (
        ({"search": ""}, "the jobs of one search share input workers, and this job names no search"),
        ({"replicas": 2}, "each replica would have the same batches"),
    ):
        body = spec(**{"search": "lr", "input_workers": WORKERS, **fields})
        answer = world.member.post("/jobs", body)
        assert answer.status_code == 400
        (found,) = [each for each in answer.json()["fields"] if each["field"] == "input_workers.shared"]
        assert found["problem"] == problem
