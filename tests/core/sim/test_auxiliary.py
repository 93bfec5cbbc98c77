"""How fast jobs are in virtual time with the CPUs and memory that they are given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model.auxiliary import PROPORTIONAL, TUNE, Auto, Sensitivity
from scheduler.core.model.snapshot import Task
from scheduler.core.sim.workload import Arrival
from tests.builders import make_node
from tests.core.sim.worlds import arrival, cluster, ends, simulate

IMAGES = Sensitivity(by_cpus=((3.0, 1.0), (9.0, 2.5)))
LANGUAGE, NINE = (Sensitivity(by_cpus=((cpus, 1.0),)) for cpus in (1.0, 9.0))


def job(number: int, at: float, work_seconds: float, known: Sensitivity, gpus: int = 1) -> Arrival:
    tasks = (Task(replicas=1, gpus=gpus, auto=Auto(sensitivity=known)),)
    return arrival(number, at, work_seconds, tasks=tasks)


def test_a_job_goes_on_faster_and_slower_as_others_come_and_go() -> None:
    """Alone it has 9 CPUs and is 2.5 times as fast; while the other has 9 of 12, no faster than stated."""
    facts = cluster(gpus=4, nodes=[make_node(1, gpus=4, cpus=12.0, memory_bytes=2**38)])
    arrivals = [job(1, 0.0, 500.0, IMAGES), job(2, 100.0, 50.0, NINE, gpus=3)]
    # 250 s of work in the first 100 s, 50 in the next 50, the other 200 in 80.
    assert ends(simulate(facts, arrivals)) == pytest.approx({1: 230.0, 2: 150.0})


def test_tune_lets_jobs_end_sooner_than_proportional_shares_do() -> None:
    facts = cluster(gpus=4, nodes=[make_node(1, gpus=4, cpus=12.0, memory_bytes=2**38)])
    arrivals = [job(1, 0.0, 100.0, IMAGES), *[job(number, 0.0, 100.0, LANGUAGE) for number in (2, 3, 4)]]
    tuned = ends(simulate(replace(facts, auxiliary=TUNE), arrivals))
    fair = ends(simulate(replace(facts, auxiliary=PROPORTIONAL), arrivals))
    assert tuned == pytest.approx({1: 40.0, 2: 100.0, 3: 100.0, 4: 100.0})
    assert fair == pytest.approx({1: 100.0, 2: 100.0, 3: 100.0, 4: 100.0})
