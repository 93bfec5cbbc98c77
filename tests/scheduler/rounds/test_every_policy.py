"""Every policy and placer there is, chosen for a virtual cluster of the live loop."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from scheduler.core.model import codec
from scheduler.core.round.registry import PLACERS, POLICIES
from scheduler.models import Attempt, Explanation, Job, Round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.clock import database_now
from tests.effort import first_every_day
from tests.scheduler.builders import make_node, make_tenant, make_vc
from tests.scheduler.rounds.live_loop import LiveLoop, Places
from tests.scheduler.rounds.story import Event, end, submission
from tests.scheduler.rounds.virtual_clock import VirtualClock

pytestmark = pytest.mark.django_db

ROUND_SECONDS = 20
#: Those that remember something of every job that runs.
REMEMBERING = frozenset(
    {
        "fair",
        "gandiva",
        "gandiva_fair",
        "gavel",
        "muri",
        "optimus",
        "pollux",
        "shockwave",
        "sia",
        "singularity",
        "themis",
        "tiresias",
    }
)


def job(at: int, number: int, gpus: int, *, guaranteed: bool = True, replicas: int = 1) -> Event:
    spec: dict[str, Any] = {
        "name": f"job-{number}",
        "virtual_cluster": "research",
        "guarantee": "guaranteed" if guaranteed else "opportunistic",
        "estimate": 300,
        "tasks": [{"name": "main", "replicas": replicas, "command": ["true"], "resources": {"gpu": gpus}}],
    }
    return submission(at, number, "vision", spec)


#: Borrowed GPUs are reclaimed at 20, a job ends at 30, and at the end some run and some wait, of each kind.
STORY = [
    job(0, 1, 4, guaranteed=False),
    job(0, 2, 2, guaranteed=False),
    job(0, 3, 2),
    job(5, 4, 2, replicas=2),
    end(30, 3),
    job(35, 5, 1),
    job(35, 6, 1, replicas=6),
    job(45, 7, 1, guaranteed=False),
    job(45, 8, 4, guaranteed=False),
]
CHOICES = [(policy, "consolidate") for policy in sorted(REMEMBERING)]
CHOICES += first_every_day([(policy, "consolidate") for policy in POLICIES if policy not in REMEMBERING], 3)
CHOICES += first_every_day([("fifo", placer) for placer in PLACERS if placer != "consolidate"], 3)


@pytest.mark.parametrize("plugins", CHOICES, ids="-".join)
def test_rounds_go_well_with_it(plugins: tuple[str, str]) -> None:
    policy, placer = plugins
    clock = VirtualClock()
    for name in ("a", "b"):
        make_node(f"node-{name}", gpus=4, lease_expires_at=database_now() + timedelta(days=1))
    vision = make_tenant("vision")
    make_vc("research", members=[vision], guaranteed={"V100": 6}, policy=policy, placer=placer)
    loop = LiveLoop(clock, Places(read_snapshot(0)), pause_seconds=10)
    # It asserts of every round that it was applied whole, with no view degraded.
    acts = loop.play(STORY, until=60, round_seconds=ROUND_SECONDS)
    said = {(act.kind, act.cause) for found in acts.values() for act in found}
    assert ("start", "") in said
    assert said & {("stop", "preempted"), ("move", "preempted")}

    rounds = list(Round.objects.order_by("number"))
    assert [record.state for record in rounds] == ["applied"] * 4
    _assert_all_that_wait_know_why()
    _assert_memory_survives(rounds, policy)
    out = io.StringIO()
    call_command("replay_round", *[record.number for record in rounds], stdout=out)
    assert out.getvalue().count("identical plan") == 4


def _assert_all_that_wait_know_why() -> None:
    running = Attempt.objects.filter(state__in=["starting", "running"]).values("job_id")
    waiting = set(Job.objects.filter(state="queued").exclude(id__in=running).values_list("id", flat=True))
    explained = dict(Explanation.objects.values_list("job_id", "reasons"))
    assert waiting
    assert set(explained) == waiting
    assert all(reasons[0]["message"] for reasons in explained.values())


def _assert_memory_survives(rounds: list[Round], policy: str) -> None:
    """Each round begins with what those before it remembered."""
    remembered: dict[str, Any] = {}
    for record in rounds:
        assert record.snapshot is not None
        assert record.plan is not None
        assert codec.loads_snapshot(bytes(record.snapshot)).memory == remembered
        remembered.update(codec.loads_plan(bytes(record.plan)).memory)
    assert read_snapshot(0).memory == remembered
    assert ("research" in remembered) == (policy in REMEMBERING)
