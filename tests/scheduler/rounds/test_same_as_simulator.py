"""The live loop and the simulator, told the same events, do the same, action by action.

The live side is real: specifications through the service, rows, rounds, agents' reports. Only the clock is
the test's, and the live loop runs a round at every tick, where the simulator skips those in which, it
believes, nothing can happen.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.attempts.models import StopCause
from scheduler.cells.services import cells_apply
from scheduler.clock import database_now
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Candidates, Snapshot
from scheduler.core.round import beyond_guarantees
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.models import Allocation, Attempt, Job, Loan, MarketRule, Offer
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import VirtualCluster
from tests.scheduler.builders import (
    make_account,
    make_borrow_rule,
    make_lend_rule,
    make_node,
    make_tenant,
    make_vc,
)
from tests.scheduler.rounds.live_loop import Act, LiveLoop, Places
from tests.scheduler.rounds.story import Besides, Event, demanding, elastic, seeded
from tests.scheduler.rounds.virtual_clock import BEGINNING, VirtualClock

pytestmark = pytest.mark.django_db

ROUND_SECONDS = 20
SECONDS = 480
#: Parameters that let something happen within the few minutes of a story.
PARAMETERS = {
    # The simulator tells the scheduler what a preemption costs; nobody tells the live one yet.
    "srtf": {"hysteresis": 0.0},
    "las": {"quantum_seconds": 60},
    "tiresias": {"thresholds": [120.0]},
    "fair": {"half_life_seconds": 120.0, "minimum_run_seconds": 40.0},
    "gandiva": {"slice_seconds": 60.0},
    "allox": {"alpha": 0.5},
    "shockwave": {"round_seconds": 40.0, "horizon_rounds": 4, "makespan_weight": 1.0},
    "gandiva_fair": {"quantum_seconds": 60.0},
    "gavel": {"lease_seconds": 60.0, "interval_seconds": 60.0},
    "aryl": {"epoch_seconds": 60.0},
    "slaq": {"epoch_seconds": 60.0},
    "pollux": {"restart_seconds": 1.0},
    "optimus": {"interval_seconds": 60.0},
    "sia": {"round_seconds": 40.0, "restart_seconds": 15.0},
    "singularity": {"premium": ["speech"], "window_seconds": 240.0, "interval_seconds": 60.0},
    "themis": {"lease_seconds": 60.0, "interval_seconds": 20.0},
}


#: The V100 divided by cells; the P100 stay divided by counts.
CELLS = {
    "types": {
        "V100-SWITCH": {"of": "V100", "count": 2},
        "V100-NODE": {"of": "V100-SWITCH", "count": 2, "node": True},
    },
    "physical": [{"type": "V100-NODE", "nodes": [f"node-{name}"]} for name in "abc"],
    "virtual_clusters": {
        "north": {"cells": {"V100-NODE": 1, "V100-SWITCH": 1}},
        "south": {"cells": {"V100-NODE": 1}},
    },
}


def cluster(
    clock: VirtualClock, north: tuple[str, str], south: tuple[str, str], *, in_cells: bool
) -> Snapshot:
    """Three nodes of four V100 and one of four P100, two virtual clusters, and no job yet."""
    lease = database_now() + timedelta(days=1)
    for name, model, rack in (("a", "V100", 1), ("b", "V100", 1), ("c", "V100", 2), ("d", "P100", 2)):
        make_node(f"node-{name}", gpus=4, gpu_model=model, rack=f"rack-{rack}", lease_expires_at=lease)
    speech, vision = make_tenant("speech"), make_tenant("vision")
    for name, (policy, placer), guaranteed in (
        ("north", north, {"V100": 6, "P100": 2}),
        ("south", south, {"V100": 4}),
    ):
        make_vc(
            name,
            members={speech: 1.0, vision: 2.0},
            guaranteed=guaranteed,
            policy=policy,
            policy_parameters=PARAMETERS.get(policy, {}),
            placer=placer,
        )
    if in_cells:
        cells_apply(document=CELLS, version=0, actor="user olga")
    return read_snapshot(1)


def simulated(facts: Snapshot, events: list[Event], pause_seconds: int) -> dict[int, list[Act]]:
    """Return the actions of those rounds that had any, by instant."""
    acts: dict[int, list[Act]] = {}
    places = Places(facts)

    def note(engine: Engine, outcomes: object, plan: Plan) -> None:
        if plan.actions and engine.now <= BEGINNING + SECONDS:
            acts[int(engine.now) - BEGINNING] = sorted(places.act(action, int) for action in plan.actions)

    rules = Rules(costs=Costs(checkpoint_seconds=pause_seconds))
    engine = Engine(facts, (), rules, script=[event.script() for event in events], on_round=note)
    engine.run(until=lambda engine: engine.now >= BEGINNING + SECONDS)
    assert engine.degraded == {}
    return acts


FIFO_SRTF = (("fifo", "consolidate"), ("srtf", "spread"))
LAS_TIRESIAS = (("las", "fgd"), ("tiresias", "consolidate"))
DRF_FAIR = (("drf", "spread"), ("fair", "consolidate"))
LAS_ALLOX = (("las", "fgd"), ("allox", "consolidate"))
GAVEL_GANDIVA_FAIR = (("gavel", "consolidate"), ("gandiva_fair", "spread"))
THEMIS_SHOCKWAVE = (("themis", "fgd"), ("shockwave", "consolidate"))
PRIORITY_LAS = (("priority", "consolidate"), ("las", "spread"))
SJF_GANDIVA = (("sjf", "delay"), ("gandiva", "consolidate"))


#: Those that decide how large elastic gangs are.
RESIZING = ("aryl", "pollux", "optimus", "sia", "singularity", "slaq")

#: Policies with and without a memory, pauses and none, counts and cells. What a policy decides is the same
#: code in both; test_every_policy.py plays each in the live loop every day.
EVERY_DAY = [
    (*FIFO_SRTF, 15, False),
    (*SJF_GANDIVA, 0, True),
    (*GAVEL_GANDIVA_FAIR, 15, False),
]
REST = [
    (*PRIORITY_LAS, 15, True),
    (*DRF_FAIR, 15, False),
    (*LAS_TIRESIAS, 15, False),
    (*SJF_GANDIVA, 0, False),
    (*LAS_ALLOX, 15, False),
    (*THEMIS_SHOCKWAVE, 15, False),
    (*LAS_TIRESIAS, 0, True),
    (*LAS_TIRESIAS, 0, False),
    (*SJF_GANDIVA, 15, False),
    (*FIFO_SRTF, 15, True),
    (*DRF_FAIR, 15, True),
    (*LAS_ALLOX, 0, True),
    (*GAVEL_GANDIVA_FAIR, 0, True),
    (*THEMIS_SHOCKWAVE, 0, True),
]


@pytest.mark.parametrize(
    ("north", "south", "pause_seconds", "in_cells"),
    [*EVERY_DAY, *(pytest.param(*story, marks=pytest.mark.slow) for story in REST)],
    ids=lambda value: ":".join(value) if isinstance(value, tuple) else str(value),
)
def test_both_do_the_same_in_every_round(north, south, pause_seconds, in_cells, settings):
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, north, south, in_cells=in_cells)
    said = played(clock, facts, 11 + pause_seconds, pause_seconds)
    # In cells of their own fewer are in each other's way.
    assert {("start", ""), ("stop", "time_limit")} | (set() if in_cells else {("stop", "preempted")}) <= said
    if (north, south) == DRF_FAIR and not in_cells:
        assert Attempt.objects.filter(stop_cause=StopCause.DRAINED).exists(), "a drained node had jobs left"


def played(
    clock: VirtualClock,
    facts: Snapshot,
    seed: int,
    pause_seconds: int,
    besides: Besides = lambda *job: {},
    job_count: int = 24,
) -> set[tuple[str, str]]:
    """Let the same happen to both and compare; return which actions there were, and their causes."""
    events = seeded(seed, seconds=SECONDS, job_count=job_count, besides=besides)
    expected = simulated(facts, events, pause_seconds)
    loop = LiveLoop(clock, Places(facts), pause_seconds=pause_seconds)
    found = loop.play(events, until=SECONDS, round_seconds=ROUND_SECONDS)
    for instant in sorted(found.keys() | expected.keys()):
        assert (instant, found.get(instant, [])) == (instant, expected.get(instant, []))
    return {(act.kind, act.cause) for acts in found.values() for act in acts}


@pytest.mark.parametrize("in_cells", [pytest.param(False, marks=pytest.mark.slow), True])
def test_both_do_what_jobs_demand(in_cells, settings):
    """Jobs that name nodes, or say what becomes of them when they give way, and gangs of two shapes."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, *PRIORITY_LAS, in_cells=in_cells)
    said = played(clock, facts, 44, 15, demanding)
    assert {("start", ""), ("regrade", "downgraded")} <= said
    named = Job.objects.exclude(shape__nodes=None)
    began = Attempt.objects.filter(job__in=named).values_list("job__shape", "parts__node__name")
    assert len(began) > 2
    for shape, node in began:
        assert Candidates(**shape["nodes"]).allow(node)


