"""Rounds in which a view's policy takes too long: who decides then, who is told, and how it ends."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from django.conf import settings
from django.core.management import call_command

from scheduler.core.building_blocks.policy import View
from scheduler.core.model import codec
from scheduler.core.model.plan import Decision, Plan
from scheduler.core.model.snapshot import Memory
from scheduler.core.policies.fifo import Fifo
from scheduler.core.round import registry
from scheduler.core.solvers.instance import Instance
from scheduler.core.solvers.solving import solve
from scheduler.forecasts.services.forecasting import run_forecast
from scheduler.jobspec import parse
from scheduler.models import ClusterSettings, Event, Forecast, PolicyMemory, Round, ViewComputing
from scheduler.models.selectors.rounds import overruns
from scheduler.rounds import run
from scheduler.rounds.circuit_breaker import (
    IN_TIME,
    MOST_ROUNDS_SKIPPED,
    TOO_SLOW,
    CircuitBreaker,
    with_breakers_open,
)
from scheduler.rounds.preview import preview
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.rounds.solver import Budget, Solver
from scheduler.virtual_clusters import representations as virtual_cluster_representations
from scheduler.wiring.clock import database_now
from tenants.models import VirtualCluster
from tenants.times import iso
from tests.core.solvers.instances import large_instance
from tests.scheduler.builders import make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db

SMALL = large_instance(20)
#: Takes seconds to solve.
LARGE = large_instance(600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """Fifo that computes something first, and counts its rounds."""

    #: What it computes, by view; those that are not named compute a little.
    instances: ClassVar[dict[str, Instance]] = {}
    salt: int = 0

    def allocate(self, view: View, memory: Memory) -> Decision:
        view.compute(solve, self.instances.get(view.name, SMALL), "hierarchical_fifo")
        return replace(Fifo().allocate(view, {}), memory={"rounds": memory.get("rounds", 0) + 1})


@pytest.fixture(autouse=True)
def computing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, "computing": Computing})
    monkeypatch.setattr(Computing, "instances", {})
    # Enough for a little on a busy machine, and far from enough for a lot.
    limits = {"solver_budget_seconds": 1.0, "solver_start_seconds": 60.0, "view_budget_seconds": 90.0}
    config = settings.CONFIG.model_copy(update=limits)
    monkeypatch.setattr(settings, "CONFIG", config)


@pytest.fixture(autouse=True, scope="module")
def no_child_stays() -> Iterator[None]:
    yield
    run.solver().close()


def make_research(name: str = "research", **columns: Any) -> Any:
    """A virtual cluster of eight GPUs of its own whose policy computes, with a job that waits."""
    make_node(gpus=8)
    tenant = make_tenant()
    columns = {"policy": "computing", **columns}
    vc = make_vc(name, members=[tenant], guaranteed={"V100": 8}, **columns)
    return vc, make_job(tenant=tenant, virtual_cluster=vc, gpus=1)


def next_round() -> Plan:
    """Run a round, and decide it again from its record."""
    number = run_round()
    record = Round.objects.get(number=number)
    assert (record.state, record.error) == ("applied", "")
    out = io.StringIO()
    call_command("replay_round", number, stdout=out)
    assert f"Round {number}: identical plan" in out.getvalue()
    assert record.plan is not None
    return codec.loads_plan(bytes(record.plan))


def told() -> list[tuple[str, str]]:
    events = Event.objects.filter(kind__in=(TOO_SLOW, IN_TIME)).order_by("id")
    return list(events.values_list("kind", "subject"))


def test_a_policy_that_is_in_time_is_counted_and_nothing_is_said() -> None:
    vc, job = make_research()
    assert next_round().overran == ()
    assert job.attempts.exists()
    row = ViewComputing.objects.get()
    assert (row.view, row.computations, row.overruns, row.since) == ("research", 1, 0, None)
    assert row.last_seconds > 0
    assert told() == []
    assert virtual_cluster_representations.virtual_clusters([vc.id])[0]["overrun"] is None


def test_a_cheap_policy_decides_meanwhile_and_the_policy_recovers_by_itself() -> None:
    vc, job = make_research()
    next_round()
    waiting = make_job(tenant=job.tenant, virtual_cluster=vc, gpus=1)
    Computing.instances["research"] = LARGE

    plan = next_round()
    assert plan.overran == ("research",)
    assert plan.degraded == {"research": "its policy took longer than the 1 s that it had"}
    assert waiting.attempts.exists()
    assert PolicyMemory.objects.get(view="research").memory == {"rounds": 1}
    [shown] = virtual_cluster_representations.virtual_clusters([vc.id])
    assert shown["overrun"]["message"] == plan.degraded["research"]
    assert shown["overrun"]["since"] == iso(Round.objects.get(number=plan.round_number).started_at)
    assert shown["version"] == vc.version + 1
    assert told() == [(TOO_SLOW, "virtual_cluster")]

    del Computing.instances["research"]
    plan = next_round()
    assert plan.degraded["research"].endswith("; it is tried again in the next round")
    assert ViewComputing.objects.get().computations == 2

    assert next_round().degraded == {}
    assert PolicyMemory.objects.get(view="research").memory == {"rounds": 2}
    assert virtual_cluster_representations.virtual_clusters([vc.id])[0]["overrun"] is None
    assert told() == [
        (TOO_SLOW, "virtual_cluster"),
        (IN_TIME, "virtual_cluster"),
    ]
    row = ViewComputing.objects.get()
    assert (row.computations, row.overruns, row.failures, row.message) == (3, 1, 0, "")


def test_the_spare_view_is_served_likewise() -> None:
    _, job = make_research()
    ClusterSettings.objects.create(id=1, spare_policy="computing", spare_policy_parameters={"salt": 1})
    Computing.instances["spare"] = LARGE
    guest = make_job(tenant=job.tenant, virtual_cluster=job.virtual_cluster, gpus=1, guaranteed=False)
    assert next_round().overran == ("spare",)
    assert guest.attempts.exists()
    assert told() == [(TOO_SLOW, "cluster")]
    assert set(overruns(["spare"])) == {"spare"}
    cheap = with_breakers_open(read_snapshot(9))
    assert (cheap.spare_policy, cheap.spare_policy_parameters) == ("fifo", {})
    ClusterSettings.objects.update(spare_policy_parameters={"salt": 2})
    assert with_breakers_open(read_snapshot(9)).spare_policy == "computing"


def test_who_was_not_let_begin_is_tried_again_in_the_next_round() -> None:
    make_research("aaa")
    make_research("bbb")
    Computing.instances["aaa"] = LARGE
    plan = next_round()
    assert plan.overran == ("aaa", "bbb")
    assert "policies of other views took all the time" in plan.degraded["bbb"]
    assert ViewComputing.objects.get(view="bbb").computations == 0
    plan = next_round()
    assert plan.overran == ("aaa",)
    assert ViewComputing.objects.get(view="bbb").computations == 1


def test_another_policy_is_tried_at_once() -> None:
    vc, _ = make_research()
    Computing.instances["research"] = LARGE
    next_round()
    assert with_breakers_open(read_snapshot(9)).virtual_clusters[0].policy == "fifo"
    vc.policy_parameters = {"salt": 5}
    vc.save()
    assert with_breakers_open(read_snapshot(9)).virtual_clusters[0].policy == "computing"
    del Computing.instances["research"]
    assert next_round().overran == ()
    assert [kind for kind, _ in told()] == [
        TOO_SLOW,
        IN_TIME,
    ]


def test_a_preview_and_a_forecast_spare_themselves_what_takes_too_long(monkeypatch) -> None:
    make_research()
    Computing.instances["research"] = LARGE
    next_round()
    facts = read_snapshot(9)

    def never(*_: object) -> Decision:
        raise AssertionError("the policy that takes too long was asked")

    monkeypatch.setattr(Computing, "allocate", never)
    [job] = facts.jobs
    assert preview(job, parse({"name": "new", "gpus": 1, "command": "true"})) == ()
    make_job(tenant=make_tenant(), virtual_cluster=VirtualCluster.objects.get(), gpus=8)
    assert run_forecast() > 0
    assert Forecast.objects.get().predictions


def test_what_is_known_of_a_view_goes_with_it() -> None:
    make_research()
    ViewComputing.objects.create(view="gone", computations=5)
    next_round()
    assert [row.view for row in ViewComputing.objects.all()] == ["research"]


def test_one_that_overruns_again_and_again_is_tried_ever_more_seldom() -> None:
    make_research()
    facts = read_snapshot(1)
    attempts = []
    for number in range(300):
        circuit_breaker = CircuitBreaker(facts)
        budget = Budget(Solver(), 1.0)
        words = circuit_breaker.skipped.get("research")
        if words is None:
            attempts.append(number)
            budget.computations["research"] += 1
            words = "too slow"
        plan = Plan(round_number=number, degraded={"research": words}, overran=("research",))
        circuit_breaker.write(plan, budget, at=database_now())
    pauses = [later - earlier - 1 for earlier, later in itertools.pairwise(attempts)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 64, 64][: len(pauses)]
    assert max(pauses) == MOST_ROUNDS_SKIPPED
    assert [kind for kind, _ in told()] == [TOO_SLOW]
