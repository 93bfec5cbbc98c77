"""Apps and their finish-time fairness, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.solver_input import solver_input_of
from scheduler.core.model.snapshot import Job, Member
from scheduler.core.policies.themis.apps import (
    App,
    Contention,
    apps_of,
    elapsed_seconds,
    even_rate,
    rho,
    rho_now,
)
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

SPEEDS = {"V100": 4.0, "K80": 1.0}
EQUAL = {"vision": 1.0, "speech": 1.0}


def view_of(jobs: list[Job], weights: dict[str, float] | None = None, **fields: Any) -> View:
    """Eight V100 and eight K80, all of one virtual cluster."""
    vc = make_virtual_cluster(guaranteed={"V100": 8, "K80": 8})
    members = tuple(Member(tenant=name, weight=weight) for name, weight in (weights or EQUAL).items())
    snapshot = make_snapshot(
        nodes=[make_node(1), make_node(2, gpu_model="K80")],
        jobs=jobs,
        virtual_clusters=[replace(vc, members=members)],
        **fields,
    )
    return RoundEngine(snapshot).outcomes()[0].view


def apps(view: View) -> tuple[App, ...]:
    return apps_of(view, RunOptions(view))


def weights_of(found: tuple[App, ...]) -> dict[str, float]:
    return {app.name: app.weight for app in found}


def job(number: int, gpus: int = 1, **fields: Any) -> Job:
    told = {"throughput": SPEEDS, "estimate_seconds": 1_000.0, "submitted_at": NOW - 100}
    return make_job(number, gpus, **{**told, **fields})


def test_an_app_is_a_job_or_a_tenants_jobs_of_one_search() -> None:
    jobs = [
        job(1, search="lr"),
        job(2, search="lr", tenant="speech"),
        job(3, 2, search="lr", submitted_at=NOW - 500),
        job(4),
    ]
    found = {app.name: [one.id for one in app.jobs] for app in apps(view_of(jobs))}
    assert found == {"vision/lr": [3, 1], "speech/lr": [2], "4": [4]}
    search = apps(view_of(jobs))[0]
    assert (search.gpus, elapsed_seconds(search, NOW)) == (3, 500.0)
    # The run time holds on the V100, the best: 1 GPU x 1000 s + 2 x 1000.
    assert search.left == pytest.approx(3_000.0)


def test_what_ran_on_a_slow_model_is_worth_less() -> None:
    jobs = [job(1, 2, attained_service={"K80": 800.0}), job(2)]
    running = [make_running(jobs[1], [200], gpu_model="K80", since=NOW - 400)]
    first, second = apps(view_of(jobs, running=running))
    assert (first.done, first.left) == (pytest.approx(200.0), pytest.approx(1_800.0))
    assert (second.done, second.left) == (pytest.approx(100.0), pytest.approx(900.0))


def test_rho_by_hand() -> None:
    """Two apps: an even part is 4 V100 and 4 K80.

    The gang of 8 uses all of it: 4 + 4/4 = 5 of its 8 GPUs' work a second, so 8000 of work take 1600 s alone.
    Running on all V100 since 100 s it has 7200 left, 900 s: rho = (100 + 900) / 1600.
    The single job has 5/8 of its part on average, a turn that is half on each model: 1000 / 0.625 = 1600 s.
    On a K80 since 100 s 25 are done and 975 left, 3900 s: rho = (100 + 3900) / 1600.
    """
    jobs = [job(1, 8), job(2)]
    running = [
        make_running(jobs[0], range(100, 108), since=NOW - 100),
        make_running(jobs[1], [200], gpu_model="K80", since=NOW - 100),
    ]
    view = view_of(jobs, running=running)
    run_options = RunOptions(view)
    first, second = apps_of(view, run_options)
    assert even_rate(first, run_options.gpus, 2) == pytest.approx(5)
    assert even_rate(second, run_options.gpus, 2) == pytest.approx(0.625)
    assert rho_now(first, view, run_options, 2) == pytest.approx(rho(100, 900, 1_600))
    assert rho_now(second, view, run_options, 2) == pytest.approx(rho(100, 3_900, 1_600))


def test_the_even_part_is_that_of_gavels_isolated_jobs() -> None:
    view = view_of([job(1, 8), job(2, throughput={"V100": 3.0}), job(3, 2), job(4, 4, throughput={})])
    run_options = RunOptions(view)
    solver_input = solver_input_of(view, run_options, by_tenant=False, sharing=False)
    assert solver_input is not None
    isolated = solver_input.instance.isolated_throughput() / solver_input.instance.fastest
    rates = [even_rate(app, run_options.gpus, 4) / app.gpus for app in apps_of(view, run_options)]
    assert rates == pytest.approx(isolated.tolist())


def test_a_gang_over_more_nodes_than_it_needs_is_as_slow_as_known() -> None:
    gang = make_job(
        1, 1, replicas=4, throughput={"V100": 1.0}, estimate_seconds=1_000.0, spread_speeds={"V100": 0.5},
        submitted_at=NOW,
    )  # fmt: skip
    vc = make_virtual_cluster(guaranteed={"V100": 16})
    for places, left in (([[100], [101], [102], [103]], 1_000), ([[100], [101], [200], [201]], 2_000)):
        view = (
            RoundEngine(
                make_snapshot(
                    nodes=[make_node(1), make_node(2)],
                    jobs=[gang],
                    running=[make_running(gang, places, since=NOW)],
                    virtual_clusters=[vc],
                )
            )
            .outcomes()[0]
            .view
        )
        assert rho_now(apps(view)[0], view, RunOptions(view), 1) == pytest.approx(left / 1_000)


def test_contention_counts_weights_and_the_highest_priority() -> None:
    """Weights: 3 of the tenant x 1, 1 x 2 for priority 1: the total is 5."""
    found = apps(view_of([job(1), job(2, tenant="speech", priority=1)], {"vision": 3.0, "speech": 1.0}))
    contention = Contention({}, NOW, weights_of(found))
    assert [contention.of(app) for app in found] == [pytest.approx(5 / 3), pytest.approx(5 / 2)]


def test_weights_out_of_all_proportion_leave_everyone_a_part() -> None:
    found = apps(view_of([job(1), job(2, tenant="speech")], {"vision": 1e-300, "speech": 1e12}))
    contention = Contention({}, NOW, {app.name: app.weight for app in found})
    assert [contention.of(app) for app in found] == [1e9, 1.0]


def test_mean_contention_is_over_the_life_however_many_rounds_look() -> None:
    """Alone for 100 s, one of three for 300 s: (1 x 100 + 3 x 300) / 400 = 2.5; the others saw 3 only."""
    first = job(1, submitted_at=NOW)
    others = [job(2, submitted_at=NOW + 100), job(3, submitted_at=NOW + 100)]

    def after(instants: list[float]) -> list[float]:
        memory: dict[str, Any] = {}
        for instant in instants:
            jobs = [one for one in [first, *others] if one.submitted_at <= instant]
            found = apps(view_of(jobs, now=instant))
            contention = Contention(memory, instant, weights_of(found))
            memory = contention.remember()
        return [contention.of(app) for app in found]

    few = after([NOW, NOW + 100, NOW + 400])
    assert few == pytest.approx([2.5, 3, 3])
    assert after([NOW + 20.0 * step for step in range(21)]) == few
    # What nobody remembers is taken to have been as it is now.
    assert after([NOW + 400]) == pytest.approx([3, 3, 3])
