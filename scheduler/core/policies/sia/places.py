"""The nodes on which each job gets the GPUs that the program gave it (Sia, SOSP'23, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.core.building_blocks.elastic.arrangement import NOWHERE, Row, arranged
from scheduler.core.building_blocks.elastic.pools import Pool, misplaced, pool_on
from scheduler.core.building_blocks.policy import View
from scheduler.core.model.snapshot import JobId


class Assignment:
    """The jobs of a view that the program decides about, and the GPUs of each model that it may give.

    Jobs that share GPUs, pinned jobs, and jobs on a model that the view may no longer hand out stay as they
    are.
    """

    def __init__(self, view: View, models: Sequence[str]) -> None:
        fixed = {job for unit in view.capacity.pinned for job in unit}
        fixed.update([job for held in view.running.values() if len(held.jobs) > 1 for job in held.jobs])
        for model in models:
            there = [view.jobs[job] for job, held in sorted(view.running.items()) if held.gpu_model == model]
            fixed |= misplaced(view, pool_on(view, model, [job for job in there if job.id not in fixed]))
        self.fixed = frozenset(fixed)
        self.jobs = tuple([view.jobs[job] for job in sorted(view.jobs) if job not in fixed])
        self.room = tuple([_limit(view, model) for model in models])


def _limit(view: View, model: str) -> int:
    pinned = sum(
        [
            held.gpus
            for unit, held in view.capacity.pending.items()
            if unit in view.capacity.pinned and held.model == model and len(unit) == 1
        ]
    )
    return max(pool_on(view, model, ()).limit - pinned, 0)


def places_of(view: View, gpus: Mapping[JobId, tuple[str, int]]) -> tuple[list[Pool], list[Sequence[Row]]]:
    """Return pools and the nodes of each of their jobs, given the model and the GPUs of each job.

    A job whose configuration is unchanged stays in place. So does a job that finds no room on its new model.
    """
    fixed = {
        job: (held.gpu_model, len(held.gpus))
        for job, held in view.running.items()
        if held.jobs == (job,) and held.jobs in view.capacity.pinned
    }
    given = {**gpus, **fixed}
    while True:
        pools, rows = [], []
        for model in sorted({model for model, _ in given.values()}):
            there = [job for job in sorted(given) if given[job][0] == model]
            pool = pool_on(view, model, [view.jobs[job] for job in there])
            pools.append(pool)
            rows.append(_rows(pool, [given[job][1] for job in there]))
        unplaced = {
            job.id: (view.running[job.id].gpu_model, len(view.running[job.id].gpus))
            for pool, places in zip(pools, rows, strict=True)
            for job, row in zip(pool.jobs, places, strict=True)
            if not row and job.id in view.running and view.running[job.id].gpu_model != pool.gpu_model
        }
        if not unplaced:
            return pools, rows
        given = {**given, **unplaced}


def _rows(pool: Pool, gpus: Sequence[int]) -> Sequence[Row]:
    """Return nodes for the gangs of a pool; smaller gangs move where more GPUs are used that way."""
    replicas = [each // gang.replica_gpus for each, gang in zip(gpus, pool.gangs, strict=True)]
    rows = arranged(pool.room, pool.gangs, replicas, limit=pool.limit)
    missing = _missing(pool, rows, replicas)
    if not any(missing):
        return rows
    largest = max([each for each, lack in zip(gpus, missing, strict=True) if lack])
    loose = [
        gang if gang.pinned or each >= largest else replace(gang, base=NOWHERE)
        for gang, each in zip(pool.gangs, gpus, strict=True)
    ]
    moved = arranged(pool.room, loose, replicas, limit=pool.limit)
    return moved if sum(_missing(pool, moved, replicas)) < sum(missing) else rows


def _missing(pool: Pool, rows: Sequence[Row], replicas: Sequence[int]) -> list[int]:
    return [
        (count - sum(row.values())) * gang.replica_gpus
        for gang, row, count in zip(pool.gangs, rows, replicas, strict=True)
    ]
