"""Fairness by API: one's own tenants by name, all others as one; violations, and a minute's history."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from scheduler.models import CreditTransfer, FairnessSample, FairnessState, FairnessViolation
from scheduler.wiring.clock import database_now
from tests.api.caller import is_error
from tests.scheduler.builders import make_account, make_loan, make_tenant, make_vc
from tests.scheduler.conftest import World

SUMMARY = "/virtual-clusters/research/fairness"
HISTORY = f"{SUMMARY}/history"


def row(tenant: str, **fields: Any) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "weight": 1.0,
        "jobs_running": 1,
        "jobs_waiting": 2,
        "demand_gpus": 3.0,
        "own_part": {"V100": 2.5},
        "entitled": {"V100": 3.0},
        "received": {"V100": 1.0},
        "received_mean": 1.5,
        "entitled_mean": 3.0,
        "rho_worst": 1.5,
        "rho_mean": 1.25,
        "envy": 0.25,
        "envies": "red",
        "borrowed": 1.0,
        "lent": 0.5,
        "traded_in": {},
        "traded_out": {"K80": 1.0},
        "speed_here": 1.0,
        "speed_alone": 2.5,
        "gain": 0.6,
        "better_off_alone": True,
        **fields,
    }


def write_sample(tenant: str, at: datetime, received: float) -> None:
    FairnessSample.objects.create(
        virtual_cluster="research",
        tenant=tenant,
        at=at,
        seconds=60,
        received_gpu_seconds=received * 60,
        here_gpu_seconds=30,
        alone_gpu_seconds=60,
    )


@pytest.fixture
def accounted(world: World) -> datetime:
    """Vision and two others, who do better, as of now."""
    at = database_now()
    for name in ("red", "blue"):
        make_tenant(name)
    FairnessState.objects.create(
        virtual_cluster="research",
        at=at,
        round_number=7,
        policy="gandiva_fair",
        tenants=[row("vision"), row("blue", envies=None), row("red", envies="vision")],
    )
    for tenant in ("vision", "red"):
        FairnessViolation.objects.create(
            virtual_cluster="research",
            tenant=tenant,
            began_at=at,
            worst=0.5,
            cause="quota",
            message=f"Words about {tenant}.",
            round_number=7,
        )
    return at


def test_before_the_first_account_nothing_is_known(world: World) -> None:
    assert world.viewer.get(SUMMARY).json() == {
        "at": None,
        "window_seconds": 600.0,
        "fraction_seconds": 3600.0,
        "policy": "fifo",
        "tenants": [],
        "open_violations": 0,
    }
    assert world.viewer.get(HISTORY).json()["results"] == []
    is_error(world.viewer.get("/virtual-clusters/nowhere/fairness"), 404, "not_found")


def test_members_see_their_tenants_and_all_others_as_one(world: World, accounted: datetime) -> None:
    body = world.viewer.get(SUMMARY).json()
    assert (body["policy"], body["open_violations"]) == ("gandiva_fair", 1)
    mine, others = body["tenants"]
    no_tier = {"tier": None, "guaranteed_fraction": None, "gpu_fraction": None}
    assert mine == {**row("vision"), **no_tier, "envies": "another tenant", "paid": 0.0}
    assert (others["tenant"], others["jobs_waiting"], others["own_part"]) == ("others", 4, {"V100": 5.0})
    assert (others["gain"], others["rho_worst"], others["envies"], others["lent"]) == (None, None, None, 1.0)
    assert set(others) == set(mine)
    assert [each["tenant"] for each in world.stranger.get(SUMMARY).json()["tenants"]] == ["others"]
    every = world.operator.get(SUMMARY).json()
    assert [each["tenant"] for each in every["tenants"]] == ["blue", "red", "vision"]
    assert (every["tenants"][2]["envies"], every["open_violations"]) == ("red", 2)


def test_tiers_and_fractions_are_seen_by_whom_they_concern(world: World, accounted: datetime) -> None:
    parameters = {"premium": ["vision"], "basic": ["red"], "window_seconds": 1_800.0}
    vc = world.virtual_cluster
    vc.policy, vc.policy_parameters = "singularity", parameters
    vc.save()
    minute = accounted.replace(second=0, microsecond=0)
    for ago, tenant, useful in ((45, "vision", 0), (2, "vision", 60), (1, "vision", 120), (1, "red", 30)):
        FairnessSample.objects.create(
            virtual_cluster="research",
            tenant=tenant,
            at=minute - timedelta(minutes=ago),
            seconds=60,
            tier_demand_gpu_seconds=120,
            useful_gpu_seconds=useful,
        )
    body = world.viewer.get(SUMMARY).json()
    assert body["fraction_seconds"] == 1_800
    names = ("tenant", "tier", "guaranteed_fraction", "gpu_fraction")
    mine, others = ([each[name] for name in names] for each in body["tenants"])
    assert mine == ["vision", "premium", 0.95, 0.75]
    assert others == ["others", None, None, None]
    every = [[each[name] for name in names] for each in world.operator.get(SUMMARY).json()["tenants"]]
    assert every[:2] == [["blue", "standard", 0.7, None], ["red", "basic", 0.0, 0.25]]
    history = world.viewer.get(HISTORY).json()["results"]
    assert [each["gpu_fraction"] for each in history] == [0.0, 0.5, 1.0]


def test_violations_are_seen_by_whom_they_concern(world: World, accounted: datetime) -> None:
    (mine,) = world.viewer.get("/fairness/violations").json()["results"]
    assert (mine["tenant"], mine["message"], mine["ended_at"]) == ("vision", "Words about vision.", None)
    assert world.stranger.get("/fairness/violations").json()["results"] == []
    every = world.operator.get("/fairness/violations?virtual_cluster=research").json()["results"]
    assert [each["tenant"] for each in every] == ["red", "vision"]
    FairnessViolation.objects.filter(tenant="red").update(ended_at=accounted)
    for query, tenants in (("open=true", ["vision"]), ("open=false", ["red"]), ("tenant=red", ["red"])):
        found = world.operator.get(f"/fairness/violations?{query}").json()["results"]
        assert [each["tenant"] for each in found] == tenants
    text = world.operator.get("/metrics").content.decode()
    assert 'allot_fairness_violations{virtual_cluster="research"} 1.0' in text
    assert 'allot_rho_worst{virtual_cluster="research"} 1.5' in text


def test_history_comes_by_the_minute_the_oldest_first(world: World, accounted: datetime) -> None:
    minute = accounted.replace(second=0, microsecond=0)
    for ago in (3_000, 2, 1):
        for tenant, received in (("blue", 1.0), ("red", 2.0), ("vision", 4.0)):
            write_sample(tenant, minute - timedelta(minutes=ago), received)
    mine = world.viewer.get(HISTORY).json()["results"]
    assert [(each["tenant"], each["received"], each["gain"]) for each in mine] == [("vision", 4.0, 0.5)] * 2
    assert mine[0]["at"] < mine[1]["at"]
    assert len(world.viewer.get(f"{HISTORY}?hours=100").json()["results"]) == 3
    assert len(world.operator.get(HISTORY).json()["results"]) == 6
    assert len(world.operator.get(f"{HISTORY}?tenant=red").json()["results"]) == 2
    assert world.viewer.get(f"{HISTORY}?tenant=red").json()["results"] == []
    others = world.viewer.get(f"{HISTORY}?tenant=others&page_size=1").json()
    assert [(each["received"], each["gain"]) for each in others["results"]] == [(3.0, None)]
    assert world.viewer.get(others["next"]).json()["results"][0]["at"] == mine[1]["at"]
    assert world.operator.get(f"{HISTORY}?tenant=others").json()["results"] == []
    is_error(world.viewer.get(f"{HISTORY}?hours=-1"), 400, "invalid")


def test_what_was_paid_is_for_members_and_operators(world: World, accounted: datetime) -> None:
    lender = make_vc("lender")
    CreditTransfer.objects.create(
        at=accounted,
        kind="payment",
        debit=make_account(world.virtual_cluster, 9),
        credit=make_account(lender),
        amount=1_500,
        loan=make_loan(lender, world.virtual_cluster, {"V100": 1}),
        by="user vera",
    )
    write_sample("vision", accounted.replace(second=0, microsecond=0), 1.0)
    assert world.viewer.get(SUMMARY).json()["tenants"][0]["paid"] == 1.5
    assert [each["paid"] for each in world.viewer.get(HISTORY).json()["results"]] == [1.5]
    assert world.operator.get(SUMMARY).json()["tenants"][0]["paid"] == 1.5
    assert world.stranger.get(SUMMARY).json()["tenants"][0]["paid"] == 0.0
