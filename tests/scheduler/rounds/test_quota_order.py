"""A tenant's quota on real rows: what waits in vain keeps it from no job that can start."""

from __future__ import annotations

import pytest

from scheduler.jobs.budgets.selectors import held_now
from scheduler.models import Explanation
from scheduler.rounds.run import run_round
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


def test_an_opportunistic_job_without_idle_gpus_keeps_the_quota_from_no_guaranteed_job() -> None:
    full, free = make_node("full", gpus=8), make_node("free", gpus=8, gpu_model="P100")
    tenant = make_tenant(quota={"*": 20})
    vc = make_vc(members=[tenant], guaranteed={"V100": 8, "P100": 8})
    columns = {"tenant": tenant, "virtual_cluster": vc}
    make_attempt(make_job(**columns, gpus=8), gpus_of(full))
    make_attempt(make_job(**columns, gpus=4, gpu_models=["P100"]), gpus_of(free)[:4])
    waits = make_job(**columns, gpus=8, guaranteed=False, gpu_models=["V100"])
    starts = make_job(**columns, gpus=1)
    run_round()
    assert starts.attempts.get().parts.get().node == free
    assert not waits.attempts.exists()


def test_cpus_and_memory_of_a_quota_hold_back_what_gpus_would_let_start() -> None:
    node = make_node("free", gpus=8, cpus=32.0, memory_bytes=64 * 2**30)
    tenant = make_tenant()
    tenant.quota_cpus = 6.0
    tenant.save()
    vc = make_vc(members=[tenant], guaranteed={"V100": 8})
    columns = {"tenant": tenant, "virtual_cluster": vc, "gpus": 1}
    runs = make_job(**columns, cpus=4.0)
    make_attempt(runs, gpus_of(node)[:1])
    waits, starts = make_job(**columns, cpus=3.0), make_job(**columns, cpus=2.0)
    run_round()
    assert starts.attempts.exists()
    assert not waits.attempts.exists()
    (reason,) = Explanation.objects.get(job=waits).reasons
    assert reason["code"] == "quota_resources"
    assert reason["blocking"] == {"tenant": tenant.name, "resource": "cpus", "limit": 6.0, "held": 4.0}
    assert held_now(tenant) == {"gpus": {"V100": 2.0}, "cpus": 6.0, "memory_bytes": 0}
