"""Whole rounds on real rows: the same facts, the same plan, and nothing half written."""

import io
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from scheduler.agents.services.desired import desired_parts
from scheduler.core.building_blocks.growing import SETTLED_SECONDS
from scheduler.core.model import codec
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.jobs.attempts.services.lifecycle import part_exited, part_running, release_gpus
from scheduler.models import AllocatedGpu, Allocation, Attempt, Event, Explanation, Leadership, Node, Round
from scheduler.rounds import run
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring import wakeups
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_gpu_model,
    make_job,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def research():
    """A virtual cluster that is promised four of the eight V100 of one node."""
    make_node(gpus=8)
    tenant = make_tenant("vision")
    return tenant, make_vc("research", members=[tenant], guaranteed={"V100": 4})


def submit(research, **spec):
    tenant, vc = research
    return make_job(tenant=tenant, virtual_cluster=vc, **spec)


def test_a_job_that_fits_is_started(research):
    job = submit(research, gpus=4)
    number = run_round()
    attempt = job.attempts.get()
    assert attempt.state == "starting"
    assert attempt.allocation.gpus.count() == 4
    record = Round.objects.get(number=number)
    assert (record.state, record.started, record.waiting) == ("applied", 1, 0)


def test_a_job_with_an_image_runs_only_where_containers_do(research):
    job = submit(research, gpus=4)
    job.spec["image"], job.shape["needs_containers"] = "team/torch", True
    job.save()
    run_round()
    (reason,) = Explanation.objects.get(job=job).reasons
    assert (reason["code"], reason["tier"]) == ("no_containers", "never")
    able = make_node(gpus=8, isolation={"container": True})
    run_round()
    assert job.attempts.get().parts.get().node == able
    (replica,) = desired_parts(able)[0].replicas
    assert replica.image == "team/torch"


def test_an_elastic_job_starts_with_as_many_replicas_as_there_is_room_for_and_grows_later(research):
    first = submit(research, gpus=2)
    job = submit(research, replicas=4)
    job.shape["min_gpus"] = 1
    job.save()
    run_round()
    attempt = job.attempts.get()
    node = Node.objects.get()
    desired = {part.attempt: part for part in desired_parts(node)}[attempt.id]
    assert (desired.world_size, [replica.rank for replica in desired.replicas]) == (2, [0, 1])
    now = timezone.now()
    done = {"exit_code": 0, "category": "", "message": "", "actor": f"node {node.name}"}
    part_exited(first.attempts.get().parts.get(), at=now, **done)
    part_running(attempt.parts.get(), at=now)
    settled = now - timedelta(seconds=SETTLED_SECONDS + 1)
    Allocation.objects.filter(id=attempt.allocation_id).update(held_at=settled)
    run_round()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "resized")
    larger = job.attempts.get(state="planned")
    assert larger.allocation.gpus.count() == 4
    event = Event.objects.get(kind="job.resized")
    assert (event.job_id, event.from_state, event.to_state) == (job.id, "2 GPUs", "4 GPUs")
    assert event.message == "Resized from 2 to 4 GPUs: there were idle GPUs for it."
    assert event.data == {"gpus_before": 2, "gpus": 4, "attempt": 2}


