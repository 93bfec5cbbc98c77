"""Synergy's replay traces in its simulator's rounds: completion times as there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reproduction.synergy.jobs import read_jobs
from benchmarks.reproduction.synergy.rounds import MECHANISMS, run
from scheduler.core.building_blocks.auxiliary_shares import Servers
from scheduler.simulation.errors import InputError

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "synergy"

are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/synergy is not here")
#: Mean completion times of the published simulator, run again: proportional, greedy, TUNE.
PUBLISHED = {
    ("static_100jobs", "fifo"): (20271.9505, 19779.9505, 18297.9505),
    ("static_100jobs", "srtf"): (15882.9505, 15507.9505, 14784.9505),
    ("static_100jobs", "las"): (20250.9505, 22266.9505, 18615.9505),
    ("static_100jobs", "ftf"): (28737.9505, 29145.9505, 27999.9505),
    ("dynamic_srtf_jobs", "fifo"): (16641.26, 13974.26, 13230.26),
    ("dynamic_srtf_jobs", "srtf"): (14064.26, 11637.26, 11478.26),
    ("dynamic_srtf_jobs", "las"): (16398.26, 14592.26, 13212.26),
    ("dynamic_srtf_jobs", "ftf"): (22668.26, 23082.26, 17748.26),
}


@are_here
@pytest.mark.parametrize(("trace", "policy"), PUBLISHED)
def test_completion_times_are_those_of_the_published_simulator(trace: str, policy: str) -> None:
    means = []
    for mechanism in MECHANISMS[:3]:
        ended = run(read_jobs(DATA / f"{trace}.csv", DATA / "model_profiles.json"), policy, mechanism)
        assert len(ended) == 100
        means.append(sum(ended.values()) / len(ended))
    assert means == pytest.approx(PUBLISHED[trace, policy], abs=1e-6)
    assert means[2] <= means[0]


@are_here
def test_opt_runs_the_rounds_too() -> None:
    jobs, fair = (read_jobs(DATA / "static_100jobs.csv", DATA / "model_profiles.json")[:12] for _ in range(2))
    one = Servers(1, 8, 24, 500)
    opt, proportional = run(jobs, "fifo", "opt", servers=one), run(fair, "fifo", "proportional", servers=one)
    assert opt.keys() == proportional.keys()
    assert sum(opt.values()) < sum(proportional.values())


@are_here
@pytest.mark.slow
@pytest.mark.parametrize(("trace", "policy"), PUBLISHED)
def test_whoever_orders_opt_is_faster_than_proportional_shares(trace: str, policy: str) -> None:
    jobs = read_jobs(DATA / f"{trace}.csv", DATA / "model_profiles.json")
    assert sum(run(jobs, policy, "opt").values()) / 100 < PUBLISHED[trace, policy][0]


def test_a_trace_that_is_not_there_or_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "profiles.json").write_text('{"cpu_per_gpu_3": {}}')
    (tmp_path / "trace.csv").write_text("0,alexnet,0,10,1\n")
    with pytest.raises(InputError, match="no replay trace of Synergy's: 'alexnet_1'"):
        read_jobs(tmp_path / "trace.csv", tmp_path / "profiles.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_jobs(tmp_path / "none.csv", tmp_path / "profiles.json")
