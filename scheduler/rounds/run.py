"""One round: snapshot, decide, apply. Two short transactions, with the decision between them.

Its number identifies the round, and is the fence that keeps an overtaken round from writing.
"""

import atexit
import logging
import time
from collections.abc import Mapping
from functools import cache

from django.conf import settings
from django.db import connection, transaction

from scheduler.core.building_blocks.computing import Timekeeper
from scheduler.core.model import codec
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.gc_paused import gc_paused
from scheduler.core.round.rounds import Rounds
from scheduler.jobs.attempts.services.lifecycle import promote_overdue
from scheduler.jobs.services.dependencies import dependencies_settle
from scheduler.models.rounds import Round, RoundState
from scheduler.rounds.apply import ApplyOutcome, apply_plan
from scheduler.rounds.circuit_breaker import CircuitBreaker
from scheduler.rounds.snapshot import read_for_round
from scheduler.rounds.solver import Budget, Limits, Solver
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_account, request_forecast, request_round_at
from scheduler.wiring.watchdog import within_budget
from tenants.after_commit import after_commit

log = logging.getLogger(__name__)


class FenceError(Exception):
    """Another round has overtaken this one, whose decision is dropped."""


def take_number() -> int | None:
    """Start a round: return its number, or None while another one is being decided."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduler_leadership AS held (id, number, expires_at)"
            " VALUES (1, 1, clock_timestamp() + make_interval(secs => %s))"
            " ON CONFLICT (id) DO UPDATE SET number = held.number + 1, expires_at = EXCLUDED.expires_at"
            " WHERE held.expires_at IS NULL OR held.expires_at < clock_timestamp()"
            " RETURNING number",
            [settings.CONFIG.round_lease_seconds],
        )
        row = cursor.fetchone()
    return None if row is None else row[0]


def hold_fence(number: int) -> None:
    """Lock the leadership row for this transaction; raise FenceError when the number is no longer ours.

    The right to decide is given back in the same transaction: what the round writes and the right to start
    the next one become visible together.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM scheduler_leadership WHERE id = 1 FOR UPDATE")
        (current,) = cursor.fetchone()
        if current != number:
            raise FenceError(f"round {number} was overtaken by round {current}")
        cursor.execute("UPDATE scheduler_leadership SET expires_at = NULL WHERE id = 1")


def renew_fence(number: int) -> None:
    """Renew the lease of the round; raise FenceError when the number is no longer ours."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_leadership SET expires_at = clock_timestamp() + make_interval(secs => %s)"
            " WHERE id = 1 AND number = %s",
            [settings.CONFIG.round_lease_seconds, number],
        )
        if cursor.rowcount != 1:
            raise FenceError(f"round {number} was overtaken while a view took too long")


def give_up(number: int) -> None:
    """Give the right to decide back after a failure, unless another round has taken it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_leadership SET expires_at = NULL WHERE id = 1 AND number = %s", [number]
        )


@cache
def solver() -> Solver:
    """Return the solver of this process; its child starts when a policy first computes."""
    config = settings.CONFIG
    made = Solver(
        Limits(
            start_seconds=config.solver_start_seconds,
            memory_bytes=config.solver_memory_bytes,
            recycle_calls=config.solver_recycle_calls,
            recycle_bytes=config.solver_recycle_bytes,
        )
    )
    # A command that ends takes its child along; in workers that Celery forks off, `tasks.end_solver` does.
    atexit.register(made.close)
    return made


@cache
def rounds() -> Rounds:
    """Return what decides the rounds of this process; other processes may decide those in between."""
    return Rounds(settings.CONFIG.round_compared_every)


def run_round() -> int | None:
    """Run a round and return its number; None when another one is under way."""
    number = take_number()
    if number is None:
        return None
    try:
        _run(number)
    except FenceError as fenced:
        log.warning("%s; nothing was written", fenced)
        _record_end(number, RoundState.FENCED, str(fenced))
    except Exception as error:
        # The edge of a round: whatever went wrong, the next one must be able to start.
        log.exception("round %d failed", number)
        give_up(number)
        _record_end(number, RoundState.FAILED, f"{type(error).__name__}: {error}")
    return number