def test_a_resized_job_holds_its_gpus_until_its_processes_are_gone_and_runs_on_none_it_has_not(research):
    job = submit(research, replicas=4)
    job.shape["min_gpus"] = 1
    job.save()
    run_round()
    first, node = job.attempts.get(), Node.objects.get()
    part_running(first.parts.get(), at=timezone.now())
    held = set(AllocatedGpu.objects.filter(phase="held").values_list("gpu_id", flat=True))
    assert len(held) == 4
    number = run_round()
    (running,) = read_snapshot(number).running
    place = Placement(gpu_model="V100", replicas=running.replicas[:2])
    resize = Action(
        kind=ActionKind.RESIZE,
        jobs=(job.id,),
        virtual_cluster="research",
        placement=place,
        allocation=running.allocation,
    )
    other = submit(research, replicas=2)
    snapshot = read_snapshot(number)
    start = Action(
        kind=ActionKind.START,
        jobs=(other.id,),
        virtual_cluster="research",
        placement=Placement(gpu_model="V100", replicas=running.replicas[2:]),
    )
    apply_plan(snapshot, Plan(round_number=number, actions=(resize, start)))
    event = Event.objects.get(kind="job.resized")
    assert event.message == f"Resized from 4 to 2 GPUs: GPUs that it leaves are for job {other.id}."
    # The old attempt runs until its node says that it is gone; it holds all that it had, and both wait.
    first.refresh_from_db()
    assert (first.state, first.stop_cause, first.stop_message) == ("stopping", "resized", event.message)
    assert set(AllocatedGpu.objects.filter(phase="held").values_list("gpu_id", flat=True)) == held
    assert job.attempts.get(number=2).state == other.attempts.get().state == "planned"
    assert [part.attempt for part in desired_parts(node)] == [first.id]
    run_round()
    assert other.attempts.get().state == "planned"
    gone = {"exit_code": 143, "category": "", "message": "", "actor": f"node {node.name}"}
    part_exited(first.parts.get(), at=timezone.now(), **gone)
    assert job.attempts.get(number=2).state == other.attempts.get().state == "starting"
    assert {part.attempt: part.world_size for part in desired_parts(node)} == {
        job.attempts.get(number=2).id: 2,
        other.attempts.get().id: 2,
    }
    for allocation in Allocation.objects.filter(phase="held"):
        assert allocation.gpus.filter(phase="held").count() == allocation.gpu_count == 2


def test_a_job_that_grows_beyond_its_own_number_has_replicas_more_than_its_specification_names(research):
    other = submit(research, gpus=2)
    job = submit(research, replicas=2)
    job.shape |= {"min_gpus": 1, "max_gpus": 4}
    job.save()
    run_round()
    first, node = job.attempts.get(), Node.objects.get()
    assert first.allocation.gpu_count == 2
    part_running(first.parts.get(), at=timezone.now())
    ended = {"exit_code": 0, "category": "", "message": "", "actor": f"node {node.name}"}
    part_running(other.attempts.get().parts.get(), at=timezone.now())
    part_exited(other.attempts.get().parts.get(), at=timezone.now(), **ended)
    settled = timezone.now() - timedelta(seconds=SETTLED_SECONDS + 1)
    Allocation.objects.filter(id=first.allocation_id).update(held_at=settled)
    run_round()
    first.refresh_from_db()
    done = {"exit_code": 143, "category": "", "message": "", "actor": f"node {node.name}"}
    part_exited(first.parts.get(), at=timezone.now(), **done)
    (desired,) = [part for part in desired_parts(node) if part.attempt != first.id]
    assert desired.world_size == 4
    assert [(replica.rank, replica.task) for replica in desired.replicas] == [
        (rank, "main") for rank in range(4)
    ]


def test_one_that_is_alone_has_them_from_the_start(research):
    job = submit(research, replicas=2)
    job.shape |= {"min_gpus": 1, "max_gpus": 4}
    job.save()
    run_round()
    attempt, node = job.attempts.get(), Node.objects.get()
    assert attempt.allocation.gpu_count == 4
    (desired,) = desired_parts(node)
    assert desired.world_size == 4


def test_a_job_of_fixed_world_has_processes_that_share_its_ranks_and_have_the_memory_of_all(research):
    submit(research, gpus=2)
    job = submit(research, replicas=4, memory_bytes=2**20)
    job.shape |= {"min_gpus": 1, "elastic_mode": "fixed_world"}
    job.spec["elastic"] = {"min_gpus": 1, "mode": "fixed_world"}
    job.save()
    run_round()
    attempt, node = job.attempts.get(), Node.objects.get()
    (desired,) = [part for part in desired_parts(node) if part.attempt == attempt.id]
    assert desired.world_size == 2
    for replica in desired.replicas:
        assert replica.env["ALLOT_LOGICAL_WORLD_SIZE"] == "4"
        assert replica.memory_bytes == 2 * 2**20
    attempt.is_trial = True
    attempt.save()
    (desired,) = [part for part in desired_parts(node) if part.attempt == attempt.id]
    assert {tuple(replica.env) for replica in desired.replicas} == {("ALLOT_TRIAL",)}


