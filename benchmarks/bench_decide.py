"""Time decide(): one round over 1,000 and 10,000 GPUs with 10,000 jobs in 200 virtual clusters.

    python benchmarks/bench_decide.py [--runs 15] [--gpus 1000 10000] [--jobs 10000] [--seed 0] [--cells]
                                      [--clusters 200] [--policy fifo] [--candidates 1000] [--automatic]

Three kinds of rounds are timed. *cold*: the cluster is empty and every job waits, so whole gangs are placed
by the thousand. *steady*: what the cold round started runs, every fiftieth of it has ended meanwhile, and
everyone else waits; that is the round a busy cluster sees every few seconds. *next*: the rounds that follow,
by an engine that is kept; in one row nothing but the time changes from round to round, in the other a hundred
jobs end and what was decided is carried out. All facts come as new objects, as from a database.

With --cells the same is timed beside it with every guarantee divided by cells, nodes first. With --policy
another policy serves all views, jobs are of 26 kinds whose speeds on the models differ, and one more is
timed: *later*, six minutes and a second after the cold one, when the leases of policies that give any end.
With --candidates that many of the jobs name the nodes on which alone they may run, each of them others. With
--automatic all jobs leave their CPUs and memory to the platform, and three quarters of them are faster with
more than their proportional share; printed too is how much longer that takes than the same jobs with stated
amounts, by turns.

Times are of one core's processor time, so that neighbours on the machine do not count. Two floors are printed
beside them: reading each fact of the same snapshot once in plain Python, below which no round in this
language can go, and encoding it as JSON, which is the least that storing it for replay costs. The time of
ten million additions tells how fast the machine was at that moment.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from machine import describe_machine

from scheduler.core.model.auxiliary import Auto, Sensitivity
from scheduler.core.model.codec import dumps_snapshot
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import (
    AllocationId,
    Candidates,
    Gpu,
    GpuId,
    Job,
    JobId,
    Member,
    Node,
    NodeId,
    Running,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)
from scheduler.core.round.decide import decide
from scheduler.core.round.rounds import Rounds
from scheduler.simulation.division import divided_by_cells
from scheduler.simulation.inventory import ClusterSpec

MODELS = ("A100", "P100", "V100")
NOW = 1_700_000_000.0
#: (replicas, GPUs per replica, weight): mostly small jobs, a few gangs over several nodes.
SHAPES = ((1, 1, 60), (1, 2, 12), (1, 4, 12), (1, 8, 10), (2, 8, 4), (4, 4, 2))


def make_nodes(gpus: int) -> tuple[Node, ...]:
    return tuple(
        Node(
            id=NodeId(number),
            name=f"node-{number:05d}",
            gpu_model=MODELS[number // 40 % len(MODELS)],
            path=(f"rack-{number // 40:03d}",),
            cpus=96.0,
            memory_bytes=2**40,
            gpus=tuple(
                Gpu(id=GpuId(8 * number + i), index=i, path=(f"socket-{i // 4}", f"switch-{i // 2}"))
                for i in range(8)
            ),
        )
        for number in range(gpus // 8)
    )


def make_jobs(count: int, clusters: int, dice: random.Random) -> tuple[Job, ...]:
    shapes = dice.choices(SHAPES, [weight for *_, weight in SHAPES], k=count)
    return tuple(
        Job(
            id=JobId(number),
            tenant=f"tenant-{owner:03d}",
            virtual_cluster=f"cluster-{owner:03d}",
            submitted_at=NOW - dice.uniform(0, 86_400),
            tasks=(Task(replicas=replicas, gpus=gpus, cpus=4.0 * gpus, memory_bytes=gpus * 2**34),),
            gpu_models=dice.choice(((), (), MODELS[:1], MODELS[1:2], MODELS[2:], MODELS[1:])),
            priority=dice.choice((0, 0, 0, 10)),
            guaranteed=dice.random() < 0.6,
            time_limit_seconds=dice.choice((None, 3_600.0, 14_400.0, 86_400.0)),
        )
        for number, (replicas, gpus, _) in enumerate(shapes)
        for owner in (dice.randrange(clusters),)
    )


def make_cold(gpus: int, jobs: int, clusters: int, seed: int) -> Snapshot:
    dice = random.Random(seed)
    nodes = make_nodes(gpus)
    capacity = {model: sum(len(node.gpus) for node in nodes if node.gpu_model == model) for model in MODELS}
    share = {model: count // clusters for model, count in capacity.items()}
    names = [(f"cluster-{number:03d}", f"tenant-{number:03d}") for number in range(clusters)]
    return Snapshot(
        round_number=1,
        now=NOW,
        round_seconds=5.0,
        nodes=nodes,
        tenants=tuple(Tenant(name=tenant, quota={"*": 4 * gpus // clusters}) for _, tenant in names),
        virtual_clusters=tuple(
            VirtualCluster(name=name, guaranteed=share, members=(Member(tenant=tenant),))
            for name, tenant in names
        ),
        jobs=make_jobs(jobs, clusters, dice),
    )


def with_candidates(cold: Snapshot, count: int, seed: int) -> Snapshot:
    """The same with so many jobs that may run on four to sixteen nodes only, each of them on others."""
    dice = random.Random(seed)
    names = [node.name for node in cold.nodes]
    jobs = list(cold.jobs)
    for place in dice.sample(range(len(jobs)), min(count, len(jobs))):
        only = tuple(dice.sample(names, min(dice.randint(4, 16), len(names))))
        jobs[place] = replace(jobs[place], nodes=Candidates(only=only))
    return replace(cold, jobs=tuple(jobs))


def with_automatic(cold: Snapshot, seed: int) -> Snapshot:
    """The same with jobs of 26 kinds that leave CPUs and memory to the platform (Synergy's TUNE)."""
    dice = random.Random(seed)
    # CPUs for each GPU with which a kind is fastest; 12 are its part of a node.
    fastest = [dice.choice((8.0, 13.0, 18.0, 24.0)) for _ in range(26)]
    kinds = {
        (kind, gpus): Auto(sensitivity=Sensitivity(by_cpus=((6.0 * gpus, 0.5), (cpus * gpus, 1.0))))
        for kind, cpus in enumerate(fastest)
        for _, gpus, _ in SHAPES
    }
    jobs = []
    for job in cold.jobs:
        (task,) = job.tasks
        auto = kinds[dice.randrange(len(fastest)), task.gpus]
        jobs.append(replace(job, tasks=(replace(task, cpus=0.0, memory_bytes=0, auto=auto),)))
    return replace(cold, jobs=tuple(jobs))


def served_by(policy: str, cold: Snapshot, seed: int) -> Snapshot:
    """The same under another policy, with jobs that are faster on one GPU model than on another."""
    dice = random.Random(seed)
    kinds = [(f"kind-{number}", {model: dice.uniform(1, 9) for model in MODELS}) for number in range(26)]
    jobs = []
    for job in cold.jobs:
        application, throughput = dice.choice(kinds)
        jobs.append(replace(job, application=application, throughput=throughput))
    vcs = tuple([replace(vc, policy=policy) for vc in cold.virtual_clusters])
    return replace(cold, jobs=tuple(jobs), virtual_clusters=vcs, spare_policy=policy)


def make_steady(cold: Snapshot, plan: Plan) -> Snapshot:
    """The cold round was carried out five minutes ago, and every fiftieth job has ended since."""
    starts = [action for action in plan.actions if action.kind is ActionKind.START]
    ended = {job for action in starts[::50] for job in action.jobs}
    running = tuple(
        Running(
            allocation=AllocationId(number),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            since=NOW,
            guaranteed=action.guaranteed,
        )
        for number, action in enumerate(starts)
        if action.placement is not None and ended.isdisjoint(action.jobs)
    )
    jobs = tuple(job for job in cold.jobs if job.id not in ended)
    return replace(cold, round_number=2, now=NOW + 300, jobs=jobs, running=running, memory=plan.memory)


def make_next(facts: Snapshot, plan: Plan, ends: int, dice: random.Random) -> Snapshot:
    """Five seconds later: what was decided is carried out, and so many of those that run have ended."""
    top = max([running.allocation for running in facts.running], default=0)
    left = {action.allocation for action in plan.actions if action.kind is not ActionKind.REGRADE}
    staying = [running for running in facts.running if running.allocation not in left]
    ended = {job for running in dice.sample(staying, min(ends, len(staying))) for job in running.jobs}
    running = [replace(each) for each in staying if ended.isdisjoint(each.jobs)]
    running += [
        Running(
            allocation=AllocationId(top + number),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            since=facts.now,
            guaranteed=action.guaranteed,
        )
        for number, action in enumerate(plan.actions, 1)
        if action.placement is not None
    ]
    return replace(
        facts,
        round_number=facts.round_number + 1,
        now=facts.now + 5,
        jobs=tuple([replace(job) for job in facts.jobs if job.id not in ended]),
        running=tuple(running),
        memory=json.loads(json.dumps(plan.memory)),
        # Equal to what they were, and other objects.
        nodes=tuple([replace(node) for node in facts.nodes]),
        virtual_clusters=tuple([replace(vc) for vc in facts.virtual_clusters]),
    )


def report_next(name: str, steady: Snapshot, ends: int, runs: int) -> None:
    """Time so many rounds after a steady one, by an engine that is kept."""
    rounds, dice, decided, facts = Rounds(compared_every=10 * runs), random.Random(0), [], steady
    plan = rounds.decide(facts)
    for _ in range(runs + 2):
        facts = make_next(facts, plan, ends, dice)
        gc.collect()
        start = time.process_time()
        plan = rounds.decide(facts)
        decided.append(time.process_time() - start)
    # In the first two what the steady round decided settles.
    decided = decided[2:]
    print(f"\n{name}: {len(facts.running)} running of {len(facts.jobs)} jobs; {len(plan.actions)} actions")
    median = statistics.median(decided)
    print(f"  kept engine      median {median:.3f} s   raw " + " ".join(f"{taken:.3f}" for taken in decided))


def in_cells(snapshot: Snapshot) -> Snapshot:
    spec = ClusterSpec(name="", nodes=snapshot.nodes, virtual_clusters=snapshot.virtual_clusters)
    divided = divided_by_cells(spec)
    return replace(snapshot, cells=divided.cells, virtual_clusters=divided.virtual_clusters)


def seconds(work: Callable[[], object], runs: int) -> list[float]:
    """Return the processor seconds of each run."""
    taken = []
    for _ in range(runs):
        gc.collect()
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return taken


def read_every_fact(snapshot: Snapshot) -> int:
    """Touch each GPU, each held GPU and each job once."""
    healthy = {gpu.id for node in snapshot.nodes if node.schedulable for gpu in node.gpus if gpu.healthy}
    held = {gpu for running in snapshot.running for replica in running.replicas for gpu in replica}
    waiting = {job.id: (job.tenant, job.virtual_cluster, job.priority, job.gpus) for job in snapshot.jobs}
    return len(healthy) + len(held) + len(waiting)


def add_up() -> int:
    total = 0
    for number in range(10_000_000):
        total += number
    return total


def report(name: str, snapshot: Snapshot, runs: int) -> Plan:
    plan = decide(snapshot)
    kinds = [action.kind.value for action in plan.actions]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    print(f"\n{name}: {len(snapshot.running)} running of {len(snapshot.jobs)} jobs; plan: {counts}")
    decided = seconds(lambda: decide(snapshot), runs)
    median = statistics.median(decided)
    print(f"  decide           median {median:.3f} s   raw " + " ".join(f"{taken:.3f}" for taken in decided))
    floors = {"read every fact": read_every_fact, "encode as JSON": dumps_snapshot}
    for floor, work in floors.items():
        least = statistics.median(seconds(lambda work=work: work(snapshot), runs))
        print(f"  {floor:<16} median {least:.3f} s   decide takes {median / least:.1f} times that")
    return plan


def report_beyond(name: str, stated: Snapshot, automatic: Snapshot, runs: int) -> None:
    """Print by how much a round takes longer where jobs leave CPUs and memory to the platform."""
    turns = [
        (seconds(lambda: decide(stated), 1)[0], seconds(lambda: decide(automatic), 1)[0]) for _ in range(runs)
    ]
    longer = [ours - without for without, ours in turns]
    print(f"\n{name}, beyond stated amounts, by turns")
    print(f"  longer           median {statistics.median(longer):.3f} s   raw", end="")
    print("".join(f" {without:.3f}/{ours:.3f}" for without, ours in turns))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--candidates", type=int, default=0, metavar="JOBS")
    parser.add_argument("--automatic", action="store_true")
    parser.add_argument("--policy", help="serves every view, instead of fifo")
    options = parser.parse_args()
    print(describe_machine())
    print(f"ten million additions: {min(seconds(add_up, 3)):.2f} s")
    print(
        f"{options.jobs} jobs, {options.clusters} virtual clusters, seed {options.seed}, {options.runs} runs"
    )
    for gpus in options.gpus:
        cold = make_cold(gpus, options.jobs, options.clusters, options.seed)
        if options.candidates:
            cold = with_candidates(cold, options.candidates, options.seed)
        stated = cold
        if options.automatic:
            cold = with_automatic(cold, options.seed)
        if options.policy:
            cold = served_by(options.policy, cold, options.seed)
        plan = report(f"{gpus} GPUs, cold", cold, options.runs)
        steady = make_steady(cold, plan)
        report(f"{gpus} GPUs, steady", steady, options.runs)
        report_next(f"{gpus} GPUs, next, nothing changed", steady, 0, options.runs)
        report_next(f"{gpus} GPUs, next, 100 ended", steady, 100, options.runs)
        if options.automatic:
            report_beyond(f"{gpus} GPUs, cold", stated, cold, options.runs)
            at_work = make_steady(stated, decide(stated))
            report_beyond(f"{gpus} GPUs, steady", at_work, steady, options.runs)
        if options.policy:
            report(f"{gpus} GPUs, later", replace(steady, now=NOW + 361), options.runs)
        if options.cells:
            plan = report(f"{gpus} GPUs in cells, cold", in_cells(cold), options.runs)
            steady = make_steady(in_cells(cold), plan)
            report(f"{gpus} GPUs in cells, steady", steady, options.runs)
            report_next(f"{gpus} GPUs in cells, next, nothing changed", steady, 0, options.runs)
            report_next(f"{gpus} GPUs in cells, next, 100 ended", steady, 100, options.runs)


if __name__ == "__main__":
    main()
