"""15,000 queued jobs admitted, with database writes: the baseline of Kueue's scheduler performance test.

    python benchmarks/bench_admissions.py [--jobs 15000] [--quotas 20 200] [--runs 1] [--round-seconds S]

The workloads are those of kubernetes-sigs/kueue, test/performance/scheduler/configs/baseline/generator.yaml
at cc13fff80cdc62877729419a7f5733f3a90e2f7d: 5 cohorts of 6 cluster queues, each with a nominal quota of 20
and a borrowing limit of 100. Each queue gets 350 small workloads (one each 100 ms, runs 200 ms, priority 50,
requests 1), 100 medium ones (500 ms, 500 ms, 100, 5) and 50 large ones (1,200 ms, 1,000 ms, 200, 20). As in
its runner/generator/generator.go, a set waits for its interval before each workload, its first included.

Starts its own PostgreSQL with durable commits in a temporary folder, and runs rounds in this process, each a
snapshot, a decision and its writes. Two parts:

*queue*: all jobs wait at once, and every job that runs ends before the next round. Once with the quotas of
Kueue, where 600 GPUs hold 162 jobs on average, and once with ten times the GPUs, where rounds are larger.

*arrivals*: jobs are inserted at their times of creation and end after their runtime, in simulated time.
Rounds follow one another while anything has changed, and simulated time goes on by what each took by the
clock (or by --round-seconds). Nothing sleeps, and inserting and ending jobs takes no time. Printed are the
times to admission by class, which is what the thresholds of Kueue are about.

Admissions are divided by the time of all rounds, by the clock and by processor time: of this process and of
its connection in PostgreSQL. An admission is a job that gets its GPUs; one that was preempted counts again.

What a cohort becomes: a GPU model with 120 GPUs, on nodes of 8. A cluster queue becomes a virtual cluster
that is guaranteed 20 of them, with a tenant of its own. `withinClusterQueue: LowerPriority` is our policy
`priority`, and `reclaimWithinCohort: Any` is how a guarantee takes its GPUs back: both are exact. A
borrowing limit of 100 is all that the other five queues of a cohort have, so that the hardware is the limit.
Borrowing itself is not exact. In Kueue each workload borrows once the quota of its queue is used up. Here a
job is submitted as guaranteed, and never borrows, or as opportunistic, and only borrows: by default the small
ones (--borrowers). A large workload is a gang of 20 replicas of one GPU: quota in Kueue has no nodes.

What else differs from Kueue's test: it runs in real time against an API server and etcd, where workloads are
created and ended by requests; here rows are written for them between rounds, which is not timed. A preempted
job leaves its GPUs at once after the round, as Kueue's runner confirms an eviction at once, and later runs
from its beginning. The job that preempted it is promoted at the start of the next round; on a platform the
report of the node does that. Pages are not open. Kueue's own figures, averages of 5 runs, are in
rangespec.yaml beside its generator, at 056cce0e3ca9769195f53301dfe666f07c33ee9a: 351.1 s in all, which is 43
admissions a second; 58.7 % of quotas used; time to admission 6.7 s of large, 76.8 s of medium and 215.5 s of
small workloads. It measures from the creation to the last admission of a workload, and so does this.
"""

import argparse
import heapq
import math
import statistics
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench_round import GPUS_PER_NODE, Cost, empty, job_row, timed_round
from machine import describe_machine
from servers import servers

COHORTS, QUEUES, NOMINAL, ALL_JOBS = 5, 6, 20, 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClass:
    name: str
    count: int
    interval: float
    runtime: float
    priority: int
    gpus: int


CLASSES = (
    WorkloadClass(name="small", count=350, interval=0.1, runtime=0.2, priority=50, gpus=1),
    WorkloadClass(name="medium", count=100, interval=0.5, runtime=0.5, priority=100, gpus=5),
    WorkloadClass(name="large", count=50, interval=1.2, runtime=1.0, priority=200, gpus=20),
)
#: Averages of Kueue's runs, in seconds.
KUEUE_SECONDS = {"small": 215.468, "medium": 76.768, "large": 6.666}


