"""`GET /jobs/ID/sensitivity` and `allot sensitivity`: how fast a job is by its CPUs and memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from allot import schema
from allot.client import Client
from scheduler.core.perf.cpu_trials import CpuTrials
from scheduler.jobs.services.control import job_submit
from scheduler.models import CpuSensitivity, Job, Node
from tenants.models import Tenant
from tenants.selectors import viewer_of
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_vc,
)

GIB = 2**30


@pytest.fixture
def tenant(live_server: Any, redis_url: str) -> Tenant:
    tenant = make_tenant("vision")
    make_node("v100-1", gpus=8)
    make_vc("shared", members=[tenant], guaranteed={"V100": 8})
    return tenant


@pytest.fixture
def token(tenant: Tenant) -> str:
    return make_token(make_member(tenant, "vera"))


def submitted(tenant: Tenant) -> Job:
    """A job of two replicas that needs 9 CPUs, and 100 GiB, to be as fast as it can be."""
    spec = {
        "name": "train",
        "command": ["true"],
        "replicas": 2,
        "resources": {"gpu": 1, "cpu": "auto", "memory": "auto"},
        "sensitivity": {"cpu": {"3": 1, "9": 2.5}, "memory": {"100GiB": 2.5}},
    }
    return job_submit(viewer=viewer_of(make_member(tenant)), tenant=None, spec=spec)


def running(job: Job) -> None:
    """One replica has 9 CPUs and the other 6; of each, 3 CPUs and 50 GiB are the proportional share."""
    share = {
        "replicas": [[9.0, 100 * GIB], [6.0, 100 * GIB]],
        "proportional": [[3.0, 50 * GIB], [3.0, 50 * GIB]],
        "message": "",
    }
    make_attempt(job, gpus_of(Node.objects.get(name="v100-1"))[:2], auxiliary=share)


def test_the_curves_of_a_job_that_has_not_run(tenant: Tenant, token: str, live_server: Any) -> None:
    job = submitted(tenant)
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.sensitivity_of_job(job.id)
    msgspec.convert(found, schema.JobSensitivity, strict=True)
    assert found["attempt"] is None
    (task,) = found["tasks"]
    assert (task["task"], task["now"], task["proportional"]) == ("main", None, None)
    assert task["by_cpus"] == [
        {"amount": 0, "speed": 0, "marks": []},
        {"amount": 3, "speed": 1, "marks": []},
        {"amount": 9, "speed": 2.5, "marks": ["best"]},
    ]


def test_todays_point_is_that_of_the_slowest_replica(tenant: Tenant, token: str, live_server: Any) -> None:
    job = submitted(tenant)
    running(job)
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.sensitivity_of_job(job.id)
    assert found["attempt"] == 1
    (task,) = found["tasks"]
    assert task["now"] == {"rank": 1, "cpus": 6, "memory_bytes": 100 * GIB, "speed": 1.75}
    assert task["proportional"] == {"rank": 1, "cpus": 3, "memory_bytes": 50 * GIB, "speed": 1}
    assert [(each["amount"], each["speed"], each["marks"]) for each in task["by_cpus"]] == [
        (0, 0, []),
        (3, 1, ["proportional"]),
        (6, 1.75, ["now"]),
        (9, 2.5, ["best"]),
    ]
    assert [(each["amount"] / GIB, each["speed"], each["marks"]) for each in task["by_memory"]] == [
        (0, 0, []),
        (50, 1.25, ["proportional"]),
        (100, 2.5, ["now", "best"]),
    ]


def test_a_job_that_states_what_it_needs_has_no_curve(
    tenant: Tenant, token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tenant=tenant)
    with Client(str(live_server.url), token=token) as client:
        assert client.throughputs.sensitivity_of_job(job.id) == {"attempt": None, "tasks": []}
    allot: Allot = signed_in(monkeypatch, str(live_server.url), token)
    assert "states no sensitivity" in allot("sensitivity", str(job.id)).output


def test_a_job_whose_cpus_are_measured_says_how_far_it_is(
    tenant: Tenant, token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"gpu": 1, "cpu": "auto", "measure_cpu": True}
    spec = {"name": "decode", "command": ["true"], "resources": said}
    job = job_submit(viewer=viewer_of(make_member(tenant)), tenant=None, spec=spec)
    allot: Allot = signed_in(monkeypatch, str(live_server.url), token)
    lines = allot("sensitivity", str(job.id)).stdout.splitlines()
    assert lines[:2] == ["Task main: it has not run yet", "  Its CPUs are measured while it runs"]
    share = {"replicas": [[6.0, 0]], "proportional": [[3.0, 0]], "message": ""}
    make_attempt(job, gpus_of(Node.objects.get(name="v100-1"))[:1], auxiliary=share)
    trials = CpuTrials(share=3.0, most=12.0, rates=((0.75, 75.0), (3.0, 300.0), (6.0, 600.0), (12.0, 600.0)))
    row = CpuSensitivity.objects.create(
        tenant=tenant,
        application="name:decode",
        gpu_model="V100",
        trials=asdict(trials),
        updated_at=job.submitted_at,
    )
    lines = allot("sensitivity", str(job.id)).stdout.splitlines()
    assert lines[0] == "Task main: 2.00 times as fast as with its proportional share"
    assert lines[1] == "  Its CPUs are being measured on V100: 4 trials so far"
    assert lines[-1].split() == ["CPUs", "6", "1", "now,", "as", "fast", "as", "it", "can", "be"]
    row.is_over = True
    row.save()
    assert "were measured on V100, in 4 trials" in allot("sensitivity", str(job.id)).stdout


def test_the_command_prints_it(
    tenant: Tenant, token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(tenant)
    allot: Allot = signed_in(monkeypatch, str(live_server.url), token)
    assert allot("sensitivity", str(job.id)).stdout.splitlines()[0] == "Task main: it has not run yet"
    running(job)
    lines = allot("sensitivity", str(job.id)).stdout.splitlines()
    assert lines[0] == "Task main: 1.75 times as fast as with its proportional share"
    assert [line.split() for line in lines[1:4]] == [
        ["OF", "AMOUNT", "SPEED", "IS"],
        ["CPUs", "0", "0"],
        ["CPUs", "3", "1", "proportional", "share"],
    ]
    assert lines[-1].split() == ["memory", "100", "GiB", "2.5", "now,", "as", "fast", "as", "it", "can", "be"]
