"""A preview, a what-if question and the round itself say the same of a job: whether it starts at once."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model import codec
from scheduler.forecasts.services.answers import answer
from scheduler.models import Attempt, Round, WhatIf
from scheduler.rounds.replay import decided_again
from scheduler.rounds.run import run_round
from scheduler.wiring.clock import database_now
from tenants.models import Quota
from tests.effort import examples
from tests.scheduler.builders import gpus_of, make_attempt, make_gpu_model, make_job, make_node
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

#: Every fact that one of them could have and another not.
WITH_GPUS = st.fixed_dictionaries(
    {"gpu": st.sampled_from([1, 2, 4, 0.25, 0.5])},
    optional={
        "gpu_model": st.sampled_from(["V100", "K80", ["K80", "V100"]]),
        "cpu": st.sampled_from([1, 12]),
        "memory": st.sampled_from(["1GiB", "100GiB"]),
    },
)
WITHOUT_GPUS = st.fixed_dictionaries(
    {"gpu": st.just(0), "cpu": st.sampled_from([1, 12, 20])},
    optional={"gpu_model": st.just("V100"), "memory": st.sampled_from(["1GiB", "40GiB"])},
)
RESOURCES = WITH_GPUS | WITHOUT_GPUS
SPECS = st.fixed_dictionaries(
    {
        "name": st.just("new"),
        "tasks": st.tuples(
            st.fixed_dictionaries(
                {
                    "replicas": st.integers(1, 4),
                    "resources": RESOURCES,
                    "command": st.just(["true"]),
                }
            )
        ).map(list),
    },
    optional={
        "guarantee": st.just("opportunistic"),
        "image": st.just("team/torch"),
        "ports": st.just([{"name": "page", "port": 8888}]),
        "nodes": st.sampled_from([{"only": ["node-a"]}, {"avoid": ["node-c"]}]),
        "time_limit": st.sampled_from(["10m", "4h"]),
        "throughput": st.just({"V100": 10, "K80": 0}),
    },
)


@pytest.fixture
def busy(world: World) -> World:
    """Six of eight V100 are in use by a job with a port; four K80 are behind a node without containers, and
    one that closes in an hour. A node has no GPUs. The tenant's quota leaves it little."""
    world.node.isolation = {"container": True}
    world.node.cpus, world.node.memory_bytes = 16.0, 64 * 2**30
    world.node.save()
    make_node("node-b", gpus=2, gpu_model="K80", cpus=8.0, memory_bytes=32 * 2**30)
    closing = make_node("node-c", gpus=2, gpu_model="K80", cpus=8.0, memory_bytes=32 * 2**30)
    closing.draining, closing.drain_deadline = True, closing.lease_expires_at
    closing.save()
    make_node("node-d", gpus=0, cpus=20.0, memory_bytes=40 * 2**30)
    Quota.objects.create(tenant=world.tenant, gpu_model=make_gpu_model("V100"), gpus=8)
    world.tenant.quota_cpus, world.tenant.quota_memory_bytes = 64.0, 200 * 2**30
    world.tenant.save()
    world.virtual_cluster.guarantees.create(gpu_model=make_gpu_model("K80"), gpus=3)
    running = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=6)
    running.shape["ports"] = [8888]
    running.save()
    make_attempt(running, gpus_of(world.node)[:6])
    return world


def foreseen(world: World, normalised: Any) -> bool:
    """Whether the job would start at once, by a what-if question."""
    user = world.tenant.memberships.get(user__username="mia").user
    question = {"tenant": "vision", "spec": normalised}
    row = WhatIf.objects.create(asked_by=user, asked_at=database_now(), question=question)
    answer(str(row.id))
    row.refresh_from_db()
    (subject,) = row.answer["subjects"]
    return subject["after"]["starts_at"] == row.answer["made_at"]


# Each example is taken back: the facts are the same for all.
@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(spec=SPECS)
def test_all_say_alike_whether_a_job_starts_at_once(busy: World, spec: dict[str, Any]) -> None:
    with transaction.atomic():
        checked = busy.member.post("/jobs/check", spec).json()
        submitted = busy.member.post("/jobs", spec)
        assert (submitted.status_code == 201) == checked["ok"], (checked, submitted.content)
        if checked["ok"]:
            now = checked["message"] == "Would start at once."
            run_round()
            starts = Attempt.objects.filter(job_id=submitted.json()["id"]).exists()
            assert now == starts, (checked["message"], starts)
        transaction.set_rollback(True)
    if checked["ok"]:
        with transaction.atomic():
            assert foreseen(busy, checked["normalised"]) == now, checked["message"]
            transaction.set_rollback(True)


def test_parts_count_as_parts_of_a_quota_and_each_opens_a_gpu_of_a_guarantee(busy: World) -> None:
    """Two halves are one GPU of a quota. They are on two GPUs, of which three are guaranteed."""
    Quota.objects.create(tenant=busy.tenant, gpu_model=make_gpu_model("K80"), gpus=1)

    def asked(replicas: int, part: float) -> dict[str, Any]:
        resources = {"gpu": part, "gpu_model": "K80"}
        return {
            "name": "parts",
            "tasks": [{"replicas": replicas, "resources": resources, "command": ["true"]}],
        }

    assert busy.member.post("/jobs/check", asked(2, 0.5)).json()["message"] == "Would start at once."
    job = busy.member.post("/jobs", asked(2, 0.5)).json()["id"]
    run_round()
    assert Attempt.objects.filter(job_id=job).exists()
    refused = busy.member.post("/jobs/check", asked(3, 0.5)).json()
    assert "may hold at most 1 K80 at once; this job needs 1.5." in refused["message"]
    refused = busy.member.post("/jobs/check", asked(4, 0.25)).json()
    assert refused["message"].endswith("this guaranteed job needs 4 K80.")


def test_a_job_without_gpus_is_foreseen_explained_and_decided_again_alike(busy: World) -> None:
    resources = {"gpu": 0, "cpu": 20, "memory": "40GiB"}
    spec = {"name": "prepares", "command": ["true"], "resources": resources}
    checked = busy.member.post("/jobs/check", spec).json()
    assert checked["message"] == "Would start at once."
    first, second = (busy.member.post("/jobs", spec).json()["id"] for _ in range(2))
    run_round()
    assert Attempt.objects.get(job_id=first).parts.get().node.name == "node-d"
    waits = "it may use lack CPUs or memory: one replica needs 20 CPUs and 40.0 GiB of memory."
    assert waits in busy.member.get(f"/jobs/{second}/why").json()["reasons"][0]["message"]
    assert waits in busy.member.post("/jobs/check", spec).json()["message"]
    assert not foreseen(busy, checked["normalised"])
    kept = Round.objects.order_by("-number")[0]
    assert kept.plan is not None
    assert decided_again(kept) == codec.loads_plan(bytes(kept.plan))
