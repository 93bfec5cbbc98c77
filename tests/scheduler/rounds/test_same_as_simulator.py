"""The live loop and the simulator, told the same events, do the same, action by action.

The live side is real: specifications through the service, rows, rounds, agents' reports. Only the clock is
the test's, and the live loop runs a round at every tick, where the simulator skips those in which, it
believes, nothing can happen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement

import pytest
from django.db.models import F

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Candidates, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.round import beyond_guarantees
from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.models import AllocatedGpu, Allocation, Attempt, Job, Loan, MarketRule, Node, Offer
from scheduler.models import Event as EventRow
from scheduler.models import ServingPool as PoolRow
from scheduler.models.attempts import StopCause
from scheduler.models.nodes import LoanState
from scheduler.rounds.snapshot import read_snapshot
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.throughputs import read_throughputs
from scheduler.telemetry.throughputs.services.files import throughputs_import
from scheduler.virtual_clusters.cells.services import cells_apply
from scheduler.wiring.clock import database_now
from tenants.models import VirtualCluster
from tenants.selectors import viewer_of
from tests.scheduler.builders import (
    make_account,
    make_borrow_rule,
    make_class_profile,
    make_lend_rule,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)
from tests.scheduler.rounds.live_loop import Act, LiveLoop, Places
from tests.scheduler.rounds.story import (
    Besides,
    Event,
    cordon,
    crowd,
    demanding,
    devices_tell,
    elastic,
    end,
    jobs,
    reservation,
    reserving,
    seeded,
    submission,
    watches,
    with_parts,
    without_gpus,
)
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
    "lucid": {"profiler_gpus": 2, "profiling_seconds": 180.0},
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


def simulated(
    facts: Snapshot,
    events: list[Event],
    pause_seconds: int,
    pools: Sequence[ServingPool] = (),
    tables: ThroughputTable | None = None,
) -> dict[int, list[Act]]:
    """Return the actions of those rounds that had any, by instant."""
    acts: dict[int, list[Act]] = {}
    places = Places(facts)

    def note(engine: Engine, outcomes: object, plan: Plan) -> None:
        if plan.actions and engine.now <= BEGINNING + SECONDS:
            acts[int(engine.now) - BEGINNING] = sorted(places.act(action, int) for action in plan.actions)

    costs, speeds = Costs(checkpoint_seconds=pause_seconds), Speeds(tables=tables)
    rules = Rules(costs=costs, speeds=speeds, limits_by_rounds=True)
    script = [event.script() for event in events]
    engine = Engine(facts, (), rules, script=script, pools=pools, on_round=note)
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
LUCID_SRTF = (("lucid", "consolidate"), ("srtf", "consolidate"))
SJF_GANDIVA = (("sjf", "delay"), ("gandiva", "consolidate"))


#: Those that decide how large elastic gangs are.
RESIZING = ("aryl", "pollux", "optimus", "sia", "singularity", "slaq")

#: Policies with and without a memory, pauses and none, counts and cells. What a policy decides is the same
#: code in both; test_every_policy.py plays each in the live loop every day.
EVERY_DAY = [
    (*GAVEL_GANDIVA_FAIR, 15, False),
]
REST = [
    (*FIFO_SRTF, 15, False),
    (*PRIORITY_LAS, 15, True),
    (*DRF_FAIR, 15, False),
    (*LAS_TIRESIAS, 15, False),
    (*SJF_GANDIVA, 0, False),
    (*LAS_ALLOX, 15, False),
    (*THEMIS_SHOCKWAVE, 15, False),
    (*LAS_TIRESIAS, 0, True),
    (*LAS_TIRESIAS, 0, False),
    (*SJF_GANDIVA, 0, True),
    (*SJF_GANDIVA, 15, False),
    (*FIFO_SRTF, 15, True),
    (*DRF_FAIR, 15, True),
    (*LAS_ALLOX, 0, True),
    (*GAVEL_GANDIVA_FAIR, 0, True),
    (*THEMIS_SHOCKWAVE, 0, True),
    (*LUCID_SRTF, 15, False),
    (*LUCID_SRTF, 0, True),
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
    return compared(clock, facts, events, pause_seconds)


def compared(
    clock: VirtualClock,
    facts: Snapshot,
    events: list[Event],
    pause_seconds: int,
    pools: Sequence[ServingPool] = (),
    tables: ThroughputTable | None = None,
) -> set[tuple[str, str]]:
    """Let these events happen to both; return which actions there were, and their causes."""
    expected = simulated(facts, events, pause_seconds, pools, tables)
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
    ("north", "south"),
    [
        FIFO_SRTF,
        pytest.param(*PRIORITY_LAS, marks=pytest.mark.slow),
        pytest.param(*DRF_FAIR, marks=pytest.mark.slow),
        pytest.param(*LAS_ALLOX, marks=pytest.mark.slow),
        pytest.param(*GAVEL_GANDIVA_FAIR, marks=pytest.mark.slow),
        pytest.param(*THEMIS_SHOCKWAVE, marks=pytest.mark.slow),
    ],
    ids=lambda value: ":".join(value),
)
def test_both_share_gpus_alike(north, south, settings):
    """Jobs with parts of GPUs among jobs with whole ones."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, north, south, in_cells=False)
    assert ("start", "") in played(clock, facts, 7, 15, with_parts, job_count=40)
    parts = AllocatedGpu.objects.filter(request__lt=1000)
    attempts = {row.id: row.allocation.attempts.get() for row in parts.select_related("allocation")}
    spans = [(row.gpu_id, attempts[row.id].starting_at, row.released_at) for row in parts]
    assert any(
        gpu == there and since and then and since <= then and (not until or until > then)
        for number, (gpu, since, until) in enumerate(spans)
        for there, then, _ in spans[:number] + spans[number + 1 :]
    ), "two jobs shared a GPU"


