"""GET /shared-gpus: who has which part of which GPU, how it is held, and what it costs, for whom."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from nodeagent.messages import PROTOCOL, Reading, ReplicaSample, Report, decode, encode
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.models import Attempt, Gpu
from tenants.models import Tenant
from tests.api.caller import Caller, caller
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_measurement,
    make_member,
    make_node,
    make_tenant,
    make_user,
)

pytestmark = pytest.mark.django_db

GIB = 2**30


def running(gpu: Gpu, tenant: Tenant, name: str, request: int, limit: int, memory: int = 0) -> Attempt:
    part = GpuPart(request=request, limit=limit, memory_bytes=memory)
    return make_attempt(make_job(tenant=tenant, name=name), [gpu], part=part)


def occupy(gpu: Gpu, found: Mapping[int, dict[str, int]]) -> None:
    """Have the node of a GPU report what attempts occupy by device."""
    replicas = tuple(
        ReplicaSample(attempt=attempt, rank=0, gpu_memory_by_index=by_index)
        for attempt, by_index in found.items()
    )
    reading = Reading(at=time.time(), replicas=replicas)
    report = Report(protocol=PROTOCOL, boot=gpu.node.boot, generation=0, readings=(reading,))
    report_apply(gpu.node, decode(Report, encode(report)))


def shown(who: Caller, query: str = "") -> list[dict]:
    answer = who.get(f"/shared-gpus{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_members_see_what_others_have_and_not_who_they_are() -> None:
    vision, speech = make_tenant("vision"), make_tenant("speech")
    first, second, third = gpus_of(make_node("n1", gpus=3))
    mine = running(first, vision, "digits", 300, 600, 4 * GIB)
    mine.parts.update(enforcement="enforced")
    mine.throughput = 50.0
    mine.save()
    make_measurement(vision, "name:digits", 125.0)
    theirs = running(first, speech, "voices", 500, 500)
    occupy(first, {mine.id: {"0": 3 * GIB, "1": GIB, "x": 1}, theirs.id: {"0": 2 * GIB}})
    running(second, speech, "voices", 250, 250)
    # It is nobody else's.
    make_attempt(make_job(tenant=vision), [third])
    one, other = shown(caller(make_member(vision)))
    assert (one["node"], one["index"], one["gpu_model"], one["in_use"]) == ("n1", 0, "V100", 0.8)
    assert one["jobs"] == [
        {
            "id": mine.job_id,
            "name": "digits",
            "tenant": "vision",
            "virtual_cluster": mine.job.virtual_cluster.name,
            "request": 0.3,
            "limit": 0.6,
            "memory_bytes": 4 * GIB,
            "memory_used_bytes": 3 * GIB,
            "way": "part",
            "enforcement": "enforced",
            "slowdown": 2.5,
        },
        {
            "id": None,
            "name": None,
            "tenant": None,
            "virtual_cluster": None,
            "request": 0.5,
            "limit": 0.5,
            # In proportion, of 16 GiB.
            "memory_bytes": 8 * GIB,
            "memory_used_bytes": None,
            "way": "part",
            "enforcement": "",
            "slowdown": None,
        },
    ]
    assert [job["name"] for job in other["jobs"]] == [None]
    operator = caller(make_user(operator=True))
    jobs = [job for gpu in shown(operator) for job in gpu["jobs"]]
    assert [job["name"] for job in jobs] == ["digits", "voices", "voices"]
    assert [job["memory_used_bytes"] for job in jobs] == [3 * GIB, 2 * GIB, None]
    (page,) = shown(operator, "?page_size=1")
    assert page["id"] == one["id"]


def test_what_two_that_a_policy_put_together_cost_each_other_is_on_record() -> None:
    vision = make_tenant("vision")
    node = make_node(gpus=1)
    one = make_attempt(make_job(tenant=vision, name="bert"), gpus_of(node))
    other = make_job(tenant=vision, name="dlrm")
    Attempt.objects.create(
        job=other, number=1, allocation=one.allocation, state="running", planned_at=one.planned_at, go=True
    )
    make_measurement(vision, "name:bert", 0.8, partner="name:dlrm")
    (gpu,) = shown(caller(make_member(vision)))
    assert gpu["in_use"] == 1.0
    found = [(job["name"], job["way"], job["request"], job["slowdown"]) for job in gpu["jobs"]]
    assert found == [("bert", "together", 1.0, 1.25), ("dlrm", "together", 1.0, None)]
    # With a third there it is what was measured of the three.
    third = make_job(tenant=vision, name="gpt")
    Attempt.objects.create(
        job=third, number=1, allocation=one.allocation, state="running", planned_at=one.planned_at, go=True
    )
    make_measurement(vision, "name:bert", 0.5, partner="name:dlrm+name:gpt")
    (gpu,) = shown(caller(make_member(vision)))
    assert [(job["name"], job["slowdown"]) for job in gpu["jobs"]] == [
        ("bert", 2.0),
        ("dlrm", None),
        ("gpt", None),
    ]
    one.allocation.slice_seconds = 60.0
    one.allocation.save()
    (gpu,) = shown(caller(make_member(vision)))
    assert [(job["way"], job["slowdown"]) for job in gpu["jobs"]] == [("turns", None)] * 3
