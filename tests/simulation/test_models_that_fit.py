"""A throughput table whose rate is 0 says that a job does not fit on that model."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth, Workload
from scheduler.simulation.clusters import parse_cluster
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import Experiment
from scheduler.simulation.joining import join
from scheduler.simulation.run import simulate
from scheduler.simulation.throughputs import read_throughputs
from tests.builders import make_job

TABLE = "application,gpus,gpu_model,rate\nbert,1,v100,4\nbert,1,k80,0\n"


def experiment(cluster: str, folder: Path) -> Experiment:
    table = folder / "rates.csv"
    table.write_text(TABLE)
    jobs = [
        make_job(n, application="bert", submitted_at=0.0, tenant="everyone", virtual_cluster="cluster")
        for n in (1, 2)
    ]
    arrivals = tuple(Arrival(job=job, truth=Truth(work_seconds=10.0)) for job in jobs)
    spec, workload = join(parse_cluster(cluster), Workload(name="two", arrivals=arrivals))
    return Experiment(
        cluster=spec,
        workload=workload,
        rules=Rules(speeds=Speeds(tables=read_throughputs(table))),
        round_seconds=0,
    )


def test_it_waits_for_a_model_on_which_it_fits(tmp_path: Path) -> None:
    result = simulate(experiment("k80=8,v100=1", tmp_path))
    assert [record.ended_at for record in result.jobs] == [10.0, 20.0]


def test_a_cluster_without_such_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bert with 1 GPU fits on none of k80"):
        simulate(experiment("k80=8", tmp_path))
