"""A policy or placer that never returns: what ends it in rounds, previews, what-ifs and forecasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from django.conf import settings

from scheduler.core.building_blocks.computing import Timekeeper
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model import codec
from scheduler.core.model.plan import Decision, Grant, Plan
from scheduler.core.model.snapshot import Memory, Snapshot
from scheduler.core.placers.consolidate import Consolidate
from scheduler.core.policies.fifo import Fifo
from scheduler.core.round import registry
from scheduler.core.round.decide import decide
from scheduler.forecasts.services import answers, facts
from scheduler.forecasts.services.forecasting import run_forecast
from scheduler.models import Forecast, Job, Leadership, Round, ViewComputing
from scheduler.rounds import circuit_breaker, run
from scheduler.rounds.replay import decided_again
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.prometheus import _Database
from scheduler.virtual_clusters.representations import virtual_clusters
from scheduler.wiring.watchdog import within_budget
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc
from tests.scheduler.conftest import World, spec

SECONDS = 0.5


def spin_in(view: View, views: Sequence[str], holding_on: bool) -> None:
    """Never return from those views; where it holds on, not even when it is interrupted once."""
    while view.name in views:
        try:
            sum(range(100))
        except BaseException:
            if not holding_on:
                raise
            holding_on = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spinning:
    """Fifo, and in some views a loop without end."""

    views: ClassVar[list[str]] = []
    holding_on: bool = False

    def allocate(self, view: View, memory: Memory) -> Decision:
        spin_in(view, self.views, self.holding_on)
        return Fifo().allocate(view, memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpinningPlacer:
    """Consolidate, and in some views a loop without end."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        spin_in(view, Spinning.views, holding_on=False)
        return Consolidate().place(grants, view, capacity)


@pytest.fixture(autouse=True)
def spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, "spinning": Spinning})
    monkeypatch.setattr(registry, "PLACERS", {**registry.PLACERS, "spinning": SpinningPlacer})
    monkeypatch.setattr(Spinning, "views", [])
    monkeypatch.setattr(facts, "_read", None)
    config = settings.CONFIG.model_copy(update={"view_budget_seconds": SECONDS})
    monkeypatch.setattr(settings, "CONFIG", config)


PLUGINS = {
    "policy": {"policy": "spinning"},
    "policy that holds on": {"policy": "spinning", "policy_parameters": {"holding_on": True}},
    "placer": {"placer": "spinning"},
}
each_kind = pytest.mark.parametrize("plugins", PLUGINS.values(), ids=list(PLUGINS))


@each_kind
def test_in_a_round_it_costs_its_own_view_only(world: World, plugins: dict) -> None:
    vc = world.virtual_cluster
    vc.__class__.objects.filter(id=vc.id).update(**plugins)
    job = make_job(tenant=world.tenant, virtual_cluster=vc, gpus=1)
    make_node("node-b", gpus=4)
    other = make_vc("other", members=[world.tenant], guaranteed={"V100": 4})
    theirs = make_job(tenant=world.tenant, virtual_cluster=other, gpus=4)
    Spinning.views.append("research")

    number = run_round()

    row = Round.objects.get(number=number)
    assert (row.state, list(row.degraded)) == ("applied", ["research"])
    assert (
        row.degraded["research"] == f"its policy or placer took longer than the {SECONDS:g} s that a view has"
    )
    assert job.attempts.exists()
    assert theirs.attempts.exists()
    assert codec.dumps_plan(decided_again(row)) == bytes(row.plan or b"")
    shown, healthy = virtual_clusters([vc.id, other.id])
    assert shown["overrun"]["message"] == row.degraded["research"]
    assert healthy["overrun"] is None
    metrics = {family.name: family.samples for family in _Database().collect()}
    overruns = {sample.labels["view"]: sample.value for sample in metrics["allot_view_overruns"]}
    degraded = {sample.labels["view"]: sample.value for sample in metrics["allot_view_degraded"]}
    assert (overruns["research"], degraded["research"]) == (1, 1)

    Spinning.views.clear()
    run_round()
    assert ViewComputing.objects.get(view="research").since is not None
    run_round()
    assert ViewComputing.objects.get(view="research").since is None


def make_views(world: World, policies: Mapping[str, str]) -> dict[str, Job]:
    """Make virtual clusters of four GPUs by name and policy, with a job each that waits."""
    jobs = {}
    for name, policy in policies.items():
        make_node(f"node-{name}", gpus=4)
        vc = make_vc(name, members=[world.tenant], guaranteed={"V100": 4}, policy=policy)
        jobs[name] = make_job(tenant=world.tenant, virtual_cluster=vc, gpus=4)
    return jobs


CROWDED_OUT = "policies of other views took all the time that a round has"


