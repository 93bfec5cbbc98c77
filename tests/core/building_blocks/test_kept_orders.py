"""What is kept of a view from round to round is what would be made from its jobs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduler.core.building_blocks.kept_orders import FEW_CHANGE, Ends, RankedLine, WaitingLine
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import Job, JobId, Running
from tests.builders import NOW, make_job, make_node, make_running


def as_read(line: WaitingLine) -> tuple[list[JobId], dict[object, list[JobId]]]:
    return line.jobs, {kind: row.between(0) for kind, row in line.by_kind.items()}


@pytest.mark.parametrize("seed", range(20))
def test_a_line_that_is_kept_is_the_line_of_those_who_wait(seed: int) -> None:
    cluster = Cluster([make_node(1)], ("node", "rack"))
    dice, kept, waiting = random.Random(seed), WaitingLine(cluster), dict[JobId, Job]()
    for step in range(300):
        if step == 10 * seed:
            # From now on they are kept by kind as well.
            assert sum([len(row.ranks) for row in kept.by_kind.values()]) == len(waiting)
        number = JobId(dice.randrange(1, 40))
        if dice.random() < 0.4:
            waiting.pop(number, None)
            kept.drop(number)
        else:
            job = make_job(
                number,
                dice.choice((1, 2, 8)),
                priority=dice.randrange(3),
                submitted_at=NOW + dice.randrange(5),
                time_limit_seconds=dice.choice((None, 60.0)),
            )
            waiting[number] = job
            kept.put(job)
    assert as_read(kept) == as_read(WaitingLine(cluster, waiting.values()))
    expected = sorted(waiting.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    assert kept.jobs == [job.id for job in expected]
    assert sorted(job for row in kept.by_kind.values() for job in row.between(0)) == sorted(waiting)


@pytest.mark.parametrize("seed", range(20))
def test_a_ranked_line_that_is_kept_ranks_only_jobs_that_changed(seed: int) -> None:
    dice, kept, waiting = random.Random(seed), RankedLine("terms"), dict[JobId, Job]()
    ranked = 0

    def rank(job: Job) -> tuple[int, float, JobId]:
        nonlocal ranked
        ranked += 1
        return -job.gpus, job.submitted_at, job.id

    for _ in range(60):
        changed = set()
        for _ in range(dice.choice((0, 1, 3, 30))):
            number = JobId(dice.randrange(1, 100))
            changed.add(number)
            kept.note(number)
            if dice.random() < 0.3:
                waiting.pop(number, None)
            else:
                waiting[number] = make_job(
                    number, dice.choice((1, 2, 8)), submitted_at=NOW + dice.randrange(5)
                )
        ranked, many = 0, not kept.ranked or len(changed) * FEW_CHANGE > len(waiting)
        kept.renew(waiting, rank)
        assert ranked == (len(waiting) if many else len(changed & waiting.keys()))
        assert kept.jobs == sorted(waiting.values(), key=rank)
        assert kept.ranks == {number: rank(job) for number, job in waiting.items()}


def plain_ends(
    there: dict[JobId, tuple[Running, Holding]], jobs: dict[JobId, Job], now: float
) -> list[tuple[float, Holding]]:
    ends = []
    for number, (running, holding) in there.items():
        limit = jobs[number].time_limit_seconds
        since = now if running.is_nominated else running.since
        ends.append((since + (500.0 if limit is None else limit), holding))
    return sorted([(max(at, now), holding) for at, holding in ends], key=lambda end: end[0])


@pytest.mark.parametrize("seed", range(20))
def test_ends_that_are_kept_are_those_of_who_runs(seed: int) -> None:
    dice, kept = random.Random(seed), Ends(500.0, (), {})
    there: dict[JobId, tuple[Running, Holding]] = {}
    jobs: dict[JobId, Job] = {}
    for step in range(200):
        number = JobId(dice.randrange(1, 30))
        if number in there and dice.random() < 0.5:
            kept.drop(there.pop(number)[0])
        elif number in there:
            # It has another limit now, and keeps its place among equals.
            jobs[number] = replace(jobs[number], time_limit_seconds=float(dice.randrange(1, 9) * 100))
            kept.put(*there[number], jobs)
        else:
            limit = dice.choice((None, 100.0, 200.0))
            jobs[number] = make_job(number, 1, time_limit_seconds=limit)
            running = make_running(
                number, [step + 1], since=NOW + dice.randrange(4) * 100, phase=dice.choice(PHASES)
            )
            there[number] = running, Holding("V100", 1, (), running)
            kept.put(*there[number], jobs)
        now = NOW + step
        ends = list(kept.in_order(now))
        assert sorted(ends, key=_number) == sorted(plain_ends(there, jobs, now), key=_number)
        assert ends == sorted(ends, key=lambda end: end[0])
        held = [
            at for at, holding in ends if at > now and holding.running and holding.running.phase == "held"
        ]
        assert kept.next_after(now) == min(held, default=None)
        made = Ends(500.0, [holding for _, holding in there.values()], jobs)
        assert sorted(made.in_order(now), key=_number) == sorted(ends, key=_number)
        assert made.next_after(now) == kept.next_after(now)


def _number(end: tuple[float, Holding]) -> int:
    assert end[1].running is not None
    return end[1].running.allocation


PHASES = ("held", "held", "held", "planned")
