"""What every policy and every placer must do. Whoever is in the registry is tested here by itself."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from scheduler.core.fitting.demand import demand_of
from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_snapshot
from scheduler.core.model.plan import ActionKind, Decision, Plan, Tier
from scheduler.core.model.snapshot import NodeId, Snapshot, Task, Tenant
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.preemption_limits.displacing import placed_by
from scheduler.core.round.registry import PLACERS, POLICIES, make_policy
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.counting import calls_in
from tests.core.virtual_loop import VirtualLoop
from tests.core.worlds_in_cells import hardware_of, in_cells, owning
from tests.effort import first_every_day

#: Every policy with the default placer, every placer with the default policy.
PLUGINS = [(policy, "consolidate") for policy in POLICIES] + [
    ("fifo", placer) for placer in PLACERS if placer != "consolidate"
]

#: Calls of functions in a round of a thousand jobs: a sound policy needs two thirds of them at most.
CALLS_OF_A_ROUND = 1_000_000

#: Within so many rounds everyone has had a turn under a policy that rotates: three quanta of five minutes, or
#: a lease of twenty and the next auctions.
ROUNDS_TO_TAKE_TURNS = {"themis": 300}
MOST_ROUNDS_TO_TAKE_TURNS = 180


@pytest.fixture(params=PLUGINS, ids="-".join)
def plugins(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


#: These compute as long as all others together.
COSTLY = frozenset({"gandiva_fair", "gavel", "shockwave", "sia", "singularity"})


def many_rounds(plugins: Iterable[tuple[str, str]]) -> pytest.MarkDecorator:
    """Ask what takes many rounds of every second every day, and of none that computes for long."""
    quick = [each for each in plugins if each[0] not in COSTLY]
    costly = [each for each in plugins if each[0] in COSTLY]
    chosen = first_every_day(quick[::2] + quick[1::2] + costly, len(quick[::2]))
    return pytest.mark.parametrize("plugins", chosen, ids="-".join, indirect=True)


def make_busy(plugins: tuple[str, str], **fields: object) -> Snapshot:
    """Two models, two virtual clusters, guaranteed and opportunistic jobs, some of which run."""
    policy, placer = plugins
    lender = make_job(90, 2, replicas=4, guaranteed=False)
    jobs = [
        make_job(1, 4),
        make_job(2, 2, replicas=2, priority=5, time_limit_seconds=600.0),
        make_job(3, 8),
        make_job(4, 1, guaranteed=False, gpu_models=("P100", "V100")),
        make_job(5, 1, tenant="speech", virtual_cluster="products"),
        make_job(6, 4, tenant="speech", virtual_cluster="products", gpu_models=("P100",)),
        make_job(7, tasks=(Task(replicas=1, gpus=2), Task(replicas=2, gpus=1)), tenant="speech"),
        make_job(8, 8, guaranteed=False, tenant="speech"),
        make_job(9, 1, elastic=(1, 4)),
        lender,
    ]
    values: dict[str, object] = {
        "nodes": (*make_cluster(2), *make_cluster(2, gpus=4, gpu_model="P100", first=3)),
        "jobs": jobs,
        "running": [
            make_running(jobs[0], [100, 101, 102, 103]),
            make_running(lender, [[104, 105], [106, 107], [200, 201], [202, 203]]),
        ],
        "virtual_clusters": (
            make_virtual_cluster("products", {"V100": 4, "P100": 4}, policy=policy, placer=placer),
            make_virtual_cluster("research", {"V100": 12, "P100": 4}, policy=policy, placer=placer),
        ),
        "tenants": (Tenant(name="speech", quota={"*": 12, "P100": 4}), Tenant(name="vision")),
        "spare_policy": policy,
        "spare_placer": placer,
    }
    return make_snapshot(**{**values, **fields})  # type: ignore[arg-type]


def make_workload(plugins: tuple[str, str]) -> tuple[Snapshot, Mapping[int, float]]:
    """Sixty jobs of many shapes on sixteen GPUs, and how long each takes."""
    dice = random.Random(3)
    jobs = [
        make_job(
            number,
            dice.choice((1, 1, 2, 4)),
            replicas=dice.choice((1, 1, 2)),
            tenant=dice.choice(("speech", "vision")),
            virtual_cluster=dice.choice(("products", "research")),
            guaranteed=dice.random() < 0.6,
            priority=dice.choice((0, 0, 5)),
            time_limit_seconds=dice.choice((None, 500.0)),
        )
        for number in range(1, 61)
    ]
    snapshot = make_busy(
        plugins,
        nodes=make_cluster(2),
        jobs=jobs,
        running=(),
        virtual_clusters=(
            make_virtual_cluster("products", {"V100": 8}, policy=plugins[0], placer=plugins[1]),
            make_virtual_cluster("research", {"V100": 8}, policy=plugins[0], placer=plugins[1]),
        ),
        tenants=(Tenant(name="speech", quota={"*": 12}), Tenant(name="vision")),
    )
    return snapshot, {job.id: dice.choice((5.0, 30.0, 120.0)) for job in jobs}


def decide_undegraded(snapshot: Snapshot) -> Plan:
    """decide() checks the plan itself; a view that fails is not an error there, but it is here."""
    plan = decide(snapshot)
    assert not plan.degraded
    return plan


def test_gives_a_legal_plan(plugins: tuple[str, str]) -> None:
    snapshot = make_busy(plugins)
    plan = decide_undegraded(snapshot)
    assert plan.actions
    placed = {job for action in plan.actions if action.placement for job in action.jobs}
    undisturbed = {job for running in snapshot.running for job in running.jobs} - {
        job for action in plan.actions for job in action.jobs
    }
    assert placed | set(plan.reasons) | undisturbed == {job.id for job in snapshot.jobs}


def test_equal_snapshots_give_equal_plans(plugins: tuple[str, str]) -> None:
    assert dumps_plan(decide(make_busy(plugins))) == dumps_plan(decide(make_busy(plugins)))


@pytest.fixture(scope="module")
def plans_of_another_process() -> dict[tuple[str, str], bytes]:
    """The stored plan of each pair's stored snapshot, all by one process with another order of its sets."""
    script = (
        "import pickle, sys; from scheduler.core.model.codec import dumps_plan, loads_snapshot;"
        "from scheduler.core.round.decide import decide;"
        "plans = [dumps_plan(decide(loads_snapshot(each))) for each in pickle.load(sys.stdin.buffer)];"
        "pickle.dump(plans, sys.stdout.buffer)"
    )
    other = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps([dumps_snapshot(make_busy(plugins)) for plugins in PLUGINS]),
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": "12345"},
    )
    return dict(zip(PLUGINS, pickle.loads(other.stdout), strict=True))