def test_a_launcher_reaches_the_node_and_that_of_mpi_with_a_key_of_the_attempt(research):
    keys = []
    for _ in range(2):
        job = submit(research, gpus=2)
        job.spec["launcher"] = "mpi"
        job.save()
    run_round()
    parts = desired_parts(Node.objects.get())
    for part in parts:
        (replica,) = part.replicas
        assert replica.launcher == "mpi"
        keys.append(replica.env["ALLOT_LAUNCH_KEY"])
    assert len(set(keys)) == 2
    assert desired_parts(Node.objects.get()) == parts


def test_with_a_launcher_all_processes_of_a_fixed_world_count_as_ranks(research):
    job = submit(research, replicas=2, gpus=2)
    job.shape |= {"elastic_mode": "fixed_world"}
    job.spec |= {"launcher": "torchrun", "elastic": {"mode": "fixed_world"}}
    job.save()
    run_round()
    (desired,) = desired_parts(Node.objects.get())
    environments = [replica.env for replica in desired.replicas]
    assert [environment["ALLOT_LOGICAL_WORLD_SIZE"] for environment in environments] == ["4", "4"]
    assert not [environment for environment in environments if "ALLOT_LAUNCH_KEY" in environment]


def test_one_that_does_not_fit_waits_with_a_reason_and_starts_when_there_is_room(research):
    first, second = submit(research, gpus=4), submit(research, gpus=2)
    run_round()
    reasons = Explanation.objects.get(job=second).reasons
    assert reasons[0]["code"]
    assert "4" in reasons[0]["message"]
    attempt = first.attempts.get()
    Attempt.objects.filter(id=attempt.id).update(
        state="ended", outcome="succeeded", ended_at=first.submitted_at
    )
    type(first).objects.filter(id=first.id).update(state="succeeded", ended_at=first.submitted_at)
    release_gpus(attempt.allocation, at=first.submitted_at)
    run_round()
    assert second.attempts.get().state == "starting"
    assert not Explanation.objects.filter(job=second).exists()


def test_a_successor_that_the_release_did_not_see_is_started_by_the_next_round(research):
    job = submit(research, gpus=2)
    gpus = gpus_of(Node.objects.get())[:2]
    successor = make_attempt(job, gpus, state="planned", phase="planned")
    run_round()
    successor.refresh_from_db()
    assert (successor.state, successor.allocation.gpus.first().phase) == ("starting", "held")
    assert job.attempts.count() == 1


def test_a_successor_waits_as_long_as_one_of_its_gpus_is_held(research):
    gpus = gpus_of(Node.objects.get())[:2]
    make_attempt(submit(research, gpus=1), gpus[:1], state="stopping")
    successor = make_attempt(submit(research, gpus=2), gpus, state="planned", phase="planned")
    run_round()
    successor.refresh_from_db()
    assert successor.state == "planned"


def test_a_guaranteed_job_reclaims_what_an_opportunistic_one_borrowed(research):
    borrower = submit(research, gpus=8, guaranteed=False)
    run_round()
    borrowed = borrower.attempts.get()
    assert borrowed.allocation.gpus.count() == 8
    owner = submit(research, gpus=2)
    run_round()
    borrowed.refresh_from_db()
    assert (borrowed.state, borrowed.stop_cause, borrowed.preempted_by) == (
        "stopping",
        "preempted",
        [owner.id],
    )
    assert str(owner.id) in borrowed.stop_message
    assert owner.attempts.get().state == "planned"
    release_gpus(borrowed.allocation, at=owner.submitted_at)
    assert owner.attempts.get().state == "starting"


