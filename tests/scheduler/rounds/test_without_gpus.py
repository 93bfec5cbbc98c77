"""Jobs without GPUs on rows: which node each replica is on, what it has of it, who waits for whom."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.round.decide import decide
from scheduler.jobs.attempts.services.lifecycle import part_exited, part_running, promote_overdue
from scheduler.models import Allocation, Attempt, Job, Node
from scheduler.nodes import representations
from scheduler.rounds.apply import ApplyOutcome, apply_plan
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import GIB, gpus_of, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    tenant = make_tenant()
    return {"tenant": tenant, "virtual_cluster": make_vc(members=[tenant], guaranteed={"V100": 8})}


def cpu_node(**columns) -> Node:
    return make_node(gpus=0, **{"cpus": 32, "memory_bytes": 64 * GIB, **columns})


def play_round(number: int = 9) -> ApplyOutcome:
    snapshot = read_snapshot(number)
    plan = decide(snapshot)
    assert not plan.degraded
    return apply_plan(snapshot, plan)


def start(job: Job, *nodes: Node, **fields) -> Action:
    placement = Placement(gpu_model="", replicas=((),) * len(nodes), nodes=tuple(node.id for node in nodes))
    fields = {"kind": ActionKind.START, "guaranteed": job.guaranteed, **fields}
    return Action(jobs=(job.id,), virtual_cluster=job.virtual_cluster.name, placement=placement, **fields)


def attempt_of(job: Job) -> Attempt:
    return job.attempts.order_by("-number").first()


def let_run(job: Job) -> None:
    for part in attempt_of(job).parts.all():
        part.attempt = attempt_of(job)
        part_running(part, at=part.attempt.starting_at)


def let_exit(job: Job, number: int = 1, **columns) -> None:
    part = job.attempts.get(number=number).parts.get()
    exited = {"exit_code": 0, "category": "", "message": "", "actor": "", **columns}
    part_exited(part, at=part.attempt.starting_at, **exited)


def test_a_round_puts_replicas_on_nodes_and_the_next_snapshot_knows_where(owner):
    first, second = cpu_node(), cpu_node()
    job = make_job(gpus=0, cpus=20, memory_bytes=8 * GIB, replicas=2, **owner)
    assert play_round().started == 1

    attempt = attempt_of(job)
    assert attempt.allocation.nodes == [first.id, second.id]
    assert (attempt.allocation.replicas, attempt.allocation.gpu_model) == ([[], []], "")
    parts = {part.node_id: part for part in attempt.parts.all()}
    assert parts[first.id].replicas == [{"rank": 0, "task": "main", "gpus": [], "gpu_indexes": []}]
    assert [(part.cpus, part.memory_bytes) for part in parts.values()] == [(20.0, 8 * GIB)] * 2
    (running,) = read_snapshot(10).running
    assert (running.nodes, running.replicas) == ((first.id, second.id), ((), ()))
    assert play_round(10).started == 0

    (desired,) = desired_parts(second)
    (replica,) = desired.replicas
    assert (replica.gpu_indexes, replica.cpus, replica.memory_bytes) == ((), 20.0, 8 * GIB)
    assert (desired.world_size, desired.gpu_model, replica.gpu_part) == (2, "", None)


def test_a_gang_has_replicas_with_and_without_gpus(owner):
    node = make_node(gpus=2, cpus=32)
    job = make_job(gpus=1, cpus=4, **owner)
    helper = {**job.spec["tasks"][0], "name": "helper", "replicas": 2}
    helper["resources"] = {**helper["resources"], "gpu": 0, "cpu": 8}
    job.spec["tasks"].append(helper)
    job.shape["tasks"].append([2, 0, 8, 0])
    job.save()
    play_round()
    attempt = attempt_of(job)
    assert attempt.allocation.nodes == [node.id] * 3
    (part,) = attempt.parts.all()
    assert [(entry["task"], len(entry["gpus"])) for entry in part.replicas] == [
        ("main", 1),
        ("helper", 0),
        ("helper", 0),
    ]
    assert part.cpus == 20


def test_its_end_gives_back_what_it_had_of_its_node(owner):
    cpu_node()
    job, next_one = (make_job(gpus=0, cpus=20, **owner) for _ in range(2))
    play_round()
    assert not next_one.attempts.exists()
    let_run(job)
    let_exit(job)
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert Allocation.objects.get().phase == "released"
    play_round(10)
    assert attempt_of(next_one).state == "starting"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cordoned": True}, "accepts no new work any more"),
        ({"state": "lost"}, "accepts no new work any more"),
        ({"cpus": 8}, "are promised to another job"),
        ({"memory_bytes": GIB}, "are promised to another job"),
    ],
)
def test_what_no_longer_holds_of_the_node_is_noticed_when_the_plan_is_applied(owner, change, why):
    node = cpu_node()
    make_job(gpus=0, cpus=20, memory_bytes=2 * GIB, **owner)
    snapshot = read_snapshot(9)
    plan = decide(snapshot)
    Node.objects.filter(id=node.id).update(**change)
    applied = apply_plan(snapshot, plan)
    assert applied.started == 0
    assert why in applied.dropped[0]["why"]
    assert not Attempt.objects.exists()


def test_a_plan_that_gives_the_cpus_of_a_node_twice_starts_one_of_the_two(owner):
    node = cpu_node()
    one, two = (make_job(gpus=0, cpus=20, **owner) for _ in range(2))
    snapshot = read_snapshot(9)
    applied = apply_plan(snapshot, Plan(round_number=9, actions=(start(one, node), start(two, node))))
    assert applied.started == 1
    assert "promised to another job" in applied.dropped[0]["why"]
    assert not two.attempts.exists()


def test_the_nodes_are_locked_while_they_are_looked_at(owner):
    cpu_node()
    make_job(gpus=0, cpus=20, **owner)
    with CaptureQueriesContext(connection) as queries:
        play_round()
    said = [query["sql"] for query in queries]
    locking = [place for place, sql in enumerate(said) if "scheduler_node" in sql and "FOR NO KEY" in sql]
    looked = next(place for place, sql in enumerate(said) if "p.cpus, p.memory_bytes" in sql)
    assert locking[0] < looked


def test_who_takes_cpus_back_waits_until_they_are_left(owner, django_capture_on_commit_callbacks):
    node = cpu_node()
    guest = make_job(gpus=0, cpus=20, guaranteed=False, **owner)
    play_round()
    let_run(guest)
    claimant = make_job(gpus=0, cpus=20, **owner)
    play_round(10)
    assert attempt_of(guest).state == "stopping"
    assert (attempt_of(claimant).state, attempt_of(claimant).allocation.phase) == ("planned", "planned")
    promote_overdue()
    assert attempt_of(claimant).state == "planned"
    assert [part.job for part in desired_parts(node)] == [guest.id]

    with django_capture_on_commit_callbacks(execute=True):
        let_exit(guest, exit_code=143, category="stopped")
    assert (attempt_of(claimant).state, attempt_of(claimant).allocation.phase) == ("starting", "held")
    claimant.refresh_from_db()
    assert claimant.attempts_started == 1


def test_a_round_begins_what_nobody_was_there_to_begin(owner):
    cpu_node()
    guest = make_job(gpus=0, cpus=20, guaranteed=False, **owner)
    play_round()
    let_run(guest)
    claimant = make_job(gpus=0, cpus=20, **owner)
    play_round(10)
    # Its commit is none inside a test, so that the release finds nobody.
    let_exit(guest, exit_code=143, category="stopped")
    assert attempt_of(claimant).state == "planned"
    promote_overdue()
    assert attempt_of(claimant).state == "starting"


def test_beside_one_that_leaves_there_may_be_room_already(owner):
    node = cpu_node(cpus=64)
    leaving = make_job(gpus=0, cpus=20, **owner)
    play_round()
    let_run(leaving)
    Job.objects.filter(id=leaving.id).update(cancelling=True)
    play_round(10)
    assert attempt_of(leaving).state == "stopping"
    other = make_job(gpus=0, cpus=20, **owner)
    play_round(11)
    assert attempt_of(other).state == "starting"
    assert attempt_of(other).allocation.nodes == [node.id]


def test_a_planned_one_that_is_withdrawn_leaves_nothing(owner):
    cpu_node()
    guest = make_job(gpus=0, cpus=20, guaranteed=False, **owner)
    play_round()
    let_run(guest)
    claimant = make_job(gpus=0, cpus=20, **owner)
    play_round(10)
    Job.objects.filter(id=claimant.id).update(cancelling=True)
    play_round(11)
    assert attempt_of(claimant).state == "ended"
    assert attempt_of(claimant).allocation.phase == "released"


def test_jobs_with_gpus_beside_it_are_not_disturbed(owner):
    node = make_node(gpus=2, cpus=32)
    training, prepares = make_job(gpus=2, cpus=8, **owner), make_job(gpus=0, cpus=24, **owner)
    play_round()
    assert {attempt_of(job).state for job in (training, prepares)} == {"starting"}
    assert attempt_of(training).allocation.nodes is None
    assert {part.job for part in desired_parts(node)} == {training.id, prepares.id}
    let_run(prepares)
    let_exit(prepares)
    assert attempt_of(training).state == "starting"
    assert set(gpus_of(node)[0].allocations.values_list("phase", flat=True)) == {"held"}


def test_a_node_is_drained_when_they_have_left_it_too(owner):
    node = cpu_node()
    job = make_job(gpus=0, cpus=20, **owner)
    play_round()
    let_run(job)
    Node.objects.filter(id=node.id).update(cordoned=True, draining=True)
    assert [shown["drained"] for shown in representations.nodes([node.id])] == [False]
    let_exit(job)
    assert [shown["drained"] for shown in representations.nodes([node.id])] == [True]


def test_a_node_shows_what_is_held_of_its_cpus_and_memory_until_the_jobs_end(owner):
    node, other = cpu_node(), cpu_node()
    first, second = (make_job(gpus=0, cpus=12, memory_bytes=8 * GIB, **owner) for _ in range(2))
    gpu_node = make_node(gpus=1, cpus=32)
    apply_plan(read_snapshot(9), Plan(round_number=9, actions=(start(first, node), start(second, node))))

    def held() -> dict[str, tuple[float, int]]:
        shown = representations.nodes([node.id, other.id, gpu_node.id])
        return {each["name"]: (each["cpus_held"], each["memory_bytes_held"]) for each in shown}

    assert held() == {node.name: (24.0, 16 * GIB), other.name: (0.0, 0), gpu_node.name: (0.0, 0)}
    let_run(first)
    let_exit(first)
    assert held()[node.name] == (12.0, 8 * GIB)
    Attempt.objects.filter(job=second).update(state="planned")
    assert held()[node.name] == (0.0, 0), "what is planned holds nothing yet"
