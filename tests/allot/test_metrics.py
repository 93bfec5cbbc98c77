"""`allot metrics` and `allot top` against the real REST API."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from allot import schema
from allot.commands.metrics import figure, sparkline
from scheduler.models import NodeMetrics
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_member, make_node, make_tenant


def test_a_line_shows_heights_and_gaps() -> None:
    points = [[100, 0.0], [110, 50.0], [112, 100.0], [130, 100.0]]
    assert sparkline(points, since=100, until=140, columns=4, highest=100.0) == "▁▇ █"
    assert sparkline([[100, 0.0]], since=100, until=100, columns=2, highest=0.0) == "▁ "


@pytest.mark.parametrize(
    ("value", "measure", "text"),
    [
        (None, "power_watts", "-"),
        (87.26, "utilisation_percent", "87.3 %"),
        (221.5, "power_watts", "222 W"),
        (3 * 2**30, "memory_used_bytes", "3 GiB"),
        (2_000_000, "disk_read_bytes_per_second", "1.9 MiB/s"),
        (1_410, "sm_clock_mhz", "1,410 MHz"),
        (300 * 2**20, "memory_used_bytes", "300 MiB"),
        (3.25, "cpus_used", "3.2"),
        (0.0123, "cpus_used", "0.012"),
    ],
)
def test_figures_have_their_unit(value: float | None, measure: str, text: str) -> None:
    assert figure(value, measure) == text


def test_what_jobs_use_is_shown(live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, node, now = make_tenant("vision"), make_node("node-a", gpus=4), timezone.now()
    began = now - timedelta(minutes=4)
    busy, idle = (
        make_attempt(make_job(tenant=tenant, name=name), [gpu], starting_at=began, running_at=began)
        for name, gpu in zip(("busy", "idle"), gpus_of(node), strict=False)
    )
    for seconds_ago in range(200, 0, -10):
        NodeMetrics.objects.create(
            node=node,
            seconds=10,
            at=now - timedelta(seconds=seconds_ago),
            simulated=True,
            values={
                "host": [25.0, 2**33],
                "gpus": {"0": [80.0, 2**31, 250.0], "1": [0.0, 0, 50.0]},
                "parts": {str(each.id): {"0": [1.5, 2**30, 2, None]} for each in (busy, idle)},
            },
        )
    allot = signed_in(monkeypatch, str(live_server.url), make_token(make_member(tenant)))

    lines = allot("top").stdout.splitlines()
    assert lines[0].split("  ")[-1] == "NAME"
    assert [line.split()[-1] for line in lines[1:]] == ["idle", "busy"]
    assert lines[2].split()[4:9] == ["80", "%", "80", "%", "2"]
    assert allot("top", "-q").stdout.split() == [str(idle.job_id), str(busy.job_id)]
    assert "No job runs" in allot("top", "--tenant", "other").stderr
    found = json.loads(allot("top", "-o", "json").stdout)
    assert msgspec.convert(found, list[schema.JobUsage], strict=True)[1]["power_watts"] == 250.0

    shown = allot("metrics", str(busy.job_id))
    assert "simulated" in shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[1].split()[:8] == ["attempt", "1", "GPU", "utilisation", "80", "%", "80", "%"]
    assert "▇▇▇" in lines[1]
    assert any(line.split()[2:6] == ["CPUs", "used", "1.5", "1.5"] for line in lines)
    found = json.loads(allot("metrics", str(busy.job_id), "--by", "rank", "-o", "json").stdout)
    assert msgspec.convert(found, schema.JobMetricsAnswer, strict=True)["series"][0]["rank"] == 0
    lines = allot("metrics", "--node", "node-a", "--by", "gpu", "--last", "10m").stdout.splitlines()
    assert lines[1].split()[:3] == ["machine", "CPU", "25"]
    assert sum("GPU 1" in line for line in lines) == 3
    assert allot("metrics", "--node", "none").exit_code == 3
    assert allot("metrics").exit_code == allot("metrics", "1", "--node", "node-a").exit_code == 2
    assert allot("metrics", "--node", "node-a", "--by", "rank").exit_code == 2
