"""Muri's published traces in its simulator's events: the baselines exactly, Muri nearly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from benchmarks.reproduction.muri.baselines import run_shortest, run_tiresias
from benchmarks.reproduction.muri.events import group_seconds, run_muri
from benchmarks.reproduction.muri.jobs import MuriJob, Nodes, Outcome, read_trace
from scheduler.core.building_blocks.interleaved_groups import grouped
from scheduler.core.perf.interleaving import CONTENTION, Stages, cycle_seconds, efficiency
from scheduler.simulation.errors import InputError

ROOT = Path(__file__).resolve().parents[4]
DATA = ROOT.parent / "shared" / "data" / "muri"

are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/muri is not here")
run_srsf = partial(run_shortest, by_service=True)
run_muri_l = partial(run_muri, knows_durations=False)
#: Mean completion times of the authors' figures 9 and 10, to the digits that their scripts have: under SRTF,
#: SRSF, Tiresias, Muri-S and Muri-L.
PUBLISHED = {
    "trace1": (1370603.198, 980140.5699, 3330371.307, 867705.7941, 1072009.71),
    "trace1_pr": (2303543.816, 1801859.995, 6921682.793, 1467191.905, 2141936.535),
    "trace2": (2665607.375, 2213949.687, 7396368.514, 1342400.019, 2544642.351),
    "trace2_pr": (4079154.454, 3384600.437, 10555502.04, 2325962.044, 4152485.536),
    "trace3": (193081.796, 185021.8802, 347213.2481, 85502.55387, 88686.97313),
    "trace3_pr": (844394.78, 798057.6829, 2213110.128, 537776.6163, 921094.7449),
    "trace4": (581982.9002, 487167.1688, 1319382.936, 365467.8911, 429174.8679),
    "trace4_pr": (1430856.446, 1218501.968, 2674022.636, 954225.2866, 1488033.596),
}
#: The testbed's trace in a run of the published simulator.
TESTBED = (247452.951389, 233909.1694, 328736.501183, 120033.713815, 127846.003041)
#: They have ten digits, and seven at least.
EXACT = 1e-7


def job(number: int, stages: Stages = (0.2, 0.2, 0.2), **fields: float) -> MuriJob:
    gpus = int(fields.pop("gpus", 1))
    return MuriJob(
        number=number,
        submitted_at=fields.pop("at", 0.0),
        gpus=gpus,
        iteration_seconds=sum(stages),
        stages=stages,
        pause_seconds=0,
        duration_seconds=100.0,
        iterations_left=100.0 / sum(stages),
    )


RUNS = (run_shortest, run_srsf, run_tiresias, run_muri, run_muri_l)


def run_each(trace: str, runs: Sequence[Callable[[list[MuriJob]], Outcome]]) -> list[Outcome]:
    return [run(read_trace(DATA / f"{trace}.csv")) for run in runs]


@are_here
def test_the_baselines_end_jobs_as_in_the_published_simulator() -> None:
    outcomes = run_each("cluster_trace", RUNS[:3])
    assert [each.mean_seconds for each in outcomes] == pytest.approx(TESTBED[:3], abs=1e-6)
    assert outcomes[1].p99_seconds == pytest.approx(3080984.527375, abs=1e-6)
    assert outcomes[2].makespan_seconds == pytest.approx(3991729.08045, abs=1e-6)


@pytest.mark.slow
@are_here
def test_the_testbeds_trace_under_muri_ends_nearly_as_in_the_published_simulator() -> None:
    (outcome,) = run_each("cluster_trace", [run_muri])
    assert outcome.mean_seconds == pytest.approx(TESTBED[3], rel=0.05)
    assert outcome.largest_group == 4


@are_here
@pytest.mark.slow
def test_the_testbeds_trace_under_muri_that_knows_no_durations() -> None:
    (outcome,) = run_each("cluster_trace", [run_muri_l])
    assert outcome.mean_seconds == pytest.approx(TESTBED[4], rel=0.05)
    assert outcome.largest_group == 4


@are_here
@pytest.mark.slow
@pytest.mark.parametrize("trace", PUBLISHED)
def test_the_baselines_of_the_papers_figures(trace: str) -> None:
    means = [each.mean_seconds for each in run_each(trace, RUNS[:3])]
    assert means == pytest.approx(PUBLISHED[trace][:3], rel=EXACT)


@are_here
@pytest.mark.slow
@pytest.mark.parametrize("trace", ["trace3", "trace1"])
def test_muri_in_the_papers_figures(trace: str) -> None:
    """Nothing was unpacked in them."""
    runs = [partial(run_muri, autopack=False), partial(run_muri_l, autopack=False)]
    means = [each.mean_seconds for each in run_each(trace, runs)]
    assert means == pytest.approx(PUBLISHED[trace][3:], rel=0.05)


@are_here
@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "trace", "autopack"), [("testbed", "cluster_trace", True), ("3", "trace3", False)]
)
def test_the_documents_figures_are_what_comes_out(row: str, trace: str, autopack: bool) -> None:
    runs = [*RUNS[:3], partial(run_muri, autopack=autopack), partial(run_muri_l, autopack=autopack)]
    table = (ROOT / "docs" / "reproduction.md").read_text().partition("## Muri: jobs that share")[2]
    line = next(line for line in table.splitlines() if line.startswith(f"| {row} | "))
    _, *cells = line.strip("| ").split(" | ")
    told = [f"{each.mean_seconds:,.0f}" for each in run_each(trace, runs)]
    assert [cell.split(" ")[0] for cell in cells] == told


@are_here
@pytest.mark.slow
def test_where_jobs_need_the_same_resource_sharing_gains_less_than_where_they_differ() -> None:
    gains = []
    for kinds in (1, 4):
        trace = DATA / f"job_type_{kinds}.csv"
        alone, shared = run_srsf(read_trace(trace)), run_muri(read_trace(trace))
        gains.append(alone.mean_seconds / shared.mean_seconds)
    assert gains[0] < 1.1
    assert gains[1] > 1.9


def test_without_a_crowd_nobody_shares() -> None:
    outcome = run_muri([job(number, at=number * 1.0, gpus=8) for number in range(8)])
    assert outcome.sharing_events == 0
    assert outcome.completion_seconds == pytest.approx(dict.fromkeys(range(8), 100.0))


def test_two_jobs_on_one_gpu_whose_stages_complement_each_other_take_turns() -> None:
    on_storage, on_gpu = (0.5, 0.0, 0.0), (0.0, 0.5, 0.0)
    jobs = [job(0, on_storage), job(1, on_gpu)]
    outcome = run_muri(jobs, nodes=1, gpus_per_node=1)
    assert outcome.largest_group == 2
    # Both advance with every turn of the wheel, which takes as long as either alone, and contention.
    assert outcome.completion_seconds == pytest.approx(dict.fromkeys(range(2), 100.0 * CONTENTION[2]))


def test_two_jobs_slower_together_than_one_after_the_other_do_not_share() -> None:
    outcome = run_muri([job(0, (0, 0.5, 0)), job(1, (0, 0.5, 0))], nodes=1, gpus_per_node=1)
    assert outcome.largest_group == 1
    assert sorted(outcome.completion_seconds.values()) == pytest.approx([100.0, 200.0])


def test_without_autopack_they_share_all_the_same() -> None:
    jobs = [job(0, (0, 0.5, 0)), job(1, (0, 0.5, 0))]
    outcome = run_muri(jobs, nodes=1, gpus_per_node=1, autopack=False)
    assert outcome.largest_group == 2
    assert max(outcome.completion_seconds.values()) > 200.0


def test_only_as_many_groups_are_joined_as_the_crowd_makes_necessary() -> None:
    kinds = ((0.5, 0.1, 0), (0.1, 0.5, 0))
    jobs = {1: [job(number, kinds[number % 2]) for number in range(6)]}
    groups = grouped(jobs, gpus_of=int, stages_of=lambda each: each.stages, gpus=5)
    assert sorted(len(group) for group in groups) == [1, 1, 1, 1, 2]
    assert {kinds.index(member.stages) for group in groups if len(group) == 2 for member in group} == {0, 1}


def test_jobs_of_different_sizes_never_share() -> None:
    jobs = {1: [job(0), job(1)], 2: [job(2, gpus=2), job(3, gpus=2)]}
    groups = grouped(jobs, gpus_of=int, stages_of=lambda each: each.stages, gpus=3)
    assert all(len({member.gpus for member in group}) == 1 for group in groups)


def test_a_cycle_does_not_depend_on_who_comes_first() -> None:
    stages = [(0.446, 0.008, 0.0), (0.0005, 0.163, 0.018), (0.082, 0.075, 0.066), (0.723, 0.113, 0.073)]
    for number in (2, 3, 4):
        turned = stages[1:number] + stages[:1]
        assert cycle_seconds(turned) == cycle_seconds(stages[:number])


def test_a_group_is_as_busy_as_its_stages_fill_its_cycle() -> None:
    pair = [(0.5, 0.0, 0.0), (0.0, 0.25, 0.25)]
    assert cycle_seconds(pair) == pytest.approx(0.5 * CONTENTION[2])
    # Two of four resources are busy all the time, but for contention.
    assert efficiency(pair) == pytest.approx(1.0 / (4 * 0.5 * CONTENTION[2]))
    assert group_seconds((job(0, pair[0]),)) == 0.5


def test_a_node_is_filled_before_the_next_and_whole_nodes_are_for_large_jobs() -> None:
    nodes = Nodes(3, 4)
    assert nodes.place(2)
    assert nodes.place(6)
    assert not nodes.place(5)
    assert nodes.place(2)
    assert nodes.place(2)
    assert not nodes.place(1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no jobs"),
        ("job_id,num_gpu\n0,1\n", "no trace of Muri's"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_trace(path)


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(InputError, match="job 0 asks for 9 GPUs"):
        run_muri([job(0, gpus=9)], nodes=1)
