"""`allot compare` against the real REST API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from allot.commands import comparing
from allot.commands.comparing import differences, last_and_best
from scheduler.models.attempts import ProgressPoint
from scheduler.models.jobs import Job
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_member, make_node, make_tenant


def test_the_page_and_the_command_take_the_same_for_metrics_and_for_better() -> None:
    sources = Path(__file__).resolve().parents[2] / "frontend" / "src"
    model = (sources / "features" / "compare" / "compare-model.ts").read_text()
    curves = (sources / "components" / "metrics" / "progress-curves.ts").read_text()
    left_out = curves.partition("NOT_CURVES = new Set([")[2].partition("]")[0]
    assert f"/{comparing._LESS_IS_BETTER.pattern}/i" in model
    assert set(re.findall(r'^ +"(\w+)",$', left_out, re.MULTILINE)) == comparing._NO_METRICS


def test_fields_of_tasks_are_named_by_their_task() -> None:
    one = {
        "priority": 0,
        "tasks": [{"name": "main", "resources": {"gpu": 1}, "command": ["a"]}],
        "labels": None,
    }
    two = {
        "priority": 0,
        "tasks": [{"name": "main", "resources": {"gpu": 4}, "command": ["b"]}],
        "time_limit": 60,
    }
    assert differences([one, two, one]) == {
        "tasks.main.resources.gpu": ["1", "4", "1"],
        "tasks.main.command": ['["a"]', '["b"]', '["a"]'],
        "time_limit": ["", "60", ""],
    }
    assert differences([one, one]) == {}


def test_a_step_that_was_done_again_counts_as_the_later_attempt_did_it() -> None:
    def point(step: int, attempt: int, **values: float) -> Any:
        return {"step": step, "attempt": attempt, "values": values}

    points = [
        point(2, 2, loss=0.6),
        point(1, 1, loss=0.9, accuracy=0.4),
        point(2, 1, loss=0.1, total_steps=2),
    ]
    points += [point(3, 2, loss=0.7, accuracy=0.3)]
    assert last_and_best(points) == {
        "loss": {"last": 0.7, "best": 0.6},
        "accuracy": {"last": 0.3, "best": 0.4},
    }


def reported(job: Job, gpu: Any, losses: list[float]) -> None:
    attempt = make_attempt(job, [gpu])
    for number, loss in enumerate(losses):
        ProgressPoint.objects.create(
            attempt=attempt, sequence=number, at=timezone.now(), step=number, values={"loss": loss}
        )


def test_jobs_are_compared_but_those_that_one_may_not_see(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, gpus = make_tenant("vision"), gpus_of(make_node(gpus=4))
    one, two = (make_job(tenant=tenant, name=name) for name in ("slow", "quick"))
    reported(one, gpus[0], [1.0, 0.25, 0.5])
    reported(two, gpus[1], [2.0, 1.5])
    hidden = make_job(tenant=make_tenant("other"))
    allot = signed_in(monkeypatch, str(live_server.url), make_token(make_member(tenant)))

    shown = allot("compare", str(one.id), str(two.id), str(hidden.id))
    assert shown.exit_code == 0, shown.stderr
    assert f"Job {hidden.id} is left out: there is no such job, or you may not see it." in shown.stderr
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert f"FIELD JOB {one.id} JOB {two.id}" in lines
    assert "name slow quick" in lines
    assert not any(line.startswith("priority") for line in lines)
    assert "loss (best: lowest) 0.5 (best 0.25) 1.5 (best 1.5)" in lines
    found = json.loads(allot("compare", str(one.id), str(two.id), "-o", "json").stdout)
    assert found["jobs"] == [one.id, two.id]
    assert found["metrics"]["loss"][str(one.id)] == {"last": 0.5, "best": 0.25}

    alone = allot("compare", str(one.id), str(hidden.id))
    assert (alone.exit_code, "2 are needed" in alone.stderr) == (2, True)
    assert allot("compare", str(one.id), str(one.id)).exit_code == 2