def test_a_settled_cluster_is_left_alone(research):
    job = submit(research, gpus=4)
    run_round()
    attempt = job.attempts.get()
    before = AllocatedGpu.objects.count(), attempt.state
    for _ in range(3):
        run_round()
    attempt.refresh_from_db()
    assert (AllocatedGpu.objects.count(), attempt.state) == before
    assert Round.objects.order_by("-number").first().kept == 1


def test_a_second_round_at_the_same_time_does_nothing(research, monkeypatch):
    inner = []

    def decide_while_another_tries(snapshot, *_):
        inner.append(run_round())
        return Plan(round_number=snapshot.round_number)

    monkeypatch.setattr(run.rounds(), "decide", decide_while_another_tries)
    assert run_round() is not None
    assert inner == [None]


def test_an_overtaken_round_is_recorded_and_changes_nothing(research, monkeypatch):
    job = submit(research, gpus=4)
    real = run.rounds().decide

    def decide_too_slowly(snapshot, *how):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduler_leadership SET number = number + 1")
        return real(snapshot, *how)

    monkeypatch.setattr(run.rounds(), "decide", decide_too_slowly)
    number = run_round()
    assert not job.attempts.exists()
    record = Round.objects.get(number=number)
    assert (record.state, record.snapshot, record.plan) == ("fenced", None, None)
    assert record.error == f"round {number} was overtaken by round {number + 1}"


def test_a_round_that_breaks_is_recorded_and_the_next_one_runs(research, monkeypatch):
    job = submit(research, gpus=4)

    def broken(*_):
        raise ZeroDivisionError("a bug in a policy's core")

    with monkeypatch.context() as patch:
        patch.setattr(run.rounds(), "decide", broken)
        number = run_round()
    record = Round.objects.get(number=number)
    assert (record.state, record.error) == ("failed", "ZeroDivisionError: a bug in a policy's core")
    assert Leadership.objects.get().expires_at is None
    run_round()
    assert job.attempts.exists()


def replay(number: int) -> str:
    out = io.StringIO()
    call_command("replay_round", number, stdout=out)
    return out.getvalue()


def test_a_stored_round_is_decided_again_bit_for_bit(research):
    submit(research, gpus=3)
    submit(research, gpus=3)
    make_attempt(submit(research, gpus=2, guaranteed=False), gpus_of(make_node(gpus=2)))
    number = run_round()
    record = Round.objects.get(number=number)
    snapshot = codec.loads_snapshot(bytes(record.snapshot))
    assert snapshot.round_number == number
    assert codec.dumps_snapshot(snapshot) == bytes(record.snapshot)
    assert f"Round {number}: identical plan" in replay(number)


def test_other_words_are_no_other_plan(research):
    """As after an upgrade: sentences are for people, and are improved."""
    jobs = [submit(research, gpus=gpus) for gpus in (8, 9)]
    number = run_round()
    record = Round.objects.get(number=number)
    plan = codec.loads_plan(bytes(record.plan))

    def keep(*changed, **others) -> None:
        reasons = {
            job.id: tuple([replace(reason, **words) for reason in plan.reasons[job.id]])
            for job, words in zip(jobs, changed, strict=True)
        }
        record.plan = codec.dumps_plan(replace(plan, reasons=reasons, **others))
        record.save()

    other_words = {"message": "There is no room.", "hint": ""}
    keep(other_words, other_words)
    assert f"Round {number}: identical plan in other words" in replay(number)
    keep(other_words, {"needed": 99})
    with pytest.raises(CommandError) as raised:
        replay(number)
    _, gone, come = str(raised.value).splitlines()
    assert gone.startswith(f"- job {jobs[1].id} waits: ")
    assert come.startswith(f"+ job {jobs[1].id} waits: ")
    keep(other_words, {"needed": 99}, memory={"research": {"policy": "none"}})
    with pytest.raises(CommandError, match=r"\nthese differ: memory$"):
        replay(number)


def test_replay_tells_when_the_plan_is_another_one(research):
    submit(research, gpus=3)
    number = run_round()
    Round.objects.filter(number=number).update(plan=codec.dumps_plan(Plan(round_number=number)))
    with pytest.raises(CommandError, match="decides differently now"):
        replay(number)


