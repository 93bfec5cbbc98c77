"""A whole round in the database: snapshot, decide, apply 1,000 starts, at 1,000 and 10,000 GPUs.

    python benchmarks/bench_round.py [--gpus 1000 10000] [--runs 5] [--steady 5] [--cells]

Starts its own PostgreSQL with durable commits in a temporary folder. Two kinds of rounds are timed. *first*:
the cluster is empty, 1,000 jobs and more start, and every other one is told for the first time why it waits.
*steady*: nothing changed since the round before; that is what a cluster at rest pays every few seconds.
Prints the parts of each round, medians, and as a lower bound the time PostgreSQL alone takes for the same
number of plain inserts. With --cells every guarantee is divided by cells, the largest that it fills.

Processor time, of this process and of its connection in PostgreSQL, is printed beside the time by the clock,
since neighbours on the machine do not count in it.
"""

import argparse
import gc
import statistics
import time
from dataclasses import dataclass

import psutil
from machine import describe_machine
from servers import servers

GPUS_PER_NODE, VIRTUAL_CLUSTERS, STARTS = 8, 200, 1_000
MODELS = ("V100", "P100", "K80")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a round took: by the clock, and processor time of this process and in PostgreSQL."""

    seconds: float
    own_seconds: float
    postgres_seconds: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000])
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--steady", type=int, default=5, help="steady rounds after each first one")
    arguments.add_argument("--cells", action="store_true")
    options = arguments.parse_args()
    print(describe_machine())
    with servers():
        for gpus in options.gpus:
            measure(gpus, options.runs, options.steady, in_cells=options.cells)


def measure(gpus: int, runs: int, steady: int, *, in_cells: bool) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    jobs = gpus
    division = "in cells" if in_cells else "by counts"
    print(
        f"\n{gpus:,} GPUs {division}, {jobs:,} jobs (all waiting at first),"
        f" {VIRTUAL_CLUSTERS} virtual clusters"
    )
    first, later = [], []
    for run in range(runs):
        empty()
        fill(gpus, jobs)
        if in_cells:
            divide()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        first.append(one_round(f"run {run + 1}, first "))
        later += [one_round(f"run {run + 1}, steady") for _ in range(steady)]
    tell("first", first)
    if later:
        tell("steady", later)
    print(f"lower bound, the same number of rows by plain inserts: {plain_inserts():.3f} s")


def empty() -> None:
    """Remove every row but those of the audit log, which nothing may empty."""
    from django.db import connection

    kept = {"django_migrations", "tenants_auditentry"}
    names = [name for name in connection.introspection.table_names() if name not in kept]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(names)} RESTART IDENTITY")


def fill(gpus: int, jobs: int) -> None:
    """1,000 jobs of one GPU that fit, and the rest larger than what their virtual cluster has left."""
    from django.utils import timezone

    from scheduler.models import Gpu, GpuModel, Job, Node
    from tenants.models import Guarantee, Tenant, User, VirtualCluster, VirtualClusterMember

    user = User.objects.create(username="bench")
    models = [GpuModel.objects.create(name=name) for name in MODELS]
    nodes = Node.objects.bulk_create(
        Node(name=f"n{i}", rack=f"r{i // 16}", gpu_model=models[i % 3], state="ready", address="127.0.0.1")
        for i in range(gpus // GPUS_PER_NODE)
    )
    Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"{node.name}-{index}", socket=index // 4, switch=index // 2)
        for node in nodes
        for index in range(GPUS_PER_NODE)
    )
    tenant = Tenant.objects.create(name="bench")
    clusters = VirtualCluster.objects.bulk_create(
        VirtualCluster(name=f"vc{i}") for i in range(VIRTUAL_CLUSTERS)
    )
    VirtualClusterMember.objects.bulk_create(
        VirtualClusterMember(virtual_cluster=vc, tenant=tenant) for vc in clusters
    )
    share = {model.name: 0 for model in models}
    for node in nodes:
        share[node.gpu_model.name] += GPUS_PER_NODE
    Guarantee.objects.bulk_create(
        Guarantee(virtual_cluster=vc, gpu_model=name, gpus=total // VIRTUAL_CLUSTERS)
        for vc in clusters
        for name, total in share.items()
    )
    now = timezone.now()
    Job.objects.bulk_create(
        (
            job_row(
                f"job-{index}",
                # What waits is opportunistic work behind a full cluster's guaranteed jobs, or a large gang.
                1 if index < STARTS else 16,
                guaranteed=index < STARTS,
                tenant=tenant,
                virtual_cluster=clusters[index % VIRTUAL_CLUSTERS],
                submitted_by=user,
                submitted_at=now,
            )
            for index in range(jobs)
        ),
        batch_size=2_000,
    )


def divide() -> None:
    from scheduler.core.cells.document import to_document
    from scheduler.virtual_clusters.cells.services import cells_apply, cells_proposal

    cells_apply(document=to_document(cells_proposal()), version=0, actor="bench")


def job_row(name: str, gpus: int, *, gpu_model: str = "any", **columns):
    """Return a job that waits, a gang of one GPU each, not yet in the database."""
    from scheduler.models import Job

    resources = {"gpu": 1, "gpu_model": gpu_model, "cpu": 0, "memory": 0}
    task = {"name": "main", "replicas": gpus, "resources": resources, "command": ["true"], "env": {}}
    return Job(
        name=name,
        spec={"name": name, "tasks": [task]},
        shape={"tasks": [[gpus, 1, 0, 0]], "topology": None, "throughput": {}},
        gpus=gpus,
        **columns,
    )


def timed_round():
    """Run a round; return what it cost and its record."""
    from django.db import connection

    from scheduler.models import Round
    from scheduler.rounds.run import run_round

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (process,) = cursor.fetchone()
    # What filling the tables left behind is not the round's to clear away.
    gc.collect()
    began, own, in_postgres = time.perf_counter(), time.process_time(), processor_seconds(process)
    number = run_round()
    cost = Cost(
        seconds=time.perf_counter() - began,
        own_seconds=time.process_time() - own,
        postgres_seconds=processor_seconds(process) - in_postgres,
    )
    return cost, Round.objects.get(number=number)


def one_round(name: str) -> Cost:
    cost, record = timed_round()
    print(
        f"  {name}: {cost.seconds:.3f} s, processor {cost.own_seconds:.3f} + {cost.postgres_seconds:.2f} s"
        f" (snapshot {record.snapshot_seconds:.3f}, decide {record.decide_seconds:.3f}, apply and record"
        f" {record.apply_seconds:.3f}); {record.state} {record.error}: {record.started} started,"
        f" {record.waiting} waiting, {len(record.dropped)} dropped; kept for replay:"
        f" {(len(record.snapshot or b'') + len(record.plan or b'')) / 1_000:.0f} kB"
    )
    return cost


def processor_seconds(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def tell(name: str, costs: list[Cost]) -> None:
    seconds, own, in_postgres = (
        [getattr(cost, field) for cost in costs] for field in ("seconds", "own_seconds", "postgres_seconds")
    )
    print(
        f"{name}, medians of {len(costs)}: {statistics.median(seconds):.3f} s, processor"
        f" {statistics.median(own):.3f} + {statistics.median(in_postgres):.2f} s;"
        f" raw {[round(each, 3) for each in seconds]}"
    )


def plain_inserts() -> float:
    """As many rows as 1,000 starts of one GPU write, into one table, one COPY-like statement."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE rows_of_a_start (a bigint, b bigint, c text) ON COMMIT DROP")
        began = time.perf_counter()
        cursor.execute(
            "INSERT INTO rows_of_a_start SELECT i, i, 'held' FROM generate_series(1, %s) AS i",
            [STARTS * 5],
        )
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
