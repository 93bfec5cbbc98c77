"""How fast lists, counts, groups and accounts of jobs answer when 100,000 have ended, beside 1,000.

    python benchmarks/bench_job_list.py [--jobs 1000 100000] [--seconds 3] [--plans MS]

Fills a PostgreSQL of its own with jobs of 20 tenants, 200 users and 60 days, each with attempts, GPUs,
labels and an end: 70 % succeeded, 20 % failed in eight classes, 10 % cancelled. Then it asks the API as a
member and an admin of a tenant (which has a tenth of the jobs) and as an operator. Requests go through all
of the server's middleware in this process, without a network. Each is repeated for `--seconds`, at least
ten times. The median and the 99th percentile are in milliseconds, then the slowest and the fastest; the
first size is the bound. With --plans the statements of requests that take longer are printed with their
plans. Processor time of other programs on the machine counts in all of it.
"""

import argparse
import random
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from machine import describe_machine
from servers import servers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TENANTS, USERS, CLUSTERS, NODES, DAYS = 20, 200, 5, 100, 60
MODELS = ("V100", "A100", "H100")
FAILURES = (
    "import_error",
    "semantic_error",
    "syntax_error",
    "permission_error",
    "gpu_ecc_error",
    "collective_error",
    "connection_error",
    "no_signature",
)
PROJECTS = ("speech", "vision", "search", "ranking", "ads", "maps", "chat", "robots")
SORTS = ("submitted", "started", "ended", "name", "gpus", "priority")
FEWEST = 10


@dataclass(frozen=True)
class Figure:
    median: float
    p99: float
    fastest: float
    slowest: float
    runs: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--plans", type=float, metavar="MS")
    options = parser.parse_args()
    print(describe_machine())
    with servers():
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        figures = [measure(jobs, options) for jobs in options.jobs]
    tell(options.jobs, figures)


def measure(jobs: int, options: argparse.Namespace) -> dict[str, Figure]:
    from bench_round import empty
    from django.db import connection

    empty()
    began = time.perf_counter()
    callers = fill(jobs)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    print(f"{jobs:,} jobs written in {time.perf_counter() - began:.0f} s", flush=True)
    return {
        f"{who}: {what}": timed(callers[who], path, options)
        for who in callers
        for what, path in questions(who, callers).items()
    }


def questions(who: str, callers) -> dict[str, str]:
    from django.utils import timezone

    from scheduler.models import Job

    day = timezone.now() - timedelta(days=20)
    since, until = _iso(day), _iso(day + timedelta(days=1))
    month = f"since={_iso(day - timedelta(days=25))}&until={_iso(day + timedelta(days=5))}"
    own = Job.objects.filter(tenant__name="tenant-0").order_by("-id")[0].id
    asked = {"list, first page": "/jobs"}
    asked |= {f"list by {sign}{sort}": f"/jobs?sort={sign}{sort}" for sort in SORTS for sign in ("", "-")}
    asked |= {
        "list, next page": _next(callers[who], "/jobs"),
        "list by -ended, next page": _next(callers[who], "/jobs?sort=-ended"),
        "list of a user": "/jobs?submitted_by=user-0",
        "list of a user who has none": "/jobs?submitted_by=idle",
        "list with a label": "/jobs?label=project=maps",
        "list with a rare label": "/jobs?label=run=17",
        "list with a label of no job": "/jobs?label=nothing",
        "list ended in a day": f"/jobs?ended_since={since}&ended_until={until}",
        "list submitted in a day, by -ended": (
            f"/jobs?submitted_since={since}&submitted_until={until}&sort=-ended"
        ),
        "list with a failure": "/jobs?failure=import_error",
        "list with a failure of no job": "/jobs?failure=mpi_error",
        "list failed": "/jobs?state=failed",
        "list queued": "/jobs?state=queued",
        "list by a part of the name": "/jobs?q=train-maps-17",
        "list by a name of no job": "/jobs?name=nothing",
        "saved search": "/jobs?state=failed&label=project=maps&submitted_by=user-0&sort=-ended",
        "folded list": "/jobs?fold=true",
        "counts": "/jobs/counts",
        "counts of a label": "/jobs/counts?label=project=maps",
        "groups by user": "/jobs/groups?by=user",
        "groups by label": "/jobs/groups?by=label:project",
        "hist of a day": f"/jobs?since={since}&until={until}&state=running,succeeded,failed,cancelled",
        "export, its first 1,000 rows": "/jobs/export",
        "a job": f"/jobs/{own}",
        "attempts of a job": f"/jobs/{own}/attempts",
    }
    keys = ["tenant", "virtual_cluster", "gpu_model", "application", "day"]
    asked |= {f"usage of a month by {key}": f"/usage?by={key}&{month}" for key in keys}
    if who != "member":
        asked["usage of a month by user"] = f"/usage?by=user&{month}"
    return asked


