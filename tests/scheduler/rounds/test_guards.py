"""The database is the last guard: these tests go around all code and try to break it from SQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction

from scheduler.models import Allocation
from tests.patience import PATIENCE_SECONDS, until
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


def share(gpu, request: int, *, phase: str = "held", memory_bytes: int = 0) -> None:
    """Let one more job have a part of a GPU, from SQL."""
    other = second_allocation(make_attempt(make_job(), gpus_of(make_node(gpus=1))).allocation)
    insert_part(other.id, gpu.id, request, phase, memory_bytes)


def insert_part(allocation: int, gpu: int, request: int, phase: str = "held", memory_bytes: int = 0) -> None:
    execute(
        'INSERT INTO scheduler_allocatedgpu (allocation_id, gpu_id, phase, request, "limit", memory_bytes)'
        " VALUES (%s, %s, %s, %s, 1000, %s)",
        allocation,
        gpu,
        phase,
        request,
        memory_bytes,
    )


@pytest.mark.parametrize("phase", ["held", "planned"])
def test_parts_of_a_gpu_never_sum_to_more_than_the_gpu(phase):
    (gpu,) = gpus_of(make_node(gpus=1))
    share(gpu, 300, phase=phase)
    share(gpu, 600, phase=phase)
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        share(gpu, 101, phase=phase)
    share(gpu, 100, phase=phase)
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        execute("UPDATE scheduler_allocatedgpu SET request = 301 WHERE gpu_id = %s AND request = 300", gpu.id)


def test_memory_of_parts_never_sums_to_more_than_the_devices():
    (gpu,) = gpus_of(make_node(gpus=1))
    share(gpu, 250, memory_bytes=12 * 2**30)
    # Without a memory of its own a part has it in proportion: four of sixteen.
    share(gpu, 250)
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        share(gpu, 100, memory_bytes=1)
    type(gpu).objects.filter(id=gpu.id).update(memory_bytes=0)
    share(gpu, 100, memory_bytes=1)


@pytest.mark.parametrize("phase", ["held", "planned"])
def test_a_gpu_is_never_had_whole_and_in_parts_at_once(phase):
    one, two = gpus_of(make_node(gpus=2))
    share(one, 1000, phase=phase)
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        share(one, 1, phase=phase)
    share(two, 1, phase=phase)
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        share(two, 1000, phase=phase)


def test_a_part_is_not_taken_before_its_holder_left():
    (gpu,) = gpus_of(make_node(gpus=1))
    share(gpu, 700)
    share(gpu, 500, phase="planned")
    with pytest.raises(IntegrityError, match="parts_fit_on_gpu"):
        execute("UPDATE scheduler_allocatedgpu SET phase = 'held' WHERE gpu_id = %s", gpu.id)


@pytest.mark.django_db(transaction=True)
def test_two_transactions_at_once_do_not_take_the_same_room():
    """Each finds room for its part as long as it does not see the other's; the lock makes the second look."""
    (gpu,) = gpus_of(make_node(gpus=1))
    first, second = (
        second_allocation(make_attempt(make_job(), gpus_of(make_node(gpus=1))).allocation).id for _ in "ab"
    )

    def take_second() -> str:
        try:
            insert_part(second, gpu.id, 600)
        except IntegrityError as error:
            return str(error)
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(1) as beside:
        with transaction.atomic():
            insert_part(first, gpu.id, 600)
            refused = beside.submit(take_second)
            wait_until_somebody_waits()
            assert not refused.done()
        assert "parts_fit_on_gpu" in refused.result(timeout=PATIENCE_SECONDS)
    assert list(gpu.allocations.values_list("allocation_id", flat=True)) == [first]


def wait_until_somebody_waits() -> None:
    def somebody_waits() -> bool:
        # What is known of other sessions is read once in a transaction, unless that is cleared.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_stat_activity"
            " WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        until(somebody_waits, "somebody who waits for this transaction")


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
        ("UPDATE scheduler_job SET gpus = -1", "scheduler_job_gpus_check"),
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
