"""How fast output flows from a job's process into the server's database, and whether all of it arrives.

    python benchmarks/bench_logs.py [--megabytes 256] [--runs 3]

Starts a platform of its own (`manage.py up --no-demo`, one node) and runs a job that writes numbered lines of
100 bytes as fast as it can, with a limit of output that it does not reach. The clock runs from the moment the
job is seen running until the server has stored everything. The output is then read back: each line must be
there once and in its place. *CPU* is processor time of the agent and of the server's web process and database
for all of the output. As the bound: the same lines piped through `cat` into a file.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import FAST, Agent, Installation, installation
from tests.patience import until

LINE_BYTES = 100
MEGABYTE = 10**6
#: Writes COUNT lines; the digest of the same lines is what must arrive.
WRITER = (
    "import sys\n"
    "for first in range(0, int(sys.argv[1]), 10_000):\n"
    "    lines = [f'line {number:09} {\"abcdefgh \" * 9}___\\n' for number in range(first, first + 10_000)]\n"
    "    sys.stdout.write(''.join(lines))\n"
)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--megabytes", type=int, default=256)
    arguments.add_argument("--runs", type=int, default=3)
    options = arguments.parse_args()
    print(describe_machine())
    lines = options.megabytes * MEGABYTE // LINE_BYTES // 10_000 * 10_000
    FAST["ALLOT_LOG_BYTES_PER_ATTEMPT"] = str(2 * lines * LINE_BYTES)
    FAST["ALLOT_NODE_LEASE_SECONDS"] = "30"
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        bound = [through_cat(Path(folder) / "bound", lines) for _ in range(options.runs)]
        with installation(Path(folder)) as platform:
            node = platform.add_node("left", gpus=1)
            platform.call("POST", "tenants", {"name": "vision"})
            vc = {
                "name": "research",
                "guaranteed": {"V100": 1},
                "members": [{"tenant": "vision", "weight": 1}],
            }
            platform.call("POST", "virtual-clusters", vc)
            shipped = [through_platform(platform, node, lines) for _ in range(options.runs)]
    report("bound: through cat into a file", bound)
    report("job -> shim -> agent -> server -> database", shipped)


def through_platform(platform: Installation, node: Agent, lines: int) -> float:
    """Return the MB/s of one job; fail when a byte is missing, doubled or out of order."""
    agent = psutil.Process(node.process.pid)
    watched = {
        "web": psutil.Process(platform.pid_of("web")),
        "database": psutil.Process(platform.pid_of("postgres")),
    }
    before = {name: cpu_seconds(process) for name, process in watched.items()}
    agent_before = agent.cpu_times()
    task = {"name": "main", "resources": {"gpu": 1}, "command": ["python3", "-c", WRITER, str(lines)]}
    job = platform.submit(name="flood", tenant="vision", tasks=[task])
    began = platform.wait_for(job, "running", "succeeded") and time.perf_counter()
    platform.wait_for(job, "succeeded", seconds=600)
    written = time.perf_counter() - began
    with platform.database() as database:
        where = "FROM scheduler_attempt WHERE job_id = %s"
        (attempt,) = database.execute(f"SELECT id {where}", [job]).fetchone()
        stored = "SELECT coalesce(sum(octet_length(text)), 0) FROM scheduler_logchunk WHERE attempt_id = %s"
        until(
            lambda: database.execute(stored, [attempt]).fetchone()[0] >= lines * LINE_BYTES,
            "all",
            seconds=600,
        )
        seconds = time.perf_counter() - began
        after = {name: cpu_seconds(process) for name, process in watched.items()}
        agent_after = agent.cpu_times()
        digest = hashlib.sha256()
        with database.transaction(), database.cursor("chunks") as cursor:
            texts = "SELECT text FROM scheduler_logchunk WHERE attempt_id = %s ORDER BY sequence"
            cursor.execute(texts, [attempt])
            for (text,) in cursor:
                digest.update(text.encode())
    if digest.hexdigest() != expected(lines):
        raise SystemExit(f"job {job}: what is stored is not what was written")
    rate = lines * LINE_BYTES / MEGABYTE / seconds
    agent_seconds = agent_after.user + agent_after.system - agent_before.user - agent_before.system
    servers = ", ".join(f"{name} {after[name] - before[name]:.1f} s" for name in watched)
    print(
        f"  job {job}: {rate:.1f} MB/s, complete and in order; the job itself wrote for {written:.1f} s of "
        f"{seconds:.1f} s; CPU of the agent {agent_seconds:.1f} s "
        f"({100 * agent_seconds / seconds:.0f} % of a core), {servers}"
    )
    return rate


def cpu_seconds(process: psutil.Process) -> float:
    """Return what it and its children have used so far, those that have ended included."""
    times = process.cpu_times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))


def expected(lines: int) -> str:
    digest = hashlib.sha256()
    for piece in written_by(lines):
        digest.update(piece)
    return digest.hexdigest()


def written_by(lines: int) -> Iterator[bytes]:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(lines)], stdout=subprocess.PIPE) as writer:
        while piece := writer.stdout.read(MEGABYTE):
            yield piece


def through_cat(path: Path, lines: int) -> float:
    began = time.perf_counter()
    with (
        path.open("wb") as file,
        subprocess.Popen([sys.executable, "-c", WRITER, str(lines)], stdout=subprocess.PIPE) as writer,
    ):
        subprocess.run(["cat"], stdin=writer.stdout, stdout=file, check=True)
    seconds = time.perf_counter() - began
    if path.stat().st_size != lines * LINE_BYTES:
        raise SystemExit("cat lost some")
    path.unlink()
    return lines * LINE_BYTES / MEGABYTE / seconds


def report(what: str, rates: list[float]) -> None:
    raw = " ".join(f"{rate:.1f}" for rate in rates)
    print(f"{what}: median {statistics.median(rates):.1f} MB/s; raw {raw}")


if __name__ == "__main__":
    main()
