"""Simulate random workloads under random policies and placers, and hold each run to what must always hold.

`python -m tests.fuzz --seed 7 --minutes 10`, as `make nightly` does. A violation names the seed and number of
its case, by which `--seed SEED --only NUMBER` runs it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Budget, GpuId, JobId, Snapshot, Task, Tenant, Topology
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.round.registry import PLACERS, POLICIES
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.wiring.watchdog import within_budget
from tests.builders import make_job, make_node, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import NodeTurns
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

#: Variants beside the defaults of each policy.
VARIANTS: dict[str, Sequence[dict[str, Any]]] = {
    "fair": ({"preemptive": True},),
    "fifo": ({"backfill": False},),
    "pollux": ({"search": "genetic"},),
    "tiresias": ({"discipline": "gittins"}, {"inside": "start"}, {"inside": "submission"}),
}
#: A case that takes longer does not end: the largest take 15 s of processor time, beside whatever else runs.
CASE_SECONDS = 600.0
#: Replicas, and GPUs of each.
SHAPES = ((1, 1), (1, 1), (1, 2), (2, 1), (1, 4), (2, 4), (4, 1), (1, 8), (3, 2))
#: What is left of sums of many floating-point numbers.
ROUNDING_SECONDS = 1e-3


@dataclass(frozen=True)
class Case:
    facts: Snapshot
    arrivals: Sequence[Arrival]
    rules: Rules
    #: In words.
    plugins: str
    script: Sequence[NodeTurns] = ()

    @property
    def is_hard(self) -> bool:
        """Whether attempts may end early, or hold GPUs for longer than their work takes."""
        return bool(self.script) or self.rules.failures.probability > 0 or self.rules.costs != Costs()

    def engine(self, on_round: Watch | None = None) -> Engine:
        return Engine(self.facts, self.arrivals, self.rules, on_round=on_round, script=self.script)


@dataclass
class Watch:
    """Looks at every plan, and at the cluster before it."""

    wrong: list[str] = field(default_factory=list)

    def __call__(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        self.wrong += [f"view {view} failed: {why}" for view, why in plan.degraded.items()]
        facts, held = engine.round_engine.facts, Counter[GpuId]()
        for running in facts.running.values():
            if running.is_nominated:
                continue  # It waits for GPUs that others still hold.
            parts = facts.jobs[running.jobs[0]].parts_on(running.replicas)
            for gpu in running.gpus:
                held[gpu] += parts[gpu].request if gpu in parts else WHOLE_GPU
        self.wrong += [
            f"{used / WHOLE_GPU:g} of GPU {gpu} are held" for gpu, used in held.items() if used > WHOLE_GPU
        ]


def make_case(seed: int, number: int) -> Case:
    """Return the case of that number; it depends on nothing else."""
    dice = random.Random(f"{seed} {number}")
    policy, placer = dice.choice(sorted(POLICIES)), dice.choice(sorted(PLACERS))
    parameters = dice.choice([{}, *VARIANTS.get(policy, ())])
    models = ["V100", "P100"][: dice.choice((1, 1, 2))]
    is_rich = dice.random() < 0.5
    nodes = [
        make_node(
            place,
            gpus=dice.choice((4, 8)),
            gpu_model=dice.choice(models),
            rack=f"rack-{place % 2}",
            **(_rest_of_node(dice) if is_rich else {}),
        )
        for place in range(1, dice.randint(2, 8))
    ]
    idle = Counter({model: sum(len(n.gpus) for n in nodes if n.gpu_model == model) for model in models})
    clusters = []
    for name in ("one", "two", "three")[: dice.randint(1, 3)]:
        guaranteed = {model: dice.randint(0, idle[model]) for model in models}
        idle.subtract(guaranteed)
        chosen: dict[str, Any] = {"policy": policy, "policy_parameters": parameters, "placer": placer}
        if is_rich:
            chosen["longest_wait_seconds"] = dice.choice((0.0, 0.0, 300.0))
            chosen["min_run_seconds"] = dice.choice((0.0, 0.0, 120.0))
        clusters.append(make_virtual_cluster(name, guaranteed, **chosen))
    facts = make_snapshot(
        now=0.0,
        round_seconds=dice.choice((0.0, 30.0, 60.0)),
        nodes=nodes,
        virtual_clusters=clusters,
        spare_policy=policy,
        spare_policy_parameters=parameters,
        spare_placer=placer,
    )
    arrivals = [
        _arrival(dice, job, [each.name for each in clusters], is_rich=is_rich)
        for job in range(1, dice.randint(3, 30))
    ]
    words = ",".join(f"{name}={value}" for name, value in parameters.items())
    case = Case(facts, arrivals, Rules(moves=dice.random() < 0.8), f"{policy}:{words} {placer}")
    # Drawn apart, so that what it draws leaves the rest of the case as it is.
    return _made_hard(case, random.Random(f"{seed} {number} hard")) if number % 2 else case


def _made_hard(case: Case, dice: random.Random) -> Case:
    """Return the case where nodes and attempts fail, starts and stops take time, tenants have limits, and
    virtual clusters own cells.
    """
    facts, rules, script = case.facts, case.rules, list[NodeTurns]()
    if dice.random() < 0.5:
        for _ in range(dice.randint(1, 3)):
            node, fails_at = dice.choice(facts.nodes).id, float(dice.randint(0, 3_000))
            script.append(NodeTurns(at=fails_at, healthy=False, node=node))
            script.append(
                NodeTurns(at=fails_at + dice.choice((1.0, 100.0, 5_000.0)), healthy=True, node=node)
            )
        # The last word is that each is there.
        script += [NodeTurns(at=10_000.0, healthy=True, node=node.id) for node in facts.nodes]
    if dice.random() < 0.5:
        failures = Failures(probability=0.4, mean_seconds=dice.choice((20.0, 600.0)), backoff_seconds=15.0)
        rules = replace(rules, failures=failures)
    if dice.random() < 0.5:
        costs = Costs(
            start_seconds=dice.choice((0.0, 2.0)),
            restore_seconds=3.0,
            checkpoint_seconds=dice.choice((0.0, 7.0, 90.0)),
            interval_seconds=dice.choice((None, 20.0)),
        )
        rules = replace(rules, costs=costs)
    if dice.random() < 0.5:
        quota = {dice.choice(("*", "V100")): dice.randint(1, 8)}
        budget = Budget(amount=20.0, left=0.1, renewals=tuple([4_000.0 * month for month in range(1, 50)]))
        limited = dice.choice(
            (
                Tenant(name="vision", quota=quota),
                Tenant(name="vision", quota_cpus=8.0),
                Tenant(name="vision", budget=budget),
            )
        )
        facts = replace(facts, tenants=(Tenant(name="speech"), limited))
    if dice.random() < 0.3:
        facts = _in_cells(facts, dice)
    return replace(case, facts=facts, rules=rules, script=tuple(script))


def _in_cells(facts: Snapshot, dice: random.Random) -> Snapshot:
    """Return the facts with some GPUs owned as cells; unchanged where those drawn are not there."""
    hardware = hardware_of(facts.nodes)
    types = [each.name for each in hardware.types]
    owned = {vc.name: {dice.choice(types): dice.randint(1, 2)} for vc in facts.virtual_clusters}
    try:
        return in_cells(facts, owning(hardware, owned))
    except SpecificationError:
        return facts


def _rest_of_node(dice: random.Random) -> dict[str, Any]:
    """Return what a node has beside its GPUs."""
    return {
        "cpus": dice.choice((8.0, 32.0)),
        "memory_bytes": dice.choice((32, 128)) * 2**30,
        "storage_bandwidth": dice.choice((0.0, 4.0, 10.0)),
        "cache_bytes": dice.choice((0, 50, 200)),
    }


def _rest_of_job(dice: random.Random, replicas: int, gpus: int) -> dict[str, Any]:
    """Return what a job may ask for beside whole GPUs; each kind of job is rare."""
    kind = dice.choice(("part", "no GPUs", "two tasks", "tags", "processors", "plain"))
    cpus, memory = dice.choice((0.0, 1.0, 2.5)), dice.choice((0, 2**30, 8 * 2**30))
    fields: dict[str, Any] = {}
    task = Task(replicas=replicas, gpus=gpus, cpus=cpus * gpus, memory_bytes=memory)
    if kind == "part":
        request = dice.choice((200, 300, 500, 700))
        fields["tasks"] = (replace(task, gpus=1, part=GpuPart(request=request, limit=request)),)
    elif kind == "no GPUs":
        fields["tasks"] = (Task(replicas=replicas, gpus=0, cpus=1.0 + cpus, memory_bytes=memory),)
    elif kind == "two tasks":
        fields["tasks"] = (task, Task(replicas=1, gpus=dice.choice((0, 1)), cpus=1.0))
    elif kind != "plain":
        fields["tasks"] = (task,)
    if kind == "tags":
        fields["tags"] = (dice.choice(("web", "cache")),)
        most = TagConstraint(tag="web", most=dice.choice((0, 1)), weight=dice.choice((None, 1.0)))
        fields["constraints"] = dice.choice(((), (most,)))
    if dice.random() < 0.4:
        fields["data"] = DataSet(
            name=dice.choice("abc"),
            size_bytes=dice.choice((10, 40, 70)),
            bandwidth=dice.choice((0.0, 1.0, 2.0, 3.5)),
        )
    return fields


def _arrival(dice: random.Random, number: int, clusters: Sequence[str], *, is_rich: bool) -> Arrival:
    replicas, gpus = dice.choice(SHAPES)
    work = dice.choice((1.0, 30.0, 61.5, 600.0, round(dice.expovariate(1 / 2_000), 3) + 0.001))
    fields: dict[str, Any] = {}
    if dice.random() < 0.2:
        fields["elastic"] = (gpus * max(1, replicas // 2), gpus * replicas * 2)
    elif dice.random() < 0.1:
        fields["topology"] = Topology(level=dice.choice(("node", "rack")), required=dice.random() < 0.5)
    elif is_rich:
        fields |= _rest_of_job(dice, replicas, gpus)
    fields.setdefault("tasks", (Task(replicas=replicas, gpus=gpus),))
    job = make_job(
        number,
        tenant=dice.choice(("speech", "vision")),
        virtual_cluster=dice.choice(clusters),
        submitted_at=float(dice.choice((0, 0, 10, dice.randint(0, 3_000)))),
        guaranteed=dice.random() < 0.6,
        priority=dice.choice((0, 0, 0, 5)),
        time_limit_seconds=dice.choice((None, None, work * 2 + 1, work / 2 + 1)),
        estimate_seconds=dice.choice((None, work, work * 3)),
        **fields,
    )
    return Arrival(job=job, truth=Truth(work_seconds=work, status="passed"))


def violations(case: Case) -> Iterator[str]:
    """Yield what a run of the case did that no run may do."""
    watch = Watch()

    def simulated(timekeeper: Any, overran: Any) -> Engine | None:
        if overran:
            return None
        engine = case.engine(watch)
        with timekeeper("the whole run"):
            left = engine.run()
        if left and not _may_wait(engine):
            watch.wrong.append(left)
        return engine

    engine = within_budget(simulated, seconds=CASE_SECONDS)
    if engine is None:
        yield f"it had not ended after {CASE_SECONDS:g} s"
        return
    yield from dict.fromkeys(watch.wrong)
    for job, progress in engine.progress.items():
        record = progress.record(engine.now)
        if record.first_started_at is not None and record.first_started_at < record.submitted_at:
            yield f"job {job} started before it was submitted"
        is_plain = progress.job.elastic is None and record.outcome == "succeeded" and not case.is_hard
        if is_plain and abs(record.held_seconds - record.work_seconds) > ROUNDING_SECONDS:
            yield f"job {job} of {record.work_seconds:g} s ran for {record.held_seconds:g} s"
    again = case.engine()
    again.run()
    if _ends(again) != _ends(engine):
        yield "the same run again ended otherwise"


def _may_wait(engine: Engine) -> bool:
    """Whether all that are left could never run here, as their reasons say; nothing says it of tags."""
    facts = engine.round_engine.facts
    return all(job in engine.never or facts.jobs[job].constraints for job in facts.jobs)


def _ends(engine: Engine) -> dict[JobId, float | None]:
    return {job: progress.ended_at for job, progress in engine.progress.items()}


def run(seed: int, numbers: Iterator[int], is_over: Callable[[], bool]) -> tuple[int, int]:
    """Run cases until it is over; return how many there were, and how many violated something."""
    cases = bad = 0
    for number in numbers:
        if is_over():
            break
        case = make_case(seed, number)
        cases += 1
        try:
            found = list(violations(case))
        except Exception as error:
            found = [f"it raised {error!r}"]
        for each in found:
            print(f"seed {seed}, case {number}, {case.plugins}: {each}", flush=True)
        bad += bool(found)
    return cases, bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this case alone")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    numbers = iter(range(10**9) if options.only is None else [options.only])
    cases, bad = run(options.seed, numbers, lambda: time.monotonic() > end)
    print(f"seed {options.seed}: {cases} simulations, {bad} with a violation")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