@dataclass(slots=True, kw_only=True)
class Workload:
    """A job, in seconds of simulated time."""

    kind: WorkloadClass
    queue: int
    number: int
    created: float
    admitted: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs", type=int, default=ALL_JOBS, help="in all; fewer of each class in each queue"
    )
    parser.add_argument("--quotas", type=int, nargs="+", default=[NOMINAL, 10 * NOMINAL], help="of a queue")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=("queue", "arrivals"), default=["queue", "arrivals"])
    parser.add_argument("--borrowers", nargs="*", choices=[each.name for each in CLASSES], default=["small"])
    parser.add_argument("--round-seconds", type=float, help="simulated time of a round; else its own")
    parser.add_argument("--most-seconds", type=float, default=600.0, help="by the clock, of each run")
    options = parser.parse_args()
    print(describe_machine())
    with servers():
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        for run in range(options.runs):
            for quota in options.quotas if "queue" in options.parts else ():
                measure_queue(run, quota, options)
            if "arrivals" in options.parts:
                measure_arrivals(run, options)


def workloads(jobs: int) -> list[Workload]:
    """Return the jobs of all queues, by the time of their creation."""
    made = [
        Workload(kind=kind, queue=queue, number=number, created=kind.interval * (number + 1))
        for queue in range(COHORTS * QUEUES)
        for kind in CLASSES
        for number in range(round(kind.count * jobs / ALL_JOBS))
    ]
    return sorted(made, key=lambda each: each.created)


def measure_queue(run: int, quota: int, options: argparse.Namespace) -> None:
    cluster, jobs = Cluster(quota, options.borrowers), workloads(options.jobs)
    print(f"\nrun {run + 1}, queue: {len(jobs):,} jobs wait, {quota * COHORTS * QUEUES:,} GPUs")
    cluster.insert(jobs)
    analyze()
    until = time.monotonic() + options.most_seconds
    while cluster.unfinished and time.monotonic() < until:
        cluster.round()
        cluster.look(0.0)
        cluster.end(list(cluster.running), 0.0)
    tell_rounds(cluster)


def measure_arrivals(run: int, options: argparse.Namespace) -> None:
    cluster, jobs = Cluster(NOMINAL, options.borrowers), workloads(options.jobs)
    print(f"\nrun {run + 1}, arrivals: {len(jobs):,} jobs, {NOMINAL * COHORTS * QUEUES:,} GPUs")
    analyze()
    until = time.monotonic() + options.most_seconds
    coming = deque(jobs)
    ends: list[tuple[float, int]] = []
    now, has_freed = 0.0, False
    while (coming or cluster.unfinished) and time.monotonic() < until:
        due = [coming[0].created] if coming else []
        due += [ends[0][0]] if ends else []
        if due and not has_freed:
            # Until then, a round would find what the last one found.
            now = max(now, min(due))
        created, over = [], []
        while coming and coming[0].created <= now:
            created.append(coming.popleft())
        while ends and ends[0][0] <= now:
            over.append(heapq.heappop(ends)[1])
        cluster.insert(created)
        cluster.end([attempt for attempt in over if attempt in cluster.running], now)
        seconds = cluster.round()
        now += options.round_seconds or seconds
        admitted, has_freed = cluster.look(now)
        for attempt in admitted:
            heapq.heappush(ends, (now + cluster.running[attempt].kind.runtime, attempt))
    tell_rounds(cluster)
    tell_times(jobs, cluster, now)


