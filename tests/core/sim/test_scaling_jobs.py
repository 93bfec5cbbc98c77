"""Jobs that progress as a measured application: epochs, batches, what is learnt, who meets whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from scheduler.core.goodput.fit import Measurement
from scheduler.core.model.snapshot import ADAPTIVE, JobId, Task
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.scaling import Placement, Scaling
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import make_node
from tests.core.sim.worlds import arrival, cluster, ends, simulate


@dataclass(frozen=True)
class Made:
    """Two epochs of 100 iterations at batch 100, of 0.1 s and 1 ms a sample; the second is noisier."""

    epochs_to_train: int = 2
    initial_batch: int = 100
    max_batch: int = 800
    min_local_batch: int = 10
    max_local_batch: int = 200

    def progress_at(self, epoch: int) -> float:
        return 100.0 * epoch

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        return (1.0, 1.0) if epoch == 0 else (1.0, 7.0)

    def step_seconds(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        sync = 0.0 if sum(placement) == 1 else 0.05 * len(placement)
        return 0.1 + 0.001 * local_batch + sync, sync

    def measurements(self) -> Sequence[Measurement]:
        found = []
        for placement in ((1,), (2,), (4,), (1, 1), (2, 2), (1, 1, 1, 1)):
            for batch in (10, 50, 100, 200):
                step, sync = self.step_seconds(placement, batch)
                found.append(Measurement(len(placement), sum(placement), batch, 0, step - sync, step))
        return found


#: Cycles that short jobs live to see.
OFTEN = {"cycle_seconds": 5.0, "restart_seconds": 1.0}


def measured(
    number: int, at: float = 0.0, *, batch: int | None = 100, gpus: int = 1, **fields: object
) -> Arrival:
    scaling = Scaling(Made(), batch)
    plain = arrival(number, at, 1.0, tasks=(Task(replicas=gpus, gpus=1),), **fields)
    seconds = scaling.run_seconds((gpus,), batch or 100)
    return replace(plain, truth=Truth(work_seconds=seconds, scaling=scaling))


def test_a_job_takes_as_long_as_its_iterations() -> None:
    """200 iterations of 0.2 s on one GPU, of 0.15 + 0.05 s with 50 samples each on two of a node."""
    assert ends(simulate(cluster(), [measured(1)]))[1] == pytest.approx(40.0)
    assert ends(simulate(cluster(), [measured(1, gpus=2)]))[1] == pytest.approx(40.0)


def test_a_larger_batch_is_worth_its_gain_epoch_by_epoch() -> None:
    """Batch 400 in two passes of 200: 0.6 s; worth 2 / 1.25 iterations, then 8 / 2.75."""
    engine = simulate(cluster(), [measured(1, batch=400)])
    assert ends(engine)[1] == pytest.approx(0.6 * (100 / 1.6 + 100 / (8 / 2.75)))


def test_work_is_the_same_wherever_it_is_done() -> None:
    """What is left of a preempted job goes on at its epoch, on a GPU or on four."""
    facts = cluster(gpus=4, policy="priority")
    first = measured(1, gpus=1)
    second = measured(2, 10.0, gpus=4, priority=5)
    engine = simulate(facts, [first, second])
    assert ends(engine)[1] == pytest.approx(40.0 + ends(engine)[2] - 10.0)


def test_an_adaptive_job_is_known_by_what_it_measured_and_chooses_its_batch() -> None:
    """Nothing is known at first; it is timed on one GPU, then gets two, and so on; its batch grows."""
    job = measured(1, batch=None, elastic=(1, 4), elastic_mode=ADAPTIVE)
    facts = cluster(gpus=4, policy="pollux", round_seconds=5.0, parameters=OFTEN)
    known: list[tuple[int, int]] = []

    def look(engine: Engine, *_: object) -> None:
        seen = engine.round_engine.facts.jobs.get(JobId(1))
        if seen is not None and seen.goodput is not None:
            running = engine.round_engine.facts.current[JobId(1)]
            known.append((seen.goodput.most_replicas, len(running.gpus)))

    engine = Engine(facts, [job], on_round=look)
    assert engine.run() == ""
    assert known[0] == (1, 1)
    assert max(known)[0] >= 2
    assert all(gpus <= 2 * most for most, gpus in known)
    assert ends(engine)[1] < 40.0


def test_the_truth_may_be_known_from_the_start() -> None:
    job = measured(1, batch=None, elastic=(1, 4), elastic_mode=ADAPTIVE)
    facts = cluster(gpus=4, policy="pollux", round_seconds=5.0, parameters=OFTEN)
    sooner = ends(simulate(facts, [job], goodput="true"))[1]
    assert sooner < ends(simulate(facts, [job]))[1]


def test_gangs_over_nodes_that_meet_slow_each_other_down() -> None:
    """Two gangs of three on three nodes of two GPUs: on the middle one they meet."""
    nodes = [make_node(number, gpus=2) for number in (1, 2, 3)]
    gangs = [measured(1, gpus=3), measured(2, gpus=3)]
    apart = ends(simulate(cluster(gpus=6, nodes=nodes), gangs))
    beside = ends(simulate(cluster(gpus=6, nodes=nodes), gangs, interference=0.5))
    assert [beside[job] for job in (1, 2)] == pytest.approx([2 * apart[job] for job in (1, 2)])
