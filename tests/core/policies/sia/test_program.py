"""The integer program of Sia, beside all choices there are."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from scheduler.core.policies.sia import program
from scheduler.core.policies.sia.program import Candidate, Configuration, Terms, choose, utilities_of

TERMS = Terms(power=-0.5, penalty=1.1, seconds=10.0)


def candidate(*gpus: int, speeds: tuple[float, ...] = (1.0,), **fields: object) -> Candidate:
    """A job that can have so many GPUs of each model on which it has a speed."""
    options = [
        Configuration(model, count, 1) for model, speed in enumerate(speeds) if speed for count in gpus
    ]
    values = {"goodput": (None,) * len(speeds), "least_gpus": gpus[0], **fields}
    return Candidate(configurations=tuple(options), speeds=speeds, **values)  # type: ignore[arg-type]


def cost(candidates: list[Candidate], chosen: tuple[int, ...], terms: Terms) -> float:
    """The objective as the paper writes it, for a power below 0."""
    total = 0.0
    for each, place, utility in zip(candidates, chosen, utilities_of(candidates), strict=True):
        factor = 1.0 if place == each.present or each.present < 0 else each.restart_factor
        total += terms.penalty if place < 0 else (factor * utility[place]) ** terms.power
    return total


def random_candidates(seed: int) -> tuple[list[Candidate], tuple[int, ...]]:
    dice = random.Random(seed)
    candidates = []
    for _ in range(5):
        gpus = dice.choice([(1, 2, 4), (2, 4), (4,), (1,), (1, 2, 4, 8)])
        speeds = (dice.choice([0.0, 1.0, 1.0]), dice.uniform(0.5, 4))
        each = candidate(*gpus, speeds=speeds)
        present = dice.randrange(-1, len(each.configurations))
        factor = dice.uniform(0.2, 1.0)
        candidates.append(candidate(*gpus, speeds=speeds, present=present, restart_factor=factor))
    return candidates, (dice.randrange(1, 9), dice.randrange(1, 9))


def fits(candidates: list[Candidate], chosen: tuple[int, ...], room: tuple[int, ...]) -> bool:
    used = [0] * len(room)
    for each, place in zip(candidates, chosen, strict=True):
        if place >= 0:
            used[each.configurations[place].model] += each.configurations[place].gpus
    return all(count <= most for count, most in zip(used, room, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_it_is_as_good_as_the_best_of_all_choices(seed: int) -> None:
    candidates, room = random_candidates(seed)
    chosen = choose(candidates, room, TERMS)
    everything = product(*[range(-1, len(each.configurations)) for each in candidates])
    best = min(cost(candidates, each, TERMS) for each in everything if fits(candidates, each, room))
    assert fits(candidates, chosen, room)
    assert cost(candidates, chosen, TERMS) <= best + len(candidates) * program.KEEP + 1e-6


@pytest.mark.parametrize("seed", range(30))
def test_rounding_fits_and_falls_back_on_what_is_gained_by_each_gpu(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates, room = random_candidates(seed)
    best = choose(candidates, room, TERMS)
    monkeypatch.setattr(program, "_maximise", lambda *args, **fields: None)
    rounded = choose(candidates, room, TERMS)
    assert fits(candidates, rounded, room)
    assert cost(candidates, rounded, TERMS) >= cost(candidates, best, TERMS) - len(candidates) * program.KEEP
    assert any(place >= 0 for place in rounded) == any(place >= 0 for place in best)


def test_who_has_least_counts_most() -> None:
    """With p = -0.5 the second GPU of one is worth 1 - 0.707, the third and fourth together 0.207."""
    both = [candidate(1, 2, 4), candidate(1, 2, 4)]
    assert choose(both, (4,), TERMS) == (1, 1)
    # With p = 1 only the sum counts, and one that gains more by each GPU has them all.
    faster = [candidate(1, 2, 4), candidate(1, 2, 4, speeds=(1.0,), goodput=(None,), least_gpus=2)]
    throughput = Terms(power=1.0, penalty=0.1, seconds=10.0)
    assert choose(faster, (4,), throughput) == (-1, 2)


def test_a_fast_model_goes_to_who_gains_most_by_it() -> None:
    """One job is 4 times as fast on the first model, the other 1.2 times: each has one GPU of a model."""
    gains, hardly = candidate(1, speeds=(4.0, 1.0)), candidate(1, speeds=(1.2, 1.0))
    assert choose([hardly, gains], (1, 1), TERMS) == (1, 0)
    assert [list(each) for each in utilities_of([gains, hardly])] == [[4.0, 1.0], [1.2, 1.0]]


def test_a_restart_must_pay() -> None:
    """Twice the GPUs are worth 1 - 0.707 to a job; after a restart that leaves 0.45 of it they are not."""
    moved_often = candidate(1, 2, present=0, restart_factor=0.45)
    settled = candidate(1, 2, present=0, restart_factor=0.95)
    assert choose([moved_often], (2,), TERMS) == (0,)
    assert choose([settled], (2,), TERMS) == (1,)
    # Who cannot but restart, since its GPUs are fewer now, is not left waiting for it.
    assert choose([candidate(1, 2, present=1, restart_factor=0.95)], (1,), TERMS) == (0,)


def test_equals_do_not_change_places() -> None:
    jobs = [candidate(1), candidate(1, present=0, restart_factor=1.0), candidate(1)]
    assert choose(jobs, (1,), TERMS) == (-1, 0, -1)


def test_a_higher_priority_chooses_first() -> None:
    jobs = [candidate(1), candidate(1), candidate(8, priority=3)]
    assert choose(jobs, (8,), TERMS) == (-1, -1, 0)
    assert choose(jobs, (9,), TERMS).count(-1) == 1


def test_a_configuration_without_progress_is_none() -> None:
    each = candidate(1, 2, speeds=(0.0, 1.0))
    assert {option.model for option in each.configurations} == {1}
    assert choose([each], (8, 0), TERMS) == (-1,)
    assert math.isclose(float(np.max(utilities_of([each])[0])), 2.0)
