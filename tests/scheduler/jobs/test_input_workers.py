"""Input workers of the platform: as many as the trainer asks for, and none without its attempt."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodeagent.messages import (
    INPUT_PORT,
    PROTOCOL,
    DesiredPart,
    HandedSecret,
    PartReport,
    ProgressLine,
    Report,
    SecretsRequest,
)
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.lifecycle import StopCause
from scheduler.core.perf.input_workers import ENDED_SOON_MOST
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.secrets import secrets_hand_out
from scheduler.jobs.services.control import job_cancel
from scheduler.jobs.services.input_workers import input_workers_match
from scheduler.jobs.services.leaving import user_deactivate
from scheduler.models import Attempt, Event, InputPool, Job, Node
from scheduler.notifications.services.topics import notices_of
from scheduler.rounds.run import run_round
from tenants.selectors import viewer_of
from tests.api.caller import is_error
from tests.scheduler.builders import GIB, gpus_of, make_attempt, make_node, make_user
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db

WORKERS = {"command": ["python", "-m", "allot.training.input_workers", "dataset:make"], "min": 2, "max": 4}


@pytest.fixture
def cpus(world: World) -> Node:
    return make_node("cpus", gpus=0, cpus=16, memory_bytes=64 * GIB)


@pytest.fixture
def trainer(world: World, cpus: Node) -> Attempt:
    """An attempt that runs, whose trainer waits for input workers."""
    attempt = starting(world)
    report(world.node, running(attempt))
    return Attempt.objects.get(id=attempt.id)


def starting(world: World, gpu: int = 0) -> Attempt:
    """An attempt of a job with input workers that node-a is about to start, on this GPU of it."""
    answer = world.member.post("/jobs", spec(input_workers=WORKERS))
    assert answer.status_code == 201, answer.content
    return make_attempt(Job.objects.get(id=answer.json()["id"]), [gpus_of(world.node)[gpu]], state="starting")


def report(node: Node, *parts: PartReport) -> Sequence[DesiredPart]:
    return report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=parts)).parts


def running(attempt: Attempt, **fields: object) -> PartReport:
    ports = {"0": 23_456}
    return PartReport(attempt=attempt.id, state="running", input_ports=ports, **fields)  # type: ignore[arg-type]


def ask(world: World, trainer: Attempt, workers: float, *, sequence: int = 1, since: float = 60) -> None:
    """Let the trainer ask for workers, for some seconds now, and let what follows be done."""
    values = {"input_workers_desired": workers, "input_workers": 2.0, "input_stall": 0.25}
    line = ProgressLine(sequence=sequence, at=timezone.now().timestamp(), step=sequence, values=values)
    report(world.node, running(trainer, progress=(line,)))
    InputPool.objects.update(requested_since=timezone.now() - timedelta(seconds=since))
    input_workers_match()


def workers_of(trainer: Attempt) -> list[Job]:
    jobs = Job.objects.filter(serves=trainer, state__in=["queued", "running"], cancelling=False)
    return list(jobs.order_by("id"))


def end(job: Job, state: str, *, after: float) -> None:
    """Let a worker have ended, so many seconds after its start."""
    now = timezone.now()
    Job.objects.filter(id=job.id).update(state=state, started_at=now - timedelta(seconds=after), ended_at=now)


def test_the_least_start_when_the_trainer_runs_and_has_said_where_it_waits(world: World, cpus: Node) -> None:
    attempt = starting(world)
    (desired,) = report(world.node)
    assert desired.ports == {INPUT_PORT: 0}
    assert desired.has_secrets
    assert desired.replicas[0].env == {"ALLOT_INPUT_MIN": "2", "ALLOT_INPUT_MAX": "4"}
    input_workers_match()
    assert workers_of(attempt) == []
    report(world.node, running(attempt))
    input_workers_match()
    input_workers_match()
    first, second = workers_of(attempt)
    job = attempt.job
    assert first.specification.tasks[0].command == tuple(WORKERS["command"])
    for worker in (first, second):
        assert (worker.tenant, worker.submitted_by) == (job.tenant, job.submitted_by)
        assert (worker.virtual_cluster, worker.gpus, worker.guaranteed) == (job.virtual_cluster, 0, False)
    assert Event.objects.get(job_id=first.id).actor == "input workers"


def test_rounds_place_them_where_no_gpus_are_and_nodes_hear_where_to_connect(
    trainer: Attempt, cpus: Node
) -> None:
    input_workers_match()
    run_round()
    parts = report(cpus)
    assert [part.job for part in parts] == [worker.id for worker in workers_of(trainer)]
    for part in parts:
        assert part.replicas[0].env == {"ALLOT_INPUT_TRAINERS": "127.0.0.1:23456"}
        assert (part.has_secrets, part.ports) == (True, {})


def test_all_ranks_of_a_gang_are_served(world: World, cpus: Node) -> None:
    other = make_node("node-b", gpus=1)
    answer = world.member.post("/jobs", spec(input_workers=WORKERS, replicas=2))
    job = Job.objects.get(id=answer.json()["id"])
    attempt = make_attempt(job, [*gpus_of(world.node)[:1], *gpus_of(other)], state="running")
    report(other, PartReport(attempt=attempt.id, state="running", input_ports={"1": 30_001, "0": 1, "7": 2}))
    input_workers_match()
    assert workers_of(attempt) == [], "rank 0 has not said where it waits"
    report(world.node, running(attempt))
    input_workers_match()
    run_round()
    (first, _) = report(cpus)
    assert first.replicas[0].env == {"ALLOT_INPUT_TRAINERS": "127.0.0.1:23456,127.0.0.1:30001"}


def test_both_ends_get_a_secret_that_is_kept_nowhere(world: World, cpus: Node) -> None:
    attempt, other = starting(world), starting(world, gpu=1)
    (handed,) = secrets_hand_out(world.node, SecretsRequest(attempt=attempt.id)).secrets
    assert handed.env == "ALLOT_INPUT_SECRET"
    assert len(handed.value) == 64
    (others,) = secrets_hand_out(world.node, SecretsRequest(attempt=other.id)).secrets
    assert others.value != handed.value
    report(world.node, running(attempt))
    input_workers_match()
    run_round()
    worker = Attempt.objects.get(job=workers_of(attempt)[0])
    Attempt.objects.filter(id=worker.id).update(go=True)
    assert secrets_hand_out(cpus, SecretsRequest(attempt=worker.id)).secrets == (
        HandedSecret(value=handed.value, env="ALLOT_INPUT_SECRET"),
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = current_schema() AND table_name ~ '^(scheduler|tenants|controlplane)_'"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(
                f"SELECT count(*) FROM {table} AS row WHERE row::text LIKE %s", [f"%{handed.value}%"]
            )
            assert cursor.fetchone() == (0,), table


def test_their_number_follows_what_is_asked_for_a_while(world: World, trainer: Attempt) -> None:
    input_workers_match()
    ask(world, trainer, 3, since=2)
    assert len(workers_of(trainer)) == 2, "it may have asked for more by chance"
    ask(world, trainer, 3, sequence=2)
    assert len(workers_of(trainer)) == 3
    ask(world, trainer, 40, sequence=3)
    assert len(workers_of(trainer)) == 4, "its job says how many at most"
    ask(world, trainer, 2, sequence=4, since=20)
    assert len(workers_of(trainer)) == 4
    ask(world, trainer, 2, sequence=5)
    assert len(workers_of(trainer)) == 2
    ask(world, trainer, 1, sequence=6)
    assert len(workers_of(trainer)) == 2, "and how many at least"


def test_those_that_wait_and_the_youngest_go_first(world: World, trainer: Attempt) -> None:
    ask(world, trainer, 4)
    run_round()
    _, second, third, fourth = workers_of(trainer)
    Job.objects.filter(id__in=[second.id, third.id, fourth.id]).update(state="running")
    ask(world, trainer, 2, sequence=2)
    assert workers_of(trainer) == [second, third], "the first still waited, the fourth was the youngest"


def test_a_trainer_that_is_done_with_them_has_none_until_it_asks_for_some(
    world: World, trainer: Attempt
) -> None:
    input_workers_match()
    ask(world, trainer, 0, since=0)
    assert workers_of(trainer) == []
    ask(world, trainer, 2, sequence=2, since=0)
    assert len(workers_of(trainer)) == 2


def test_one_that_died_is_replaced(trainer: Attempt) -> None:
    input_workers_match()
    first, second = workers_of(trainer)
    end(first, "failed", after=5)
    input_workers_match()
    left, new = workers_of(trainer)
    assert (left, new.id > second.id) == (second, True)


def test_one_that_is_held_is_replaced(trainer: Attempt) -> None:
    input_workers_match()
    first, second = workers_of(trainer)
    Job.objects.filter(id=first.id).update(held=True)
    input_workers_match()
    left, new = workers_of(trainer)
    assert (left, new.id > second.id) == (second, True)
    assert Job.objects.get(id=first.id).state == "cancelled"


def test_those_that_always_end_soon_are_started_no_more(world: World, trainer: Attempt) -> None:
    for _ in range(ENDED_SOON_MOST // 2):
        input_workers_match()
        for worker in workers_of(trainer):
            end(worker, "failed", after=5)
    input_workers_match()
    assert workers_of(trainer) == []
    answer = world.member.get(f"/jobs/{trainer.job_id}/input-workers").json()
    last = Job.objects.filter(serves=trainer).order_by("-id")[0].id
    assert answer["problem"] == (
        "10 input workers ended within 60 s of their start, so no more are started:"
        f" the output of job {last} says why."
    )
    ask(world, trainer, 3, since=0)
    assert len(workers_of(trainer)) == 2, "batches come again"


def test_the_bound_of_unfinished_jobs_holds_for_them_and_that_of_waiting_ones_does_not(
    world: World, trainer: Attempt
) -> None:
    world.tenant.most_unfinished_jobs = 2
    world.tenant.save()
    input_workers_match()
    assert workers_of(trainer) == []
    answer = world.member.get(f"/jobs/{trainer.job_id}/input-workers").json()
    assert (answer["desired"], answer["problem"]) == (
        2,
        "Tenant vision has 1 unfinished job and may have 2, so 2 input workers cannot be started.",
    )


def stopped(attempt: Attempt) -> None:
    attempt_stop(attempt, cause=StopCause.PREEMPTED, actor="round 1", message="For another.")


def cancelled(attempt: Attempt) -> None:
    job_cancel(job_id=attempt.job_id, actor="user mia")


def succeeded(attempt: Attempt) -> None:
    node = Node.objects.get(name="node-a")
    report(node, PartReport(attempt=attempt.id, state="exited", exit_code=0, started_at=1.0, ended_at=2.0))


@pytest.mark.parametrize("ending", [stopped, cancelled, succeeded])
def test_whatever_ends_the_attempt_they_end_with_it(trainer: Attempt, cpus: Node, ending: object) -> None:
    input_workers_match()
    run_round()
    first, second = workers_of(trainer)
    on_node = Attempt.objects.get(job=first)
    report(cpus, PartReport(attempt=on_node.id, state="running"))
    assert callable(ending)
    ending(Attempt.objects.get(id=trainer.id))
    input_workers_match()
    assert workers_of(trainer) == []
    assert Job.objects.get(id=first.id).cancelling, "its node tells when it has ended"
    assert InputPool.objects.get(attempt=trainer).is_open
    for part in report(cpus):
        exited = PartReport(attempt=part.attempt, state="exited", exit_code=0, category="stopped")
        report(cpus, exited)
    input_workers_match()
    assert not InputPool.objects.get(attempt=trainer).is_open
    assert set(Job.objects.filter(serves=trainer).values_list("state", flat=True)) == {"cancelled"}
    assert {first.id, second.id} == set(Job.objects.filter(serves=trainer).values_list("id", flat=True))


def test_the_next_attempt_has_workers_of_its_own(world: World, trainer: Attempt) -> None:
    input_workers_match()
    succeeded_before = workers_of(trainer)
    report(
        world.node,
        PartReport(
            attempt=trainer.id, state="exited", exit_code=1, category="lost", started_at=1.0, ended_at=2.0
        ),
    )
    job = Job.objects.get(id=trainer.job_id)
    assert job.state == "queued"
    again = make_attempt(job, gpus_of(world.node)[:1], state="running")
    report(world.node, running(again))
    input_workers_match()
    assert workers_of(trainer) == []
    assert len(workers_of(again)) == 2
    assert not set(workers_of(again)) & set(succeeded_before)


def test_a_user_s_list_and_queue_are_without_them(world: World, trainer: Attempt) -> None:
    input_workers_match()
    ids = [worker.id for worker in workers_of(trainer)]
    parent = trainer.job_id
    assert [job["id"] for job in world.member.get("/jobs").json()["results"]] == [parent]
    assert world.member.get("/cluster").json()["jobs"] == {"queued": 0, "running": 1}
    listed = world.member.get(f"/jobs?serves={parent}").json()["results"]
    assert [(job["id"], job["serves"]) for job in listed] == [(ids[1], parent), (ids[0], parent)]
    assert world.member.get(f"/jobs/{parent}").json()["serves"] is None
    body = {"action": "cancel", "filter": {"name": "train-input"}}
    assert world.member.post("/jobs/actions", body).json()["jobs"] == 0

    answer = world.viewer.get(f"/jobs/{parent}/input-workers").json()
    assert answer == {
        "desired": 2,
        "running": 0,
        "connected": None,
        "stall": None,
        "skipped": None,
        "problem": "",
        "workers": [{"job": id, "state": "queued", "started_at": None, "node": None} for id in ids],
    }
    run_round()
    ask(world, trainer, 2)
    answer = world.viewer.get(f"/jobs/{parent}/input-workers").json()
    assert (answer["connected"], answer["stall"]) == (2, 0.25)
    assert {worker["node"] for worker in answer["workers"]} == {"cpus"}


def test_others_neither_see_nor_touch_them(world: World, trainer: Attempt) -> None:
    input_workers_match()
    worker = workers_of(trainer)[0].id
    is_error(world.stranger.get(f"/jobs/{trainer.job_id}/input-workers"), 404, "not_found")
    is_error(world.stranger.get(f"/jobs/{worker}"), 404, "not_found")
    is_error(world.stranger.post(f"/jobs/{worker}/cancel"), 404, "not_found")
    is_error(world.viewer.post(f"/jobs/{worker}/cancel"), 403, "not_allowed")
    assert world.stranger.get(f"/jobs?serves={trainer.job_id}").json()["results"] == []
    assert world.operator.get(f"/jobs?serves={trainer.job_id}").json()["results"]


def test_a_leaving_user_s_running_job_keeps_them(world: World, trainer: Attempt) -> None:
    input_workers_match()
    by = viewer_of(make_user("root", operator=True))
    leaving = user_deactivate(by=by, username="mia", cancel=False)
    assert (leaving.running, leaving.held) == (1, 0)
    assert not any(worker.held for worker in workers_of(trainer))


def test_a_job_whose_workers_fit_nowhere_is_refused(world: World, cpus: Node) -> None:
    Node.objects.filter(id=world.node.id).update(cpus=32, memory_bytes=64 * GIB)
    answer = world.member.post("/jobs", spec(input_workers=WORKERS | {"cpu": 33}))
    (field,) = is_error(answer, 400, "invalid")["fields"]
    assert field["field"] == "input_workers"
    assert field["problem"].startswith("No node has 33 CPUs")
    assert world.member.post("/jobs", spec(input_workers=WORKERS | {"cpu": 32})).status_code == 201


def test_no_notice_names_them(world: World, trainer: Attempt) -> None:
    input_workers_match()
    job_cancel(job_id=workers_of(trainer)[0].id, actor="user mia")
    job_cancel(job_id=trainer.job_id, actor="user mia")
    ended = PartReport(attempt=trainer.id, state="exited", exit_code=0, category="stopped")
    report(world.node, ended)
    events = Event.objects.filter(kind="job.cancelled").order_by("id")
    assert len(events) == 2
    assert [notice.job.id for notice in notices_of(list(events)) if notice.job] == [trainer.job_id]


def test_what_is_as_it_should_be_costs_one_query(trainer: Attempt) -> None:
    input_workers_match()
    with CaptureQueriesContext(connection) as queries:
        input_workers_match()
    assert len(queries) == 1
