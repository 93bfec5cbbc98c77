"""Jobs whose losses fall along curves, and what slaq makes of them in the simulator."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.model.snapshot import JobId, Task
from scheduler.core.perf.convergence import LossCurve
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.workload import Arrival
from tests.core.sim.worlds import arrival, cluster, simulate

#: 1 / (k/100 + 1): half of the loss after 100 s of work, a third after 200 s.
CURVE = LossCurve(family="polynomial", limit=0.0, unit=1.0, coefficients=(1.0, 0.01))


def learner(number: int, at: float = 0.0, seconds: float = 100_000.0) -> Arrival:
    plain = arrival(number, at, seconds, elastic=(1, 8), tasks=(Task(replicas=1, gpus=1),))
    return replace(plain, truth=replace(plain.truth, loss=CURVE))


def test_a_job_tells_its_loss_once_a_minute_and_what_is_kept_is_evenly_spread() -> None:
    seen: list[tuple[tuple[float, float], ...]] = []

    def look(engine: Engine, *_: object) -> None:
        job = engine.round_engine.facts.jobs.get(JobId(1))
        if job is not None:
            seen.append(job.losses)

    waiting = [arrival(number, 61.0 * number, 1.0, gpus=8) for number in range(2, 70)]
    short = replace(learner(1, seconds=4200.0), job=replace(learner(1).job, elastic=None))
    Engine(cluster(), [short, *waiting], on_round=look).run()
    few = next(losses for losses in seen if len(losses) >= 3)
    assert few[:3] == ((0.0, 1.0), (122.0, CURVE.at(122.0)), (183.0, CURVE.at(183.0)))
    assert max(map(len, seen)) <= 32
    assert seen[-1][-1][0] == 68 * 61.0


def test_under_slaq_who_comes_last_gets_most_and_who_has_converged_least() -> None:
    """The worked example of docs/simulator.md: eight GPUs, and a second job after an hour."""
    had: dict[float, dict[int, int]] = {}

    def look(engine: Engine, *_: object) -> None:
        current = engine.round_engine.facts.current
        had[engine.now] = {int(job): len(held.gpus) for job, held in current.items()}

    facts = cluster(policy="slaq", round_seconds=60.0)
    Engine(facts, [learner(1), learner(2, 3600.0)], on_round=look).run(
        until=lambda engine: engine.now >= 4800.0
    )
    # What is decided in a round is seen in the next.
    assert next(each for at, each in sorted(had.items()) if at > 300.0) == {1: 8}
    last = had[max(had)]
    assert last[2] > last[1] >= 1
    assert sum(last.values()) == 8


def test_without_losses_slaq_shares_evenly() -> None:
    plain = [arrival(number, 0.0, 3000.0, elastic=(1, 8)) for number in (1, 2)]
    engine = simulate(cluster(policy="slaq", round_seconds=60.0), plain)
    assert {len(stay.gpus) for stay in engine.stays if stay.job == 1} >= {4}
