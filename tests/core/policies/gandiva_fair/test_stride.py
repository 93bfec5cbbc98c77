"""What users are owed: what of it is borne by all, what is forgotten, what idle GPUs stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.policies.gandiva_fair.stride import Stride
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

ADA, BOB = ("vision", "ada"), ("speech", "bob")
JOBS = (
    make_job(1, 2, tenant="vision", user="ada"),
    make_job(2, 2, tenant="speech", user="bob"),
    make_job(3, 1, tenant="speech", user="bob"),
)


def view_of(jobs: tuple[Job, ...] = JOBS) -> View:
    nodes = make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="K80")
    vc = make_virtual_cluster(guaranteed={"V100": 4, "K80": 4})
    running = [make_running(JOBS[0], [100, 101])]
    snapshot = make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=[vc])
    return next(outcome.view for outcome in RoundEngine(snapshot).outcomes() if outcome.view.guaranteed)


def settled(
    parts: Mapping[tuple[str, str], Mapping[str, float]], holding: Mapping[str, Any], **owed: Any
) -> Stride:
    """After a hundred seconds with these parts and GPUs held."""
    stride = Stride(view_of(), {"at": NOW - 100, "owed": owed, "holding": holding})
    stride.settle(parts)
    return stride


def test_what_one_has_beyond_its_part_another_is_owed() -> None:
    holding = {"vision": {"ada": {"V100": 3}}, "speech": {"bob": {"V100": 1}}}
    stride = settled({ADA: {"V100": 2}, BOB: {"V100": 2}}, holding)
    assert (stride.owed(ADA, "V100"), stride.owed(BOB, "V100")) == (-100, 100)


def test_what_nobody_had_is_nobodys_debt() -> None:
    """Two gangs of three on four GPUs have turns: none comes to two GPUs, and none may claim them later."""
    stride = settled({ADA: {"V100": 2}, BOB: {"V100": 2}}, {"vision": {"ada": {"V100": 3}}})
    assert (stride.owed(ADA, "V100"), stride.owed(BOB, "V100")) == (-150, 150)


def test_who_left_takes_its_debt_along_and_the_others_bear_it_by_their_parts() -> None:
    owed = {"vision": {"ada": {"V100": 30}}, "other": {"cyd": {"V100": -60}}, "speech": {"bob": {"V100": 30}}}
    holding = {"vision": {"ada": {"V100": 1}}, "speech": {"bob": {"V100": 3}}}
    stride = settled({ADA: {"V100": 1}, BOB: {"V100": 3}}, holding, **owed)
    assert (stride.owed(ADA, "V100"), stride.owed(BOB, "V100")) == (15, -15)


def test_idle_gpus_of_another_model_stand_for_those_not_taken() -> None:
    parts = {ADA: {"K80": 2}, BOB: {"K80": 2, "V100": 4}}
    holding = {"vision": {"ada": {"V100": 2}}, "speech": {"bob": {"K80": 2, "V100": 2}}}
    stride = settled(parts, holding)
    assert (stride.owed(ADA, "K80"), stride.owed(BOB, "K80")) == (0, 0)


def test_more_than_so_much_is_forgotten() -> None:
    holding = {"vision": {"ada": {"V100": 4}}}
    stride = settled({ADA: {"V100": 2}, BOB: {"V100": 2}}, holding)
    stride.bound("V100", 150)
    assert (stride.owed(ADA, "V100"), stride.owed(BOB, "V100")) == (-150, 150)


def test_what_is_remembered_is_what_users_hold_once_the_round_is_carried_out() -> None:
    stride = Stride(view_of(), {})
    kept = Decision(grants=(Grant(jobs=(JobId(2),), gpus=2, gpu_model="K80"),), keep_running=True)
    assert stride.remember(kept)["holding"] == {
        "speech": {"bob": {"K80": 2}},
        "vision": {"ada": {"V100": 2}},
    }
    stopped = Decision(grants=(), keep_running=True, stops=(JobId(1),))
    assert stride.remember(stopped)["holding"] == {}


@pytest.mark.parametrize("passed_seconds", [-50.0, 0.0])
def test_a_clock_that_jumps_back_owes_nobody_anything(passed_seconds: float) -> None:
    stride = Stride(view_of(), {"at": NOW - passed_seconds, "holding": {"vision": {"ada": {"V100": 4}}}})
    stride.settle({ADA: {"V100": 2}, BOB: {"V100": 2}})
    assert (stride.owed(ADA, "V100"), stride.owed(BOB, "V100")) == (0, 0)
