"""How late changes reach 500 open dashboards of a platform with 10,000 GPUs, and what that costs.

    python benchmarks/bench_watchers.py [--watchers 500] [--gpus 10000] [--seconds 30] [--operators 0.1]
        [--jobs-per-second 10] [--round-seconds 2] [--samples yes]

Starts its own PostgreSQL and Redis in a temporary folder, and one web server process as `manage.py up` does
(`python -m controlplane.uvicorn_server`). One asyncio process holds all WebSockets, each of a user of its own
with a token, compressed as browsers do: `--operators` of them see everything, the others are members of one
of 20 tenants. A browser signs in by a cookie instead and asks for lists by REST when it opens; afterwards
both get the same messages at the same cost. Each asks for the stream as the dashboard does (`/ws/live` with
`samples=no`; --samples yes: as a program that wants to hear what GPUs do).

This process makes the changes, by the platform's own code: it runs a round every --round-seconds, and applies
the reports of agents that jobs are ready, run and have ended, --jobs-per-second of each; and each node
publishes what its eight GPUs do every five seconds, as with each report. What the requests of agents cost the
web server is another figure (`bench_heartbeats.py`).

Lateness is the time from the commit of a change until its frame is at a client, for each message and client.
What is published after the commit of the transaction, as the new versions of nodes are, counts from it too.
Messages that were on their way when the measurement ended count, those of connecting do not. One client of
each kind of viewer decodes what it gets and knows its messages; the others read only the bounds of frames,
and their frames are the same, in the same order. Processor time is that of the web process, in cores.
"""

from __future__ import annotations

import argparse
import heapq
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import httpx
import psutil
from bench_round import GPUS_PER_NODE, empty, job_row
from machine import describe_machine
from servers import servers
from watchers import Key, Seen, key_of, watch

TENANTS = 20
#: GPUs of the jobs, in turn.
SIZES = (1, 1, 2, 4, 8)
WAITING = 500
REPORT_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--watchers", type=int, default=500)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--operators", type=float, default=0.1, help="part of the watchers")
    parser.add_argument("--jobs-per-second", type=float, default=10.0, help="that end, and so start")
    parser.add_argument("--round-seconds", type=float, default=2.0)
    parser.add_argument("--samples", choices=("yes", "no"), default="no", help="whether watchers get them")
    options = parser.parse_args()
    allow_files(2 * options.watchers + 500)
    print(describe_machine())
    with servers():
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        for run in range(options.runs):
            measure(run, options)


