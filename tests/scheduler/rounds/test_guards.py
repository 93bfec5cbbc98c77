"""The database is the last guard: these tests go around all code and try to break it from SQL."""

import pytest
from django.db import IntegrityError, connection, transaction

from scheduler.models import Allocation
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def execute(sql: str, *values: object) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, values)


def second_allocation(first: Allocation) -> Allocation:
    first.pk = None
    first.save()
    return first


@pytest.mark.parametrize("phase", ["held", "planned"])
def test_a_gpu_never_has_two_holders_nor_two_successors(phase):
    (gpu,) = gpus_of(make_node(gpus=1))
    attempt = make_attempt(make_job(), [gpu], state="running" if phase == "held" else "planned", phase=phase)
    other = second_allocation(attempt.allocation)
    with pytest.raises(IntegrityError, match=r"one_(holder|successor)_per_gpu"):
        execute(
            "INSERT INTO scheduler_allocatedgpu (allocation_id, gpu_id, phase) VALUES (%s, %s, %s)",
            other.id,
            gpu.id,
            phase,
        )


def test_a_gpu_can_have_one_holder_and_one_successor_who_cannot_take_it_early():
    (gpu,) = gpus_of(make_node(gpus=1))
    make_attempt(make_job(), [gpu])
    successor = make_attempt(make_job(), [gpu], state="planned", phase="planned").allocation
    with pytest.raises(IntegrityError, match="one_holder_per_gpu"):
        execute("UPDATE scheduler_allocatedgpu SET phase = 'held' WHERE allocation_id = %s", successor.id)


def test_history_does_not_count_as_holding():
    (gpu,) = gpus_of(make_node(gpus=1))
    first = make_attempt(make_job(), [gpu])
    execute("UPDATE scheduler_allocatedgpu SET phase = 'released' WHERE gpu_id = %s", gpu.id)
    make_attempt(make_job(), [gpu])
    assert gpu.allocations.count() == 2
    with pytest.raises(IntegrityError, match="one_holder_per_gpu"):
        execute(
            "UPDATE scheduler_allocatedgpu SET phase = 'held' WHERE allocation_id = %s", first.allocation_id
        )


def test_a_job_never_has_two_live_attempts():
    one, two = gpus_of(make_node(gpus=2))
    job = make_job()
    make_attempt(job, [one])
    second = make_attempt(job, [two], state="planned", phase="planned")
    with pytest.raises(IntegrityError, match="one_live_attempt_per_job"):
        execute("UPDATE scheduler_attempt SET state = 'starting' WHERE id = %s", second.id)


def test_a_job_never_has_two_planned_attempts():
    one, two = gpus_of(make_node(gpus=2))
    job = make_job()
    make_attempt(job, [one], state="planned", phase="planned")
    with pytest.raises(IntegrityError, match="one_planned_attempt_per_job"), transaction.atomic():
        make_attempt(job, [two], state="planned", phase="planned")


@pytest.mark.parametrize(
    ("sql", "constraint"),
    [
        ("UPDATE scheduler_job SET state = 'paused'", "job_state_is_known"),
        ("UPDATE scheduler_job SET gpus = 0", "job_has_gpus"),
        ("UPDATE scheduler_job SET state = 'succeeded'", "job_ended_at_matches_state"),
        ("UPDATE scheduler_job SET ended_at = now()", "job_ended_at_matches_state"),
        ("UPDATE scheduler_attempt SET state = 'ended'", "outcome_exactly_when_ended"),
        ("UPDATE scheduler_attempt SET outcome = 'lost'", "outcome_exactly_when_ended"),
        ("UPDATE scheduler_allocatedgpu SET phase = 'borrowed'", "hold_phase_is_known"),
        ("UPDATE scheduler_node SET state = 'off'", "node_state_is_known"),
        ("UPDATE scheduler_node SET draining = true, cordoned = false", "draining_is_cordoned"),
        ("INSERT INTO scheduler_leadership (id, number) VALUES (2, 0)", "leadership_is_one_row"),
    ],
)
def test_impossible_states_are_refused(sql, constraint):
    make_attempt(make_job(), gpus_of(make_node(gpus=1)))
    with pytest.raises(IntegrityError, match=constraint):
        execute(sql)
