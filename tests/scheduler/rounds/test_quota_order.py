"""A tenant's quota on real rows: what waits in vain keeps it from no job that can start."""

from __future__ import annotations

import pytest

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
