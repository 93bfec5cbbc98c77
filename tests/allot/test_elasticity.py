"""`allot elasticity` against the real REST API; a worker answers at once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.forecasts.adviser.services.elasticity import give_up, work_out
from scheduler.forecasts.services import facts
from scheduler.models import Allocation
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

ASKS = "scheduler.forecasts.adviser.services.elasticity.request_elasticity_savings"


@pytest.fixture
def allot(live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as an operator. A rigid job had half of the node's eight GPUs for an hour, and beside it an
    elastic one of eight the other half for two."""
    tenant, node = make_tenant("vision"), make_node("n1")
    vc = make_vc("research", members=[tenant], guaranteed={"V100": 8}, policy="optimus")
    began = timezone.now() - timedelta(hours=10)
    for hours, replicas, gpus in ((1, 1, 4), (2, 8, 1)):
        job = make_job(tenant=tenant, virtual_cluster=vc, submitted_at=began, replicas=replicas, gpus=gpus)
        over = began + timedelta(hours=hours)
        attempt = make_attempt(
            job, gpus_of(node)[: replicas * gpus], state="ended", phase="released", outcome="succeeded"
        )
        held_since(attempt, began, over)
        allocation = Allocation.objects.get(id=attempt.allocation_id)
        if replicas == 8:
            allocation.replicas = allocation.replicas[:4]
        allocation.save()
        job.refresh_from_db()
        if replicas == 8:
            job.shape = {**job.shape, "min_gpus": 4, "max_gpus": 8}
        job.state, job.ended_at = "succeeded", over
        job.save()
    monkeypatch.setattr(facts, "_read", None)
    monkeypatch.setattr(ASKS, work_out)
    monkeypatch.setattr("allot.commands.scaling.PAUSE_SECONDS", 0.01)
    return signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)))


def test_what_elasticity_saved_is_simulated_and_told_again(allot: Allot) -> None:
    assert "There is no result yet." in allot("elasticity").stderr
    assert json.loads(allot("elasticity", "--json").stdout) is None
    told = allot("elasticity", "--fresh").stdout
    assert "1 of them elastic, 0 with measured scaling." in told
    assert "sooner on average." in told
    (rigid,) = [line.split() for line in told.splitlines() if line.startswith("rigid")]
    assert rigid[-2:] == ["12.0", "0"], "GPU-hours, and no resizes"
    again = json.loads(allot("elasticity", "--json").stdout)
    assert (again["state"], again["days"], again["elastic_jobs"]) == ("done", 1.0, 1)
    few = allot("elasticity", "--days", "0.1").stdout
    assert few.startswith("None of the 0 jobs of the 0.1 days before ")


def test_what_cannot_be_told_is_an_error(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = allot("elasticity", "--days", "99")
    assert refused.exit_code != 0
    assert "days" in refused.stderr
    monkeypatch.setattr(ASKS, lambda question: give_up(question, "It took too long to simulate."))
    assert "It took too long to simulate." in allot("elasticity", "--fresh").stderr


def test_only_operators_may_ask(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, db: None
) -> None:
    stranger = signed_in(monkeypatch, str(live_server.url), make_token(make_user("ann")))
    assert stranger("elasticity").exit_code != 0
