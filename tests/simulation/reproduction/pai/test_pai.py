"""PAI's queue by hand, and jobs that have the figures of its table."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.reproduction.pai.queue import PaiJob, run_queue
from benchmarks.reproduction.pai.workload import MEAN_SECONDS, estimates, make_jobs, scaled
from scheduler.core.perf.recurrence import APPLICATION, SIZE, USER
from scheduler.simulation.errors import InputError


def job(at: float, seconds: float, milligpus: int = 1_000, group: str = "a") -> PaiJob:
    return PaiJob(at, seconds, milligpus, "ada", group)


def test_the_lowest_rank_first_and_whoever_does_not_fit_is_passed() -> None:
    jobs = [job(0, 10), job(1, 50), job(1, 5), job(2, 3, 2_000), job(3, 4, 500)]
    # One GPU and a half: the part goes beside the first; the pair never fits until both have ended.
    with pytest.raises(InputError, match=r"job 3 asks for more than the 1\.5 GPUs"):
        run_queue(jobs, [0.0] * 5, 1_500)
    jobs.pop(3)
    assert run_queue(jobs, [each.seconds for each in jobs], 1_500) == [0, 14, 9, 0]
    assert run_queue(jobs, [0.0] * 4, 1_500) == [0, 9, 59, 0]


def test_jobs_have_the_published_mean_and_come_a_thousand_a_minute() -> None:
    jobs = scaled(make_jobs(5_000, gangs=0.1, seed=1))
    assert statistics.fmean([each.seconds for each in jobs]) == pytest.approx(MEAN_SECONDS, rel=0.001)
    assert jobs == scaled(make_jobs(5_000, gangs=0.1, seed=1))
    assert jobs[-1].submitted_at == pytest.approx(299.94)
    part = statistics.fmean([each.milligpus > 1_000 for each in jobs])
    assert 0.05 < part < 0.15


def test_estimates_are_of_past_jobs_that_are_alike() -> None:
    past = [job(0, 10), job(0, 20), job(0, 300, group="b"), job(0, 500, group="b"), job(0, 70, 250)]
    asked = [job(9, 1), job(9, 1, group="b"), job(9, 1, group="c"), job(9, 1)._replace(user="bob")]
    assert estimates(past, asked, (SIZE, APPLICATION, USER)) == [15, 400, 180, 180]
    assert estimates(past, asked, (USER,)) == [180] * 4


def test_the_finer_jobs_are_told_apart_the_shorter_all_wait() -> None:
    made = scaled(make_jobs(6_000, gangs=0.1, seed=2))
    past, jobs = made[:4_000], [each._replace(submitted_at=0.0) for each in made[4_000:]]
    known = {
        levels: statistics.fmean(run_queue(jobs, estimates(past, jobs, levels), 600_000))
        for levels in ((USER,), (APPLICATION, USER))
    }
    oracle = statistics.fmean(run_queue(jobs, [each.seconds for each in jobs], 600_000))
    fifo = statistics.fmean(run_queue(jobs, [0.0] * len(jobs), 600_000))
    assert oracle < known[APPLICATION, USER] < known[USER,] < fifo