#: What is known of the applications of a story, such that each policy lets them share.
LIGHT = Profile(utilisation=0.1, memory_utilisation=0.05)
STAGES = {"resnet50": Profile(stages=(0.5, 0.1, 0.0)), "bert": Profile(stages=(0.1, 0.5, 0.0))}
PAIRS = {
    "types": {"V100-PAIR": {"of": "V100", "count": 2, "node": True}},
    "physical": [{"type": "V100-PAIR", "nodes": [name]} for name in ("node-a", "node-b")],
    "virtual_clusters": {"north": {"cells": {"V100-PAIR": 2}}},
}
OPPOSITES = {
    "resnet50": Profile(utilisation=0.9, memory_utilisation=0.2),
    "bert": Profile(utilisation=0.4, memory_utilisation=0.8),
}


@pytest.mark.parametrize(
    ("policy", "parameters", "profiles", "in_cells"),
    [
        ("lucid", {}, dict.fromkeys(OPPOSITES, LIGHT), False),
        # How slow two are beside each other nobody measures in the live story.
        *(
            pytest.param(*story, marks=pytest.mark.slow)
            for story in (
                ("lucid", {}, dict.fromkeys(OPPOSITES, LIGHT), True),
                ("orion", {"most_slowdown": 1.0, "guests": 2}, OPPOSITES, False),
                ("iadeep", {}, OPPOSITES, False),
                ("muri", {"interval_seconds": 40.0}, STAGES, False),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_both_let_guests_join_and_hosts_run_on_alike(policy, parameters, profiles, in_cells, settings):
    """Jobs come beside others that run, and the rest of a group runs on when one of it ends or has to."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    tenant, lease = make_tenant("speech"), database_now() + timedelta(days=1)
    for name in ("node-a", "node-b"):
        make_node(name, gpus=2, lease_expires_at=lease)
    for application, profile in profiles.items():
        make_class_profile(tenant, application, asdict(profile))
    north = {"members": {tenant: 1.0}, "guaranteed": {"V100": 4}, "policy_parameters": parameters}
    make_vc("north", policy=policy, **north)
    if in_cells:
        cells_apply(document=PAIRS, version=0, actor="user olga")
    events = crowd(5, 16, seconds=SECONDS, profiles=profiles)
    said = compared(clock, read_snapshot(1), events, 15)
    assert {("join", ""), ("stop", "time_limit")} <= said
    assert Attempt.objects.filter(starting_at__gt=F("allocation__held_at")).exists()


#: Each keeps a resource of its own busy: by their stages, none slows the others.
OWN_STAGE = {
    "bert": Profile(stages=(0.5, 0.0, 0.0)),
    "gpt": Profile(stages=(0.0, 0.5, 0.0)),
    "resnet50": Profile(stages=(0.0, 0.0, 0.5)),
}


@pytest.mark.parametrize(("speed", "most"), [(0.2, 2), pytest.param(0.6, 3, marks=pytest.mark.slow)])
def test_both_form_no_group_that_a_file_says_is_slower_than_turns(speed, most, tmp_path, settings):
    """One file says it to both."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    tenant, lease = make_tenant("speech"), database_now() + timedelta(days=1)
    make_node("node-a", gpus=1, lease_expires_at=lease)
    make_node("node-b", gpus=1, lease_expires_at=lease)
    for application, profile in OWN_STAGE.items():
        make_class_profile(tenant, application, asdict(profile))
    parameters = {"interval_seconds": 40.0, "largest_group": 3}
    north = {"members": {tenant: 1.0}, "guaranteed": {"V100": 2}, "policy_parameters": parameters}
    make_vc("north", policy="muri", **north)
    lines = ["application,gpus,gpu_model,rate,other"]
    for one in OWN_STAGE:
        pairs = combinations_with_replacement(OWN_STAGE, 2)
        lines += [f"{one},1,V100,10,", *(f"{one},1,V100,{10 * speed:g},{a}+{b}" for a, b in pairs)]
    (tmp_path / "speeds.csv").write_text("\n".join(lines))
    operator = viewer_of(make_user(operator=True))
    throughputs_import(by=operator, tenant=tenant, content="\n".join(lines), dry_run=False)
    tables = read_throughputs(tmp_path / "speeds.csv")
    facts = replace(read_snapshot(1), group_speeds=tables.group_speeds(OWN_STAGE.keys(), ["V100"]))
    said = compared(clock, facts, crowd(5, 12, seconds=SECONDS, profiles=OWN_STAGE), 15, tables=tables)
    assert ("start", "") in said
    rows = Attempt.objects.exclude(starting_at=None)
    spans = list(rows.values_list("allocation", "starting_at", "ended_at"))
    at_once = [
        sum(place == there and since <= at and (until is None or at < until) for there, since, until in spans)
        for place, at, _ in spans
    ]
    assert max(at_once) == most


@pytest.mark.parametrize(
    ("north", "in_cells"),
    [
        ("pollux", False),
        *(
            pytest.param(policy, False, marks=pytest.mark.slow)
            for policy in ("fifo", *RESIZING)
            if policy != "pollux"
        ),
        *(pytest.param(policy, True, marks=pytest.mark.slow) for policy in RESIZING),
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


@pytest.mark.parametrize(
    ("north", "in_cells"),
    [
        (("fifo", "consolidate"), False),
        pytest.param(("las", "spread"), False, marks=pytest.mark.slow),
        pytest.param(("srtf", "consolidate"), True, marks=pytest.mark.slow),
    ],
)
def test_both_keep_reservations_alike(north, in_cells, settings):
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, north, ("fifo", "consolidate"), in_cells=in_cells)
    begins, ends = SECONDS // 3 + 2, SECONDS * 2 // 3
    events = [
        reservation(0, "speech", "node-c", starts=begins, ends=ends),
        reservation(0, "vision", "node-a", starts=begins + 30, ends=ends),
        *jobs(random.Random(31), 40, over_seconds=SECONDS * 2 // 3, besides=reserving),
    ]
    events = sorted((event for event in events if event.at < SECONDS), key=lambda event: event.at)
    said = compared(clock, facts, events, 15)
    assert {("start", ""), ("stop", "preempted")} <= said
    left = Attempt.objects.filter(stop_message__contains="(reservation paper)")
    assert left.exists(), "nobody had to leave"
    named = Attempt.objects.filter(job__spec__reservation="paper", starting_at__isnull=False)
    assert named.exists(), "nobody used what was reserved"


@pytest.mark.slow
def test_both_profile_jobs_alike(settings):
    """New jobs run on two GPUs to be profiled, and share one later, by what devices told meanwhile."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    facts = cluster(clock, ("lucid", "consolidate"), ("fifo", "consolidate"), in_cells=False)
    light = Profile(utilisation=0.1, memory_utilisation=0.05, memory_bytes=2**30)
    jobs = [(0, 4, 600), (0, 1, 600), (0, 1, 600), (5, 1, 600), (25, 2, 600), (190, 3, 30)]
    events = []
    for number, (at, gpus, estimate) in enumerate(jobs, start=1):
        task = {"name": "main", "command": ["true"], "resources": {"gpu": gpus, "gpu_model": ["V100"]}}
        spec = {
            "name": f"job-{number}",
            "virtual_cluster": "north",
            "guarantee": "guaranteed",
            "estimate": estimate,
            "tasks": [task],
            "checkpoint": {"grace_seconds": 15},
        }
        events.append(submission(at, number, "speech", spec, measured=light))
    profiles = dict.fromkeys(range(1, len(jobs) + 1), light)
    events += [devices_tell(at, profiles) for at in range(60, SECONDS, 60)]
    events += [end(250, 1), end(350, 6)]
    said = compared(clock, facts, sorted(events, key=lambda event: event.at), 15)
    assert said == {("start", ""), ("stop", "preempted")}
    began: dict[str, list[tuple[int, int]]] = {}
    for name, at, there in Attempt.objects.order_by("id").values_list(
        "job__name", "starting_at", "allocation_id"
    ):
        began.setdefault(name, []).append((int(at.timestamp()) - BEGINNING, there))
    # Two at a time, until 180; job 5 needs both GPUs of the profiler and has them at 360.
    assert {name: [at for at, _ in each] for name, each in began.items()} == {
        "job-1": [0],
        "job-2": [0, 260],
        "job-3": [0, 260],
        "job-4": [180],
        "job-5": [360],
        "job-6": [260],
    }
    assert began["job-2"][1] == began["job-3"][1], "they share a GPU"


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
    # Stories in which guaranteed jobs run on what is lent and borrowed at the instants at which that changes.
    said = played(clock, read_snapshot(1), 11 if in_cells else 29, 15)
    if in_cells:
        assert ("regrade", "lent") in said
        return
    assert {("regrade", "loan_ended"), ("regrade", "guarantee_back")} <= said
    assert Loan.objects.exclude(offer=offer).exists(), "rules traded"


def lent_and_back() -> tuple[dict[str, int], list[Event]]:
    """A load curve by which two nodes are lent, go back after three minutes, and are lent again after five;
    and jobs on them. All but the last, which comes when they are gone, are elastic."""

    def time(minute: int) -> str:
        return f"{datetime.fromtimestamp(BEGINNING + 60 * minute, UTC):%H:%M}"

    events = watches(SECONDS, ROUND_SECONDS)
    for number, (at, virtual_cluster, replicas, least) in enumerate(
        [
            (0, "north", 4, 1),
            (5, "north", 4, 2),
            (30, "south", 4, 1),
            (45, "north", 2, 1),
            (200, "south", 2, 0),
        ],
        start=1,
    ):
        task = {"name": "main", "replicas": replicas, "command": ["true"], "resources": {"gpu": 1}}
        spec = {
            "name": f"job-{number}",
            "virtual_cluster": virtual_cluster,
            "guarantee": "guaranteed",
            "estimate": 600,
            "tasks": [task | {"resources": {"gpu": 1, "gpu_model": ["V100"]}}],
            "checkpoint": {"grace_seconds": 15},
        }
        if least:
            spec["elastic"] = {"min_gpus": least, "max_gpus": 8}
        events.append(submission(at, number, "speech", spec))
    events += [end(430, 1), end(450, 4)]
    return {time(0): 0, time(3): 2, time(5): 0}, sorted(events, key=lambda event: event.at)


@pytest.mark.parametrize(
    "north", ["aryl", *(pytest.param(each, marks=pytest.mark.slow) for each in RESIZING if each != "aryl")]
)
def test_both_lend_nodes_and_give_them_back_alike(north, settings):
    """Flexible workers there shrink away; with the policy and the placer for it nobody else is stopped."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    times, events = lent_and_back()
    pool = PoolRow.objects.create(name="chat", return_seconds=60.0, nodes_needed=times)
    lease = database_now() + timedelta(days=1)
    for name in ("a", "b"):
        make_node(f"node-{name}", gpus=4, lease_expires_at=lease)
    for name in ("c", "d"):
        make_node(
            f"node-{name}", gpus=4, lease_expires_at=lease, serving_pool=pool, loan_state=LoanState.SERVING
        )
    speech = make_tenant("speech")
    for name, policy, gpus in (("north", north, 12), ("south", "fifo", 4)):
        make_vc(
            name,
            members={speech: 1.0},
            guaranteed={"V100": gpus},
            policy=policy,
            policy_parameters=PARAMETERS.get(policy, {}),
            placer="aryl",
        )
    known = ServingPool(name="chat", return_seconds=60.0, curve=curve_of(times))
    said = compared(clock, read_snapshot(1), events, 15, [known])
    assert ("resize", "") in said
    # They are asked back a minute before the third; whoever has workers there shrinks in the same round.
    # Under singularity whole gangs are on them, which are stopped in time.
    asked_at = datetime.fromtimestamp(BEGINNING + 120, UTC)
    shrunk = EventRow.objects.filter(kind="job.resized", at=asked_at)
    is_shrunk = any(event.data["gpus"] < event.data["gpus_before"] for event in shrunk)
    assert is_shrunk == (north != "singularity")
    if north == "aryl":
        assert not Attempt.objects.filter(stop_cause=StopCause.DRAINED).exists()


@pytest.mark.parametrize("pause_seconds", [0, 15])
def test_both_place_jobs_without_gpus_alike(pause_seconds, settings):
    settings.CONFIG = settings.CONFIG.model_copy(update={"round_seconds": float(ROUND_SECONDS)})
    clock = VirtualClock()
    cluster(clock, ("fifo", "consolidate"), ("las", "spread"), in_cells=False)
    lease = database_now() + timedelta(days=1)
    make_node("node-e", gpus=0, rack="rack-2", lease_expires_at=lease)
    Node.objects.update(cpus=8, memory_bytes=2**35)
    facts = read_snapshot(1)
    dice = random.Random(23 + pause_seconds)
    # No node is lost: the simulator is told of that by GPUs.
    events = [
        *jobs(dice, 30, over_seconds=SECONDS * 2 // 3, besides=without_gpus),
        cordon(SECONDS // 4, "node-e"),
        cordon(SECONDS // 2 + 3, "node-e", cordoned=False),
    ]
    events = sorted((event for event in events if event.at < SECONDS), key=lambda event: event.at)
    said = compared(clock, facts, events, pause_seconds)
    assert {("start", ""), ("stop", "preempted")} <= said
    with_nodes = Allocation.objects.exclude(nodes=None)
    assert with_nodes.filter(gpu_model="").exists(), "nobody was on the node without GPUs"
    assert with_nodes.filter(gpus__isnull=False).exists(), "no gang had replicas with and without GPUs"
