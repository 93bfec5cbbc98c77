"""Who waits for whom: real transactions on two connections."""

import os
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from scheduler.core.model.errors import InvalidTransition
from scheduler.core.model.holds import GpuHolds
from scheduler.jobs.attempts.services import gpu_holds, lifecycle
from scheduler.jobs.attempts.services.lifecycle import part_exited
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.jobs.services import control as jobs
from scheduler.jobs.services.control import job_cancel
from scheduler.models import Attempt, Job
from scheduler.rounds import apply
from scheduler.rounds.run import run_round
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc


@pytest.mark.django_db(transaction=True)
def test_the_end_of_an_attempt_holds_no_node_while_it_may_wait_for_a_job():
    node = make_node(gpus=1)
    leaving = make_attempt(make_job(), gpus_of(node), state="stopping", stop_cause="preempted")
    make_attempt(make_job(), gpus_of(node), state="planned", phase="planned")
    part = leaving.parts.select_related("attempt__job", "attempt__allocation", "node").get()
    url = os.environ["DATABASE_URL"].rpartition("/")[0] + "/" + connection.settings_dict["NAME"]
    with transaction.atomic():
        part_exited(
            part, exit_code=143, category="stopped", message="", at=leaving.planned_at, actor="node left"
        )
        with psycopg.connect(url) as other:
            other.execute("SELECT id FROM scheduler_node FOR UPDATE NOWAIT")
    before = node.version
    node.refresh_from_db()
    assert node.version > before


@pytest.mark.django_db(transaction=True)
def test_the_end_of_an_attempt_never_waits_for_its_successors_job():
    """Whoever holds that job may want the one that ends: both would wait for ever (decision 0004)."""
    node = make_node(gpus=1)
    ending = make_attempt(make_job(), gpus_of(node), state="stopping", stop_cause="preempted")
    successor = make_attempt(make_job(), gpus_of(node), state="planned", phase="planned")
    part = ending.parts.select_related("attempt__job", "attempt__allocation", "node").get()

    url = os.environ["DATABASE_URL"].rpartition("/")[0] + "/" + connection.settings_dict["NAME"]
    with psycopg.connect(url) as other:
        other.execute("SELECT id FROM scheduler_job WHERE id = %s FOR NO KEY UPDATE", [successor.job_id])
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
            part_exited(part, exit_code=143, category="stopped", message="", at=ending.planned_at, actor="me")
            successor.refresh_from_db()
            assert successor.state == "planned"
            other.commit()
    successor.refresh_from_db()
    assert successor.state == "starting"


def test_what_waited_is_held_from_after_it_was_waited_for(db: None, monkeypatch: pytest.MonkeyPatch):
    """Its predecessor may be released meanwhile: nobody was there before that one was gone."""
    waited: list[datetime] = []

    def lock_late(job_ids: list[int], *, waits: bool) -> list[Job]:
        locked = lock_jobs(job_ids, waits=waits)
        waited.append(database_now())
        return locked

    monkeypatch.setattr(lifecycle, "lock_jobs", lock_late)
    successor = make_attempt(make_job(), gpus_of(make_node(gpus=1)), state="planned", phase="planned")
    lifecycle.promote_overdue()
    successor.allocation.refresh_from_db()
    assert successor.allocation.held_at >= waited[0]


def test_a_nominee_that_cannot_start_stops_neither_the_next_one_nor_the_round(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    node = make_node(gpus=2)
    broken, sound = [
        make_attempt(make_job(), [gpu], state="planned", phase="planned") for gpu in gpus_of(node)
    ]
    begin = lifecycle._begin

    def begin_sound(allocation_id: int, attempts: Sequence[Attempt], *, at: datetime) -> None:
        if allocation_id == broken.allocation_id:
            raise InvalidTransition("attempt", allocation_id, "planned", "promoted")
        begin(allocation_id, attempts, at=at)

    monkeypatch.setattr(lifecycle, "_begin", begin_sound)
    lifecycle.promote_overdue()
    phases = [Attempt.objects.get(id=each.id).state for each in (broken, sound)]
    assert phases == ["planned", "starting"]


def test_a_nominee_that_goes_while_it_is_looked_who_is_due_stops_no_round(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    """Who is nominated and who holds are two statements: a cancelled job may go between them."""
    attempt = make_attempt(make_job(), gpus_of(make_node(gpus=1)), state="planned", phase="planned")
    read = gpu_holds.holds_on

    def read_late(gpus: Collection[int]) -> GpuHolds:
        gpu_holds.release(attempt.allocation, at=database_now())
        return read(gpus)

    assert gpu_holds.overdue() == [attempt.allocation_id]
    monkeypatch.setattr(gpu_holds, "holds_on", read_late)
    assert gpu_holds.overdue() == []


def test_what_needs_two_predecessors_is_held_from_when_the_last_has_gone(db: None):
    """Whoever releases the other may have read the clock before the last was released, and be late."""
    first, second = make_node(gpus=1), make_node(gpus=1)
    leaving = [
        make_attempt(make_job(), gpus_of(node), state="stopping", stop_cause="preempted")
        for node in (first, second)
    ]
    gang = make_job(replicas=2)
    successor = make_attempt(gang, [*gpus_of(first), *gpus_of(second)], state="planned", phase="planned")
    now = database_now()
    for attempt, at in zip(leaving, (now, now - timedelta(seconds=5)), strict=True):
        part = attempt.parts.select_related("attempt__job", "attempt__allocation", "node").get()
        part_exited(part, exit_code=143, category="stopped", message="", at=at, actor="node left")
    successor.allocation.refresh_from_db()
    assert successor.allocation.held_at >= now


def test_a_round_starts_jobs_after_it_waited_for_what_it_changes(db: None, monkeypatch: pytest.MonkeyPatch):
    waited: list[datetime] = []
    lock_and_read = apply.lock_and_read

    def lock_late(*arguments: Any) -> Any:
        facts = lock_and_read(*arguments)
        waited.append(database_now())
        return facts

    monkeypatch.setattr(apply, "lock_and_read", lock_late)
    make_node(gpus=1)
    tenant = make_tenant()
    shared = make_vc("shared", members=[tenant], guaranteed={"V100": 1})
    job = make_job(tenant=tenant, virtual_cluster=shared)
    run_round()
    assert job.attempts.get().allocation.held_at >= waited[0]


def deadlock() -> OperationalError:
    error = OperationalError("deadlock detected")
    error.__cause__ = psycopg.errors.DeadlockDetected()
    return error


def test_the_victim_of_a_deadlock_tries_again():
    errors = [deadlock(), deadlock()]

    @repeated_on_deadlock
    def service() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert service() == "done"


@pytest.mark.parametrize("error", [OperationalError("the connection is closed"), deadlock()])
def test_what_does_not_pass_is_told(error):
    @repeated_on_deadlock
    def service() -> None:
        raise error

    with pytest.raises(OperationalError, match=str(error)):
        service()


@pytest.mark.django_db(transaction=True)
def test_a_cancel_that_meets_a_deadlock_is_carried_out(monkeypatch):
    job = make_job()
    failing = iter([deadlock()])

    locked = jobs.lock_jobs

    def lock_jobs(ids):
        for error in failing:
            raise error
        return locked(ids)

    monkeypatch.setattr(jobs, "lock_jobs", lock_jobs)
    job_cancel(job_id=job.id, actor="user ada")
    job.refresh_from_db()
    assert job.state == "cancelled"