def allow_files(wanted: int) -> None:
    """Raise the limit of open files, which the processes that are started inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        assert hard == resource.RLIM_INFINITY or hard >= wanted, f"ulimit -n must be at least {wanted}"
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def measure(run: int, options: argparse.Namespace) -> None:
    from controlplane.embedded import ports

    empty()
    port = ports.pick()
    viewers = fill(options)
    changes = Changes(options)
    print(
        f"\nrun {run + 1}: {options.watchers} watchers, {options.gpus:,} GPUs, {changes.running:,} jobs run,"
        f" {WAITING} wait, {options.jobs_per_second:g} end a second;"
        f" load of the machine {os.getloadavg()[0]:.1f}"
    )
    command = [sys.executable, "-m", "controlplane.uvicorn_server", "--port", str(port)]
    with subprocess.Popen(command) as web:
        try:
            until_ready(f"http://127.0.0.1:{port}/healthz")
            ours, theirs = multiprocessing.Pipe()
            address = f"/ws/live?samples={options.samples}"
            child = multiprocessing.get_context("spawn").Process(
                target=watch, args=(port, address, viewers, theirs), daemon=True
            )
            child.start()
            print(f"  connected after {ours.recv():.1f} s")
            used = Used({"web": web.pid, "watchers": child.pid, "changes": os.getpid()})
            changes.make(options.seconds)
            ours.send("stop")
            print(f"  the last message came {ours.recv():.1f} s after the last change")
            used.stop(options.seconds)
            seen = ours.recv()
            child.join()
        finally:
            web.terminate()
    tell(changes, seen, used, viewers)


def until_ready(url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            httpx.get(url).raise_for_status()
            return
        except httpx.HTTPError:
            assert time.monotonic() < until, "the web server does not answer"
            time.sleep(0.2)


class Used:
    """The processor time of processes, from its making to `stop`, and what part of a core that is."""

    def __init__(self, processes: Mapping[str, int | None]) -> None:
        self._processes = {name: psutil.Process(number) for name, number in processes.items()}
        self._before = self._now()
        self.cores: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def _now(self) -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}

    def stop(self, wall: float) -> None:
        """End it; the time is that of changes, although messages may have come later."""
        now = self._now()
        self.seconds = {name: now[name] - self._before[name] for name in now}
        self.cores = {name: seconds / wall for name, seconds in self.seconds.items()}


# What there is


def fill(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Make nodes, tenants, jobs and users; return of each watcher what it may see, and its token."""
    from django.utils import timezone

    from scheduler.models import Gpu, GpuModel, Job, Node
    from tenants.models import Guarantee, Tenant, User, VirtualCluster, VirtualClusterMember

    model = GpuModel.objects.create(name="V100")
    nodes = Node.objects.bulk_create(
        Node(
            name=f"n{i:05}", rack=f"r{i // 16}", gpu_model=model, state="ready", address="127.0.0.1", boot="b"
        )
        for i in range(options.gpus // GPUS_PER_NODE)
    )
    Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"{node.name}-{index}", socket=index // 4, switch=index // 2)
        for node in nodes
        for index in range(GPUS_PER_NODE)
    )
    tenants = Tenant.objects.bulk_create(Tenant(name=f"tenant-{i}") for i in range(TENANTS))
    clusters = VirtualCluster.objects.bulk_create(VirtualCluster(name=f"vc-{i}") for i in range(TENANTS))
    VirtualClusterMember.objects.bulk_create(
        VirtualClusterMember(virtual_cluster=vc, tenant=tenant)
        for vc, tenant in zip(clusters, tenants, strict=True)
    )
    Guarantee.objects.bulk_create(
        Guarantee(virtual_cluster=vc, gpu_model="V100", gpus=options.gpus // TENANTS) for vc in clusters
    )
    user, now = User.objects.create(username="bench"), timezone.now()
    count = len(SIZES) * options.gpus // sum(SIZES)
    coming = round(options.jobs_per_second * options.seconds * 1.5)
    Job.objects.bulk_create(
        (
            job_row(
                f"job-{i}",
                SIZES[i // TENANTS % len(SIZES)],
                tenant=tenants[i % TENANTS],
                virtual_cluster=clusters[i % TENANTS],
                submitted_by=user,
                submitted_at=now,
            )
            for i in range(count + coming + WAITING)
        ),
        batch_size=2_000,
    )
    return make_viewers(options, tenants)


def make_viewers(options: argparse.Namespace, tenants) -> list[tuple[str, str]]:
    from tenants.models import Membership, Token, User
    from tenants.tokens import USER_PREFIX, new_secret

    operators = round(options.operators * options.watchers)
    users = User.objects.bulk_create(
        User(username=f"watcher-{i}", is_operator=i < operators) for i in range(options.watchers)
    )
    of = [tenants[i % TENANTS] for i in range(options.watchers)]
    Membership.objects.bulk_create(
        Membership(user=user, tenant=tenant, role="viewer")
        for user, tenant in zip(users[operators:], of[operators:], strict=True)
    )
    made = [new_secret(USER_PREFIX) for _ in users]
    Token.objects.bulk_create(
        Token(user=user, name="bench", key=secret.key, digest=secret.digest)
        for user, secret in zip(users, made, strict=True)
    )
    kinds = ["operator" if user.is_operator else tenant.name for user, tenant in zip(users, of, strict=True)]
    return [(kind, secret.text) for kind, secret in zip(kinds, made, strict=True)]


# What changes


class Changes:
    """Makes changes by the platform's own code, and notes when each was committed."""

    def __init__(self, options: argparse.Namespace) -> None:
        from channels.layers import get_channel_layer
        from django.db import connection

        self.options = options
        self.committed_at = 0.0
        #: When the change was committed that a message reports.
        self.sent: dict[Key, float] = {}
        self.kinds: Counter[str] = Counter()
        self.rounds = self.ended = 0
        self._samples = 0
        self._due: list[tuple[float, int, Any]] = []
        self._steps = 0
        self._layer, self._send_all = get_channel_layer(), get_channel_layer().send_all
        # The one place that each commit passes before anything is published.
        self._commit: Any = connection._commit  # type: ignore[attr-defined]
        connection._commit = self._note_commit  # type: ignore[attr-defined]
        self._layer.send_all = self._note_messages
        self._nodes = self._node_rows()
        self._known: set[int] = set()
        run_one_round()
        execute(_RUN_ALL)
        self._attempts = [attempt for attempt, _ in self._unended("running")]
        self.running = len(self._attempts)
        random.Random(1).shuffle(self._attempts)
        execute("ANALYZE")

    def _note_commit(self) -> None:
        self._commit()
        self.committed_at = time.monotonic()

    def _note_messages(self, messages) -> None:
        messages = list(messages)
        for _, message in messages:
            key = key_of({**message, "type": message["type"].removeprefix("live.")})
            if key is not None:
                self.sent.setdefault(key, self.committed_at)
                self.kinds[f"{key[0]} {key[1]}" if key[0] == "objects" else key[0]] += 1
        self._send_all(messages)

    def make(self, seconds: float) -> None:
        """Change things for this long, each at its time, or as soon as what came before is done.

        On a machine that is too busy, fewer jobs end than asked for.
        """
        began = time.monotonic()
        between = REPORT_SECONDS / len(self._nodes)
        for kind, first, interval in (
            (self._one_ends, 0.0, 1 / self.options.jobs_per_second),
            (self._round, 0.5, self.options.round_seconds),
            (self._one_node_samples, 0.0, between),
        ):
            for step in range(int((seconds - first) / interval)):
                self._at(began + first + step * interval, kind)
        while self._due:
            at, _, act = heapq.heappop(self._due)
            if max(at, time.monotonic()) > began + seconds:
                return
            time.sleep(max(0.0, at - time.monotonic()))
            # What commits without a transaction counts from here.
            self.committed_at = time.monotonic()
            act()

    def _at(self, at: float, act) -> None:
        self._steps += 1
        heapq.heappush(self._due, (at, self._steps, act))

    def _round(self) -> None:
        run_one_round()
        self.rounds += 1
        for attempt, nodes in self._unended("starting"):
            for state in ("ready", "running"):
                for node in nodes:
                    self._at(time.monotonic() + 0.2, self._reporter(attempt, node, state=state))
            self._at(time.monotonic() + 0.2, lambda attempt=attempt: self._attempts.append(attempt))

    def _reporter(self, attempt: int, node: int, **fields):
        from nodeagent.messages import PROTOCOL, PartReport, Report
        from scheduler.agents.services.reports import report_apply

        part = PartReport(attempt=attempt, master_port=29_500, **fields)
        report = Report(protocol=PROTOCOL, boot="b", generation=0, parts=(part,))
        return lambda: report_apply(self._nodes[node], report)

    def _one_ends(self) -> None:
        attempt = self._attempts.pop(0)
        for (node,) in rows_of("SELECT node_id FROM scheduler_attemptpart WHERE attempt_id = %s", [attempt]):
            self._reporter(attempt, node, state="exited", exit_code=0, started_at=time.time() - 60)()
        self.ended += 1

    def _one_node_samples(self) -> None:
        from nodeagent.messages import GpuSample
        from scheduler.agents.services.reports import publish_samples

        numbers = list(self._nodes)
        node = self._nodes[numbers[self._samples % len(numbers)]]
        self._samples += 1
        memory = 2**30 + self._samples
        samples = [
            GpuSample(index=index, utilisation_percent=90.0, memory_used_bytes=memory)
            for index in range(GPUS_PER_NODE)
        ]
        publish_samples(node.name, samples)

    def _node_rows(self):
        from scheduler.models import Node

        return {node.id: node for node in Node.objects.order_by("id")}

    def _unended(self, state: str) -> list[tuple[int, list[int]]]:
        """Return the attempts in this state that were not returned before, with their nodes."""
        found = rows_of(
            "SELECT a.id, array_agg(p.node_id ORDER BY p.id) FROM scheduler_attempt a"
            " JOIN scheduler_attemptpart p ON p.attempt_id = a.id WHERE a.state = %s"
            " GROUP BY a.id ORDER BY a.id",
            [state],
        )
        news = [each for each in found if each[0] not in self._known]
        self._known.update(attempt for attempt, _ in found)
        return news


_RUN_ALL = """
WITH runs AS (
    UPDATE scheduler_attempt SET state = 'running', go = true, running_at = clock_timestamp()
    WHERE state = 'starting' RETURNING id, job_id
), parts AS (
    UPDATE scheduler_attemptpart SET state = 'running' WHERE attempt_id IN (SELECT id FROM runs)
)
UPDATE scheduler_job SET state = 'running', started_at = clock_timestamp(), version = version + 1
WHERE id IN (SELECT job_id FROM runs)
"""


def run_one_round() -> None:
    from scheduler.models import Round
    from scheduler.rounds.run import run_round

    number = run_round()
    record = Round.objects.only("state", "error").get(number=number)
    assert record.state == "applied", record.error


def execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)


def rows_of(statement: str, values: list[Any]) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


# What came of it


def tell(changes: Changes, seen: Seen, used: Used, viewers: list[tuple[str, str]]) -> None:
    late: dict[str, list[float]] = defaultdict(list)
    missing = 0
    for kind, times, _ in seen.clients:
        order = seen.messages[kind]
        missing += len(order) - len(times)
        for key, at in zip(order, times, strict=False):
            if key in changes.sent:
                late[key[1] if key[0] == "objects" else key[0]].append(at - changes.sent[key])
    every = sorted(value for values in late.values() for value in values)
    print(
        f"  {changes.rounds} rounds, {changes.ended} jobs ended; messages published:"
        f" {', '.join(f'{name} {count}' for name, count in changes.kinds.most_common())}"
    )
    print(f"  late: {spread(every)} ({len(every):,} frames at {len(seen.clients)} clients)")
    for name, values in sorted(late.items(), key=lambda each: -len(each[1])):
        print(f"    {name:<12} {spread(sorted(values))} ({len(values):,})")
    for title, mine in (
        ("an operator", [each for each in seen.clients if each[0] == "operator"]),
        ("a member", [each for each in seen.clients if each[0] != "operator"]),
    ):
        if mine:
            frames = statistics.mean(len(times) for _, times, _ in mine)
            size = statistics.mean(size for _, _, size in mine)
            print(
                f"  {title} gets {frames:,.0f} messages, {size / 1e3:,.0f} kB compressed"
                f" (mean of {len(mine)})"
            )
    print(f"  lost or extra frames: {missing}; sockets closed by the server: {seen.closed}")
    frames = sum(len(times) for _, times, _ in seen.clients) * len(viewers) / len(seen.clients)
    print(
        f"  cores: {', '.join(f'{name} {cores:.2f}' for name, cores in used.cores.items())};"
        f" a frame costs the web process {used.seconds['web'] / frames * 1e6:.0f} microseconds"
    )


def spread(values: list[float]) -> str:
    if not values:
        return "none"
    return (
        f"median {values[len(values) // 2] * 1e3:.0f} ms, p99 {values[int(len(values) * 0.99)] * 1e3:.0f} ms,"
        f" longest {values[-1] * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main()
