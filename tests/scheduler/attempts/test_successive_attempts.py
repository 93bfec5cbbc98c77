"""What the end of one attempt means to the next one of the same job, and to those that share its GPUs."""

import pytest

from scheduler.agents.services.desired import desired_parts
from scheduler.core.failures.retrying import HELD_AFTER
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.jobs.attempts.services.lifecycle import part_exited, part_running
from scheduler.models import Allocation, Attempt, Event, Job, Node
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


def moved(attempt: Attempt, there) -> Attempt:
    """Apply a MOVE of the attempt to one GPU; return the planned successor."""
    job = attempt.job
    action = Action(
        kind=ActionKind.MOVE,
        jobs=(job.id,),
        virtual_cluster=job.virtual_cluster.name,
        placement=Placement(gpu_model="V100", replicas=((there.id,),)),
        allocation=attempt.allocation_id,
    )
    assert apply_plan(read_snapshot(9), Plan(round_number=9, actions=(action,))).dropped == []
    return job.attempts.get(number=2)


def leave(attempt: Attempt, *, exit_code: int, category: str = "") -> None:
    part = attempt.parts.select_related("attempt__job", "attempt__allocation", "node").get()
    part_exited(part, exit_code=exit_code, category=category, message="", at=database_now(), actor="node a")


def test_a_job_that_moves_starts_there_as_soon_as_it_has_left():
    here, there = gpus_of(make_node(gpus=2))
    attempt = make_attempt(make_job(), [here])
    successor = moved(attempt, there)
    leave(attempt, exit_code=143, category="stopped")
    successor.refresh_from_db()
    assert (successor.state, successor.go) == ("starting", True)
    assert set(successor.allocation.gpus.values_list("phase", flat=True)) == {"held"}


def test_a_job_that_is_done_before_it_moved_does_not_start_again():
    here, there = gpus_of(make_node(gpus=2))
    attempt = make_attempt(make_job(), [here])
    successor = moved(attempt, there)
    leave(attempt, exit_code=0)
    successor.refresh_from_db()
    assert (Job.objects.get().state, successor.state) == ("succeeded", "ended")
    assert read_snapshot(10).running == ()


@pytest.fixture
def pair():
    """Two jobs on the same GPU, both running."""
    tenant = make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"V100": 1})
    gpus = gpus_of(make_node(gpus=1))
    first = make_job(tenant=tenant, virtual_cluster=vc)
    second = make_job(tenant=tenant, virtual_cluster=vc)
    action = Action(
        kind=ActionKind.START,
        jobs=(first.id, second.id),
        virtual_cluster=vc.name,
        placement=Placement(gpu_model="V100", replicas=((gpus[0].id,),)),
    )
    apply_plan(read_snapshot(9), Plan(round_number=9, actions=(action,)))
    for attempt in Attempt.objects.all():
        part = attempt.parts.select_related("attempt__job", "attempt__allocation", "node").get()
        part_running(part, at=database_now())
    return first, second


def test_a_job_that_ends_leaves_the_gpu_to_the_one_it_shared_it_with(pair):
    first, second = pair
    node = Node.objects.get()
    assert [part.shares_gpus for part in desired_parts(node)] == [True, True], "so the node is told"
    leave(first.attempts.get(), exit_code=0)
    (running,) = read_snapshot(10).running
    assert (running.jobs, running.phase) == ((second.id,), "held")
    assert Allocation.objects.get().released_at is None
    leave(second.attempts.get(), exit_code=0)
    assert read_snapshot(11).running == ()
    assert Allocation.objects.get().released_at is not None


def stop_all(pair, cause: str) -> None:
    stop = Action(
        kind=ActionKind.STOP,
        jobs=tuple(job.id for job in pair),
        virtual_cluster=pair[0].virtual_cluster.name,
        allocation=Allocation.objects.get().id,
        cause=cause,
        message="It reached its time limit of 60 s.",
    )
    assert apply_plan(read_snapshot(10), Plan(round_number=10, actions=(stop,))).dropped == []
    for job in pair:
        leave(job.attempts.get(), exit_code=143, category="stopped")
        job.refresh_from_db()


def test_a_time_limit_ends_the_job_whose_it_is_and_the_other_is_queued_again(pair):
    first, second = pair
    Job.objects.filter(id=first.id).update(time_limit_seconds=0.001)
    stop_all(pair, "time_limit")
    assert (first.state, second.state) == ("failed", "queued")


def test_a_cancellation_ends_the_job_whose_it_is_and_the_other_is_queued_again(pair):
    first, second = pair
    Job.objects.filter(id=first.id).update(cancelling=True)
    stop_all(pair, "cancelled")
    assert (first.state, second.state) == ("cancelled", "queued")


def test_a_job_that_loses_its_nodes_again_and_again_waits_and_is_held_in_the_end():
    job = make_job()
    gpus = gpus_of(make_node(gpus=1))
    for losses in range(1, HELD_AFTER + 1):
        assert (job.state, job.held) == ("queued", False)
        leave(make_attempt(job, gpus), exit_code=137, category="lost")
        job.refresh_from_db()
        waits = job.eligible_at is not None and job.eligible_at > database_now()
        assert waits == (1 < losses < HELD_AFTER)
        Job.objects.filter(id=job.id).update(eligible_at=None)
        job.refresh_from_db()
    assert (job.state, job.held, job.failures) == ("queued", True, 0)
    why = Event.objects.filter(kind="job.requeued").latest("id").message
    assert why == "It is held: 8 attempts in a row were lost. Release it to try once more."
