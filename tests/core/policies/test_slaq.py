"""SLAQ: who is expected to learn most by a GPU gets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Job, Running
from scheduler.core.policies.slaq import divide_greedily
from scheduler.core.round.decide import decide
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

EPOCH = 300.0


def concave(gains: Sequence[int]) -> Callable[[int], float]:
    """What so many GPUs bring in all, the first of `gains` being that of the second GPU."""
    ordered = sorted(gains, reverse=True)
    return lambda gpus: float(sum(ordered[: gpus - 1]))


@given(st.lists(st.lists(st.integers(1, 30), max_size=4), min_size=1, max_size=4), st.integers(0, 9))
def test_greedy_is_as_good_as_trying_everything_where_gains_become_less(
    gains: list[list[int]], idle: int
) -> None:
    falls = [concave(each) for each in gains]
    choices = [range(1, len(each) + 2) for each in gains]

    def worth(sizes: Sequence[int]) -> float:
        return sum(fall(size) for fall, size in zip(falls, sizes, strict=True))

    sizes = divide_greedily(falls, choices, idle)
    affordable = (each for each in product(*choices) if sum(each) - len(each) <= idle)
    assert sum(sizes) - len(sizes) <= idle
    assert worth(sizes) == max(map(worth, affordable))


@dataclass
class Learner:
    """A job whose loss is known in advance: 1 / (pace · step + 1), a step a second on each GPU."""

    number: int
    pace: float
    step: float = 0.0
    losses: list[tuple[float, float]] = field(default_factory=list)
    gpus: tuple[int, ...] = ()

    def loss(self) -> float:
        return 1.0 / (self.pace * self.step + 1.0)

    def job(self) -> Job:
        return make_job(
            self.number, 1, elastic=(1, 16), losses=tuple(self.losses), attained_service={"V100": self.step}
        )

    def held(self, now: float) -> Running:
        return make_running(self.number, [[gpu] for gpu in self.gpus], since=now)

    def train(self, seconds: float, gpus: int) -> None:
        for _ in range(5):
            self.step += seconds / 5 * gpus
            self.losses.append((self.step, self.loss()))


def play(learners: list[Learner], epochs: int) -> list[dict[int, int]]:
    """Let them learn on 16 GPUs; one comes each epoch. Return who had how many GPUs, by epoch."""
    history = []
    for epoch in range(epochs):
        now = NOW + epoch * EPOCH
        there = learners[: epoch + 1]
        plan = plan_of(there, now)
        placed = {action.jobs[0]: action.placement for action in plan.actions if action.placement}
        for learner in there:
            if learner.number in placed:
                learner.gpus = placed[learner.number].gpus
            learner.train(EPOCH, len(learner.gpus))
        history.append({learner.number: len(learner.gpus) for learner in there})
    return history


def plan_of(learners: list[Learner], now: float) -> Plan:
    cluster = make_virtual_cluster(guaranteed={"V100": 16}, policy="slaq")
    return decide(
        replace(
            make_snapshot(
                nodes=make_cluster(2),
                jobs=[learner.job() for learner in learners],
                running=[learner.held(now) for learner in learners if learner.gpus],
                virtual_clusters=[cluster],
            ),
            now=now,
            memory={"research": {"epoch_ends": now}},
        )
    )


def test_new_jobs_get_most_and_converged_ones_least() -> None:
    history = play([Learner(number, pace=1e-3) for number in (1, 2, 3, 4)], 4)
    assert history[0] == {1: 16}
    last = history[-1]
    assert sum(last.values()) == 16
    assert last[1] == last[2] == 1
    assert min(last[3], last[4]) >= 5


def test_losses_are_lower_than_with_equal_shares_at_the_same_time() -> None:
    """As in the paper's evaluation: the average loss of the jobs that are there, epoch by epoch."""
    learned = [Learner(number, pace=1e-3) for number in (1, 2, 3, 4)]
    play(learned, 6)
    equal = [Learner(number, pace=1e-3) for number in (1, 2, 3, 4)]
    for epoch in range(6):
        there = equal[: epoch + 1]
        for learner in there:
            learner.train(EPOCH, 16 // len(there))
    assert sum(each.loss() for each in learned) < 0.97 * sum(each.loss() for each in equal)


def test_everyone_has_its_fewest_gpus_before_anyone_has_more() -> None:
    learners = [Learner(number, pace=1e-3) for number in range(1, 17)]
    plan = plan_of(learners, NOW)
    sizes = {action.jobs[0]: len(action.placement.gpus) for action in plan.actions if action.placement}
    assert sizes == dict.fromkeys(range(1, 17), 1)


def test_who_does_not_learn_any_more_gets_nothing_beyond_its_fewest() -> None:
    done = make_job(
        1, 1, elastic=(1, 16), losses=((1.0, 1.0), (2.0, 0.5), (3.0, 0.5), (4.0, 0.5), (5.0, 0.5))
    )
    plan = decide(
        make_snapshot(
            nodes=make_cluster(2),
            jobs=[replace(done, attained_service={"V100": 5e6}), make_job(2, 1, elastic=(1, 16))],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16}, policy="slaq")],
        )
    )
    sizes = {action.jobs[0]: len(action.placement.gpus) for action in plan.actions if action.placement}
    assert sizes == {1: 1, 2: 15}


