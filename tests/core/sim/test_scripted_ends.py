"""A script may end a job at any instant, whatever the job is doing then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.floor import Rules
from scheduler.core.snapshot import JobId
from tests.core.sim.worlds import arrival, cluster, ends


@dataclass(frozen=True)
class At:
    at: float
    act: Callable[[Engine], None]

    def happen(self, engine: Engine) -> None:
        self.act(engine)


def finish(job: int) -> Callable[[Engine], None]:
    return lambda engine: engine.finish(JobId(job))


def test_a_job_that_runs_ends_then() -> None:
    engine = Engine(cluster(), [arrival(1, 0.0, 100.0)], script=[At(40.0, finish(1))])
    assert engine.run() == ""
    assert ends(engine) == {1: 40.0}


def test_one_that_was_told_to_stop_writes_its_checkpoint_and_goes_on_later() -> None:
    """Job 2 takes the GPUs of job 1 at 10; job 1 leaves them at 25 and has 20 seconds left at 30."""
    arrivals = [arrival(1, 0.0, 30.0, gpus=8, guaranteed=False), arrival(2, 10.0, 5.0, gpus=8)]
    rules = Rules(costs=Costs(checkpoint_seconds=15.0))
    engine = Engine(cluster(), arrivals, rules, script=[At(20.0, finish(1))])
    assert engine.run() == ""
    assert ends(engine) == {2: 30.0, 1: 50.0}


def test_one_that_has_not_come_yet_is_left_alone() -> None:
    engine = Engine(cluster(), [arrival(1, 10.0, 5.0)], script=[At(1.0, finish(1))])
    assert engine.run() == ""
    assert ends(engine) == {1: 15.0}