class Cluster:
    """The platform's rows, and what agents and users would do with them."""

    def __init__(self, quota: int, borrowers: Collection[str]) -> None:
        empty()
        self.borrowers = borrowers
        self.unfinished = 0
        self.jobs: dict[int, Workload] = {}
        #: By attempt.
        self.running: dict[int, Workload] = {}
        self.costs: list[Cost] = []
        self.admissions: list[int] = []
        self.preemptions = 0
        #: GPU-seconds of simulated time, of preempted attempts too.
        self.used = 0.0
        self.began = timezone_now() - timedelta(minutes=2)
        self.clusters, self.tenants, self.users = make_cluster(quota)
        self.round(is_counted=False)

    def insert(self, jobs: Sequence[Workload]) -> None:
        from scheduler.models import Job

        rows = Job.objects.bulk_create([self._row(each) for each in jobs], batch_size=2_000)
        self.jobs.update((row.id, each) for row, each in zip(rows, jobs, strict=True))
        self.unfinished += len(jobs)

    def _row(self, workload: Workload):
        kind, queue, cohort = workload.kind, workload.queue, f"cohort-{workload.queue // QUEUES}"
        return job_row(
            f"{kind.name}-{workload.number}",
            kind.gpus,
            gpu_model=cohort,
            gpu_models=[cohort],
            priority=kind.priority,
            guaranteed=kind.name not in self.borrowers,
            tenant=self.tenants[queue],
            virtual_cluster=self.clusters[queue],
            submitted_by=self.users[queue],
            submitted_at=self.began + timedelta(seconds=workload.created),
        )

    def round(self, *, is_counted: bool = True) -> float:
        """Run a round; return its seconds by the clock."""
        cost, record = timed_round()
        assert record.state == "applied", record.error
        assert not record.error, record.error
        if is_counted:
            self.costs.append(cost)
        return cost.seconds

    def look(self, now: float) -> tuple[list[int], bool]:
        """Let agents start what the round started and stop what it stopped.

        Return the attempts that got their GPUs, and whether others left theirs.
        """
        admitted, stopped, planned = [], [], 0
        for attempt, job, state in rows_of(_UNENDED):
            if state == "starting":
                admitted.append(attempt)
                self.running[attempt] = self.jobs[job]
                self.jobs[job].admitted.append(now)
            elif state == "stopping":
                stopped.append(attempt)
            elif state == "planned":
                planned += 1
        self._end(stopped, now, outcome="preempted", job_state="queued")
        for statement in _BEGIN if admitted else ():
            execute(statement, {"attempts": admitted})
        self.preemptions += len(stopped)
        self.admissions.append(len(admitted))
        assert admitted or stopped or planned or self.running or not self.unfinished, "a round admits nothing"
        return admitted, bool(stopped)

    def end(self, attempts: Collection[int], now: float) -> None:
        """Let attempts end well."""
        self._end(attempts, now, outcome="succeeded", job_state="succeeded")
        self.unfinished -= len(attempts)

    def _end(self, attempts: Collection[int], now: float, *, outcome: str, job_state: str) -> None:
        values = {"attempts": list(attempts), "outcome": outcome, "job": job_state}
        for statement in _END if attempts else ():
            execute(statement, values)
        for attempt in attempts:
            workload = self.running.pop(attempt)
            self.used += (now - workload.admitted[-1]) * workload.kind.gpus


_UNENDED = "SELECT id, job_id, state FROM scheduler_attempt WHERE state <> 'ended' ORDER BY id"
_OF_JOBS = "id IN (SELECT job_id FROM scheduler_attempt WHERE id = ANY(%(attempts)s))"
_OF_ALLOCATIONS = "(SELECT allocation_id FROM scheduler_attempt WHERE id = ANY(%(attempts)s))"
_BEGIN = (
    "UPDATE scheduler_attemptpart SET state = 'running' WHERE attempt_id = ANY(%(attempts)s)",
    "UPDATE scheduler_attempt SET state = 'running', go = true, running_at = clock_timestamp()"
    " WHERE id = ANY(%(attempts)s)",
    "UPDATE scheduler_job SET state = 'running', version = version + 1,"
    f" started_at = coalesce(started_at, clock_timestamp()) WHERE {_OF_JOBS}",
)
_END = (
    "UPDATE scheduler_attemptpart SET state = 'exited', exit_code = 0 WHERE attempt_id = ANY(%(attempts)s)",
    "UPDATE scheduler_attempt SET state = 'ended', outcome = %(outcome)s, exit_code = 0,"
    " ended_at = clock_timestamp() WHERE id = ANY(%(attempts)s)",
    "UPDATE scheduler_node SET version = version + 1 WHERE id IN ("
    " SELECT node_id FROM scheduler_attemptpart WHERE attempt_id = ANY(%(attempts)s))",
    "UPDATE scheduler_allocatedgpu SET phase = 'released', released_at = clock_timestamp()"
    f" WHERE allocation_id IN {_OF_ALLOCATIONS}",
    "UPDATE scheduler_allocation SET phase = 'released', released_at = clock_timestamp()"
    f" WHERE id IN {_OF_ALLOCATIONS}",
    "UPDATE scheduler_job SET state = %(job)s, version = version + 1,"
    " ended_at = CASE WHEN %(job)s = 'queued' THEN NULL ELSE clock_timestamp() END,"
    " waits_since = CASE WHEN %(job)s = 'queued' THEN clock_timestamp() ELSE waits_since END,"
    f" preemptions = preemptions + (%(job)s = 'queued')::int WHERE {_OF_JOBS}",
)


