"""Whether solutions are optima, by the plain formulation: one check an objective, for many instances at once.

A check gets instances as the policy sees them, with the solutions, and raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from scheduler.core.solvers.instance import Instance
from scheduler.core.solvers.solution import Solution
from tests.core.solvers.exact import Array, Block, Exact, highest, optima, shares_of

#: How exact an optimum must be, relatively.
EXACT = 1e-6


@dataclass(frozen=True)
class Case:
    """A solution beside the plain formulation of what it solves."""

    label: str
    plain: Exact
    solution: Solution

    @property
    def jobs(self) -> Instance:
        return self.plain.instance

    @cached_property
    def shares(self) -> Array:
        return shares_of(self.solution, self.plain)

    @property
    def progress(self) -> Array:
        return self.plain.fair @ self.shares

    @property
    def throughput(self) -> Array:
        return self.plain.speed @ self.shares


Cases = Sequence[Case]


def equal(cases: Cases, wanted: Sequence[float]) -> None:
    for case, value in zip(cases, wanted, strict=True):
        found = case.solution.objective
        assert abs(found - value) <= EXACT * max(abs(value), 1e-12), (case.label, found, value)


def sums(cases: Cases, coefficients: Callable[[Case], Array]) -> list[float]:
    return optima([Block(coefficients(case), case.plain.A, case.plain.b) for case in cases])


def max_min(cases: Cases) -> None:
    blocks = []
    for case in cases:
        claims = case.jobs.weight > 0
        rows, pace = case.plain.fair[claims], case.jobs.weight[claims]
        blocks.append(highest(case.plain, rows, np.zeros(len(rows)), pace))
    equal(cases, optima(blocks))


def makespan(cases: Cases) -> None:
    blocks = [
        highest(
            case.plain,
            case.plain.speed / case.jobs.steps_left[:, None],
            np.zeros(case.jobs.jobs),
            np.ones(case.jobs.jobs),
        )
        for case in cases
    ]
    equal(cases, [1 / height for height in optima(blocks)])


def fifo(cases: Cases) -> None:
    def coefficients(case: Case) -> Array:
        jobs = case.jobs
        later = np.array(
            [
                sum(
                    (-jobs.age_seconds[other], other) >= (-jobs.age_seconds[job], job)
                    for other in range(jobs.jobs)
                )
                for job in range(jobs.jobs)
            ]
        )
        return (later / jobs.throughput.max(axis=1)) @ case.plain.speed

    equal(cases, sums(cases, coefficients))


def max_sum_throughput(cases: Cases) -> None:
    equal(cases, sums(cases, lambda case: case.plain.speed.sum(axis=0)))


def throughput_per_cost(cases: Cases) -> None:
    def coefficients(case: Case) -> Array:
        price = np.array([case.jobs.price[model] for _, _, model in case.plain.names])
        return case.plain.speed.sum(axis=0) / price

    equal(cases, sums(cases, coefficients))


def finish_time_fairness(cases: Cases) -> None:
    """A rho a millionth smaller is not possible, and the solution has the one it says."""
    blocks = []
    for case in cases:
        jobs = case.jobs
        part = np.where(jobs.throughput > 0, jobs.gpus / (jobs.jobs * jobs.gang[:, None]), 0.0)
        part /= np.maximum(part.sum(axis=1, keepdims=True), 1.0)
        alone = jobs.isolated_seconds + jobs.steps_left / (part * jobs.throughput).sum(axis=1)
        rho = case.solution.objective
        reached = ((jobs.age_seconds + jobs.steps_left / case.throughput) / alone).max()
        assert abs(rho - reached) <= EXACT * rho, case.label
        left = rho * (1 - EXACT) * alone - jobs.age_seconds
        # Somebody who would have to be done already makes it impossible by himself.
        needed = jobs.steps_left / np.maximum(left, 1e-9 * alone)
        blocks.append(
            highest(case.plain, case.plain.speed / needed[:, None], np.zeros(jobs.jobs), np.ones(jobs.jobs))
        )
    for case, height in zip(cases, optima(blocks), strict=True):
        assert height < 1, (case.label, height)


def min_cost(cases: Cases, *, slo: bool = False) -> None:
    """No shares that keep the same SLOs do a millionth better per money; and no SLO is missed in vain."""
    needs = [slo_needs(case) if slo else np.zeros(case.jobs.jobs) for case in cases]
    least_missing(cases, needs)
    blocks = []
    for case, needed in zip(cases, needs, strict=True):
        shares = case.shares
        ratio = case.plain.speed.sum(axis=0) @ shares / (case.plain.price @ shares)
        assert abs(3600 * ratio - case.solution.objective) <= EXACT * 3600 * ratio, case.label
        gain = case.plain.speed.sum(axis=0) / ratio - (1 + EXACT) * case.plain.price
        floor = np.minimum(needed, case.throughput)
        A = np.vstack([case.plain.A, -case.plain.speed])
        blocks.append(Block(gain, A, np.concatenate([case.plain.b, -floor * (1 - 1e-9)])))
    for case, gain in zip(cases, optima(blocks), strict=True):
        assert gain <= EXACT, (case.label, gain)


def min_cost_slo(cases: Cases) -> None:
    min_cost(cases, slo=True)


def slo_needs(case: Case) -> Array:
    jobs = case.jobs
    return np.where(jobs.slo_seconds > 0, jobs.steps_left / jobs.slo_seconds, 0.0)


def least_missing(cases: Cases, needs: Sequence[Array]) -> None:
    blocks, missing = [], []
    for case, needed in zip(cases, needs, strict=True):
        wanted = needed > 0
        rows = case.plain.speed[wanted] / needed[wanted, None]
        count = len(rows)
        A = np.block([[case.plain.A, np.zeros((len(case.plain.A), count))], [-rows, -np.eye(count)]])
        c = np.concatenate([np.zeros(len(case.plain.names)), -np.ones(count)])
        blocks.append(Block(c, A, np.concatenate([case.plain.b, -np.ones(count)])))
        short = np.maximum(0.0, 1 - case.throughput[wanted] / needed[wanted])
        missing.append(short.sum())
        assert set(case.solution.missed) == set(np.flatnonzero(wanted)[short > EXACT]), case.label
    for case, least, found in zip(cases, optima(blocks), missing, strict=True):
        assert found <= -least + EXACT * max(1.0, -least), (case.label, found, least)


def proportional_fairness(cases: Cases) -> None:
    """Not even with the logarithm replaced by tangents, which lie above it, is there more to be had."""
    blocks = []
    # Dense where the solution is, so that the tangents are no more than a millionth above it there.
    apart = np.sinh(np.linspace(-9, 9, 31)) / 1000
    for case in cases:
        claims = case.jobs.weight > 0
        weight = case.jobs.weight[claims] / case.jobs.weight.sum()
        progress, rows = case.progress[claims], case.plain.fair[claims]
        mean = np.exp((weight * np.log(progress)).sum())
        assert abs(case.solution.objective - mean) <= EXACT * mean, case.label
        tangents, upper = (
            [np.hstack([case.plain.A, np.zeros((len(case.plain.A), len(rows)))])],
            [case.plain.b],
        )
        for by in np.exp(apart):
            # The variable is the logarithm of the gain over the solution, and 20 more to be positive.
            tangents.append(np.hstack([-rows / (progress * by)[:, None], np.eye(len(rows))]))
            upper.append(np.full(len(rows), np.log(by) - 1 + 20))
        c = np.concatenate([np.zeros(rows.shape[1]), weight])
        blocks.append(Block(c, np.vstack(tangents), np.concatenate(upper)))
    for case, gain in zip(cases, optima(blocks), strict=True):
        assert gain - 20 <= EXACT, (case.label, gain)


def water_filling(cases: Cases) -> None:
    """Nobody can have more without somebody having less who has no more than him."""
    blocks, owners = [], []
    for case in cases:
        progress, weight = case.progress, case.jobs.weight
        level = np.where(weight > 0, progress / np.where(weight > 0, weight, 1.0), np.inf)
        for job in np.flatnonzero(weight > 0):
            # A little more counts as no more: the solver's error is as large for a job with hardly anything.
            poorer = (level <= level[job] * (1 + 1e-4)) & (np.arange(len(level)) != job)
            rows = case.plain.fair[poorer]
            blocks.append(
                Block(
                    case.plain.fair[job],
                    np.vstack([case.plain.A, -rows]),
                    np.concatenate([case.plain.b, -progress[poorer] * (1 - 1e-9)]),
                )
            )
            owners.append((case, job, progress[job]))
    for (case, job, has), could in zip(owners, optima(blocks), strict=True):
        assert could <= has + 10 * EXACT * max(has, 1.0), (case.label, job, has, could)


def hierarchical(cases: Cases, *, in_turn: bool = False) -> None:
    """Fill step by step; who cannot rise is found by trying to raise each job by itself."""
    done: list[Array] = [np.zeros(case.jobs.jobs) for case in cases]
    ended = [np.zeros(case.jobs.jobs, dtype=bool) for case in cases]
    while True:
        paces = [entity_paces(case.jobs, stand, in_turn) for case, stand in zip(cases, ended, strict=True)]
        going = [number for number, pace in enumerate(paces) if pace.any()]
        if not going:
            break
        heights = optima(
            [highest(cases[n].plain, cases[n].plain.fair, done[n] * (1 - 1e-8), paces[n]) for n in going]
        )
        trials, owners = [], []
        for number, height in zip(going, heights, strict=True):
            plain = cases[number].plain
            done[number] = done[number] + paces[number] * max(height, 0.0)
            for job in np.flatnonzero(paces[number] > 0):
                A = np.vstack([plain.A, -plain.fair])
                trials.append(
                    Block(plain.fair[job], A, np.concatenate([plain.b, -done[number] * (1 - 1e-8)]))
                )
                owners.append((number, job))
        for (number, job), could in zip(owners, optima(trials), strict=True):
            ended[number][job] = could <= done[number][job] + EXACT
    for case, progress in zip(cases, done, strict=True):
        claims = case.jobs.weight > 0
        assert np.allclose(case.progress[claims], progress[claims], rtol=1e-5, atol=1e-5), (
            case.label, case.progress, progress,
        )  # fmt: skip


def hierarchical_fifo(cases: Cases) -> None:
    hierarchical(cases, in_turn=True)


def entity_paces(jobs: Instance, ended: Array, in_turn: bool) -> Array:
    pace = np.zeros(jobs.jobs)
    for entity in set(jobs.entity.tolist()):
        rising = [
            job
            for job in range(jobs.jobs)
            if jobs.entity[job] == entity and not ended[job] and jobs.weight[job] > 0
        ]
        if in_turn and rising:
            rising = [min(rising, key=lambda job: (-jobs.age_seconds[job], job))]
        total = 1.0 if in_turn else jobs.weight[rising].sum()
        for job in rising:
            pace[job] = jobs.entity_weight[entity] * (1.0 if in_turn else jobs.weight[job] / total)
    return pace


def shortest_job(cases: Cases) -> None:
    """Every order of models is tried for every job, and the one that is done first is served."""
    for case in cases:
        jobs = case.jobs
        left, waiting, progress = jobs.gpus.copy(), set(range(jobs.jobs)), np.zeros(jobs.jobs)
        first = None
        while waiting:
            offers = {job: fastest(jobs, job, left) for job in waiting}
            able = [job for job in waiting if offers[job][0] > 1e-9]
            if not able:
                break
            chosen = min(
                able,
                key=lambda job: (
                    round(jobs.steps_left[job] / offers[job][0], 9),
                    -jobs.age_seconds[job],
                    job,
                ),
            )
            rate, shares = offers[chosen]
            first = first or jobs.steps_left[chosen] / rate
            progress[chosen] = rate
            left = left - shares * jobs.gang[chosen]
            waiting.remove(chosen)
        equal([case], [first or np.inf])
        assert (case.throughput >= progress * (1 - EXACT) - 1e-9).all(), case.label


def fastest(jobs: Instance, job: int, left: Array) -> tuple[float, Array]:
    best = (0.0, np.zeros(len(left)))
    for order in permutations(range(len(left))):
        shares, time = np.zeros(len(left)), 1.0
        for model in order:
            if jobs.throughput[job, model] > 0:
                shares[model] = max(0.0, min(time, left[model] / jobs.gang[job]))
                time -= shares[model]
        rate = float(shares @ jobs.throughput[job])
        if rate > best[0] + 1e-12:
            best = (rate, shares)
    return best
