"""Every objective's optimum against the plain formulation, on instances of all kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.allocation.instance import blind
from scheduler.core.allocation.solving import OBJECTIVES, solve
from tests.core.allocation import optimality
from tests.core.allocation.exact import exact
from tests.core.allocation.instances import random_instance
from tests.core.allocation.optimality import Case

#: Aware, agnostic and with pairs in turn.
MODES = ("aware", "agnostic", "sharing")


def cases(objective: str, seeds: range) -> list[Case]:
    goal = OBJECTIVES[objective]()
    found = []
    for seed in seeds:
        mode = MODES[seed % len(MODES)]
        sharing = mode == "sharing" and goal.shares_gpus
        instance = random_instance(seed, pairs=sharing, jobs=4 if sharing else 6)
        solution = solve(instance, objective, aware=mode != "agnostic", sharing=sharing)
        believed = instance if mode != "agnostic" else blind(instance, to_speed=goal.agnostic_to_speed)
        case = Case(f"{objective}, seed {seed}, {mode}", exact(believed), solution)
        check_shares(case)
        found.append(case)
    return found


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


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 500))
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_is_the_optimum_on_many_more(objective: str, start: int) -> None:
    getattr(optimality, objective)(cases(objective, range(start, start + 500)))


def test_the_checks_notice_what_is_no_optimum() -> None:
    """A solution that is a hundredth worse passes no check."""
    for objective in OBJECTIVES:
        for case in cases(objective, range(8)):
            worse = replace(
                case.solution, alone=case.solution.alone * 0.99, objective=case.solution.objective * 0.99
            )
            with pytest.raises(AssertionError):
                getattr(optimality, objective)([replace(case, solution=worse)])
