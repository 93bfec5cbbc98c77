"""Every objective's optimum against the plain formulation, on instances of all kinds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from unittest.mock import Mock

import numpy as np
import pytest

from scheduler.core.solvers import interior, levels
from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.frame import best_shares
from scheduler.core.solvers.instance import Instance, blind
from scheduler.core.solvers.objective import progress_of
from scheduler.core.solvers.solution import Solution
from scheduler.core.solvers.solving import OBJECTIVES, solve
from tests.core.solvers import optimality
from tests.core.solvers.exact import Exact, exact
from tests.core.solvers.instances import FLAVOURS, large_instance, random_instance
from tests.core.solvers.optimality import Case
from tests.effort import first_every_day

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
    """On instances of every flavour in every mode, one of each; a slow test has many more."""
    getattr(optimality, objective)(cases(objective, range(len(FLAVOURS) * len(MODES))))


@pytest.mark.parametrize(
    "objective",
    first_every_day(["hierarchical", "makespan", "finish_time_fairness", "max_min", "shortest_job"], 2),
)
def test_the_way_inside_leads_to_the_same_optimum(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What larger problems are solved by must be as exact on small ones, where it is not used."""
    monkeypatch.setattr(levels, "INSIDE_FROM", 1)
    getattr(optimality, objective)(cases(objective, range(60)))


@pytest.mark.parametrize("objective", ["finish_time_fairness", "makespan", "max_min", "water_filling"])
def test_large_problems_have_the_same_optimum_from_inside(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = large_instance(350)
    in_one = solve_by_rows(instance, objective, monkeypatch)
    monkeypatch.setattr(levels, "suppress", lambda error: nullcontext())
    inside = solve(instance, objective)
    assert inside.groups == 350
    assert inside.objective == pytest.approx(in_one.objective, rel=1e-6)
    assert progress_of(instance, inside.throughput).sum() == pytest.approx(
        progress_of(instance, in_one.throughput).sum(), rel=1e-6
    )


def solve_by_rows(instance: Instance, objective: str, monkeypatch: pytest.MonkeyPatch) -> Solution:
    with monkeypatch.context() as patch:
        patch.setattr(levels, "INSIDE_FROM", 10**9)
        patch.setattr(levels, "FAIR_INSIDE_FROM", 10**9)
        return solve(instance, objective)


@pytest.mark.parametrize("jobs", first_every_day([130, 45]))
@pytest.mark.parametrize("busy", [0.3, 4.0])
def test_where_no_two_jobs_are_alike_few_steps_lead_to_the_optimum(
    jobs: int, busy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is that of the steps, whose number must not grow with the jobs: no program over all jobs."""
    dice = np.random.default_rng(jobs)
    instance = checked_instance(
        throughput=dice.uniform(0.1, 1, (jobs, 3)) * [3, 2, 1],
        gpus=[max(8, int(jobs / busy / 3))] * 3,
        gang=dice.choice([1, 2, 8], jobs),
        weight=dice.choice([1.0, 5.0], jobs),
    )
    by_rows = solve_by_rows(instance, "max_min", monkeypatch)
    steps, step = [0], interior._Path.step

    def counted(path: interior._Path) -> None:
        steps[0] += 1
        step(path)

    monkeypatch.setattr(interior._Path, "step", counted)
    monkeypatch.setattr(levels, "best_shares", None)
    inside = solve(instance, "max_min")
    assert 0 < steps[0] <= 24
    assert inside.objective == pytest.approx(by_rows.objective, rel=1e-7)
    assert progress_of(instance, inside.throughput).sum() == pytest.approx(
        progress_of(instance, by_rows.throughput).sum(), rel=1e-6
    )


@pytest.mark.parametrize("objective", ["max_min", "makespan"])
def test_a_height_worth_too_little_is_noticed(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both stages are one program only where the height came first; else the worst-off would pay for it."""
    dice = np.random.default_rng(5)
    instance = checked_instance(
        throughput=dice.uniform(0.1, 1, (20, 3)) * [3, 2, 1],
        gpus=[3, 3, 3],
        gang=dice.choice([1, 2], 20),
        weight=dice.choice([1.0, 5.0], 20),
        steps_left=dice.uniform(100, 1000, 20),
    )
    by_rows = solve_by_rows(instance, objective, monkeypatch)
    for penalty, programs in ((1e-3, 2), (100.0, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(levels, "PENALTIES", (penalty,))
            by_highs = Mock(wraps=best_shares)
            patch.setattr(levels, "best_shares", by_highs)
            solution = solve(instance, objective)
        assert by_highs.call_count == programs
        assert solution.objective == pytest.approx(by_rows.objective, rel=1e-7)
        assert progress_of(instance, solution.throughput).sum() == pytest.approx(
            progress_of(instance, by_rows.throughput).sum(), rel=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 5000, 500))
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
