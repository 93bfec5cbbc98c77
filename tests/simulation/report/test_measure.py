"""Every number of the report, worked out by hand on runs of a few jobs."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from scheduler.simulation.report.comparison import summary_table
from scheduler.simulation.report.distribution import distribution
from scheduler.simulation.report.measure import final_status, measure
from scheduler.simulation.report.tables import share_table
from tests.simulation.report.synthetic import month, record, result, sample, stay

HOUR = 3600.0


def three_in_a_row():
    """One GPU, three jobs submitted at 0, 0 and 50 that run one after another for 100, 200 and 100 s."""
    return result(
        [
            record(1, started=0, ended=100, tenant="vision"),
            record(2, started=100, ended=300, tenant="vision", gpus=1),
            record(3, submitted=50, started=300, ended=400, tenant="speech", virtual_cluster="speech-vc"),
        ],
        gpus=1,
        samples=(
            sample(0, 1, usable=1, waiting=1),
            sample(50, 1, usable=1, waiting=2),
            sample(300, 1, usable=1),
        ),
    )


def test_completion_and_queueing_of_three_jobs_in_a_row() -> None:
    measures = measure(three_in_a_row())
    # JCTs 100, 300, 350; queueing 0, 100, 250.
    assert measures.completion_seconds.mean == 250
    assert measures.completion_seconds.median == 300
    assert measures.completion_seconds.max == 350
    # Type 7: rank 0.9 · (3 - 1) = 1.8, so 300 + 0.8 · 50.
    assert measures.completion_seconds.p90 == pytest.approx(340)
    assert measures.completion_seconds.p99 == pytest.approx(349)
    assert measures.queueing_seconds.mean == pytest.approx(350 / 3)
    assert measures.completion_seconds.cdf.values == (100, 300, 350)
    assert measures.completion_seconds.cdf.fractions == pytest.approx((1 / 3, 2 / 3, 1), abs=1e-6)
    assert measures.makespan_seconds == 400
    # JCT / run time alone: 1, 1.5, 3.5.
    assert measures.slowdown.mean == pytest.approx(2)


def test_finish_time_fairness_by_hand() -> None:
    """Jobs in the system: 2 until 50, 3 until 100, 2 until 300, 1 until 400; the cluster has one GPU."""
    rho = measure(three_in_a_row()).fairness.rho
    contention = (2.5, (50 * 2 + 50 * 3 + 200 * 2) / 300, (50 * 3 + 200 * 2 + 100) / 350)
    expected = (100 / (100 * contention[0]), 300 / (200 * contention[1]), 350 / (100 * contention[2]))
    assert rho.mean == pytest.approx(sum(expected) / 3)
    assert rho.max == pytest.approx(max(expected)) == pytest.approx(350 * 350 / 65_000)


def test_a_gang_larger_than_its_share_may_take_longer() -> None:
    """Two jobs on four GPUs: a share is two GPUs, so the gang of four would take twice its 100 s, and did."""
    two = result(
        [
            record(1, started=0, ended=200, gpus=4, work_seconds=100),
            record(2, started=0, ended=200, work_seconds=100),
        ]
    )
    fairness = measure(two).fairness
    # The gang: 200 / (100 · 4 · 2 / 4) = 1. The single GPU: its share was enough for it, 200 / 100 = 2.
    assert fairness.rho.mean == pytest.approx(1.5)
    assert fairness.rho_above_one == 0.5


def test_jobs_without_work_have_no_slowdown_and_no_rho_and_are_counted() -> None:
    jobs = [
        record(1, started=0, ended=200, work_seconds=100),
        record(2, started=50, ended=50, work_seconds=0),
        record(3, started=0, ended=100, work_seconds=0),
    ]
    measures = measure(result(jobs))
    assert measures.jobs.without_work == 2
    assert measures.jobs.ended == measures.completion_seconds.count == 3
    assert (measures.slowdown.count, measures.slowdown.mean) == (1, 2.0)
    assert measures.fairness.rho.count == 1
    assert measures.by_gang_size[0].mean_rho == measures.fairness.rho.mean
    assert measures.fairness.tenants[0].worst_rho == measures.fairness.rho.mean
    assert "slowdown and ρ leave out 2 jobs without work" in summary_table([measures])
    nothing = measure(result(jobs[1:]))
    assert (nothing.slowdown, nothing.fairness.rho, nothing.fairness.rho_above_one) == (None, None, None)


def test_one_tenant_is_not_asked_whether_it_were_better_off_alone() -> None:
    """It waited, but for its own jobs alone."""
    measures = measure(result([record(1, started=100, ended=200), record(2, started=150, ended=200)]))
    assert [share.better_off_alone for share in measures.fairness.tenants] == [None]
    row = next(
        line for line in summary_table([measures]).splitlines() if line.startswith("Tenants better off")
    )
    assert row.split()[-1] == "–"
    assert "–" in [cell.text for cell in share_table([measures]).rows[0].cells]


def test_what_tenants_were_entitled_to_had_and_would_have_had_alone() -> None:
    """Four GPUs, of which vision asks for one and speech for four, and a third member for none."""
    members = {"vision-vc": {"vision": 1.0, "speech": 1.0, "nobody": 2.0}}
    jobs = [
        record(1, started=0, ended=3600),
        record(2, started=2700, ended=3600, gpus=4, tenant="speech"),
    ]
    guaranteed = {"vision-vc": {"V100": 4}}
    fairness = measure(result(jobs, members=members, guaranteed=guaranteed)).fairness
    speech, vision = fairness.tenants
    # Speech has what vision leaves of four; alone, with the third member there, a quarter of them.
    assert (vision.entitled_gpu_hours, vision.alone_gpu_hours) == (pytest.approx(1), pytest.approx(1))
    assert (speech.entitled_gpu_hours, speech.alone_gpu_hours) == (pytest.approx(3), pytest.approx(1))
    assert (vision.received_gpu_hours, speech.received_gpu_hours) == (1, 1)
    assert {share.better_off_alone for share in fairness.tenants} == {False}
    assert fairness.jain_of_parts == pytest.approx((1 + 1 / 3) ** 2 / (2 * (1 + 1 / 9)))
    # A GPU for half the hour would have been less than a quarter of four.
    late = [jobs[0], record(2, started=1800, ended=3600, submitted=0, tenant="speech")]
    worse = measure(result(late, members=members, guaranteed=guaranteed)).fairness
    assert [share.better_off_alone for share in worse.tenants] == [True, False]


def test_gpu_time_is_worth_what_a_tenants_jobs_make_of_it() -> None:
    """Vision has both fast GPUs and speech both slow ones, which are less to it than one of each."""
    jobs = [
        record(1, started=0, ended=3600, gpus=2),
        record(2, started=0, ended=3600, gpus=2, tenant="speech"),
    ]
    stays = [stay(1, (0, 1), 0, 3600), stay(2, (2, 3), 0, 3600)]
    run = result(
        jobs,
        stays=(stays[0], replace(stays[1], gpu_model="K80")),
        members={"vision-vc": {"vision": 1.0, "speech": 1.0}},
        guaranteed={"vision-vc": {"V100": 2, "K80": 2}},
        speeds={"vision": {"V100": 1.0, "K80": 0.25}, "speech": {"V100": 1.0, "K80": 0.75}},
    )
    speech, vision = measure(run).fairness.tenants
    # Alone each has one V100 and one K80.
    assert (vision.worth_gpu_hours, vision.alone_gpu_hours) == (2.0, pytest.approx(1.25))
    assert (speech.worth_gpu_hours, speech.alone_gpu_hours) == (1.5, pytest.approx(1.75))
    assert (speech.received_gpu_hours, speech.better_off_alone) == (2.0, True)


def test_the_jobs_of_a_search_are_one_app() -> None:
    """Two jobs of 100 s each, one after the other, would have run side by side on half of four GPUs."""
    search = [
        record(1, started=0, ended=100, search="lr"),
        record(2, started=100, ended=200, search="lr"),
        record(3, started=0, ended=200, tenant="speech"),
    ]
    speech, vision = measure(result(search)).fairness.tenants
    assert (vision.apps, vision.worst_rho, vision.rho_above_one) == (1, pytest.approx(2.0), 1.0)
    assert (speech.apps, speech.worst_rho, speech.rho_above_one) == (1, pytest.approx(1.0), 0.0)


def test_the_run_time_alone_is_on_the_best_model() -> None:
    """Work of 300 s at a rate of 3 is 100 s alone; it took 400 s."""
    assert (
        measure(result([record(1, started=0, ended=400, work_seconds=300, best_rate=3.0)])).slowdown.mean == 4
    )


def test_a_window_measures_jobs_by_arrival_and_the_cluster_whole() -> None:
    measures = measure(three_in_a_row(), window=(1, 2))
    assert measures.jobs.measured == 1
    assert measures.jobs.workload == 3
    assert measures.completion_seconds.mean == 300
    assert [group.name for group in measures.by_tenant] == ["vision"]
    assert measures.makespan_seconds == 400
    assert measures.gpu_hours == pytest.approx(400 / HOUR)
    # The others are measured no more, but the job met them all the same.
    assert measures.fairness.rho.mean == pytest.approx(300 / (200 * 650 / 300))


def test_a_window_without_jobs_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="window 3:9 holds no job; jobs are counted from 0 to 2 here"):
        measure(three_in_a_row(), window=(3, 9))


def test_use_of_the_cluster_is_weighted_by_time() -> None:
    """4 GPUs held for 10 s, 1 for 30 s with 3 idle GPUs of which two thirds are of no use."""
    use = measure(
        result(
            [record(1, started=0, ended=40)],
            samples=(sample(0, 4, waiting=6), sample(5, 4, waiting=6), sample(10, 1, fragmentation=2 / 3)),
        )
    ).cluster_use
    assert use.utilisation == pytest.approx((4 * 10 + 1 * 30) / (4 * 40))
    assert use.fragmentation == pytest.approx(2 / 3 * 30 / 40)
    assert use.stranded == pytest.approx(2 * 30 / (4 * 40))
    assert use.mean_waiting_jobs == pytest.approx(6 * 10 / 40)
    assert use.most_waiting_jobs == 6
    # Three intervals of 13.33 s: the first has 10 s of 4 GPUs and 3.33 s of 1.
    assert use.series.step_seconds == pytest.approx(40 / 3)
    assert use.series.utilisation == pytest.approx(((40 + 10 / 3) / (4 * 40 / 3), 0.25, 0.25), abs=1e-4)


def test_lost_nodes_are_no_use_of_the_others() -> None:
    use = measure(
        result([record(1, started=0, ended=20)], samples=(sample(0, 4), sample(10, 1, usable=2)))
    ).cluster_use
    assert use.utilisation == pytest.approx((40 + 10) / (40 + 20))


def test_series_are_short_and_keep_the_mean() -> None:
    one = month(2_000, nodes=4, seed=3, policy="fifo")
    use = measure(one).cluster_use
    assert len(one.samples) == 4_000
    assert len(use.series.utilisation) == 500
    assert float(np.mean(use.series.utilisation)) == pytest.approx(use.utilisation, abs=1e-4)
    assert float(np.mean(use.series.waiting_jobs)) == pytest.approx(use.mean_waiting_jobs, abs=1e-3)


def test_curves_are_short_made_of_values_that_occurred_and_end_at_one() -> None:
    values = np.random.default_rng(1).lognormal(size=5_431)
    curve = distribution(values, curve=True).cdf
    assert len(curve.values) == 200
    assert curve.values[-1] == values.max()
    assert curve.fractions[-1] == 1
    assert set(curve.values) <= set(values.tolist())
    for value, fraction in list(zip(curve.values, curve.fractions, strict=True))[::40]:
        assert float((values <= value).mean()) == pytest.approx(fraction, abs=1e-6)


def test_groups_by_size_are_those_of_papers() -> None:
    sizes = (1, 2, 4, 5, 8, 9, 64)
    groups = measure(
        result([record(number, started=0, ended=10, gpus=gpus) for number, gpus in enumerate(sizes, 1)])
    ).by_gang_size
    assert [(group.name, group.jobs) for group in groups] == [
        ("1 GPU", 1), ("2-4 GPUs", 2), ("5-8 GPUs", 2), ("> 8 GPUs", 2)
    ]  # fmt: skip


def test_groups_by_tenant_and_virtual_cluster_the_largest_first() -> None:
    measures = measure(three_in_a_row())
    assert [(group.name, group.jobs, group.gpu_hours * HOUR) for group in measures.by_tenant] == [
        ("vision", 2, pytest.approx(300)),
        ("speech", 1, pytest.approx(100)),
    ]
    assert [group.name for group in measures.by_virtual_cluster] == ["vision-vc", "speech-vc"]
    assert measures.by_virtual_cluster[1].queueing_seconds.mean == 250


def test_jain_index() -> None:
    # Tenants with 300 and 100 GPU-seconds: 400² / (2 · (300² + 100²)).
    assert measure(three_in_a_row()).fairness.jain_gpu_time == pytest.approx(0.8)


def test_jobs_that_did_not_end_are_counted_and_not_averaged() -> None:
    measures = measure(
        result(
            [
                record(1, started=0, ended=100),
                record(2, started=50, ended=None, gpu_seconds=50.0),
                record(3, started=None, ended=None),
                record(4, started=None, ended=None, outcome="never"),
                record(5, started=None, ended=30, outcome="cancelled"),
            ],
            ended_at=100.0,
            cut_short="interrupted",
        )
    )
    assert msgspec.to_builtins(measures.jobs) == {
        "workload": 5, "measured": 5, "ended": 1, "ended_waiting": 1, "running": 1, "waiting": 1, "never": 1,
        "without_work": 0,
    }  # fmt: skip
    assert measures.completion_seconds.count == 1
    assert measures.queueing_seconds.count == 2
    assert measures.makespan_seconds is None
    # Four jobs were possible, and there when the others were: 4, less one after 30 s, over 100 s on 4 GPUs.
    assert measures.fairness.rho.mean == 1


def test_an_empty_workload_has_no_figures() -> None:
    assert measure(result([])).fairness.rho is None


def test_nothing_ended_leaves_the_figures_out() -> None:
    measures = measure(result([record(1, started=None, ended=None)], ended_at=0.0))
    assert measures.completion_seconds is None
    assert measures.cluster_use is None
    assert measures.fairness.jain_gpu_time is None


def test_gpu_hours_by_final_status_add_up() -> None:
    measures = measure(
        result(
            [
                record(1, started=0, ended=HOUR, gpus=2, overhead_gpu_seconds=0.25 * HOUR),
                record(2, started=0, ended=HOUR, status="killed"),
                record(3, started=0, ended=HOUR, outcome="failed", lost_gpu_seconds=HOUR),
                record(4, started=0, ended=None, gpu_seconds=HOUR / 2),
            ]
        )
    )
    assert [(row.status, row.jobs, row.gpu_hours, row.useful_gpu_hours) for row in measures.by_status] == [
        ("passed", 1, 2, 1.75),
        ("killed", 1, 1, 1),
        ("failed", 1, 1, 0),
        ("unfinished", 1, 0.5, 0.5),
    ]
    assert measures.interruptions.cost_share == pytest.approx(1.25 / 4.5)


@pytest.mark.parametrize(
    ("outcome", "status", "expected"),
    [
        ("succeeded", "passed", "passed"),
        ("succeeded", "killed", "killed"),
        ("failed", "passed", "failed"),
        ("cancelled", "passed", "killed"),
        ("waiting", "passed", "unfinished"),
        ("never", "passed", "never"),
    ],
)
def test_final_status(outcome: str, status: str, expected: str) -> None:
    assert final_status(record(1, started=None, ended=None, outcome=outcome, status=status)) == expected


def test_what_preemptions_cost() -> None:
    measures = measure(
        result(
            [
                record(1, started=0, ended=3 * HOUR, gpus=2, preemptions=2, migrations=1,
                       lost_gpu_seconds=HOUR, overhead_gpu_seconds=HOUR / 2),
                record(2, started=0, ended=HOUR),
            ],
            stays=(
                stay(1, (0, 1), 0, HOUR, "preempted", overhead_seconds=90, lost_seconds=HOUR / 2),
                stay(1, (0, 1), HOUR, 3 * HOUR),
                stay(2, (2,), 0, HOUR),
            ),
        )
    ).interruptions  # fmt: skip
    assert (
        measures.preemptions,
        measures.preempted_jobs,
        measures.most_preemptions,
        measures.migrations,
    ) == (2, 1, 2, 1)
    assert measures.cost_share == pytest.approx(1.5 / 7)
    finished, preempted = measures.ends
    assert (finished.end, finished.stays, finished.gpu_hours) == ("finished", 2, 5)
    assert (preempted.gpu_hours, preempted.overhead_gpu_hours, preempted.lost_work_gpu_hours) == (2, 0.05, 1)


def test_measures_are_json() -> None:
    text = msgspec.json.encode(measure(three_in_a_row()))
    assert json.loads(text)["fairness"]["jain_gpu_time"] == pytest.approx(0.8)