@pytest.mark.parametrize(
    ("north", "in_cells"),
    [
        ("pollux", False),
        *(
            pytest.param(policy, False, marks=pytest.mark.slow)
            for policy in ("fifo", *RESIZING)
            if policy != "pollux"
        ),
        *(pytest.param(policy, True, marks=pytest.mark.slow) for policy in RESIZING if policy != "slaq"),
    ],
)
def test_both_resize_alike(north, in_cells, settings):
    """Elastic gangs under a policy that decides how large they are."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, (north, "consolidate"), ("fifo", "consolidate"), in_cells=in_cells)
    assert ("resize", "") in played(clock, facts, 28, 15, elastic)


@pytest.mark.slow
@pytest.mark.parametrize("in_cells", [False, True])
def test_both_grow_beyond_guarantees_alike(in_cells, settings, monkeypatch):
    """Elastic gangs that have what is idle beyond the guarantee, and give it back when others come."""
    monkeypatch.setattr(beyond_guarantees, "SETTLED_SECONDS", 40.0)
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, ("aryl", "consolidate"), ("fifo", "consolidate"), in_cells=in_cells)
    assert ("resize", "") in played(clock, facts, 29, 15, elastic, job_count=10)
    assert Allocation.objects.filter(opportunistic_gpus__gt=0).exists()


@pytest.mark.parametrize("in_cells", [pytest.param(False, marks=pytest.mark.slow), True])
def test_both_lend_and_borrow_alike(in_cells, settings):
    """A loan between two rounds' instants, and rules by which what is idle is lent and borrowed."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    cluster(clock, *FIFO_SRTF, in_cells=in_cells)
    north, south = VirtualCluster.objects.order_by("name")
    make_account(south, 10)
    switch = {"gpus": {}, "cells": {"V100-SWITCH": 1}}
    lot = switch if in_cells else {"gpus": {"V100": 2}, "cells": {}}
    since, until = [database_now() + timedelta(seconds=seconds) for seconds in (50, 195)]
    terms = {"lender": north, "gpus": {"V100": 2}, "starts_at": since, "ends_at": until, "made_at": since}
    offer = Offer.objects.create(lot=lot, state="taken", closed_at=since, **terms)
    Loan.objects.create(offer=offer, borrower=south, starts_at=since, ends_at=until, taken_at=since)
    make_lend_rule(north, {"P100": 2}, idle_seconds=20.0, lend_seconds=100.0, price=1_000)
    make_lend_rule(north, {} if in_cells else {"V100": 6}, cells=switch["cells"] if in_cells else {})
    MarketRule.objects.update(idle_seconds=20.0, lend_seconds=100.0)
    make_borrow_rule(south, most_gpus=8, waiting_seconds=0.0, price=1_000)
    said = played(clock, read_snapshot(1), 11, 15)
    if in_cells:
        assert ("regrade", "lent") in said
        return
    assert ("regrade", "loan_ended") in said
    assert Loan.objects.exclude(offer=offer).exists(), "rules traded"
