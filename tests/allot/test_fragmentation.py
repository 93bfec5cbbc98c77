"""`allot fragmentation` against the real REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.telemetry.metrics.services import sample_fragmentation
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_round, make_user


@pytest.fixture
def allot(live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Allot:
    return signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)))


def test_what_is_of_no_use_is_said_with_its_causes(allot: Allot) -> None:
    assert "Not measured yet" in allot("fragmentation").stderr
    make_attempt(make_job(gpus=6), gpus_of(make_node("n1"))[:6])
    make_job(gpus=2, cpus=1.0)
    make_round()
    sample_fragmentation()
    lines = allot("fragmentation").stdout.splitlines()
    assert lines[0].startswith("1.0 of 2.0 idle GPUs are of no use to an average replica (")
    assert [line.split(maxsplit=1) for line in lines[1:3]] == [
        ["GPUS", "WHAT IS MISSING"],
        ["1.0", "too few GPUs together, or too little of one"],
    ]
    assert sorted(line.split() for line in lines[4:6]) == [
        ["2", "1", "any", "50.0", "%", "2.0"],
        ["6", "0", "any", "50.0", "%", "0.0"],
    ]
    assert json.loads(allot("fragmentation", "-o", "json").stdout)["newest"]["causes"] == {"gpus": 1.0}


def test_only_operators_are_told(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, db: None
) -> None:
    stranger = signed_in(monkeypatch, str(live_server.url), make_token(make_user("ann")))
    assert "operators" in stranger("fragmentation").stderr