def test_replay_of_an_unknown_round_says_what_is_kept(research):
    run_round()
    with pytest.raises(CommandError, match=r"There is no round 999; kept are \d+ to \d+"):
        replay(999)


def part_of(attempt, node):
    return attempt.parts.select_related("attempt__job", "attempt__allocation", "node").get(node=node)


def leave(attempt, node, **how) -> None:
    how = {"exit_code": 0, "category": "", "message": "", **how}
    part_exited(part_of(attempt, node), at=attempt.planned_at, actor=f"node {node.name}", **how)


def test_a_gang_whose_first_replica_is_done_is_held_whole(research):
    left, right = make_node(gpus=1), make_node(gpus=1)
    attempt = make_attempt(submit(research, gpus=1, replicas=2), gpus_of(left, right))
    leave(attempt, left)
    record = Round.objects.get(number=run_round())
    assert (record.state, record.error, record.kept, record.stopped) == ("applied", "", 1, 0)
    assert attempt.allocation.gpus.filter(phase="held").count() == 2


def test_a_stopping_gang_gives_its_gpus_back_node_by_node(research):
    left, right = make_node(gpus=1), make_node(gpus=1)
    tenant, _ = research
    vc = make_vc("small", members=[tenant], guaranteed={"P100": 2})
    for node in (left, right):
        node.gpu_model = make_gpu_model("P100")
        node.save()
    attempt = make_attempt(
        make_job(tenant=tenant, virtual_cluster=vc, gpus=1, replicas=2), gpus_of(left, right)
    )
    leave(attempt, left, exit_code=1, category="user_error")
    nexts = [make_job(tenant=tenant, virtual_cluster=vc, gpus=1) for _ in range(2)]
    record = Round.objects.get(number=run_round())
    assert (record.state, record.error, record.started) == ("applied", "", 2)
    assert sorted(job.attempts.get().state for job in nexts) == ["planned", "starting"]
    leave(attempt, right, exit_code=143, category="stopped")
    assert {job.attempts.get().state for job in nexts} == {"starting"}


@pytest.fixture
def rounds_asked_for(monkeypatch) -> list[float]:
    """After how many seconds rounds were asked for; none is due at first."""
    with wakeups._redis() as client:
        client.delete("allot:round-due")
    waits = []

    def send(name: str, countdown: float | None = None, **options) -> None:
        if name == "scheduler.tasks.run_round":
            waits.append(countdown)

    monkeypatch.setattr(wakeups.current_app, "send_task", send)
    return waits


@pytest.mark.parametrize(("round_seconds", "asked"), [(5.0, 1), (1.0, 0)])
def test_a_round_is_asked_for_when_a_lease_ends_unless_a_tick_comes_first(
    research,
    settings,
    monkeypatch,
    rounds_asked_for,
    django_capture_on_commit_callbacks,
    round_seconds,
    asked,
):
    """Once for each lease, however many rounds see its end coming."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": round_seconds})
    # On a busy machine rounds take so long that they are kept apart by that.
    monkeypatch.setattr(wakeups, "_ROUND_PART", 0.0)
    _, vc = research
    vc.policy, vc.policy_parameters = "gandiva_fair", {"quantum_seconds": 3.0, "interval_seconds": 3.0}
    vc.save()
    for _ in range(2):
        submit(research, gpus=4)
    with django_capture_on_commit_callbacks(execute=True):
        run_round()
        run_round()
    assert len(rounds_asked_for) == asked
    assert all(2 < wait <= 3 for wait in rounds_asked_for)


def test_only_the_earliest_round_is_due_and_rounds_that_take_long_keep_their_distance(rounds_asked_for):
    for instant, took in ((103.0, 0.01), (104.0, 0.01), (102.0, 0.01), (101.0, 0.15), (101.0, 0.6)):
        wakeups.request_round_at(instant, now=100.0, took_seconds=took)
    assert rounds_asked_for == [3.0, 2.0, 1.5]