@gc_paused()
def _run(number: int) -> None:
    promote_overdue()
    dependencies_settle()
    began = time.perf_counter()
    snapshot, left_out, having_ports = read_for_round(number)
    circuit_breaker = CircuitBreaker(snapshot)
    if circuit_breaker.expects_computations:
        solver().warm_up()
    read = time.perf_counter()
    try:
        plan, budget = _decided(snapshot, circuit_breaker.skipped, circuit_breaker)
    except PlanError as error:
        # A fault of ours, and nothing says of which view. It must not keep all of them from their GPUs.
        log.exception("round %d: the plan breaks a rule, and the cheap policy decides for all views", number)
        set_aside = circuit_breaker.set_aside(f"the plan of all views together breaks a rule: {error}")
        plan, budget = _decided(snapshot, set_aside, circuit_breaker)
    decided = time.perf_counter()
    try:
        stored_plan = codec.dumps_plan(plan)
    except Exception:
        unstorable = codec.unstorable_views(plan)
        if not unstorable:
            raise
        plan, budget = _decided(snapshot, {**unstorable, **circuit_breaker.skipped}, circuit_breaker)
        stored_plan = codec.dumps_plan(plan)
    stored = codec.dumps_snapshot(snapshot), stored_plan
    difference = rounds().difference
    if difference:
        log.error("round %d: the engine kept from earlier rounds was wrong: %s", number, difference)
    with transaction.atomic():
        hold_fence(number)
        # Registered first, so called first: the clock stops before pages and agents are notified.
        after_commit(
            lambda: _write_timings(
                number,
                snapshot_seconds=read - began,
                decide_seconds=decided - read,
                apply_seconds=time.perf_counter() - decided,
            )
        )
        applied = apply_plan(snapshot, plan, left_out, having_ports)
        circuit_breaker.write(plan, budget, at=applied.at)
        _record(plan, stored, applied, waiting=len(plan.reasons) + len(left_out), difference=difference)
        if plan.reasons:
            after_commit(request_forecast)
        after_commit(request_account)
        if plan.wake_at is not None and plan.wake_at > snapshot.now:
            after_commit(
                request_round_at,
                plan.wake_at,
                now=applied.at.timestamp(),
                took_seconds=time.perf_counter() - began,
            )
    for view, problem in plan.degraded.items():
        # Reported once for each attempt, not in every round without one.
        if view not in circuit_breaker.skipped:
            log.error("round %d: view %s is degraded: %s", number, view, problem)


def _decided(
    snapshot: Snapshot, overran: Mapping[str, str], circuit_breaker: CircuitBreaker
) -> tuple[Plan, Budget]:
    """Return the plan, and the times of its computations, from the attempt that was in time."""

    def attempt(timekeeper: Timekeeper, overran: Mapping[str, str]) -> tuple[Plan, Budget]:
        budget = Budget(solver(), settings.CONFIG.solver_budget_seconds)
        return rounds().decide(snapshot, budget, overran, timekeeper), budget

    return within_budget(
        attempt,
        overran,
        renew=lambda: renew_fence(snapshot.round_number),
        crowded_out=circuit_breaker.crowd_out,
    )


def _write_timings(number: int, **seconds: float) -> None:
    Round.objects.filter(number=number).update(**seconds)


def _record(
    plan: Plan, stored: tuple[bytes, bytes], applied: ApplyOutcome, *, waiting: int, difference: str
) -> None:
    Round.objects.create(
        number=plan.round_number,
        started_at=applied.at,
        state=RoundState.APPLIED,
        started=applied.started,
        kept=applied.kept,
        stopped=applied.stopped,
        moved=applied.moved,
        waiting=waiting,
        dropped=applied.dropped,
        degraded=dict(plan.degraded),
        error=difference and f"An engine kept from earlier rounds was wrong and is replaced: {difference}",
        snapshot=stored[0],
        plan=stored[1],
    )


def _record_end(number: int, state: RoundState, error: str) -> None:
    """Record a round of which nothing was carried out."""
    Round.objects.get_or_create(
        number=number,
        defaults={"started_at": database_now(), "state": state, "error": error[:2_000]},
    )
