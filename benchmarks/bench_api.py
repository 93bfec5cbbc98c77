"""How many jobs a second the REST API takes in, one per request and 1,000 per request.

    python benchmarks/bench_api.py [--runs 5] [--singles 300] [--bulks 2] [--clients 4] [--web-processes 1]

Starts a platform of its own (`manage.py up --no-demo`, one node of four simulated GPUs that a first job
holds, so that all others wait) and submits over HTTP on the loopback from as many threads as
`--clients`, each with a connection of its own. Rounds go on meanwhile and explain every waiting job.
Beside it, as an upper bound, how many empty requests (GET /healthz) the same clients get answered; and
the processor time that the web processes themselves spent per job, which other load on the machine disturbs
less.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import FAST, Installation, installation

BULK = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--singles", type=int, default=300, help="single submits in a run")
    parser.add_argument("--bulks", type=int, default=2, help="bulk requests in a run")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--web-processes", type=int, default=1)
    options = parser.parse_args()
    print(describe_machine())
    FAST["ALLOT_ROUND_SECONDS"] = "5"
    FAST["ALLOT_WEB_PROCESSES"] = str(options.web_processes)
    # Less may wait of one user, as a rule, than is submitted here.
    FAST["ALLOT_WAITING_JOBS_PER_USER"] = "1000000"
    with (
        tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder,
        installation(Path(folder)) as platform,
    ):
        prepare(platform)
        measure(platform, options)


def prepare(platform: Installation) -> None:
    platform.add_node("only", gpus=4)
    platform.call("POST", "tenants", {"name": "vision"})
    members = [{"tenant": "vision", "weight": 1}]
    platform.call(
        "POST", "virtual-clusters", {"name": "research", "guaranteed": {"V100": 4}, "members": members}
    )
    first = platform.submit(name="holder", tenant="vision", gpus=4, command=["sleep", "3600"])
    platform.wait_for(first, "running")


def measure(platform: Installation, options: argparse.Namespace) -> None:
    clients = [
        httpx.Client(base_url=platform.url, timeout=60, headers={"Authorization": f"Bearer {platform.token}"})
        for _ in range(options.clients)
    ]
    spec = {"name": "bench", "gpus": 1, "command": ["true"], "time_limit": "10m"}
    bulk = {"tenant": "vision", "jobs": [spec] * BULK}

    def healthz(client: httpx.Client) -> httpx.Response:
        return client.get("/healthz")

    def single(client: httpx.Client) -> httpx.Response:
        return client.post("/api/v1/jobs", json={**spec, "tenant": "vision"})

    def thousand(client: httpx.Client) -> httpx.Response:
        return client.post("/api/v1/jobs/bulk", json=bulk)

    for what, send, requests, jobs in (
        ("upper bound: empty requests/s", healthz, options.singles, 1),
        ("single submits/s", single, options.singles, 1),
        ("jobs/s in bulks of 1,000, two clients", thousand, options.bulks, BULK),
    ):
        chosen = clients[:2] if jobs > 1 else clients
        before = web_seconds(platform)
        rates = [jobs * requests / seconds_for(send, requests, chosen) for _ in range(options.runs)]
        spent = (web_seconds(platform) - before) / (jobs * requests * options.runs)
        raw = " ".join(f"{rate:.0f}" for rate in rates)
        median = statistics.median(rates)
        print(f"{what:<38} median {median:7.0f}   runs: {raw}   web process: {spent * 1_000:.2f} ms each")


def web_seconds(platform: Installation) -> float:
    web = psutil.Process(platform.pid_of("web"))
    times = [process.cpu_times() for process in (web, *web.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def seconds_for(
    send: Callable[[httpx.Client], httpx.Response], requests: int, clients: list[httpx.Client]
) -> float:
    def work(number: int) -> None:
        for _ in range(number, requests, len(clients)):
            answer = send(clients[number])
            assert answer.is_success, f"{answer.status_code}: {answer.text[:500]}"

    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(work, range(len(clients))))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
