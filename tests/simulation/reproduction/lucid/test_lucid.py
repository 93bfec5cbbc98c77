"""Lucid's simulator against what the published one made of the same workload, second by second."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.reproduction.lucid.forecasts import Forecasts, read_forecasts
from benchmarks.reproduction.lucid.jobs import LucidJob, Outcome
from benchmarks.reproduction.lucid.nodes import LENT, Nodes
from benchmarks.reproduction.lucid.packing import Lucid
from benchmarks.reproduction.lucid.profiler import Profiler, profile
from benchmarks.reproduction.lucid.profiles import Configuration, Profiles, read_profiles
from benchmarks.reproduction.lucid.queues import FIFO, QSSF, SJF, run_queue
from benchmarks.reproduction.lucid.workload import make_jobs, read_nodes
from scheduler.simulation.errors import InputError

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "lucid"
FORECASTS = DATA / "venus_throughput_pred.csv.gz"

are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/lucid is not here")
#: What the published simulator made of the 4,000 jobs of `make_jobs`: mean completion time in seconds.
PUBLISHED = {FIFO: 37210.915, SJF: 23512.0435, QSSF: 21619.54425}
PUBLISHED_LUCID = 19400.684
#: When the profiler borrowed a node there, and gave it back.
PUBLISHED_CHANGES = [(126320, 1), (165000, -1), (231020, 1), (249000, -1)]

SMALL = Configuration("small", "", 32, False, 4_000, 0)
MEDIUM = Configuration("medium", "", 32, False, 4_000, 1)
LARGE = Configuration("large", "", 32, False, 4_000, 2)
WIDE = Configuration("wide", "", 32, False, 21_000, 0)
EVERYTHING = (SMALL, MEDIUM, LARGE, WIDE)
PROFILES = Profiles(EVERYTHING, {(one, other): (0.75, 0.5) for one in EVERYTHING for other in EVERYTHING})
#: Nobody is profiled.
UNPROFILED = Lucid(profiles=PROFILES, profiler=Profiler(nodes=1, gpus_by_node=0))


def job(number: int, at: int = 0, gpus: int = 8, duration: int = 100, **fields: object) -> LucidJob:
    estimate = fields.get("estimate", duration)
    assert isinstance(estimate, int)
    configuration = fields.get("configuration", SMALL)
    assert isinstance(configuration, Configuration)
    return LucidJob(
        number=number,
        virtual_cluster="vc",
        submitted_at=at,
        gpus=gpus,
        duration=duration,
        configuration=configuration,
        qssf_estimate=estimate,
        lucid_estimate=estimate,
    )


def ended(jobs: Iterable[LucidJob], *, nodes: int = 1, lucid: Lucid = UNPROFILED) -> Outcome:
    return lucid.run(list(jobs), {"vc": nodes})


@are_here
@pytest.mark.parametrize("policy", [FIFO, SJF, QSSF])
def test_the_baselines_end_as_in_the_published_simulator(policy: str) -> None:
    jobs = make_jobs(DATA, read_profiles(DATA), read_forecasts(FORECASTS))
    assert run_queue(jobs, read_nodes(DATA), policy).mean_seconds(jobs) == PUBLISHED[policy]


@are_here
def test_lucid_ends_as_in_the_published_simulator() -> None:
    profiles, forecasts = read_profiles(DATA), read_forecasts(FORECASTS)
    jobs = make_jobs(DATA, profiles, forecasts)
    # The profiler's own two nodes are of these virtual clusters; the third is lent by another.
    nodes = read_nodes(DATA)
    nodes["vc8Gr"] -= 1
    nodes["vcefl"] -= 1
    lucid = Lucid(
        profiles=profiles, profiler=Profiler(forecasts=forecasts), forecasts=forecasts, lender="vcYVn"
    )
    outcome = lucid.run(jobs, nodes)
    assert outcome.mean_seconds(jobs) == pytest.approx(PUBLISHED_LUCID, abs=0.01)
    assert profile(jobs, lucid.profiler).changes == PUBLISHED_CHANGES
    alone = Lucid(profiles=profiles, profiler=lucid.profiler, packs=False, lender="vcYVn")
    assert outcome.mean_seconds(jobs) < alone.run(jobs, nodes).mean_seconds(jobs)


def test_a_guest_joins_the_first_host_that_it_hardly_disturbs() -> None:
    outcome = ended([job(1, duration=200), job(2, at=10)])
    assert outcome.shared == 2
    # The guest goes at 0.75, the host at 0.5, of which 122.5 seconds are left when it is alone again.
    assert outcome.ended_at == {2: 10 + 134 + 1, 1: 145 + 123 + 1}


def test_whoever_comes_second_stays_slow_when_the_first_ends() -> None:
    outcome = ended([job(1, estimate=1_000), job(2, at=10, duration=1_000, estimate=1_000)])
    assert outcome.ended_at == {1: 10 + 180 + 1, 2: 10 + 1_334 + 1}


@pytest.mark.parametrize(
    "guest",
    [
        job(2, at=10, gpus=4),
        job(2, at=10, configuration=WIDE),
        job(2, at=10, configuration=LARGE),
        job(2, at=10, estimate=2_001),
    ],
    ids=["another size", "too much memory", "scores above two", "expected to take twice as long"],
)
def test_who_may_not_share_waits(guest: LucidJob) -> None:
    host = job(1, duration=500, estimate=1_000, configuration=MEDIUM)
    outcome = ended([host, guest])
    assert outcome.shared == 0
    assert outcome.ended_at == {1: 501, 2: 501 + 101}


def test_only_pairs_share() -> None:
    outcome = ended([job(number, at=number, duration=1_000, estimate=1_000) for number in range(3)])
    # The third joins the host when the guest has ended.
    assert outcome.ended_at[1] < outcome.ended_at[0]
    assert outcome.ended_at[2] > outcome.ended_at[1] + 1_000


def test_a_job_short_enough_is_done_after_the_profiler() -> None:
    lucid = Lucid(profiles=PROFILES, profiler=Profiler(nodes=1, seconds=100, gpus_by_node=8))
    outcome = ended([job(1, duration=100), job(2, duration=101)], lucid=lucid)
    assert outcome.ended_in_profiler == 1
    assert outcome.ended_at == {1: 100, 2: 102}


def test_the_profiler_takes_those_with_fewest_gpus_first_and_leaves_large_ones_out() -> None:
    profiling = profile(
        [job(1, gpus=8), job(2, at=1, gpus=8), job(3, at=2, gpus=4), job(4, at=3, gpus=16)],
        Profiler(nodes=1, seconds=100, gpus_by_node=8),
    )
    assert profiling.ended_at == {1: 100, 3: 200, 2: 300}


def test_the_profiler_borrows_a_node_in_a_crowd_and_gives_it_back_when_few_are_expected() -> None:
    quiet = Forecasts([0] * 10, [0.0] * 10, [1.0] * 10)
    busy = Forecasts([0] * 10, [0.0] * 10, [1_000.0] * 10)
    crowd = [job(number, at=1, duration=150) for number in range(1, 20)]
    late = [job(30, at=3_000)]
    changes = profile(crowd + late, Profiler(nodes=1, gpus_by_node=8, forecasts=quiet)).changes
    assert [change for _, change in changes] == [1, -1]
    assert changes[0] == (10, 1)
    # It comes back once fewer than five wait, and idle.
    assert changes[1][0] % 100 == 0
    assert profile(crowd + late, Profiler(nodes=1, gpus_by_node=8, forecasts=busy)).changes == [(10, 1)]


def test_qssf_orders_newcomers_by_their_gpus_until_the_next_second() -> None:
    long_small, short_large = job(1, gpus=4, estimate=9_000), job(2, gpus=8, estimate=1)
    outcome = run_queue([long_small, short_large], {"vc": 1}, QSSF)
    assert outcome.ended_at == {1: 100, 2: 200}
    waiting = [job(0), job(1, at=1, gpus=4, estimate=9_000), job(2, at=2, gpus=8, estimate=1)]
    assert run_queue(waiting, {"vc": 1}, QSSF).ended_at == {0: 100, 2: 200, 1: 300}


def test_the_first_that_does_not_fit_blocks_the_others() -> None:
    jobs = [job(1, gpus=4), job(2, at=1, gpus=8), job(3, at=2, gpus=1)]
    ends = run_queue(jobs, {"vc": 1}, FIFO).ended_at
    assert ends == {1: 100, 2: 200, 3: 300}
    assert run_queue([*jobs[:2], job(3, at=2, gpus=1, duration=10)], {"vc": 1}, SJF).ended_at[3] == 12


def test_large_jobs_get_idle_nodes_and_a_part_of_the_next() -> None:
    nodes = Nodes.of(3)
    assert nodes.place(20) is not None
    assert [node.free for node in nodes.nodes] == [0, 0, 4]
    assert nodes.place(5) is None
    assert nodes.place(4) is not None


def test_a_lent_node_goes_back_even_if_another_one_is_idle_then() -> None:
    nodes = Nodes.of(1)
    nodes.remove()
    nodes.add()
    assert [node.number for node in nodes.nodes] == [LENT]
    busy = nodes.place(8)
    assert busy is not None
    nodes.nodes.append(Nodes.of(1).nodes[0])
    nodes.remove()
    assert [node.number for node in nodes.nodes] == [0]


@are_here
def test_workloads_are_the_same_for_a_seed_and_come_in_order() -> None:
    profiles, forecasts = read_profiles(DATA), read_forecasts(FORECASTS)
    jobs = make_jobs(DATA, profiles, forecasts, count=200, seed=7)
    assert jobs == make_jobs(DATA, profiles, forecasts, count=200, seed=7)
    assert all(one.submitted_at <= other.submitted_at for one, other in pairwise(jobs))
    with pytest.raises(InputError, match="no 100000 jobs"):
        make_jobs(DATA, profiles, forecasts, count=100_000)


def test_a_job_larger_than_its_virtual_cluster_is_refused() -> None:
    with pytest.raises(InputError, match="job 1 asks for more GPUs than vc has"):
        run_queue([job(1, gpus=16)], {"vc": 1}, FIFO)


def test_profiles_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"single_profile\.csv cannot be read"):
        read_profiles(tmp_path)
    with pytest.raises(InputError, match="small and large were not measured together"):
        Profiles((SMALL, LARGE), {}).speeds(SMALL, LARGE)
