"""Every objective's optimum against the plain formulation, on instances of all kinds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from scheduler.core.allocation import levels
from scheduler.core.allocation.instance import Instance, blind
from scheduler.core.allocation.objective import progress_of
from scheduler.core.allocation.solving import OBJECTIVES, solve
from tests.core.allocation import optimality
from tests.core.allocation.exact import Exact, exact
from tests.core.allocation.instances import large_instance, random_instance
from tests.core.allocation.optimality import Case

#: Aware, agnostic and with pairs in turn.
MODES = ("aware", "agnostic", "sharing")


def cases(objective: str, seeds: range, jobs: int = 5) -> list[Case]:
    goal = OBJECTIVES[objective]()
    found = []
    for seed in seeds:
        mode = MODES[seed % len(MODES)]
        aware, sharing = mode != "agnostic", mode == "sharing" and goal.shares_gpus
        plain, instance = plainly(seed, jobs, sharing, None if aware else goal.agnostic_to_speed)
        case = Case(
            f"{objective}, seed {seed}, {mode}",
            plain,
            solve(instance, objective, aware=aware, sharing=sharing),
        )
        check_shares(case)
        found.append(case)
    return found


@lru_cache(maxsize=2000)
def plainly(seed: int, jobs: int, sharing: bool, to_speed: bool | None) -> tuple[Exact, Instance]:
    """Return an instance, and the plain formulation of what a policy sees of it: blind to models, or not."""
    instance = random_instance(seed, pairs=sharing, jobs=jobs - 1 if sharing else jobs)
    return exact(instance if to_speed is None else blind(instance, to_speed=to_speed)), instance


def check_shares(case: Case) -> None:
    """Nobody is busy for more than all its time, no model has more GPUs busy than it has."""
    solution, plain = case.solution, case.plain
    shares = case.shares
    assert (shares >= 0).all(), case.label
    assert (plain.A @ shares <= plain.b * (1 + 1e-9) + 1e-12).all(), case.label
    assert (solution.shares.sum(axis=1) <= 1 + 1e-9).all(), case.label
    assert (solution.used <= solution.instance.gpus * (1 + 1e-9) + 1e-12).all(), case.label
    assert not solution.shares[solution.instance.throughput == 0].any(), case.label
    if case.jobs.throughput is solution.instance.throughput:
        assert np.allclose(plain.speed @ shares, solution.throughput, rtol=1e-9), case.label


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_is_the_optimum(objective: str) -> None:
    getattr(optimality, objective)(cases(objective, range(201)))


@pytest.mark.parametrize(
    "objective", ["finish_time_fairness", "hierarchical", "makespan", "max_min", "shortest_job"]
)
def test_prices_lead_to_the_same_optimum(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What large problems are solved by must be as exact on small ones, where it is not used."""
    monkeypatch.setattr(levels, "PRICES_FROM", 1)
    getattr(optimality, objective)(cases(objective, range(60)))


@pytest.mark.parametrize("objective", ["finish_time_fairness", "makespan", "max_min", "water_filling"])
def test_large_problems_have_the_same_optimum_by_prices(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = large_instance(350)
    monkeypatch.setattr(levels, "PRICES_FROM", 10**9)
    in_one = solve(instance, objective)
    monkeypatch.setattr(levels, "PRICES_FROM", 300)
    monkeypatch.setattr(levels, "suppress", lambda error: nullcontext())
    by_prices = solve(instance, objective)
    assert by_prices.groups == 350
    assert by_prices.objective == pytest.approx(in_one.objective, rel=1e-6)
    assert progress_of(instance, by_prices.throughput).sum() == pytest.approx(
        progress_of(instance, in_one.throughput).sum(), rel=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 500))
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_is_the_optimum_on_many_more(objective: str, start: int) -> None:
    getattr(optimality, objective)(cases(objective, range(start, start + 500), jobs=6))


def test_the_checks_notice_what_is_no_optimum() -> None:
    """A solution that is a hundredth worse passes no check."""
    for objective in OBJECTIVES:
        for case in cases(objective, range(8)):
            worse = replace(
                case.solution, alone=case.solution.alone * 0.99, objective=case.solution.objective * 0.99
            )
            with pytest.raises(AssertionError):
                getattr(optimality, objective)([replace(case, solution=worse)])