def make_cluster(quota: int):
    """Return the virtual clusters, tenants and users, one of each for a cluster queue of Kueue."""
    from scheduler.models import ClusterSettings, Gpu, GpuModel, Node
    from tenants.models import Guarantee, Tenant, User, VirtualCluster, VirtualClusterMember

    models = [GpuModel.objects.create(name=f"cohort-{cohort}") for cohort in range(COHORTS)]
    counts = [divmod(quota * QUEUES, GPUS_PER_NODE)] * COHORTS
    nodes, gpus = [], []
    for cohort, (whole, rest) in enumerate(counts):
        for index, size in enumerate([GPUS_PER_NODE] * whole + [rest] * bool(rest)):
            name, rack = f"n{cohort}-{index}", f"r{cohort}-{index // 16}"
            nodes.append(
                Node(name=name, rack=rack, gpu_model=models[cohort], state="ready", address="127.0.0.1")
            )
            gpus += [
                Gpu(node=nodes[-1], index=i, uuid=f"{name}-{i}", socket=i // 4, switch=i // 2)
                for i in range(size)
            ]
    Node.objects.bulk_create(nodes)
    Gpu.objects.bulk_create(gpus)
    queues = range(COHORTS * QUEUES)
    tenants = Tenant.objects.bulk_create(Tenant(name=f"queue-{queue}") for queue in queues)
    users = User.objects.bulk_create(User(username=f"user-{queue}") for queue in queues)
    clusters = VirtualCluster.objects.bulk_create(
        VirtualCluster(name=f"queue-{queue}", policy="priority") for queue in queues
    )
    VirtualClusterMember.objects.bulk_create(
        VirtualClusterMember(virtual_cluster=vc, tenant=tenant)
        for vc, tenant in zip(clusters, tenants, strict=True)
    )
    Guarantee.objects.bulk_create(
        Guarantee(virtual_cluster=vc, gpu_model=f"cohort-{queue // QUEUES}", gpus=quota)
        for queue, vc in enumerate(clusters)
    )
    ClusterSettings.objects.create(id=1, spare_policy="priority")
    return clusters, tenants, users


def timezone_now():
    from django.utils import timezone

    return timezone.now()


def execute(statement: str, values: Mapping[str, Any] | None = None) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def rows_of(statement: str) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def analyze() -> None:
    execute("ANALYZE")


def tell_rounds(cluster: Cluster) -> None:
    costs, admitted = cluster.costs, sum(cluster.admissions)
    seconds = sum(cost.seconds for cost in costs)
    own, in_postgres = (
        sum(getattr(cost, name) for cost in costs) for name in ("own_seconds", "postgres_seconds")
    )
    first = rows_of("SELECT min(number) FROM scheduler_round")[0][0]
    snapshot, decide, apply = rows_of(
        "SELECT sum(snapshot_seconds), sum(decide_seconds), sum(apply_seconds) FROM scheduler_round"
        f" WHERE number > {first}"
    )[0]
    print(
        f"  {admitted:,} admissions, {cluster.preemptions:,} preemptions, {cluster.unfinished:,} jobs left;"
        f" {len(costs)} rounds, {seconds:.2f} s (snapshot {snapshot:.2f}, decide {decide:.2f},"
        f" apply and record {apply:.2f}), processor {own:.2f} + {in_postgres:.2f} s"
    )
    print(
        f"  admissions a second of round time: {admitted / seconds:,.0f} by the clock,"
        f" {admitted / (own + in_postgres):,.0f} of processor time, ours and PostgreSQL's"
        f" ({admitted / own:,.0f} of ours); of a round: median {statistics.median(cluster.admissions):.0f}"
        f" admissions in {statistics.median(cost.seconds for cost in costs):.3f} s"
    )
    each = math.ceil(len(costs) / 25)
    raw = [f"{count}/{cost.seconds:.3f}" for count, cost in zip(cluster.admissions, costs, strict=True)]
    print(f"  raw, admissions/seconds, one of {each} rounds: {' '.join(raw[::each])}")


def tell_times(jobs: Sequence[Workload], cluster: Cluster, now: float) -> None:
    gpus, is_whole = NOMINAL * COHORTS * QUEUES, len(jobs) == ALL_JOBS
    print(
        f"  simulated: {now:.1f} s until the last job ended, {cluster.used / (gpus * now):.1%} of GPUs used"
    )
    for kind in CLASSES:
        mine = [job for job in jobs if job.kind is kind and job.admitted]
        last, first = (sorted(job.admitted[place] - job.created for job in mine) for place in (-1, 0))
        if not mine:
            continue
        print(
            f"  time to admission, {kind.name} ({len(mine):,}): mean {statistics.mean(last):.2f} s,"
            f" p99 {last[int(len(last) * 0.99)]:.2f} s, longest {last[-1]:.2f} s;"
            f" to the first one: mean {statistics.mean(first):.2f} s;"
            f" {sum(len(job.admitted) - 1 for job in mine):,} repeated"
            + f" (Kueue, in real time, with its API server: mean {KUEUE_SECONDS[kind.name]:.1f} s)"
            * is_whole
        )


if __name__ == "__main__":
    main()