def test_the_second_late_view_of_a_policy_crowds_out_its_others_and_the_round_is_not_overtaken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = make_views(world, {"aaa": "spinning", "bbb": "spinning", "ccc": "spinning", "ddd": "fifo"})
    Spinning.views.extend(("aaa", "bbb"))
    # The two together take longer than the lease; what each takes of it is given back.
    config = settings.CONFIG.model_copy(update={"round_lease_seconds": 1.5 * SECONDS})
    monkeypatch.setattr(settings, "CONFIG", config)
    overtaking: list[int | None] = []
    renewed = run.renew_fence

    def renewing(number: int) -> None:
        overtaking.append(run.take_number())
        renewed(number)

    monkeypatch.setattr(run, "renew_fence", renewing)
    row = Round.objects.get(number=run_round())
    assert overtaking == [None, None]
    late = f"its policy or placer took longer than the {SECONDS:g} s that a view has"
    assert row.degraded == {"aaa": late, "bbb": late, "ccc": CROWDED_OUT}
    assert all(job.attempts.exists() for job in jobs.values())
    assert codec.dumps_plan(decided_again(row)) == bytes(row.plan or b"")

    # It did not fail, so it is tried at once, while the others wait for their next trial.
    assert set(Round.objects.get(number=run_round()).degraded) == {"aaa", "bbb"}
    overruns = dict(ViewComputing.objects.values_list("view", "overruns"))
    assert overruns == {"aaa": 1, "bbb": 1, "ccc": 0}


def test_late_views_that_took_the_time_of_a_round_crowd_out_all_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {f"spinning-{number}": Spinning for number in range(3)}
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, **named})
    monkeypatch.setattr(circuit_breaker, "LATE_SECONDS", 2 * SECONDS)
    jobs = make_views(world, {"aaa": "spinning-0", "bbb": "spinning-1", "ccc": "spinning-2", "ddd": "srtf"})
    Spinning.views.extend(("aaa", "bbb", "ccc"))
    degraded = Round.objects.get(number=run_round()).degraded
    assert (degraded["ccc"], degraded["ddd"]) == (CROWDED_OUT, CROWDED_OUT)
    assert all(job.attempts.exists() for job in jobs.values())
    # One late view leaves the others their time.
    assert set(Round.objects.get(number=run_round()).degraded) == {"aaa", "bbb", "ccc"}


@each_kind
def test_in_a_preview_the_cheap_policy_answers(world: World, plugins: dict) -> None:
    vc = world.virtual_cluster
    vc.__class__.objects.filter(id=vc.id).update(**plugins)
    Spinning.views.append("research")
    answer = world.member.post("/jobs/check", {"tenant": "vision", **spec(virtual_cluster="research")})
    assert answer.json()["message"] == "Would start at once."


@each_kind
def test_in_a_forecast_and_a_what_if_the_cheap_policy_answers(
    world: World, redis_url: str, plugins: dict
) -> None:
    vc = world.virtual_cluster
    vc.__class__.objects.filter(id=vc.id).update(**plugins)
    running = make_job(tenant=world.tenant, virtual_cluster=vc, gpus=8, time_limit_seconds=3_600)
    make_attempt(running, gpus_of(world.node))
    waiting = make_job(tenant=world.tenant, virtual_cluster=vc, gpus=8)
    Leadership.objects.update_or_create(id=1, defaults={"number": 3})
    Spinning.views.append("research")

    assert run_forecast() > SECONDS
    predictions = Forecast.objects.get().predictions
    assert predictions[str(waiting.id)][1] is not None

    asked = world.member.post("/what-if", {"job": waiting.id, "changes": {"priority": 5}}).json()
    answers.answer(asked["id"])
    answer = world.member.get(f"/what-if/{asked['id']}").json()
    assert (answer["state"], answer["problem"]) == ("done", "")
    assert answer["subjects"][0]["after"]["starts_at"] is not None


def facts_of_a_spinning_view() -> Snapshot:
    make_node(gpus=4)
    vc = make_vc("research", members=[make_tenant()], guaranteed={"V100": 4}, policy="spinning")
    make_job(tenant=vc.members.get().tenant, virtual_cluster=vc, gpus=1)
    return read_snapshot(1)


@pytest.mark.django_db
def test_in_any_thread_which_then_goes_on_undisturbed() -> None:
    known = facts_of_a_spinning_view()
    Spinning.views.append("research")
    overran: list[tuple[str, ...]] = []
    done: list[int] = []

    def decided(timekeeper: Timekeeper, late: Mapping[str, str]) -> Plan:
        return decide(known, overran=late, timekeeper=timekeeper)

    def think() -> None:
        for _ in range(3):
            overran.append(within_budget(decided).overran)
            # Nothing that was raised too late may arrive here.
            done.append(sum(1 for _ in range(200_000)))

    thread = threading.Thread(target=think)
    thread.start()
    thread.join(60)
    assert overran == [("research",)] * 3
    assert done == [200_000] * 3
    assert not [each for each in threading.enumerate() if each.name == "view-watchdog"]


@pytest.mark.django_db
def test_one_that_returns_at_the_last_moment_disturbs_nothing() -> None:
    """Turns that end just when they are to be ended: either the view is late, or nothing happened."""

    def attempt(turn_seconds: float) -> Callable[..., bool]:
        def turn(timekeeper: Callable, late: dict) -> bool:
            with timekeeper("view"):
                wait = threading.Event()
                while not late and not wait.wait(0.0005) and (elapsed := clock() - began) < turn_seconds:
                    assert elapsed >= 0
            return bool(late)

        return turn

    clock = time.monotonic
    for number in range(60):
        began = clock()
        within_budget(attempt(0.05 + 0.0002 * number), seconds=0.05)
        assert sum(1 for _ in range(20_000)) == 20_000
    began = clock()
    assert within_budget(attempt(PATIENCE_SECONDS), seconds=0.05)
