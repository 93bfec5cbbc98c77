"""One round: snapshot, decide, apply. Two short transactions with the thinking between them."""

import atexit
import logging
import time
from functools import cache, partial

from django.conf import settings
from django.db import transaction

from scheduler.attempts.services.lifecycle import promote_overdue
from scheduler.clock import database_now
from scheduler.core.model import codec
from scheduler.core.model.plan import Plan
from scheduler.core.round.decide import decide
from scheduler.core.round.gc_paused import gc_paused
from scheduler.rounds.apply import Applied, apply_plan
from scheduler.rounds.circuit_breaker import CircuitBreaker
from scheduler.rounds.leadership import Fenced, give_up, hold_fence, take_number
from scheduler.rounds.models import Round, RoundState
from scheduler.rounds.snapshot import read_snapshot
from scheduler.rounds.solver import Budget, Limits, Solver
from scheduler.wakeups import request_account, request_forecast, request_round_at

log = logging.getLogger(__name__)


@cache
def solver() -> Solver:
    """Return this process's: its child is made when a policy first computes."""
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


def run_round() -> int | None:
    """Run a round and return its number; None when another one is under way."""
    number = take_number()
    if number is None:
        return None
    try:
        _run(number)
    except Fenced as fenced:
        log.warning("%s; nothing was written", fenced)
    except Exception as error:
        # The edge of a round: whatever went wrong, the next one must be able to start.
        log.exception("round %d failed", number)
        give_up(number)
        _record_failure(number, error)
    return number


@gc_paused()
def _run(number: int) -> None:
    promote_overdue()
    began = time.perf_counter()
    snapshot = read_snapshot(number)
    circuit_breaker = CircuitBreaker(snapshot)
    if circuit_breaker.expects_computations:
        solver().warm_up()
    budget = Budget(solver(), settings.CONFIG.solver_budget_seconds)
    read = time.perf_counter()
    plan = decide(snapshot, budget, circuit_breaker.skipped)
    decided = time.perf_counter()
    stored = codec.dumps_snapshot(snapshot), codec.dumps_plan(plan)
    with transaction.atomic():
        hold_fence(number)
        # Asked for first, so called first: pages and agents are told after the clock is stopped.
        transaction.on_commit(
            lambda: _write_timings(
                number,
                snapshot_seconds=read - began,
                decide_seconds=decided - read,
                apply_seconds=time.perf_counter() - decided,
            )
        )
        applied = apply_plan(snapshot, plan)
        circuit_breaker.write(plan, budget, at=applied.at)
        _record(plan, stored, applied)
        if plan.reasons:
            # Robust: that a forecast is not made must not fail what was committed.
            transaction.on_commit(request_forecast, robust=True)
        transaction.on_commit(request_account, robust=True)
        if plan.wake_at is not None and plan.wake_at > snapshot.now:
            wake = partial(
                request_round_at,
                plan.wake_at,
                now=applied.at.timestamp(),
                took_seconds=time.perf_counter() - began,
            )
            transaction.on_commit(wake, robust=True)
    for view, problem in plan.degraded.items():
        # Said once for each attempt, and not in every round that does without one.
        if view not in circuit_breaker.skipped:
            log.error("round %d: view %s is degraded: %s", number, view, problem)


def _write_timings(number: int, **seconds: float) -> None:
    Round.objects.filter(number=number).update(**seconds)


def _record(plan: Plan, stored: tuple[bytes, bytes], applied: Applied) -> None:
    Round.objects.create(
        number=plan.round_number,
        started_at=applied.at,
        state=RoundState.APPLIED,
        started=applied.started,
        kept=applied.kept,
        stopped=applied.stopped,
        waiting=len(plan.reasons),
        dropped=applied.dropped,
        degraded=dict(plan.degraded),
        snapshot=stored[0],
        plan=stored[1],
    )


def _record_failure(number: int, error: Exception) -> None:
    Round.objects.get_or_create(
        number=number,
        defaults={
            "started_at": database_now(),
            "state": RoundState.FAILED,
            "error": f"{type(error).__name__}: {error}"[:2_000],
        },
    )
