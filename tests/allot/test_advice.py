"""`allot vc anomalies`, `advise` and `advice-apply` against the real REST API; a worker answers at once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from allot import schema
from allot.client import Client
from scheduler.forecasts.adviser.services.advice import work_out
from scheduler.forecasts.adviser.services.comparisons import run_comparison
from scheduler.forecasts.services import facts
from scheduler.models import CellSpecification, Event
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS
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


@pytest.fixture
def allot(live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as an operator. shared is guaranteed one node of two, and had two jobs of a node at once."""
    tenant = make_tenant("research")
    shared = make_vc("shared", members=[tenant], guaranteed={"V100": 4})
    now = timezone.now()
    for place in range(2):
        node = make_node(f"v100-{place}", gpus=4)
        job = make_job(
            tenant=tenant,
            virtual_cluster=shared,
            gpus=4,
            name=f"train-{place}",
            submitted_at=now - timedelta(hours=5),
            state="succeeded",
        )
        began, over = now - timedelta(hours=4), now - timedelta(hours=3)
        attempt = make_attempt(job, gpus_of(node), state="ended", phase="released", outcome="succeeded")
        held_since(attempt, began, over)
        job.state, job.ended_at = "succeeded", over
        job.save()
        Event.objects.create(
            at=now - timedelta(hours=5),
            kind="job.waiting",
            subject="job",
            subject_id=job.id,
            job_id=job.id,
            actor="round 3",
            message="Too scattered.",
            data={"code": "fragmented"},
        )
    monkeypatch.setattr(facts, "_read", None)
    monkeypatch.setattr("scheduler.forecasts.adviser.services.advice.request_advice", work_out)
    monkeypatch.setattr("scheduler.forecasts.adviser.services.comparisons.request_comparison", run_comparison)
    monkeypatch.setattr("allot.commands.advice.PAUSE_SECONDS", 0.01)

    return signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)), "vc")


def test_who_waited_longer_is_told_with_the_cause(allot: Allot) -> None:
    assert "is no comparison yet" in allot("anomalies", "shared").stderr
    told = allot("anomalies", "shared", "--fresh").stdout
    # Privately the first of the two starts at once, and the second in turn after an hour, as it did here.
    assert "2 guaranteed jobs submitted from" in told
    assert "1 job waited longer here, 59m in all; 1 of them with hard affinity." in told
    assert "fragmentation  Too scattered." in told
    again = json.loads(allot("anomalies", "shared", "-o", "json").stdout)
    assert again["state"] == "done"
    assert allot("anomalies", "nobody").exit_code == 3


def test_advice_is_asked_for_shown_and_applied(allot: Allot) -> None:
    told = allot("advise", "--days", "1", "--price", "V100=2", "--budget", "V100=8")
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert lines[0].split("  ")[0] == "VC"
    assert "V100-NODE:1 > V100-NODE:2" in lines[1]
    assert "192.00 > 384.00" in lines[1]
    assert lines[2].startswith("shared: 4 GPUs more give its 2 jobs")
    assert lines[3].startswith("All: 4 > 8 GPUs")
    advice = json.loads(allot("advise", "--days", "1", "--json").stdout)
    assert allot("advice-apply", advice["id"]).stdout == "The cells are in force as version 1.\n"
    assert CellSpecification.objects.get().version == 1
    refused = allot("advice-apply", advice["id"])
    assert refused.exit_code == 1
    assert "version" in refused.stderr


def test_what_is_demanded_goes_with_the_question(allot: Allot) -> None:
    kept = json.loads(allot("advise", "--days", "1", "--keep", "shared", "--json").stdout)
    assert kept["rows"][0]["why"] == "It is left as it is, as you asked."
    least = json.loads(allot("advise", "--days", "1", "--minimum", "shared:V100-SWITCH=3", "--json").stdout)
    assert least["rows"][0]["advised"]["gpus"] == 8


def test_wrong_demands_are_told(allot: Allot) -> None:
    assert "did you mean 'shared'" in allot("advise", "--keep", "shred").stderr
    assert "'many' is not a number" in allot("advise", "--budget", "V100=many").stderr
    assert "expected VC:TYPE=CELLS" in allot("advise", "--minimum", "shared=3").stderr
    impossible = allot("advise", "--days", "1", "--budget", "V100=2", "--keep", "shared")
    assert impossible.exit_code == 1
    assert "budget_gpus.V100" in impossible.stderr


def test_answers_are_what_their_types_promise(allot: Allot) -> None:
    with Client.from_environment() as client:
        found = client.compare("shared", hours=12.0, patience_seconds=PATIENCE_SECONDS, pause_seconds=0.01)
        msgspec.convert(found, type=schema.Anomalies)
        assert found["anomalies"]
        advice = client.advise({"days": 1}, patience_seconds=PATIENCE_SECONDS, pause_seconds=0.01)
        msgspec.convert(advice, type=schema.WholeAdvice)
        assert advice["rows"]
