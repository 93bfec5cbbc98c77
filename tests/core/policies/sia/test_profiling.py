"""New jobs under Sia run for a short time on each GPU model, so that what was measured is compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.goodput.throughput import LEAST_SECONDS
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import ADAPTIVE, RESIZABLE, Job, JobId, Memory, Running, Snapshot
from scheduler.core.model.training import Goodput
from scheduler.core.policies.sia.configurations import restart_factor
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from scheduler.core.sim.engine import Engine
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.test_scaling_jobs import measured as application

FREE = (0.0, 0.01, LEAST_SECONDS, LEAST_SECONDS, LEAST_SECONDS, LEAST_SECONDS, 1.0)
GPUS = {"V100": 8, "P100": 8, "T4": 8}


def new(number: int, *models: str, projected: tuple[str, ...] = (), **fields: object) -> Job:
    """A job of one to eight replicas that was measured with one on these models."""
    goodput = Goodput(
        parameters=dict.fromkeys((*models, *projected), FREE),
        noise=(1.0, 100.0),
        initial_batch=64,
        max_batch=4096,
        max_local_batch=64,
        projected=projected,
    )
    values: dict[str, object] = {
        "elastic": (1, 8),
        "elastic_mode": ADAPTIVE,
        "goodput": goodput if models else None,
        "attempts": 1,
    }
    return make_job(number, 1, **{**values, **fields})  # type: ignore[arg-type]


def world(
    jobs: list[Job], running: list[Running] | None = None, memory: Memory | None = None, **parameters: object
) -> Snapshot:
    """A node of eight GPUs of each model; the 100s are V100, the 200s P100, the 300s T4."""
    return make_snapshot(
        nodes=[make_node(number, gpu_model=model) for number, model in enumerate(GPUS, start=1)],
        jobs=jobs,
        running=running or (),
        virtual_clusters=[make_virtual_cluster(guaranteed=GPUS, policy="sia", policy_parameters=parameters)],
        memory={"research": {"policy": "sia", "at": NOW - 60, **(memory or {})}},
    )


def placed(plan: Plan) -> dict[int, tuple[str, int]]:
    return {
        job: (action.placement.gpu_model, len(action.placement.gpus))
        for action in plan.actions
        if action.placement
        for job in action.jobs
    }


def test_a_new_job_runs_on_each_model_before_it_grows() -> None:
    """In the simulator, where it measures itself as it does live: one GPU of each model, then as many as it
    may have."""
    job = application(1, batch=None, elastic=(1, 4), elastic_mode=ADAPTIVE)
    facts = world([])
    parameters = {"round_seconds": 5.0, "restart_seconds": 0.5}
    clusters = [replace(facts.virtual_clusters[0], policy_parameters=parameters)]
    facts = replace(facts, now=0.0, round_seconds=5.0, virtual_clusters=tuple(clusters), memory={})
    seen: list[tuple[str, int]] = []

    def look(engine: Engine, *_: object) -> None:
        held = engine.round_engine.facts.current.get(JobId(1))
        if held is not None and held.phase == "held" and not held.stopping:
            seen.append((held.gpu_model, len(held.gpus)))

    engine = Engine(facts, [job], on_round=look)
    assert engine.run() == ""
    sizes = list(dict.fromkeys(seen))
    assert sorted(sizes[:3]) == [("P100", 1), ("T4", 1), ("V100", 1)]
    assert sizes[3][1] == 2


def test_who_was_measured_on_one_model_is_sent_to_the_next() -> None:
    """What is only projected counts as not measured."""
    job = new(1, "V100", projected=("T4",), gpu_models=("V100", "T4"))
    running = [make_running(job, [[100]])]
    plan = decide(world([job], running))
    assert placed(plan) == {1: ("T4", 1)}
    assert plan.memory["research"]["profiled"] == {"1": ["T4"]}
    assert placed(decide(world([job], running, profiling=0.0)))[1][1] == 2


def test_jobs_of_which_nothing_is_known_begin_on_different_models() -> None:
    plan = decide(world([new(number, attempts=0) for number in (1, 2)]))
    assert placed(plan) == {1: ("P100", 1), 2: ("T4", 1)}
    assert plan.memory["research"]["profiled"] == {"1": ["P100"], "2": ["T4"]}


def test_a_run_goes_on_until_it_is_measured_and_for_a_round_at_most() -> None:
    job = new(1, "V100", attempts=2)
    memory = {"profiled": {"1": ["T4"]}}
    young = decide(world([job], [make_running(job, [[300]], gpu_model="T4", since=NOW - 30)], memory))
    assert placed(young) == {}
    old = decide(world([job], [make_running(job, [[300]], gpu_model="T4", since=NOW - 60)], memory))
    assert placed(old) == {1: ("P100", 1)}
    assert old.memory["research"]["profiled"] == {"1": ["T4", "P100"]}
    told = replace(job, goodput=new(1, "V100", "T4").goodput)
    assert placed(
        decide(world([told], [make_running(told, [[300]], gpu_model="T4", since=NOW - 30)], memory))
    )[1] == ("P100", 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"elastic_mode": RESIZABLE},
        {"goodput": None},
        {"gpu_models": ("V100",)},
        {"throughput": {"V100": 1.0, "P100": 0.0, "T4": 0.0}},
        {"goodput": replace(new(1, "V100").goodput, most_replicas=2)},  # type: ignore[type-var]
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_who_tells_nothing_or_has_one_model_only_or_has_grown_is_not_profiled(
    fields: dict[str, object],
) -> None:
    job = new(1, "V100", **fields)
    plan = decide(world([job], [make_running(job, [[100]])]))
    assert "profiled" not in plan.memory["research"]


def test_only_a_part_of_the_gpus_is_used_at_a_time() -> None:
    """A tenth of 24 GPUs are two; higher priorities first. One job alone may have more."""
    jobs = [new(number, "V100", priority=number == 4) for number in range(1, 5)]
    running = [make_running(job, [[100 + job.id]]) for job in jobs]
    plan = decide(world(jobs, running))
    assert set(plan.memory["research"]["profiled"]) == {"1", "4"}
    large = new(9, "V100", tasks=make_job(9, 4).tasks, elastic=(4, 8))
    plan = decide(world([large], [make_running(large, [100, 101, 102, 103])]))
    assert placed(plan)[9][1] == 4
    assert placed(plan)[9][0] != "V100"


def test_whoever_has_waited_too_long_comes_first() -> None:
    """A gang that takes all the T4 has a turn: nobody is measured on these."""
    job = new(1, "V100", "P100")
    gang = make_job(2, 8, gpu_models=("T4",))
    plan = decide(world([job, gang], [make_running(job, [[100]])], {"waits": {"2": NOW - 4_000}}))
    assert placed(plan)[2] == ("T4", 8)
    assert "profiled" not in plan.memory["research"]


def test_no_restart_counts_by_which_a_job_was_profiled() -> None:
    job = make_job(1, submitted_at=NOW - 270, attempts=4)
    assert restart_factor(job, NOW, 30.0, profiled=2) == pytest.approx((270 - 30) / 300)
    assert restart_factor(job, NOW, 30.0, profiled=5) == pytest.approx(270 / 300)


def test_the_part_is_a_part() -> None:
    with pytest.raises(UnknownPlugin, match="profiling must be between 0 and 1"):
        make_policy("sia:profiling=1.5")
