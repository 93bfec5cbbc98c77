"""Dominant resource fairness: the paper's example, weights, and what counts as the pool."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Member, Snapshot, Task
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster

GIB = 2**30


def drf(
    *jobs: Job,
    weights: tuple[float, float] = (1.0, 1.0),
    guaranteed: dict[str, int] | None = None,
    **fields: object,
) -> Snapshot:
    """Tenants A and B in one virtual cluster under DRF; by default one node of eight GPUs."""
    members = (Member(tenant="A", weight=weights[0]), Member(tenant="B", weight=weights[1]))
    vc = replace(make_virtual_cluster(guaranteed=guaranteed or {"V100": 8}, policy="drf"), members=members)
    return make_snapshot(jobs=jobs, virtual_clusters=[vc], tenants=(), **fields)  # type: ignore[arg-type]


def task_of(number: int, tenant: str, cpus: float, gibibytes: int) -> Job:
    task = Task(replicas=1, gpus=1, cpus=cpus, memory_bytes=gibibytes * GIB)
    return make_job(number, tasks=[task], tenant=tenant)


def started(plan: Plan, snapshot: Snapshot) -> Counter[str]:
    """Return how many jobs of each tenant start."""
    tenants = {job.id: job.tenant for job in snapshot.jobs}
    return Counter(
        tenants[job] for action in plan.actions if action.kind is ActionKind.START for job in action.jobs
    )


def paper() -> Snapshot:
    """9 CPUs and 18 GB; tasks of A need <1 CPU, 4 GB>, of B <3 CPUs, 1 GB>. Ours need a GPU as well."""
    jobs = [task_of(number, "A", 1.0, 4) for number in range(1, 11)]
    jobs += [task_of(number, "B", 3.0, 1) for number in range(11, 21)]
    node = make_node(1, gpus=64, cpus=9.0, memory_bytes=18 * GIB)
    return drf(*jobs, nodes=[node], guaranteed={"V100": 64})


def test_the_example_of_the_paper() -> None:
    """A gets three tasks and B two; both dominant shares are two thirds."""
    snapshot = paper()
    plan = decide(snapshot)
    assert started(plan, snapshot) == {"A": 3, "B": 2}
    assert plan.reasons[4][-1].message.startswith("Tenant A holds 67% of the memory, its dominant share")
    assert plan.reasons[13][-1].message.startswith("Tenant B holds 67% of the CPUs, its dominant share")
    assert plan.reasons[13][-1].code == "dominant_share"


def test_the_tenant_that_weighs_more_gets_more() -> None:
    jobs = [make_job(number, tenant="A" if number < 10 else "B") for number in range(1, 20)]
    snapshot = drf(*jobs, weights=(1.0, 3.0))
    assert started(decide(snapshot), snapshot) == {"A": 2, "B": 6}


def test_with_gpus_alone_it_is_max_min_fairness() -> None:
    jobs = [make_job(number, tenant="A") for number in range(1, 11)]
    jobs += [make_job(number, 2, tenant="B") for number in range(11, 21)]
    snapshot = drf(*jobs)
    assert started(decide(snapshot), snapshot) == {"A": 4, "B": 2}


def test_what_runs_counts_and_is_not_disturbed() -> None:
    """A holds six GPUs already: what is left goes to B, though A is first by name and by submission."""
    holder = make_job(1, 6, tenant="A")
    jobs = [holder, make_job(2, 1, tenant="A"), make_job(3, 1, tenant="B"), make_job(4, 1, tenant="B")]
    snapshot = drf(*jobs, running=[make_running(holder, range(100, 106))])
    plan = decide(snapshot)
    assert {job: action.kind for action in plan.actions for job in action.jobs} == dict.fromkeys(
        (3, 4), ActionKind.START
    )


def test_a_gang_that_does_not_fit_does_not_keep_its_tenant_waiting() -> None:
    jobs = [make_job(1, 8, tenant="A", priority=1), make_job(2, 1, tenant="A"), make_job(3, 7, tenant="B")]
    holder = make_job(9, 4, tenant="B")
    snapshot = drf(*jobs, holder, running=[make_running(holder, range(100, 104))])
    assert started(decide(snapshot), snapshot) == {"A": 1}


def test_priority_orders_a_tenants_own_jobs_and_not_those_of_others() -> None:
    jobs = [make_job(1, 4, tenant="A"), make_job(2, 4, tenant="A", priority=9)]
    jobs += [make_job(3, 4, tenant="B"), make_job(4, 4, tenant="B")]
    plan = decide(drf(*jobs))
    assert {job for action in plan.actions for job in action.jobs} == {2, 3}


def test_each_gpu_model_is_a_resource_of_its_own() -> None:
    """A holds half of the P100s, B a quarter of the V100s: B is served first."""
    nodes = [make_node(1, gpus=8), make_node(2, gpus=4, gpu_model="P100")]
    holders = [make_job(1, 2, tenant="A", gpu_models=("P100",)), make_job(2, 2, tenant="B")]
    waiting = [make_job(3, 6, tenant="A", gpu_models=("V100",)), make_job(4, 6, tenant="B")]
    snapshot = drf(
        *holders,
        *waiting,
        nodes=nodes,
        guaranteed={"V100": 8, "P100": 4},
        running=[
            make_running(holders[0], [200, 201], gpu_model="P100"),
            make_running(holders[1], [100, 101]),
        ],
    )
    plan = decide(snapshot)
    assert [job for action in plan.actions for job in action.jobs] == [4]
