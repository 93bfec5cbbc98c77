"""Targets of a virtual cluster: all see how it is divided, nobody sees others' jobs."""

import pytest

from scheduler.models import PolicyMemory
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_tenant
from tests.scheduler.conftest import World

SUMMARY = "/virtual-clusters/research/targets"
JOBS = f"{SUMMARY}/jobs"


def remember(view: str = "research", **memory: object) -> None:
    PolicyMemory.objects.create(view=view, memory=memory)


def test_a_policy_without_targets_has_none(world: World) -> None:
    remember(started=[1, 2])
    nothing = {"objective": None, "decided_at": None, "tenants": []}
    assert world.member.get(SUMMARY).json() == nothing
    assert world.member.get(JOBS).json()["results"] == []


def test_shares_alone_and_in_company_add_up_and_time_had_is_a_part_of_what_passed(world: World) -> None:
    mine = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2, name="mine")
    other = make_job(tenant=make_tenant("red"), virtual_cluster=world.virtual_cluster, name="theirs")
    ended = make_job(
        tenant=world.tenant,
        virtual_cluster=world.virtual_cluster,
        state="failed",
        columns={"ended_at": database_now()},
    )
    make_attempt(mine, gpus_of(world.node)[:2])
    remember(
        policy="gavel",
        objective="max_min",
        reset_at=database_now().timestamp() - 100,
        targets={
            str(mine.id): {"V100": 0.5, "K80": 0.25},
            str(other.id): {"K80": 1.0},
            str(ended.id): {"K80": 1.0},
        },
        shared={f"{mine.id}+{other.id}": {"V100": 0.125}},
        received={str(mine.id): {"V100": 40.0}},
    )

    body = world.operator.get(SUMMARY).json()
    assert body["objective"] == "max_min"
    assert body["decided_at"]
    assert body["tenants"] == [
        {"tenant": "red", "jobs": 1, "gpus": {"K80": 1.0, "V100": 0.125}},
        {"tenant": "vision", "jobs": 1, "gpus": {"V100": 1.25, "K80": 0.5}},
    ]
    assert [line["tenant"] for line in world.member.get(SUMMARY).json()["tenants"]] == ["vision", "others"]
    assert [line["tenant"] for line in world.stranger.get(SUMMARY).json()["tenants"]] == ["others"]

    assert [row["name"] for row in world.operator.get(JOBS).json()["results"]] == ["theirs", "mine"]
    (row,) = world.member.get(JOBS).json()["results"]
    assert row["targets"] == {"V100": 0.625, "K80": 0.25}
    assert row["received"]["V100"] == pytest.approx(0.4, abs=0.02)
    assert (row["job"], row["gpus"], row["gpu_model"]) == (mine.id, 2, "V100")
    assert world.stranger.get(JOBS).json()["results"] == []


def test_jobs_come_in_pages(world: World) -> None:
    jobs = [make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster) for _ in range(3)]
    remember(objective="max_min", targets={str(job.id): {"V100": 1.0} for job in jobs})
    first = world.member.get(f"{JOBS}?page_size=2").json()
    assert [row["job"] for row in first["results"]] == [jobs[2].id, jobs[1].id]
    assert first["next"]
