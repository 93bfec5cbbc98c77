"""The engine that a process keeps from round to round, on real rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from scheduler.core.building_blocks.policy import View
from scheduler.core.model import codec
from scheduler.core.model.plan import Decision
from scheduler.core.model.snapshot import Memory, Snapshot
from scheduler.core.policies.fifo import Fifo
from scheduler.core.round import registry
from scheduler.core.round import rounds as rounds_module
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.rounds import Rounds
from scheduler.jobs.attempts.services.lifecycle import part_exited, part_running
from scheduler.models import Job, Node, Round
from scheduler.rounds import run
from scheduler.rounds.replay import decided_again
from scheduler.rounds.run import run_round
from scheduler.telemetry.prometheus import _Database
from tenants.models import Tenant
from tests.scheduler.builders import make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, slots=True, kw_only=True)
class Sometimes:
    """Fifo, that now and then never returns."""

    spins: ClassVar[list[bool]] = []

    def allocate(self, view: View, memory: Memory) -> Decision:
        decision = Fifo().allocate(view, memory)
        while self.spins:
            pass
        return decision


class Cluster:
    """A virtual cluster that is promised four of eight GPUs, and what happens in it."""

    def __init__(self) -> None:
        self.node = make_node(gpus=8)
        self.tenant: Tenant = make_tenant("vision")
        self.vc = make_vc("research", members=[self.tenant], guaranteed={"V100": 4}, policy="sometimes")

    def submit(self, **spec: Any) -> Job:
        return make_job(tenant=self.tenant, virtual_cluster=self.vc, **spec)

    def end(self, job: Job) -> None:
        part = job.attempts.get().parts.get()
        part_running(part, at=timezone.now())
        part_exited(
            job.attempts.get().parts.get(),
            at=timezone.now(),
            exit_code=0,
            category="",
            message="",
            actor=f"node {self.node.name}",
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, "sometimes": Sometimes})
    monkeypatch.setattr(Sometimes, "spins", [])
    monkeypatch.setattr(settings, "CONFIG", settings.CONFIG.model_copy(update={"view_budget_seconds": 0.5}))
    return Cluster()


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[RoundEngine]:
    """Those that this test's rounds make."""
    made = []

    def noting(*arguments: Any, **keywords: Any) -> RoundEngine:
        made.append(RoundEngine(*arguments, **keywords))
        return made[-1]

    monkeypatch.setattr(rounds_module, "RoundEngine", noting)
    keep(monkeypatch, compared_every=1_000)
    return made


def keep(monkeypatch: pytest.MonkeyPatch, compared_every: int) -> None:
    rounds = Rounds(compared_every)
    monkeypatch.setattr(run, "rounds", lambda: rounds)


def decided() -> Round:
    """Run a round; return its record."""
    number = run_round()
    assert number is not None
    return Round.objects.get(number=number)


def is_replayed_alike(row: Round) -> bool:
    return codec.dumps_plan(decided_again(row)) == bytes(row.plan or b"")


def test_one_engine_decides_round_after_round_as_each_is_replayed(
    cluster: Cluster, engines: list[RoundEngine]
) -> None:
    first, second = cluster.submit(gpus=4), cluster.submit(gpus=4)
    rows = [decided(), decided(), decided()]
    assert first.attempts.get().state == "starting"
    assert not second.attempts.exists()
    cluster.end(first)
    third = cluster.submit(gpus=2, guaranteed=False)
    rows.append(decided())
    assert second.attempts.get().state == third.attempts.get().state == "starting"
    Job.objects.filter(id=third.id).update(cancelling=True)
    rows.append(decided())
    assert len(engines) == 1
    assert all(map(is_replayed_alike, rows))


def test_another_node_makes_another_engine(cluster: Cluster, engines: list[RoundEngine]) -> None:
    job = cluster.submit(gpus=4, replicas=2, guaranteed=False)
    other = cluster.submit(gpus=8, guaranteed=False)
    run_round()
    assert job.attempts.exists()
    make_node(gpus=8)
    assert is_replayed_alike(decided())
    assert other.attempts.exists()
    assert len(engines) == 2


def test_nodes_whose_jobs_come_and_go_make_no_other_engine(
    cluster: Cluster, engines: list[RoundEngine], django_capture_on_commit_callbacks: Any
) -> None:
    """Pages see that by the version of the node's row, which grows after each commit."""

    def committed() -> Round:
        with django_capture_on_commit_callbacks(execute=True):
            return decided()

    def version() -> int:
        return Node.objects.values_list("version", flat=True).get(id=cluster.node.id)

    before, first, second = version(), cluster.submit(gpus=4), cluster.submit(gpus=4)
    committed()
    with django_capture_on_commit_callbacks(execute=True):
        cluster.end(first)
    assert version() == before + 2
    assert is_replayed_alike(committed())
    assert second.attempts.get().state == "starting"
    assert len(engines) == 1


def test_a_round_that_is_interrupted_or_overtaken_leaves_no_trace(
    cluster: Cluster, engines: list[RoundEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cluster.submit(gpus=2)
    run_round()
    Sometimes.spins.append(True)
    second = cluster.submit(gpus=1)
    row = decided()
    assert list(row.degraded) == ["research"]
    assert is_replayed_alike(row)
    assert second.attempts.exists()
    assert len(engines) == 2
    Sometimes.spins.clear()
    third = cluster.submit(gpus=1)
    decide = run.rounds().decide

    def too_slowly(snapshot: Snapshot, *how: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduler_leadership SET number = number + 1, expires_at = NULL")
        return decide(snapshot, *how)

    with monkeypatch.context() as patch:
        patch.setattr(run.rounds(), "decide", too_slowly)
        number = run_round()
    assert number is not None
    overtaken = Round.objects.get(number=number)
    assert (overtaken.state, overtaken.plan) == ("fenced", None)
    assert not third.attempts.exists()
    cluster.end(first)
    assert is_replayed_alike(decided())
    assert third.attempts.get().state == "starting"
    assert len(engines) == 2


def test_every_so_many_rounds_a_new_engine_takes_the_place_of_one_that_may_be_wrong(
    cluster: Cluster,
    engines: list[RoundEngine],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    keep(monkeypatch, compared_every=2)
    cluster.submit(gpus=4)
    run_round()
    # As if it took all that come for jobs on hold.
    put_job = engines[0].facts.put_job
    monkeypatch.setattr(engines[0].facts, "put_job", lambda job: put_job(replace(job, held=True)))
    job = cluster.submit(gpus=1, guaranteed=False)
    with caplog.at_level(logging.ERROR):
        wrong = decided()
        assert not job.attempts.exists()
        right = decided()
    assert job.attempts.get().state == "starting"
    assert (wrong.error, right.state) == ("", "applied")
    assert right.error.startswith("An engine kept from earlier rounds was wrong and is replaced: actions")
    assert f"round {right.number}: the engine kept from earlier rounds was wrong: actions" in caplog.text
    metrics = {family.name: family.samples[0].value for family in _Database().collect() if family.samples}
    assert metrics["allot_rounds_corrected"] == 1
