"""GET /metrics: what it counts, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from scheduler.models import Leadership, NodeCheck, NodeMetrics, Round, ViewComputing
from tests.api.caller import caller
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

TOKEN = "collect-what-you-like-0001"


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every value by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def collected() -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    response = caller(make_user(operator=True)).send("GET", "/metrics", None)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=0.0.4")
    return read(response.content.decode())


def value(found: Mapping, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_an_empty_installation_has_numbers_too() -> None:
    found = collected()
    assert value(found, "allot_jobs", state="queued") == 0
    assert value(found, "allot_rounds_total") == 0
    assert value(found, "allot_view_degraded", view="spare") == 0


def test_it_counts_what_there_is() -> None:
    node, tenant = make_node(gpus=4), make_tenant()
    make_node(gpus=2, gpu_model='K80 "old"\\\n')
    node.gpus.filter(index__in=(2, 3)).update(healthy=False)
    for name, verdict in (("clock", "ok"), ("script", "warning"), ("gpu-2", "failed")):
        NodeCheck.objects.create(node=node, name=name, verdict=verdict, since=timezone.now())
    vc = make_vc("research", members=[tenant])
    make_vc("quick", members=[tenant])
    make_job(tenant=tenant, virtual_cluster=vc)
    make_attempt(make_job(tenant=tenant, virtual_cluster=vc, gpus=1), gpus_of(node)[:1])
    Leadership.objects.create(id=1, number=12)
    for number in range(10, 12):
        Round.objects.create(
            number=number, started_at=timezone.now(), state="applied", decide_seconds=number / 10,
            degraded={"research": "too slow"} if number == 11 else {},
        )  # fmt: skip
    Round.objects.filter(number=10).update(error="An engine kept from earlier rounds was wrong")
    Round.objects.create(
        number=12, started_at=timezone.now(), state="failed", decide_seconds=99, error="broke"
    )
    ViewComputing.objects.create(view="research", computations=7, overruns=2, last_seconds=1.5)
    ViewComputing.objects.create(view="gone", computations=99)
    found = collected()
    assert value(found, "allot_jobs", state="queued") == 1
    assert value(found, "allot_jobs", state="running") == 1
    counts = {state: value(found, "allot_gpus", gpu_model="V100", state=state) for state in
              ("held", "planned", "free", "unhealthy")}  # fmt: skip
    assert counts == {"held": 1, "planned": 0, "free": 1, "unhealthy": 2}
    assert value(found, "allot_gpus", gpu_model='K80 "old"\\\n', state="free") == 2
    assert value(found, "allot_nodes", state="ready", health="failed") == 1
    assert value(found, "allot_nodes", state="ready", health="unknown") == 1
    assert value(found, "allot_node_health", node=node.name, check="script") == 1
    assert value(found, "allot_node_health", node=node.name, check="gpu-2") == 2
    assert not [labels for _, labels in found if ("check", "clock") in labels]
    assert value(found, "allot_rounds_total") == 12
    assert value(found, "allot_rounds_kept", state="applied") == 2
    assert value(found, "allot_rounds_kept", state="failed") == 1
    assert value(found, "allot_rounds_corrected") == 1
    assert value(found, "allot_round_seconds", part="decide", quantile="1") == 1.1
    assert value(found, "allot_view_computations_total", view="research") == 7
    assert value(found, "allot_view_overruns_total", view="research") == 2
    assert value(found, "allot_view_computing_seconds", view="research") == 1.5
    assert value(found, "allot_view_degraded", view="research") == 1
    assert value(found, "allot_view_degraded", view="quick") == 0
    assert not [labels for _, labels in found if ("view", "gone") in labels]


def test_a_collector_may_read_it_with_the_token_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(token: str, path: str = "/metrics") -> int:
        accept = "text/plain;version=0.0.4" if path == "/metrics" else "*/*"
        headers = {"authorization": f"Bearer {token}", "accept": accept}
        return Client().get(path, headers=headers).status_code

    assert get(TOKEN) == 401
    assert get("") == 401
    config = settings.CONFIG.model_copy(update={"metrics_token": SecretStr(TOKEN)})
    monkeypatch.setattr(settings, "CONFIG", config)
    assert get(TOKEN) == 200
    assert get(TOKEN[:-1]) == 401
    assert get("ä") == 401
    assert get(TOKEN, "/api/v1/cluster") == 401
    assert get(TOKEN, "/api/v1/rounds") == 401


def test_nodes_tell_what_their_gpus_do_while_they_report() -> None:
    now = timezone.now()
    for name, at in (("node-a", now), ("node-b", now - timedelta(minutes=5))):
        NodeMetrics.objects.create(
            node=make_node(name),
            seconds=10,
            at=at,
            simulated=True,
            values={"gpus": {"0": [90.0, 100, None], "1": [40.0, 50, None]}, "parts": {}},
        )
    found = collected()
    labels = {"node": "node-a", "simulated": "true"}
    assert value(found, "allot_node_gpu_utilisation_percent", **labels) == 65.0
    assert value(found, "allot_node_gpu_memory_used_bytes", **labels) == 150
    assert not [name for name, labels in found if "power" in name or ("node", "node-b") in labels]