def sizes_of(*jobs: Job) -> dict[int, int]:
    """How many of sixteen GPUs each job gets."""
    plan = decide(
        make_snapshot(
            nodes=make_cluster(2),
            jobs=list(jobs),
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16}, policy="slaq")],
        )
    )
    return {action.jobs[0]: len(action.placement.gpus) for action in plan.actions if action.placement}


def telling(number: int, *losses: float, service: float = 600.0) -> Job:
    points = tuple((float(step), loss) for step, loss in enumerate(losses, start=1))
    return make_job(number, 1, elastic=(1, 16), losses=points, attained_service={"V100": service})


FALLING = (1.0, 0.8, 0.65, 0.54, 0.46, 0.4)
NEARLY_DONE = (1.0, 0.5, 0.3, 0.2, 0.15, 0.125, 0.11, 0.105, 0.102)


@pytest.mark.parametrize(
    "losses",
    [(0.4, 0.5, 0.6, 0.7, 0.8), (0.5,) * 6, (1.0, 0.8, math.nan, 0.5, 0.4), (1.0, 0.8, 0.6, 0.5, math.inf)],
    ids=["rises", "stands still", "is no number", "is infinite"],
)
def test_a_loss_that_is_not_to_fall_earns_no_gpu_beyond_the_fewest(losses: tuple[float, ...]) -> None:
    assert sizes_of(telling(1, *losses), telling(2, *FALLING)) == {1: 1, 2: 15}


def test_silence_is_worth_what_the_median_job_is_worth_at_first() -> None:
    others = [telling(1, *FALLING), telling(2, *FALLING)]
    had = sizes_of(*others, telling(3, service=301.0))
    assert abs(had[3] - had[1]) <= 1


def test_silence_is_worth_less_with_time() -> None:
    others = [telling(1, *FALLING), telling(2, *FALLING)]
    had = [sizes_of(*others, telling(3, service=service))[3] for service in (301.0, 1_000.0, 100_000.0)]
    assert had[0] > had[1] > had[2] == 1


def test_a_new_job_gets_most_until_it_had_time_to_tell() -> None:
    had = sizes_of(telling(1, *NEARLY_DONE), make_job(2, 1, elastic=(1, 16)))
    assert had[2] > had[1]


@pytest.mark.parametrize("policy", ["slaq", "aryl"])
def test_a_start_takes_nothing_from_a_gang_that_is_to_grow(policy: str) -> None:
    """By counts the gang could be elsewhere and larger, and the start would fit: where it is, it does not."""
    grows = make_job(1, replicas=2, elastic=(1, 4), attained_service={"V100": 500.0})
    waits, stays = make_job(2, 4), make_job(3, 2)
    cluster = make_virtual_cluster(guaranteed={"V100": 8}, policy=policy)
    plan = decide(
        make_snapshot(
            nodes=[make_node(1, gpus=4), make_node(2, gpus=4)],
            jobs=[grows, waits, stays],
            running=[make_running(grows, [103], since=NOW - 900), make_running(stays, [200, 201])],
            virtual_clusters=[cluster],
        )
    )
    assert plan.degraded == {}
    assert not any(action.jobs == (1,) and action.placement is None for action in plan.actions)
