"""Forecasts of elastic jobs: as fast as their goodput says with the GPUs that rounds to come give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.core.goodput.fit import Measurement
from scheduler.core.model.snapshot import ADAPTIVE, FIXED_WORLD, Job, JobId, Snapshot
from scheduler.core.model.training import Goodput
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.forecast import Bounds, forecast
from scheduler.core.sim.goodput_speeds import GoodputSpeeds
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.run_times import Assumption, RunTimes
from scheduler.core.sim.scaling import Placement, Scaling
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

#: Its batch stays. One replica: 64 samples in 0.178 s. Four: 16 each in 0.082 s, and 0.02 s to synchronise.
SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.02, 0.0, 0.02, 0.0, 1.0)},
    noise=(0.05, 1.0),
    initial_batch=64,
    max_batch=64,
    max_local_batch=64,
    most_replicas=4,
)
HOUR = 3_600.0
OFTEN = {"cycle_seconds": 60.0, "restart_seconds": 1.0}
BOUNDS = Bounds(rounds_to_double=None)


def world(job: Job, gpus: int, *, policy: str = "pollux", nodes: int = 1) -> Snapshot:
    """The job runs since now on some of four GPUs. Job 2, which nobody guarantees any, needs them all."""
    parameters = OFTEN if policy == "pollux" else {}
    owner = make_virtual_cluster(guaranteed={"V100": 4}, policy=policy, policy_parameters=parameters)
    guest = make_virtual_cluster("guest", {}, policy="fifo")
    waiting = make_job(2, 4, virtual_cluster="guest", guaranteed=False, time_limit_seconds=60.0)
    return make_snapshot(
        nodes=[make_node(1, gpus=4)],
        jobs=[job, waiting],
        running=[make_running(job, [[100 + each] for each in range(gpus)], since=NOW)],
        virtual_clusters=[owner, guest],
        round_seconds=1.0,
    )


def adaptive(**fields: Any) -> Job:
    settings = {"elastic": (1, 4), "elastic_mode": ADAPTIVE, "goodput": SCALES, "estimate_seconds": HOUR}
    return make_job(1, 1, **settings | fields)


def end_of_first(facts: Snapshot) -> float:
    """Return the seconds until job 2 starts, which is when job 1 has ended."""
    at = forecast(facts, bounds=BOUNDS).predictions[JobId(2)].starts_at
    assert at is not None
    return at - NOW


def test_what_is_to_grow_ends_sooner_by_its_speedup() -> None:
    """It grows to four GPUs soon, where 64 samples take 0.102 s; as if linear, the end would be at 900 s."""
    speedup = 0.178 / 0.102
    end = end_of_first(world(adaptive(), 1))
    assert HOUR / speedup <= end < HOUR / speedup + 120.0


def test_what_stays_as_it_is_ends_as_it_was_estimated() -> None:
    assert end_of_first(world(adaptive(elastic=(1, 1)), 1)) == HOUR


def test_without_goodput_facts_a_gang_is_believed_to_scale_perfectly() -> None:
    end = end_of_first(world(adaptive(goodput=None), 1))
    assert 900.0 <= end < 900.0 + 240.0
    assert GoodputSpeeds().alone(adaptive(goodput=None), "V100", 4, 1) == 4.0


def test_what_of_it_makes_no_sense_is_no_goodput_fact() -> None:
    senseless = replace(SCALES, max_batch=1)
    elsewhere = replace(SCALES, parameters={"P100": SCALES.parameters["V100"]})
    for facts in (senseless, elsewhere):
        assert GoodputSpeeds().alone(adaptive(goodput=facts), "V100", 3, 1) == 3.0


def test_a_gang_over_several_nodes_synchronises_slower() -> None:
    far = replace(SCALES, parameters={"V100": (0.05, 0.002, 0.218, 0.0, 0.02, 0.0, 1.0)})
    speeds = GoodputSpeeds()
    assert speeds.alone(adaptive(goodput=far), "V100", 4, 1) == pytest.approx(0.178 / 0.102)
    assert speeds.alone(adaptive(goodput=far), "V100", 4, 2) == pytest.approx(0.178 / 0.300)


def test_ranks_of_a_fixed_world_share_devices() -> None:
    """Two of four devices: half the progress, whatever goodput says."""
    fixed = make_job(1, 1, replicas=4, elastic=(1, 4), elastic_mode=FIXED_WORLD, goodput=SCALES)
    assert GoodputSpeeds().alone(fixed, "V100", 2, 1) == 0.5


def test_steps_tell_how_long_it_runs_on_with_as_many_gpus_as_it_has() -> None:
    """Of 1,000 s of its one GPU nothing is done; with four at a time these are 250 s."""
    job = adaptive(estimate_seconds=1_000.0, measured=True, throughput={"V100": 1.0})
    running = make_running(job, [[100], [101], [102], [103]], since=NOW)
    assert RunTimes().left_seconds(job, running, NOW, 5_000.0, Assumption.EXPECTED, 2.0) == 250.0


def test_an_estimate_holds_at_its_own_size() -> None:
    """At twice the rate, 100 s ago, an hour has 1,700 s left. A fixed world had half its devices for 300 s:
    3,450 s are left with both, which it gets at once."""
    job = adaptive()
    running = make_running(job, [[100], [101], [102], [103]], since=NOW - 100)
    assert RunTimes().left_seconds(job, running, NOW, HOUR, Assumption.EXPECTED, 2.0) == 1_700.0
    fixed = make_job(1, 1, replicas=2, elastic=(1, 2), elastic_mode=FIXED_WORLD, estimate_seconds=HOUR)
    facts = world(fixed, 1, policy="fifo")
    facts = replace(facts, running=(replace(facts.running[0], since=NOW - 300),))
    assert end_of_first(facts) == 3_450.0


@dataclass(frozen=True)
class Measured:
    """An application that truly scales so: one epoch of 5,000 iterations at batch 64, and larger ones."""

    epochs_to_train: int = 1
    initial_batch: int = 64
    max_batch: int = 512
    min_local_batch: int = 8
    max_local_batch: int = 128

    def progress_at(self, epoch: int) -> float:
        return 5_000.0 * epoch

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        return 1.0, 4.0

    def step_seconds(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        sync = 0.0 if sum(placement) == 1 else 0.02
        return 0.05 + 0.002 * local_batch + sync, sync

    def measurements(self) -> Sequence[Measurement]:
        found = []
        for replicas in (1, 2, 4):
            for batch in (8, 16, 64, 128):
                step, sync = self.step_seconds((replicas,), batch)
                found.append(Measurement(1, replicas, batch, 0, step - sync, step))
        return found


def test_the_end_is_when_the_simulated_job_ends_of_which_only_the_facts_are_known() -> None:
    """A job that truly progresses as an application, as seen whenever it was resized."""
    scaling = Scaling(Measured(), None)
    whole = scaling.run_seconds((1,), 64)
    first = adaptive(goodput=None, estimate_seconds=whole, submitted_at=NOW)
    facts = replace(world(first, 1), running=())
    (waiting,) = [job for job in facts.jobs if job.id != first.id]
    seen: list[Snapshot] = []

    def keep(engine: Engine, *_: object) -> None:
        present = engine.round_engine.facts.current.get(JobId(1))
        if present is not None and (not seen or len(present.gpus) != len(seen[-1].running[0].gpus)):
            seen.append(engine.snapshot())

    arrival = Arrival(job=first, truth=Truth(work_seconds=whole, scaling=scaling))
    later = Arrival(job=replace(waiting, submitted_at=NOW + 1), truth=Truth(work_seconds=1.0))
    engine = Engine(replace(facts, jobs=()), [arrival, later], Rules(goodput="true"), on_round=keep)
    assert engine.run() == ""
    end = engine.progress[JobId(1)].ended_at
    assert end is not None
    assert end - NOW < 0.7 * whole
    assert len(seen[-1].running[0].gpus) == 4
    for facts in seen:
        told = forecast(facts, bounds=BOUNDS).predictions[JobId(2)].starts_at
        assert told == pytest.approx(end, abs=0.03 * (end - NOW))
