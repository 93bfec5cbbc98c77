"""Parts of GPUs in the counts of policies: a tenant with four quarters has one GPU, not four."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.building_blocks.run_time import left_seconds, remaining_seconds
from scheduler.core.building_blocks.service import attained_service, executed_seconds
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Member, Snapshot
from scheduler.core.policies.singularity.fractions import Fractions
from scheduler.core.policies.themis.apps import apps_of, even_rate, rate_here, rho_now
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.registry import POLICIES
from tests.builders import (
    NOW,
    make_job,
    make_node,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

QUARTER = 0.25
#: They divide the whole GPUs of a view, of which there may be none (docs/gpu-sharing.md).
DIVIDE_WHOLE_GPUS = {"gandiva_fair", "gavel", "themis"}


def world(policy: str, *jobs: Job, gpus: int = 4, running: Any = (), **parameters: Any) -> Snapshot:
    """Tenants A and B in one virtual cluster, on one node."""
    vc = make_virtual_cluster(guaranteed={"V100": gpus}, policy=policy, policy_parameters=parameters)
    members = tuple(Member(tenant=tenant) for tenant in ("A", "B", "vision"))
    return make_snapshot(
        nodes=[make_node(1, gpus=gpus)],
        jobs=jobs,
        running=running,
        virtual_clusters=[replace(vc, members=members)],
        tenants=(),
    )


def started(plan: Plan) -> set[int]:
    return {job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs}


def quarters_beside_two_gpus() -> tuple[list[Job], list[Any]]:
    """A has four quarters, which are one GPU, and B a job of two; one GPU is idle, and both want it."""
    quarters = [make_part(number, QUARTER, tenant="A") for number in range(1, 5)]
    pair = make_job(5, gpus=2, tenant="B")
    running = [make_running(job, [100]) for job in quarters] + [make_running(pair, [101, 102])]
    waiting = [make_job(6, tenant="B", submitted_at=NOW - 50), make_job(7, tenant="A", submitted_at=NOW - 9)]
    return [*quarters, pair, *waiting], running


@pytest.mark.parametrize("policy", ["drf", "fair"])
def test_whose_quarters_are_one_gpu_goes_before_who_has_two(policy: str) -> None:
    jobs, running = quarters_beside_two_gpus()
    plan = decide(world(policy, *jobs, running=running))
    assert started(plan) == {7}
    (reason,) = [each for each in plan.reasons[6] if each.code in ("dominant_share", "fair_share")]
    assert "B holds 50%" in reason.message or "holds 2 now" in reason.message


def test_fair_remembers_what_was_held_in_parts() -> None:
    jobs, running = quarters_beside_two_gpus()
    memory = decide(world("fair", *jobs, running=running)).memory["research"]
    assert memory["gpus"] == {"A": 2.0, "B": 2.0}


def test_a_part_has_received_its_part_and_run_all_the_time() -> None:
    job = make_part(1, QUARTER, replicas=2, attained_service={"V100": 50.0}, estimate_seconds=300.0)
    running = make_running(job, [100, 101], since=NOW - 40)
    assert attained_service(job, running, NOW) == 50 + 40 * 0.5
    assert executed_seconds(job, running, NOW) == 140
    assert remaining_seconds(job, running, NOW, 9.0) == 160
    assert left_seconds(job, running, NOW, 9.0) == 160


@pytest.mark.parametrize(
    ("policy", "parameters", "received"), [("las", {}, 700.0), ("tiresias", {"thresholds": (600.0,)}, 500.0)]
)
def test_who_has_received_fewer_gpu_seconds_in_parts_goes_first(
    policy: str, parameters: dict[str, Any], received: float
) -> None:
    # What the half has had in a thousand seconds are 500 GPU-seconds; the same job with a whole GPU stops.
    rival = make_job(2, attained_service={"V100": received}, attempts=1)
    for job, stops in ((make_part(1, 0.5), False), (make_job(1), True)):
        job = replace(job, submitted_at=NOW - 5_000)
        running = make_running(job, [100], since=NOW - 1_000)
        plan = decide(world(policy, job, rival, gpus=1, running=[running], **parameters))
        assert any(action.kind is ActionKind.STOP for action in plan.actions) == stops


@pytest.mark.parametrize(
    ("policy", "parameters"), [("qssf", {}), ("srtf", {"by_service": True}), ("lucid", {}), ("muri", {})]
)
def test_expected_gpu_seconds_of_a_part_are_its_part(policy: str, parameters: dict[str, Any]) -> None:
    # 0.6 of a GPU for 100 s are 60 GPU-seconds, fewer than 80 of a whole one.
    part = make_part(2, 0.6, estimate_seconds=100.0, submitted_at=NOW - 1)
    whole = make_job(1, estimate_seconds=80.0, submitted_at=NOW - 9)
    assert started(decide(world(policy, whole, part, gpus=1, **parameters))) == {2}


SHARES_TIME = ["gavel", "gandiva_fair", "themis", "shockwave", "allox"]
POOLS = ["pollux", "sia", "singularity", "optimus", "aryl", "slaq"]


@pytest.mark.parametrize("policy", [*SHARES_TIME, *POOLS])
def test_four_quarters_and_a_whole_job_have_their_turns_on_two_gpus_at_once(policy: str) -> None:
    whole = make_job(5, tenant="B", estimate_seconds=900.0)
    assert started(decide(world(policy, *quarters(), whole, gpus=2))) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("policy", [*SHARES_TIME, *POOLS])
def test_a_part_joins_an_open_gpu_where_no_whole_one_is_left(policy: str) -> None:
    half, other = make_part(1, 0.5, estimate_seconds=900.0), make_part(2, 0.5, estimate_seconds=900.0)
    running = make_running(half, [100], since=NOW - 5)
    assert started(decide(world(policy, half, other, gpus=1, running=[running]))) == {2}


def quarters(**fields: Any) -> list[Job]:
    return [
        make_part(number, QUARTER, tenant="A", estimate_seconds=9_000.0, **fields) for number in range(1, 5)
    ]


def test_gavel_gives_four_quarters_of_one_gpu_all_of_their_time() -> None:
    whole = make_job(5, tenant="B", estimate_seconds=9_000.0, gpu_models=("P100",))
    snapshot = world("gavel", *quarters(), whole, gpus=1, profiling=0.0)
    targets = decide(snapshot).memory["research"]["targets"]
    assert targets == {str(number): {"V100": 1.0} for number in range(1, 5)}


def test_gandiva_fair_entitles_to_parts_and_leaves_the_rest_to_others() -> None:
    rivals = [make_job(number, tenant="B") for number in range(5, 9)]
    books = decide(world("gandiva_fair", *quarters(), *rivals)).memory["research"]["books"]
    assert books["entitled"] == {"A": {"V100": 1.0}, "B": {"V100": 3.0}}


def test_four_quarters_of_a_search_are_an_app_of_one_gpu_to_themis() -> None:
    jobs = quarters(search="lr", submitted_at=NOW - 100)
    running = [make_running(job, [100], since=NOW - 100) for job in jobs]
    view = RoundEngine(world("themis", *jobs, gpus=4, running=running)).views()["research"]
    run_options = RunOptions(view)
    (app,) = apps_of(view, run_options)
    assert (app.gpus, app.runnable, app.done) == (1.0, {"V100": 1.0}, 100.0)
    assert rate_here(app, view, run_options) == 1.0
    # On its even part, all four GPUs, it is no faster: sharing did it no harm.
    assert even_rate(app, run_options.gpus, 1.0) == 1.0
    assert rho_now(app, view, run_options, 1.0) == pytest.approx(1.0)


def test_an_auction_of_themis_sells_one_gpu_to_four_quarters() -> None:
    plan = decide(world("themis", *quarters(), gpus=1, fairness_knob=0.0))
    wins = [line for line in plan.ledger["research"] if line.kind == "win"]
    assert [line.gpus for line in wins] == [{"V100": QUARTER}] * 4
    assert wins[0].message.startswith("Won 0.25 V100 for ")


def test_shockwave_plans_four_quarters_of_one_gpu_for_the_same_rounds() -> None:
    late = make_job(5, tenant="B", estimate_seconds=100.0)
    runs = decide(world("shockwave", *quarters(), late, gpus=1)).memory["research"]["plan"]["runs"]["V100"]
    assert runs == {"5": [0], **{str(number): list(range(1, 20)) for number in range(1, 5)}}


def test_allox_counts_the_progress_of_parts() -> None:
    jobs, running = quarters_beside_two_gpus()
    plan = decide(world("allox", *jobs, running=running, alpha=0.5))
    assert started(plan) == {7}


def test_singularity_gives_the_fraction_of_what_a_part_demands() -> None:
    jobs = [make_part(1, QUARTER, submitted_at=NOW - 100), make_job(2, tenant="A", submitted_at=NOW - 100)]
    running = [make_running(jobs[0], [100], since=NOW - 100)]
    view = RoundEngine(world("singularity", *jobs, running=running)).views()["research"]
    fractions = Fractions(view, {}, 3_600.0)
    assert [fractions.of(job) for job in jobs] == [1.0, 0.0]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_lends_what_a_guarantee_leaves_of_the_only_gpu(policy: str) -> None:
    """No GPU is idle as a whole, and none is held in the view: only a part of one is to be had."""
    guest = make_part(2, 0.5, tenant="B", submitted_at=NOW - 9, guaranteed=False)
    host = make_part(1, 0.5, tenant="A")
    running = [make_running(host, [100])]
    plan = decide(replace(world("fifo", host, guest, gpus=1, running=running), spare_policy=policy))
    assert not plan.degraded
    assert started(plan) == (set() if policy in DIVIDE_WHOLE_GPUS else {2})
