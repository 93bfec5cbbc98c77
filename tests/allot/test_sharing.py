"""`allot sharing` against the real REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.core.model.gpu_parts import GpuPart
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_member, make_node, make_tenant


def test_who_has_which_part_is_listed(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, db: None
) -> None:
    vision, speech = make_tenant("vision"), make_tenant("speech")
    allot = signed_in(monkeypatch, str(live_server.url), make_token(make_member(vision)))
    assert "No GPU is shared now." in allot("sharing").stderr
    gpus = gpus_of(make_node("n1", gpus=1))
    mine = make_job(tenant=vision, name="digits")
    attempt = make_attempt(mine, gpus, part=GpuPart(request=300, limit=600))
    attempt.parts.update(enforcement="placement_only")
    make_attempt(make_job(tenant=speech, name="voices"), gpus, part=GpuPart(request=500, limit=500))
    _, first, second = allot("sharing").stdout.splitlines()
    shown = f"n1 0 V100 0.8 {mine.id} digits 0.3 0.6 4.8 GiB not measured placement only not measured"
    assert " ".join(first.split()) == shown
    assert " ".join(second.split()) == "n1 0 V100 0.8 of another tenant 0.5 0.5 8 GiB - not told -"
    assert json.loads(allot("sharing", "-o", "json").stdout)[0]["in_use"] == 0.8