def test_a_stored_snapshot_gives_the_same_plan_in_another_process(
    plugins: tuple[str, str], plans_of_another_process: dict[tuple[str, str], bytes]
) -> None:
    assert plans_of_another_process[plugins] == dumps_plan(decide(make_busy(plugins)))


def test_the_order_of_the_facts_does_not_matter(plugins: tuple[str, str]) -> None:
    snapshot = make_busy(plugins)
    expected = dumps_plan(decide(snapshot))
    for seed in range(5):
        dice = random.Random(seed)
        shuffled = replace(
            snapshot,
            nodes=tuple(
                replace(node, gpus=tuple(dice.sample(node.gpus, len(node.gpus))))
                for node in dice.sample(snapshot.nodes, len(snapshot.nodes))
            ),
            jobs=tuple(dice.sample(snapshot.jobs, len(snapshot.jobs))),
            running=tuple(dice.sample(snapshot.running, len(snapshot.running))),
            virtual_clusters=tuple(
                replace(vc, guaranteed=dict(reversed(vc.guaranteed.items())))
                for vc in dice.sample(snapshot.virtual_clusters, 2)
            ),
            tenants=tuple(
                replace(tenant, quota=dict(reversed(tenant.quota.items())))
                for tenant in dice.sample(snapshot.tenants, 2)
            ),
        )
        assert dumps_plan(decide(shuffled)) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"jobs": (), "running": ()},
        {"nodes": (), "running": ()},
        {"nodes": (), "jobs": (), "running": (), "virtual_clusters": (), "tenants": ()},
        {"jobs": [make_job(1, 8, replicas=1_000)], "running": ()},
        {"nodes": (make_node(1, schedulable=False), make_node(2, broken=range(8))), "running": ()},
        {"nodes": (make_node(1, gpus=0, gpu_model=""),), "running": ()},
    ],
    ids=["no jobs", "no GPUs", "nothing", "one giant job", "nothing works", "a node without GPUs"],
)
def test_copes_with_extremes(plugins: tuple[str, str], fields: dict[str, object]) -> None:
    plan = decide_undegraded(make_busy(plugins, **fields))
    assert not [action for action in plan.actions if action.kind is ActionKind.START]


