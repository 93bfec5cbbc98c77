"""A script may end a job at any instant, whatever the job is doing then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.core.model.snapshot import JobId, Tenant
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Truth
from tests.builders import make_job, make_node, make_running
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


def test_what_a_start_leaves_of_a_quota_is_given_out_at_the_next_round() -> None:
    """Waiting, job 1 counts against both models; on P100 it leaves the quota of V100 to job 2."""
    facts = cluster(
        4,
        nodes=[make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="P100")],
        tenants=[Tenant(name="vision", quota={"V100": 4})],
    )
    arrivals = [
        arrival(1, 0.0, 1000.0, gpus=4, guaranteed=False, gpu_models=("P100", "V100")),
        arrival(2, 0.0, 10.0, gpus=4, gpu_models=("V100",)),
    ]
    engine = Engine(facts, arrivals)
    assert engine.run() == ""
    assert ends(engine)[2] < 20.0


def test_a_cancelled_job_leaves_its_gpus_to_the_one_it_shared_them_with() -> None:
    jobs = [make_job(number, 1, submitted_at=0.0) for number in (1, 2)]
    together = make_running(jobs[0], [100], allocation=1, since=0.0)
    facts = cluster(1, jobs=jobs, running=[replace(together, jobs=(JobId(1), JobId(2)))])
    truths = {job.id: Truth(work_seconds=50.0) for job in jobs}
    engine = Engine(facts, truths=truths, script=[At(10.0, lambda engine: engine.cancel(JobId(1)))])
    assert engine.run() == ""
    outcomes = [progress.outcome for progress in engine.progress.values()]
    assert outcomes == ["cancelled", "succeeded"]
    assert ends(engine)[1] == 10.0