def _iso(at) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _next(caller, path: str) -> str:
    return caller.get(path).json()["next"].partition("/api/v1")[2]


def timed(caller, path: str, options: argparse.Namespace) -> Figure:
    answer(caller, path)
    taken: list[float] = []
    until = time.perf_counter() + options.seconds
    while len(taken) < FEWEST or time.perf_counter() < until:
        began = time.perf_counter()
        answer(caller, path)
        taken.append((time.perf_counter() - began) * 1_000)
    taken.sort()
    figure = Figure(
        median=taken[len(taken) // 2],
        p99=taken[min(len(taken) - 1, int(len(taken) * 0.99))],
        fastest=taken[0],
        slowest=taken[-1],
        runs=len(taken),
    )
    if options.plans is not None and figure.median > options.plans:
        tell_plans(caller, path, figure)
    return figure


def answer(caller, path: str) -> None:
    response = caller.client.get(f"/api/v1{path}", headers=caller.headers)
    assert response.status_code == 200, f"{path}: {response.content[:500]}"
    if response.streaming:
        # What a reader of a long file waits for.
        pieces = iter(response)
        next(pieces)
        next(pieces, None)
        response.close()


def tell_plans(caller, path: str, figure: Figure) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    print(f"\n{path}: {figure.median:.0f} ms", flush=True)
    with CaptureQueriesContext(connection) as captured:
        answer(caller, path)
    for query in captured.captured_queries:
        if float(query["time"]) * 1_000 > least_ms(figure):
            print(f"  {query['time']} s: {query['sql'][:1_500]}")
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + query["sql"].replace("%", "%%"))
                print("\n".join(f"      {row[0]}" for row in cursor.fetchall()[:25]), flush=True)


def least_ms(figure: Figure) -> float:
    """Statements that take less than a tenth of a request do not make it slow."""
    return figure.median / 10


def tell(sizes: list[int], figures: list[dict[str, Figure]]) -> None:
    heads = "".join(f"{f'{size:,} jobs: median, p99 (range; runs)':>44}" for size in sizes)
    print(f"{'ms':<54}{heads}")
    for what in figures[0]:
        cells = [
            f"{one.median:.1f}, {one.p99:.1f} ({one.fastest:.1f} to {one.slowest:.1f}; {one.runs})"
            for one in (each[what] for each in figures)
        ]
        print(f"{what:<54}{''.join(f'{cell:>44}' for cell in cells)}")


