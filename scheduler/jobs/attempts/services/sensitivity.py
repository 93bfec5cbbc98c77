"""The speed of a job's replicas by CPUs and memory, and what its gang has of these now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from scheduler.core.model.auxiliary import Sensitivity
from scheduler.jobs.attempts.services.cpu_trials import measured_on, trials_of
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job

#: What is marked on a curve.
NOW, PROPORTIONAL, BEST = MARKS = ("now", "proportional", "best")
#: What one replica has: CPUs, bytes of memory; 0: as much as there is.
_Amounts = Sequence[float]


def sensitivity_of_job(job: Job) -> dict[str, Any]:
    """Return it JSON-ready, for the tasks that state a curve or are measured."""
    newest = (
        Attempt.objects.filter(job=job, auxiliary__isnull=False)
        .select_related("allocation")
        .order_by("-number")
        .first()
    )
    share = newest.auxiliary if newest is not None else None
    tasks: list[dict[str, Any]] = []
    first = 0
    for stated, task in zip(job.specification.tasks, job.needs.tasks, strict=False):
        # An elastic gang, which has one task, may have another number of replicas now.
        end = first + task.replicas if len(job.needs.tasks) > 1 else None
        known = task.auto.sensitivity if task.auto is not None else Sensitivity()
        measured = None
        if stated.measures_cpus:
            # What its shape asks for during a trial is not its curve.
            known, measured = _measured(job, newest, known)
        if known != Sensitivity() or measured is not None:
            shown = _of_task(known, share, slice(first, end))
            tasks.append({"task": stated.name, **shown, "measured": measured})
        first += task.replicas
    return {"attempt": newest.number if newest is not None and tasks else None, "tasks": tasks}


def _measured(
    job: Job, newest: Attempt | None, known: Sensitivity
) -> tuple[Sensitivity, dict[str, Any] | None]:
    """Return the curve as far as it was found on the GPU model of the attempt, and from how many trials."""
    model = newest.allocation.gpu_model if newest is not None else ""
    row = measured_on(job, model)
    trials = trials_of(row) if row is not None and row.trials else None
    found = replace(known, by_cpus=trials.curve() if trials else ())
    done = len(trials.rates) if trials else 0
    return found, {"gpu_model": model, "trials": done, "is_over": bool(row and row.is_over)}


def _of_task(known: Sensitivity, share: Mapping[str, Any] | None, ranks: slice) -> dict[str, Any]:
    """Return its curves, with what the slowest replica has: the gang is as fast as that one."""
    pairs = [] if share is None else list(zip(share["replicas"], share["proportional"], strict=True))
    there = list(enumerate(pairs))[ranks]
    rank, (has, fair) = min(there, key=lambda each: _speed(known, each[1][0]), default=(0, (None, None)))
    marked = tuple(zip(MARKS, (has, fair, known.best()), strict=True))
    return {
        "by_cpus": _curve(Sensitivity(by_cpus=known.by_cpus), known.by_cpus, 0, marked),
        "by_memory": _curve(Sensitivity(by_memory=known.by_memory), known.by_memory, 1, marked),
        NOW: has and _point(known, rank, has),
        PROPORTIONAL: fair and _point(known, rank, fair),
    }


def _curve(
    alone: Sensitivity,
    stated: Sequence[tuple[float, float]],
    axis: int,
    marked: Sequence[tuple[str, Sequence[float | None] | None]],
) -> list[dict[str, Any]]:
    """Return the stated points, the marked amounts, and amount 0."""
    if not stated:
        return []
    marks: dict[float, list[str]] = {0.0: [], **{amount: [] for amount, _ in stated}}
    for name, amounts in marked:
        # Without a limit the amount is beyond all stated points.
        if amounts is not None and (amount := amounts[axis]):
            marks.setdefault(amount, []).append(name)
    return [
        {"amount": amount, "speed": alone.speed(amount, amount), "marks": marks[amount]}
        for amount in sorted(marks)
    ]


def _point(known: Sensitivity, rank: int, amounts: _Amounts) -> dict[str, Any]:
    cpus, memory = amounts
    return {"rank": rank, "cpus": cpus, "memory_bytes": memory, "speed": _speed(known, amounts)}


def _speed(known: Sensitivity, amounts: _Amounts) -> float:
    cpus, memory = amounts
    return known.speed(cpus or inf, memory or inf)
