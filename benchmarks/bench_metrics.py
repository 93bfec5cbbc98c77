"""What metrics cost: storing readings, putting them together, keeping them, and taking them.

    python benchmarks/bench_metrics.py [--nodes 100] [--readings 60] [--jobs 8]

Starts a PostgreSQL of its own. *A report* is applied as the web server applies it, without HTTP, with one
reading of eight GPUs and eight replicas, or, in turns with that, with none: the difference in processor time
of this process and of its backend in PostgreSQL is what a reading costs. *Bytes* are what the rows of nodes
and their indexes take. *The agent's sampling* is measured with so many real jobs under shims.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import psutil
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from tests.servers import HOME, started

GPUS = 8
#: Rows of a month: those kept of each resolution.
ROWS_KEPT = {10: 720, 60: 2_880, 900: 2_976}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--readings", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        asyncio.run(measure_sampling(Path(folder), options.jobs))
    with started("redis"), started("postgres"):
        environment = [
            sys.executable,
            str(Path(__file__).resolve().parents[1] / "manage.py"),
            "migrate",
            "-v0",
        ]
        subprocess.run(environment, check=True)
        import django

        django.setup()
        measure_storing(options.nodes, options.readings)
    import shutil

    shutil.rmtree(HOME, ignore_errors=True)


async def measure_sampling(folder: Path, jobs: int) -> None:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from nodeagent.machine import Part, Phase
    from nodeagent.metrics.sampling import Sampler
    from tests.agent.builders import make_part, shell
    from tests.agent.runtime_node import RuntimeNode

    node = RuntimeNode(folder, sandbox="off", users=None)
    parts = []
    for attempt in range(1, jobs + 1):
        desired = make_part(shell("sleep 600 & sleep 600", gpu_indexes=(attempt % 4,)), attempt=attempt)
        await node.start(desired)
        parts.append(Part(desired=desired, phase=Phase.RUNNING))
    for has_groups in (True, False):
        if has_groups and not node.runtime.cgroups.folders:
            continue
        sampler = Sampler(node.configuration, node.runtime.devices, node.runtime.folder)
        sampler.every_seconds = 0.0
        sampler.step(parts)
        if not has_groups:
            for places in sampler.jobs.places.values():
                for place in places.values():
                    place.cgroup.paths = {}
        runs = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(20):
                sampler.step(parts)
            runs.append((time.process_time() - began) / 20)
        step = statistics.median(runs)
        how = "by control groups" if has_groups else "by /proc alone"
        raw = " ".join(f"{run * 1e3:.2f}" for run in runs)
        # A step goes with each report, every five seconds; here each took a reading too.
        print(
            f"agent, {jobs} jobs, {how}: {step * 1e3:.2f} ms a step = {step / 5:.3%} of a core; raw ms {raw}"
        )
    await node.clean_up()


def measure_storing(nodes: int, readings: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from nodeagent.messages import PROTOCOL, GpuSample, HostSample, Reading, ReplicaSample, Report
    from scheduler.agents.services.reports import report_apply
    from scheduler.models import NodeMetrics
    from scheduler.telemetry.metrics.services import metrics_roll_up
    from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

    made = [make_node(f"node-{number}", gpus=GPUS) for number in range(nodes)]
    attempts = [[make_attempt(make_job(), [gpu]) for gpu in gpus_of(node)] for node in made[:10]]
    now = timezone.now().replace(second=0, microsecond=0)

    def reading(place: int, number: int) -> Reading:
        own = attempts[place] if place < len(attempts) else []
        noise = (number * 7919 + place * 104729) % 1000
        return Reading(
            at=(now - timedelta(seconds=10 * (readings - number))).timestamp(),
            gpus=tuple(
                GpuSample(
                    index=index,
                    utilisation_percent=(noise * (index + 1)) % 1000 / 10,
                    memory_used_bytes=2**34 + noise * 2**20 + index,
                    power_watts=300.0 + noise / 10,
                    temperature_celsius=60.0 + noise % 10,
                    sm_clock_mhz=1_400.0 + noise % 50,
                )
                for index in range(GPUS)
            ),
            host=HostSample(
                cpu_percent=noise / 10,
                memory_used_bytes=2**36 + noise,
                disk_used_bytes=2**40,
                disk_total_bytes=2**42,
                network_received_bytes_per_second=1e6 + noise,
                network_sent_bytes_per_second=1e5 + noise,
                disk_read_bytes_per_second=0.0,
                disk_written_bytes_per_second=1e4 + noise,
            ),
            replicas=tuple(
                ReplicaSample(
                    attempt=one.id, rank=0, cpus_used=3.5, memory_used_bytes=2**33 + noise, processes=9
                )
                for one in own
            ),
        )

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(cursor.fetchone()[0])

    def processor_seconds() -> float:
        """Of this process and of its connection's in PostgreSQL."""
        times = backend.cpu_times()
        return time.process_time() + times.user + times.system

    seconds: dict[str, list[float]] = {"with a reading": [], "without": []}
    for number in range(readings):
        for kind, spent in seconds.items():
            messages = [
                Report(
                    protocol=PROTOCOL,
                    boot=node.boot,
                    generation=0,
                    readings=(reading(place, number),) if kind == "with a reading" else (),
                )
                for place, node in enumerate(made)
            ]
            began = processor_seconds()
            for node, message in zip(made, messages, strict=True):
                report_apply(node, message)
            spent.append((processor_seconds() - began) / nodes)
    means = {kind: statistics.mean(values) for kind, values in seconds.items()}
    for kind, mean in means.items():
        print(f"a report {kind}: {mean * 1e3:.2f} ms of processor, {readings * nodes} reports")
    extra = means["with a reading"] - means["without"]
    print(f"a reading costs {extra * 1e3:.2f} ms: with 1,000 nodes, {extra * 100:.1%} of a core")
    began, used = time.perf_counter(), time.process_time()
    metrics_roll_up(now)
    took, cpu = time.perf_counter() - began, time.process_time() - used
    minutes = NodeMetrics.objects.filter(seconds=60).count()
    print(
        f"rolling up {minutes} node-minutes: {took:.2f} s, {cpu:.2f} s of processor;"
        f" a minute of 1,000 nodes: {cpu / minutes * 1_000:.2f} s of processor"
    )
    began = time.perf_counter()
    metrics_roll_up(now)
    print(f"finding that nothing is to be done: {time.perf_counter() - began:.3f} s")
    print_bytes(connection, nodes)


def print_bytes(connection: object, nodes: int) -> None:
    month = size = 0.0
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        for seconds, kept in ROWS_KEPT.items():
            cursor.execute(
                "SELECT count(*), avg(pg_column_size(m.*)) FROM scheduler_nodemetrics m WHERE seconds = %s",
                [seconds],
            )
            rows, found = cursor.fetchone()
            # A row of quarters has the form, and so about the size, of one of minutes.
            size = float(found) if rows else size
            month += kept * size
            print(f"rows of {seconds} s: {rows}, {size:.0f} bytes each, {kept} kept for a node")
        cursor.execute("SELECT pg_indexes_size('scheduler_nodemetrics'), count(*) FROM scheduler_nodemetrics")
        index_bytes, rows = cursor.fetchone()
    indexes = index_bytes / rows
    month += sum(ROWS_KEPT.values()) * indexes
    print(f"indexes: {indexes:.0f} bytes a row; all that is kept of one node: {month / 1e6:.1f} MB")


main()