def test_memory_survives_json_and_survives_being_lost(plugins: tuple[str, str]) -> None:
    snapshot = make_busy(plugins)
    for _ in range(3):
        plan = decide_undegraded(snapshot)
        assert json.loads(json.dumps(plan.memory)) == plan.memory
        snapshot = replace(snapshot, round_number=snapshot.round_number + 1, memory=plan.memory)
        assert loads_snapshot(dumps_snapshot(snapshot)) == snapshot
    decide_undegraded(replace(snapshot, memory={}))


@many_rounds(PLUGINS)
def test_an_unchanged_cluster_comes_to_rest(plugins: tuple[str, str]) -> None:
    """Unless its policy says that jobs take turns: then nothing but turns are taken, and everyone has one."""
    snapshot = make_busy(plugins)
    loop = VirtualLoop(snapshot, {job.id: 1e9 for job in snapshot.jobs})
    for _ in range(6):
        loop.step()
    if not getattr(POLICIES[plugins[0]], "rotates", False):
        assert loop.step().actions == ()
        assert loop.snapshot.running
        return
    for _ in range(ROUNDS_TO_TAKE_TURNS.get(plugins[0], MOST_ROUNDS_TO_TAKE_TURNS)):
        kinds = {action.kind for action in loop.step().actions}
        assert kinds <= {ActionKind.START, ActionKind.STOP, ActionKind.MOVE}
    idle = [job.id for job in snapshot.jobs if job.guaranteed and job.id not in {1, *loop.started}]
    assert {loop.last_plan.reasons[job][0].tier for job in idle} <= {Tier.QUOTA}


@many_rounds(PLUGINS)
def test_every_job_of_a_finite_workload_ends(plugins: tuple[str, str]) -> None:
    snapshot, seconds = make_workload(plugins)
    loop = VirtualLoop(snapshot, seconds)
    loop.run(rounds=1_000)
    assert set(loop.ended) == set(seconds)
    assert not loop.last_plan.degraded


@pytest.mark.slow
def test_every_job_ends_though_a_third_of_the_actions_is_lost(plugins: tuple[str, str]) -> None:
    snapshot, seconds = make_workload(plugins)
    loop = VirtualLoop(snapshot, seconds, drop=1 / 3, keep_memory=False)
    loop.run(rounds=1_500)
    assert set(loop.ended) == set(seconds)


#: An attempt that has run for less is not displaced: longer than any policy's own quantum here.
LEAST_SECONDS = 1_300.0


@many_rounds([(policy, "consolidate") for policy in POLICIES])
def test_nobody_is_displaced_too_young_nor_too_many_at_once_and_no_gpu_idles_for_it(
    plugins: tuple[str, str],
) -> None:
    policy, _ = plugins
    snapshot, seconds = make_workload(plugins)
    # Nobody's GPUs are reclaimed, so that whoever has to leave leaves for the sake of the policy.
    jobs = [replace(job, guaranteed=True, time_limit_seconds=None) for job in snapshot.jobs]
    clusters = [replace(vc, min_run_seconds=LEAST_SECONDS) for vc in snapshot.virtual_clusters]
    facts = replace(snapshot, jobs=tuple(jobs), virtual_clusters=tuple(clusters), preemptions_per_round=1)
    facts = replace(facts, round_seconds=20.0)
    loop, held_back = VirtualLoop(facts, {job: 40 * left for job, left in seconds.items()}), 0
    for _ in range(40):
        facts = loop.snapshot
        plan = loop.step()
        assert not plan.degraded
        held = {running.allocation: running for running in facts.running if running.phase == "held"}
        displaced = [held[action.allocation] for action in plan.actions if action.allocation in held]
        assert sum(len(running.jobs) for running in displaced) <= 1
        assert all(facts.now >= running.since + LEAST_SECONDS for running in displaced)
        for outcome in RoundEngine(facts).outcomes():
            words = [reason.code for said in outcome.decision.reasons.values() for reason in said]
            if {"minimum_run", "preemption_budget"}.intersection(words):
                held_back += 1
                waiting = outcome.view.jobs.keys() - placed_by(outcome)
                for job in [outcome.view.jobs[number] for number in waiting]:
                    fit = outcome.capacity.find(demand_of(job, outcome.capacity.cluster))
                    assert fit is None
    # Nobody's lease of themis ends here before it has run for long enough.
    assert held_back or policy == "themis" or not getattr(POLICIES[policy], "rotates", False)


