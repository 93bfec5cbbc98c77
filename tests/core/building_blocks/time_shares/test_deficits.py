"""What is owed: it grows while a unit waits, is paid off while it runs, and forgives what idle GPUs gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.deficits import Deficits
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.units import TimeShares
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

ONE, TWO = JobId(1), JobId(2)
TARGETS: TimeShares = {(ONE,): {"V100": 0.5, "K80": 0.25}, (TWO,): {"V100": 0.5}}


def view_of(jobs: Sequence[Job], running: Sequence[Running] = ()) -> View:
    nodes = make_node(1, gpus=2), make_node(2, gpus=2, gpu_model="K80")
    vc = make_virtual_cluster(guaranteed={"V100": 2, "K80": 2})
    snapshot = make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=[vc])
    return next(outcome.view for outcome in RoundEngine(snapshot).outcomes() if outcome.view.guaranteed)


def job(number: int, k80: float = 1.0) -> Job:
    return make_job(number, throughput={"V100": 4.0, "K80": k80})


def settled(view: View, memory: Mapping[str, Any], targets: TimeShares = TARGETS) -> Deficits:
    deficits = Deficits(view, {"at": NOW - 100, "reset_at": NOW - 300, **memory}, lease_seconds=360.0)
    deficits.settle(targets, RunOptions(view))
    return deficits


def test_while_a_unit_waits_its_share_of_the_time_adds_up() -> None:
    deficits = settled(view_of([job(1), job(2)]), {"owed": {"1": {"V100": 10.0}}})
    assert deficits.owed((ONE,), "V100") == pytest.approx(60.0)
    assert deficits.owed((ONE,), "K80") == pytest.approx(25.0)


def test_while_it_runs_there_the_time_is_paid_off_and_other_models_stay_due() -> None:
    one = job(1)
    deficits = settled(view_of([one], [make_running(one, [100], since=NOW - 900)]), {})
    assert deficits.owed((ONE,), "V100") == pytest.approx(-50.0)
    assert deficits.owed((ONE,), "K80") == pytest.approx(25.0)
    assert deficits.received == {"1": {"V100": 100.0}}


def test_only_the_time_since_it_started_counts() -> None:
    one = job(1)
    deficits = settled(view_of([one], [make_running(one, [100], since=NOW - 30)]), {})
    assert deficits.owed((ONE,), "V100") == pytest.approx(20.0)
    assert deficits.received == {"1": {"V100": 30.0}}


def test_time_had_beyond_the_target_counts_for_one_lease_at_most() -> None:
    one = job(1)
    deficits = settled(
        view_of([one], [make_running(one, [100], since=NOW - 900)]), {"owed": {"1": {"V100": -350.0}}}
    )
    assert deficits.owed((ONE,), "V100") == -360.0


def costly(seconds: float, overhead: float = 0.1) -> Deficits:
    one = replace(job(1), preemption_cost_seconds=seconds)
    view = view_of([one], [make_running(one, [100], since=NOW - 900)])
    memory = {"at": NOW - 100, "owed": {"1": {"V100": -900.0}}}
    deficits = Deficits(view, memory, lease_seconds=360.0, overhead=overhead)
    deficits.settle(TARGETS, RunOptions(view))
    return deficits


def test_who_runs_stays_until_what_its_preemption_costs_is_a_small_part_of_that_time() -> None:
    assert costly(30.0).worth_staying((ONE,), "V100") == pytest.approx(300.0)
    assert costly(30.0, 0.5).worth_staying((ONE,), "V100") == pytest.approx(60.0)
    # Not elsewhere, not for ever, and not where nobody asked for it or nothing is lost.
    assert costly(30.0).worth_staying((ONE,), "K80") == 0.0
    assert costly(1e6).worth_staying((ONE,), "V100") == 3600.0
    assert costly(30.0, 0.0).worth_staying((ONE,), "V100") == costly(0.0).worth_staying((ONE,), "V100") == 0.0


def test_the_time_for_which_it_was_left_in_its_place_is_not_forgiven() -> None:
    assert costly(30.0).owed((ONE,), "V100") == pytest.approx(-660.0)
    assert costly(0.0).owed((ONE,), "V100") == pytest.approx(-360.0)


@pytest.mark.parametrize(("k80", "owed"), [(1.0, 50.0), (4.0, 0.0), (9.0, 0.0)])
def test_what_was_had_in_passing_on_a_model_as_fast_is_not_owed_again(k80: float, owed: float) -> None:
    two = job(2, k80)
    view = view_of([two], [make_running(two, [200], gpu_model="K80", since=NOW - 900)])
    assert settled(view, {}).owed((TWO,), "V100") == pytest.approx(owed)


def test_a_job_that_is_away_for_a_moment_keeps_its_debts_and_what_it_received() -> None:
    memory = {"owed": {"1": {"V100": 9.0}}, "received": {"1": {"V100": 60.0}}}
    deficits = settled(view_of([job(2)]), memory)
    assert deficits.owed((ONE,), "V100") == 9.0
    assert deficits.received["1"] == {"V100": 60.0}


def test_units_that_are_gone_or_have_no_target_any_more_are_forgotten() -> None:
    memory = {"owed": {"1": {"V100": 9.0}, "2": {"V100": 7.0}, "5": {"V100": 5.0}}}
    deficits = settled(view_of([job(1), job(2)]), memory, {(ONE,): {"K80": 1.0}})
    assert set(deficits.remember()["owed"]) == {"1"}
    assert deficits.remember()["owed"]["1"] == {"K80": 100.0}


def test_many_short_rounds_come_to_the_same_as_a_long_one() -> None:
    one = job(1)
    memory: dict[str, Any] = {"at": NOW}
    view = view_of([one], [make_running(one, [100], since=NOW)])
    for number in range(1, 1001):
        deficits = Deficits(replace(view, now=NOW + number * 0.1), memory, lease_seconds=360.0)
        deficits.settle(TARGETS, RunOptions(view))
        memory = deficits.remember()
    assert memory["received"]["1"]["V100"] == pytest.approx(100.0, abs=0.6)
    assert memory["owed"]["1"]["V100"] == pytest.approx(-50.0, abs=0.6)


def test_when_shares_are_decided_anew_debts_stay_and_what_was_received_is_counted_anew() -> None:
    one = job(1)
    deficits = settled(view_of([one], [make_running(one, [100], since=NOW - 900)]), {})
    deficits.reset({(ONE,): {"V100": 1.0}})
    assert deficits.owed((ONE,), "V100") == pytest.approx(-50.0)
    assert deficits.received == {}
    assert deficits.reset_at == NOW