def fill(jobs: int):
    """Write the jobs, and return a caller for each kind of person."""
    from django.utils import timezone

    from scheduler.models import AllocatedGpu, Allocation, Attempt, AttemptPart, Gpu, GpuModel, Job, Node
    from tenants.models import Membership, Tenant, User, VirtualCluster, VirtualClusterMember
    from tests.api.caller import caller
    from tests.scheduler.builders import job_spec

    chance = random.Random(36)
    now = timezone.now()
    models = [GpuModel.objects.create(name=name, memory_bytes=2**34) for name in MODELS]
    nodes = Node.objects.bulk_create(
        Node(name=f"n{i}", rack=f"r{i // 16}", gpu_model=models[i % 3], state="ready", address="127.0.0.1")
        for i in range(NODES)
    )
    gpus = Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"{node.name}-{index}", socket=index // 4, switch=index // 2)
        for node in nodes
        for index in range(8)
    )
    tenants = [Tenant.objects.create(name=f"tenant-{i}") for i in range(TENANTS)]
    users = User.objects.bulk_create(User(username=f"user-{i}", password="!") for i in range(USERS))
    User.objects.create(username="idle", password="!")
    clusters = [VirtualCluster.objects.create(name=f"vc-{i}") for i in range(CLUSTERS)]
    VirtualClusterMember.objects.bulk_create(
        VirtualClusterMember(virtual_cluster=vc, tenant=tenant) for vc in clusters for tenant in tenants
    )
    # The first tenant has a tenth of all jobs, so more than its share.
    homes = [tenants[0 if i < USERS // 10 else i % TENANTS] for i in range(USERS)]
    people = Membership.objects.bulk_create(
        Membership(user=user, tenant=home, role="member") for user, home in zip(users, homes, strict=True)
    )
    for first in range(0, jobs, 5_000):
        rows, allocations, attempts, parts, held = [], [], [], [], []
        for number in range(first, min(first + 5_000, jobs)):
            owner = chance.randrange(USERS)
            project = chance.choice(PROJECTS)
            size = chance.choice((1, 1, 1, 2, 4, 8))
            node = chance.randrange(NODES)
            submitted = now - timedelta(days=DAYS) * (1 - number / jobs)
            started = submitted + timedelta(minutes=chance.expovariate(1 / 20))
            ended = started + timedelta(minutes=chance.expovariate(1 / 60) + 1)
            state = chance.choices(("succeeded", "failed", "cancelled"), (70, 20, 10))[0]
            vc = chance.choice(clusters)
            spec = job_spec(
                name=f"train-{project}-{number % 500}",
                virtual_cluster=vc.name,
                gpus=size,
                labels={"project": project, "run": str(number % 5_000)},
                command=["python", "train.py", "--lr", str(number)],
            )
            job = Job(
                tenant=homes[owner], virtual_cluster=vc, submitted_by=users[owner], name=spec["name"],
                spec=spec, labels=spec["labels"], gpus=size, priority=chance.choice((0, 0, 0, 10)),
                shape={"tasks": [[1, size, 0, 0]], "topology": None, "throughput": {}},
                state=state, submitted_at=submitted, started_at=started, ended_at=ended, attempts_started=1,
                service={node_model(nodes[node]): (ended - started).total_seconds() * size},
                exit_code=0 if state == "succeeded" else 1,
            )  # fmt: skip
            chosen = gpus[node * 8 : node * 8 + size]
            allocation = Allocation(
                round_number=number, view=vc.name, virtual_cluster=vc, guaranteed=True,
                gpu_model=node_model(nodes[node]), replicas=[[gpu.id for gpu in chosen]], phase="released",
                created_at=started, held_at=started, released_at=ended,
            )  # fmt: skip
            attempt = Attempt(
                job=job, number=1, allocation=allocation, state="ended", outcome=state, go=True,
                failure=chance.choice(FAILURES) if state == "failed" else "", planned_at=submitted,
                starting_at=started, running_at=started, ended_at=ended, exit_code=job.exit_code,
            )  # fmt: skip
            rows.append(job)
            allocations.append(allocation)
            attempts.append(attempt)
            replica = {
                "rank": 0,
                "task": "main",
                "gpus": [gpu.id for gpu in chosen],
                "gpu_indexes": list(range(size)),
            }
            parts.append(AttemptPart(attempt=attempt, node=nodes[node], state="exited", replicas=[replica]))
            held += [
                AllocatedGpu(allocation=allocation, gpu=gpu, phase="released", released_at=ended)
                for gpu in chosen
            ]
        Job.objects.bulk_create(rows, batch_size=2_000)
        Allocation.objects.bulk_create(allocations, batch_size=2_000)
        Attempt.objects.bulk_create(attempts, batch_size=2_000)
        AttemptPart.objects.bulk_create(parts, batch_size=2_000)
        AllocatedGpu.objects.bulk_create(held, batch_size=2_000)
    admin = User.objects.create(username="ada", password="!")
    Membership.objects.create(user=admin, tenant=tenants[0], role="admin")
    operator = User.objects.create(username="olga", password="!", is_operator=True)
    callers = {"member": caller(people[0].user), "admin": caller(admin), "operator": caller(operator)}
    for each in callers.values():
        each.client.defaults["HTTP_HOST"] = "localhost"
    return callers


def node_model(node) -> str:
    return node.gpu_model.name


if __name__ == "__main__":
    main()
