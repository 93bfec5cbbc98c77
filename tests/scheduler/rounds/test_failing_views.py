"""A view that fails costs itself only, whatever part of it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model import codec
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Decision, Grant, Plan, Reason, Tier
from scheduler.core.model.snapshot import JobId, Memory, Snapshot
from scheduler.core.placers.consolidate import Consolidate
from scheduler.core.policies.fifo import Fifo
from scheduler.core.round import decide, registry, run_view
from scheduler.models import Round
from scheduler.rounds.replay import decided_again
from scheduler.rounds.run import run_round
from tests.scheduler.builders import make_job, make_node, make_vc
from tests.scheduler.conftest import World

#: The virtual cluster that fails.
FAILING = "research"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Fifo with something wrong, as policy and as placer."""

    wrong: ClassVar[dict[str, Any]] = {}
    wrong_placing: ClassVar[dict[str, Any]] = {}

    def allocate(self, view: View, memory: Memory) -> Decision:
        if "raise" in self.wrong:
            raise ZeroDivisionError
        return replace(Fifo().allocate(view, memory), **self.wrong)

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        if "raise" in self.wrong_placing:
            raise ZeroDivisionError
        return replace(Consolidate().place(grants, view, capacity), **self.wrong_placing)


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, "failing": Failing})
    monkeypatch.setattr(registry, "PLACERS", {**registry.PLACERS, "failing": Failing})
    monkeypatch.setattr(Failing, "wrong", {})
    monkeypatch.setattr(Failing, "wrong_placing", {})


@pytest.fixture
def assert_costs_itself_only(world: World) -> Callable[[str], None]:
    vc = world.virtual_cluster
    type(vc).objects.filter(id=vc.id).update(policy="failing", placer="failing")
    # One starts and one waits, so that there are grants, a queue and reasons.
    for _ in range(2):
        make_job(tenant=world.tenant, virtual_cluster=vc, gpus=8)
    make_node("node-b", gpus=8)
    other = make_vc("other", members=[world.tenant], guaranteed={"V100": 8})
    theirs = make_job(tenant=world.tenant, virtual_cluster=other, gpus=8)

    def check(message: str) -> None:
        row = Round.objects.get(number=run_round())
        assert (row.state, row.error, list(row.degraded)) == ("applied", "", [FAILING])
        assert message in row.degraded[FAILING]
        assert theirs.attempts.exists()

    return check


OBJECT = object()
REASON = Reason(code="odd", tier=Tier.ORDER, message="It is odd.", blocking={"by": OBJECT})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"raise": True}, "policy Failing failed"),
        ({"grants": 5}, "policy Failing failed"),
        ({"queue": (JobId(77),)}, "queue names jobs that are not in view"),
        ({"queue": 5}, "policy Failing failed"),
        ({"wake_at": "soon"}, "wake_at is a number of seconds, not 'soon'"),
        ({"wake_at": float("nan")}, "wake_at is a number of seconds, not nan"),
        ({"reasons": 5}, "reasons is a Mapping"),
        ({"reasons": {JobId(1): ("because",)}}, "tuple of Reason"),
        ({"memory": 5}, "memory is a Mapping"),
        ({"ledger": (5,)}, "lines of LedgerLine"),
        ({"leaves": 5}, "policy Failing failed"),
        ({"memory": {"kept": OBJECT}}, "cannot be stored"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_policy_that_errs(
    assert_costs_itself_only: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr(Failing, "wrong", wrong)
    assert_costs_itself_only(message)


def test_reasons_that_cannot_be_stored(
    assert_costs_itself_only: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(self: Failing, view: View, memory: Memory) -> Decision:
        decision = Fifo().allocate(view, memory)
        return replace(decision, reasons=dict.fromkeys(view.jobs, (REASON,)))

    monkeypatch.setattr(Failing, "allocate", allocate)
    assert_costs_itself_only("cannot be stored")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"raise": True}, "placer Failing failed"),
        ({"placements": 5}, "placer Failing failed"),
        ({"placements": {7: None}}, "grants were placed that do not exist"),
        ({"reasons": 5}, "could not be carried out"),
        ({"reasons": {JobId(1): ("because",)}}, "could not be carried out"),
        ({"wake_at": "soon"}, "wake_at is a number of seconds"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_placer_that_errs(
    assert_costs_itself_only: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr(Failing, "wrong_placing", wrong)
    assert_costs_itself_only(message)


@pytest.mark.parametrize("step", ["with_growth", "around_pinned", "place_tagged", "settle_exactly"])
def test_a_step_between_them_that_errs(
    assert_costs_itself_only: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A fault of ours is no reason either to stop every virtual cluster."""
    honest = getattr(run_view, step)

    def erring(*arguments: Any, **keywords: Any) -> Any:
        views = [each for each in arguments if isinstance(each, View)]
        if views[0].name == FAILING:
            raise KeyError((1,))
        return honest(*arguments, **keywords)

    monkeypatch.setattr(run_view, step, erring)
    assert_costs_itself_only("KeyError((1,))")


def test_a_plan_that_breaks_a_rule_is_made_again_by_the_cheap_policy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a round used to fail, and so did the next ones while the facts were the same."""
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    honest = decide.check

    def check(snapshot: Snapshot, plan: Plan) -> None:
        if not plan.degraded:
            raise PlanError("job 1 is on a node of others")
        honest(snapshot, plan)

    with monkeypatch.context() as patch:
        patch.setattr(decide, "check", check)
        row = Round.objects.get(number=run_round())
    assert (row.state, row.started) == ("applied", 1)
    assert row.degraded.keys() == {FAILING, "spare"}
    assert "breaks a rule: job 1 is on a node of others" in row.degraded[FAILING]
    assert job.attempts.exists()
    assert decided_again(row) == codec.loads_plan(bytes(row.plan))
    # The views' own policies are tried at once in the next round.
    assert Round.objects.get(number=run_round()).degraded == {}
