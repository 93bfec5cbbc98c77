"""`allot failure-rules` and `allot idle-gpus` against the real REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.models import ClusterSettings, FailureRules
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_user

RULES = """
rules:
  - name: scratch-full
    class: scratch
    retry: elsewhere
    pattern: /scratch/.*quota
    exit_codes: [1, 28]
    advice: Remove old checkpoints.
"""


def test_operators_try_rules_and_put_them_in_force(
    live_server: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text(RULES)
    Path("full.log").write_text("epoch 1\n/scratch/a: Disk quota exceeded\n")
    Path("other.log").write_text("KeyError\n")
    allot = signed_in(monkeypatch, str(live_server.url), make_token(make_user("olga", operator=True)))

    assert allot("failure-rules", "test", "rules.yaml", "full.log").stdout.splitlines() == [
        "scratch-full: scratch full (class scratch, platform). The job is tried again.",
        "Advice: Remove old checkpoints.",
    ]
    for other in (("other.log",), ("full.log", "--exit-code", "2")):
        assert allot("failure-rules", "test", "rules.yaml", *other).exit_code == 1
    assert not FailureRules.objects.exists(), "trying changes nothing"

    assert "In force now: scratch-full." in allot("failure-rules", "apply", "rules.yaml").stdout
    assert "/scratch/.*quota/ and exit 1, exit 28" in allot("failure-rules", "list").stdout
    Path("again.yaml").write_text(allot("failure-rules", "list", "-o", "yaml").stdout)
    allot("failure-rules", "apply", "again.yaml")
    (kept,) = FailureRules.objects.get().rules
    assert (kept["retry"], kept["advice"]) == ("elsewhere", "Remove old checkpoints.")
    Path("bad.yaml").write_text(RULES.replace("elsewhere", "somewhere"))
    refused = allot("failure-rules", "apply", "bad.yaml").stderr
    assert "rules.0.retry" in refused
    assert "never, again, elsewhere" in refused

    assert "No action for idle GPUs" in allot("idle-gpus").stdout
    said = allot("idle-gpus", "--after", "30m", "--below", "3", "--then", "stop").stdout
    assert said.startswith("A job whose GPUs were less than 3 % busy for 30")
    assert ClusterSettings.objects.get().idle_gpus_seconds == 1_800
    assert "No action for idle GPUs" in allot("idle-gpus", "--after", "never").stdout