def among_jobs_without_gpus(snapshot: Snapshot) -> Snapshot:
    """Let nodes have CPUs and memory, one of them no GPUs; and every third job a companion without GPUs."""
    tasks = (
        (Task(replicas=1, gpus=0, cpus=12.0),),
        (Task(replicas=3, gpus=0, cpus=6.0, memory_bytes=2**31),),
        (Task(replicas=1, gpus=0, memory_bytes=2**32),),
        (Task(replicas=1, gpus=1, cpus=4.0), Task(replicas=2, gpus=0, cpus=6.0)),
    )
    companions = [
        make_job(
            100 + job.id,
            tasks=tasks[job.id // 3 % len(tasks)],
            tenant=job.tenant,
            virtual_cluster=job.virtual_cluster,
            guaranteed=job.guaranteed,
            priority=job.priority,
        )
        for job in snapshot.jobs[::3]
    ]
    hungry = [
        replace(job, tasks=tuple([replace(task, cpus=2.0 * task.gpus) for task in job.tasks]))
        for job in snapshot.jobs
    ]
    nodes = [replace(node, cpus=24.0, memory_bytes=2**33) for node in snapshot.nodes]
    nodes.append(make_node(50, gpus=0, gpu_model="", cpus=16.0, memory_bytes=2**33))
    return replace(snapshot, nodes=tuple(nodes), jobs=(*hungry, *companions))


def promised(snapshot: Snapshot) -> Mapping[int, tuple[float, int]]:
    """Return the CPUs and the memory of each node that jobs have, or are to have; who leaves has none."""
    home = {gpu.id: node.id for node in snapshot.nodes for gpu in node.gpus}
    jobs = {job.id: job for job in snapshot.jobs}
    found: dict[int, tuple[float, int]] = {}
    for running in snapshot.running:
        for job in () if running.stopping else running.jobs:
            tasks = [task for task in jobs[job].tasks for _ in range(task.replicas)]
            for place, (task, gpus) in enumerate(zip(tasks, running.replicas, strict=False)):
                node = home[gpus[0]] if gpus else running.nodes[place]
                cpus, memory = found.get(node, (0.0, 0))
                found[node] = cpus + task.cpus, memory + task.memory_bytes
    return found


@many_rounds(PLUGINS)
def test_jobs_without_gpus_run_beside_others_and_no_node_promises_more_than_it_has(
    plugins: tuple[str, str],
) -> None:
    snapshot, seconds = make_workload(plugins)
    snapshot = among_jobs_without_gpus(snapshot)
    companions = {job.id for job in snapshot.jobs} - seconds.keys()
    loop = VirtualLoop(snapshot, {**seconds, **dict.fromkeys(companions, 30.0)})
    nodes = {node.id: node for node in snapshot.nodes}
    beside = 0
    for _ in range(1_000):
        if not loop.snapshot.jobs:
            break
        plan = loop.step()
        assert not plan.degraded
        for node, (cpus, memory) in promised(loop.snapshot).items():
            assert cpus <= nodes[NodeId(node)].cpus
            assert memory <= nodes[NodeId(node)].memory_bytes
        running = {job for each in loop.snapshot.running if each.phase == "held" for job in each.jobs}
        beside += bool(running & companions and running - companions)
    assert set(loop.ended) == {*seconds, *companions}
    assert beside


def make_crowd(plugins: tuple[str, str], nodes: int) -> Snapshot:
    """Return eight jobs for each node, none of which runs yet."""
    dice = random.Random(1)
    jobs = [
        make_job(number, dice.choice((1, 2, 4, 8)), guaranteed=dice.random() < 0.5)
        for number in range(1, 8 * nodes + 1)
    ]
    return make_busy(
        plugins,
        nodes=make_cluster(nodes),
        jobs=jobs,
        running=(),
        virtual_clusters=(make_virtual_cluster(guaranteed={"V100": 4 * nodes}, policy=plugins[0]),),
    )


@pytest.mark.slow
def test_a_round_grows_with_its_jobs_and_not_with_their_square(plugins: tuple[str, str]) -> None:
    half, whole = make_crowd(plugins, 64), make_crowd(plugins, 128)
    # The first round of a process also loads modules.
    decide_undegraded(half)
    plans: list[Plan] = []
    calls = calls_in(lambda: plans.append(decide_undegraded(whole)))
    assert calls < 3 * calls_in(lambda: decide_undegraded(half))
    assert calls < CALLS_OF_A_ROUND
    used = sum(len(action.placement.gpus) for action in plans[0].actions if action.placement)
    assert used > 0.95 * 1_024
    assert whole.now == NOW


@pytest.mark.parametrize("divided", [False, True], ids=["by counts", "in cells"])
def test_an_elastic_job_keeps_its_guarantee_and_what_is_beyond_goes_to_whoever_is_guaranteed(
    plugins: tuple[str, str], divided: bool
) -> None:
    """Its virtual cluster has two GPUs and the gang six; four of those are another virtual cluster's."""
    gang = make_job(1, replicas=2, elastic=(2, 8), submitted_at=NOW - 1_000)
    grown = make_running(gang, [[gpu] for gpu in range(100, 106)], since=NOW - 1_000)
    newcomer = make_job(2, 4, tenant="speech", virtual_cluster="products")
    snapshot = make_busy(
        plugins,
        nodes=(make_node(1),),
        jobs=[gang, newcomer],
        running=[replace(grown, opportunistic_gpus=4)],
        virtual_clusters=(
            make_virtual_cluster("products", {"V100": 4}, policy=plugins[0], placer=plugins[1]),
            make_virtual_cluster("research", {"V100": 2}, policy=plugins[0], placer=plugins[1]),
        ),
    )
    if divided:
        cells = {"products": {"V100-8-SOCKET": 1}, "research": {"V100-8-SWITCH": 1}}
        snapshot = in_cells(snapshot, owning(hardware_of(snapshot.nodes), cells))
    placed = {action.jobs[0]: action for action in decide_undegraded(snapshot).actions}
    assert placed[2].kind is ActionKind.START
    assert placed[1].kind is ActionKind.RESIZE
    assert placed[1].placement is not None
    assert (len(placed[1].placement.gpus), placed[1].opportunistic_gpus) == (2, 0)
    # It has them again once the other has ended and it has run for a while.
    alone = replace(snapshot, jobs=(gang,), running=(replace(grown, replicas=grown.replicas[:2]),))
    loop = VirtualLoop(alone, {1: 1e9})
    for _ in range(3):
        loop.step()
    (now,) = [running for running in loop.snapshot.running if not running.stopping]
    assert (len(now.gpus), now.opportunistic_gpus, now.replicas[:2]) == (8, 6, grown.replicas[:2])


@pytest.mark.parametrize("name", [name for name, kind in POLICIES.items() if hasattr(kind, "by_arrival")])
def test_a_policy_that_goes_by_arrival_says_nothing_about_a_view_without_jobs(name: str) -> None:
    """So a round need not ask it: `run_view` does not."""
    views = RoundEngine(make_snapshot()).views().values()
    assert views
    for view in views:
        assert not view.jobs
        decision = make_policy(name).allocate(view, {})
        said = replace(decision, keep_running=True, stands_until=None)
        assert said == Decision(grants=(), keep_running=True)
