"""Many empty one-GPU jobs on eight GPUs, here and through Debian's Slurm: how soon one starts, when all end.

    python benchmarks/bench_slurm_throughput.py [--jobs 1000] [--singles 20] [--runs 1] [--gangs]
                                                [--policies fifo las tiresias]

Both sides run on this machine in one run, by turns, with eight GPUs that are made up: here two nodes of four
simulated GPUs (`manage.py up --no-demo`, two agents, a shim and a sandbox a job), there two slurmd with four
device files each that lead nowhere (tests/slurm; needs root and scripts/slurm). Slurm has no accounting, no
database, no limits and no sandbox, and schedules as soon as a job ends. Both get all jobs in one request: a
bulk of the API, a job array of `sbatch`; more than 1,000 come in several.

*First instruction*: single jobs on an idle cluster, from the submit to the time that the command writes down.
*All ended*: from the first submit until none is unfinished. `--gangs` measures gangs of eight processes with
a GPU each too (`srun` inside `sbatch` there), an eighth as many. Processor time is that of the processes of
each kind, those that ended included; slurmd's steps are not in it, since they are not its children. Clock:
this machine's. A side that takes longer than `--patience` is reported with what it had ended by then.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import FAST, Installation, installation
from tests.slurm.cluster import NODES, SlurmCluster, missing, slurm

GPUS, GPUS_PER_NODE = 8, 4
BULK_MOST = 1_000
LOOK_SECONDS = 0.1
SINGLE_SECONDS = 60.0
FINAL = ("succeeded", "failed", "cancelled")
CLUSTER = "research"
#: What a process of each side is called in the table, by a word of its command line; the first that is there.
OURS = {
    "round and other tasks": "celery",
    "web": "uvicorn",
    "PostgreSQL": "postgres",
    "Redis": "redis-server",
    "agents": "nodeagent",
}
#: What agents waited for: shims, with sandboxes and jobs below them.
SHIMS = "shims and jobs"
THEIRS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "munged": "munged"}


class Ours:
    """The platform as a person starts it."""

    name = "Allotment"

    def __init__(self, platform: Installation) -> None:
        self.platform = platform
        self.began = platform.home.parent / "began"
        for node in range(GPUS // GPUS_PER_NODE):
            platform.add_node(f"n{node + 1}", gpus=GPUS_PER_NODE)
        platform.call("POST", "tenants", {"name": "vision"})
        members = [{"tenant": "vision", "weight": 1}]
        virtual_cluster = {"name": CLUSTER, "guaranteed": {"V100": GPUS}, "members": members}
        platform.call("POST", "virtual-clusters", virtual_cluster)

    def single(self, replicas: int) -> float:
        command = ["sh", "-c", 'date +%s.%N >"$ALLOT_CHECKPOINT_DIR/began"']
        sent = time.time()
        job = self.platform.submit(**self.spec(replicas, command), tenant="vision")
        self.platform.wait_for(job, "succeeded", seconds=SINGLE_SECONDS)
        return float((self.platform.home.parent / "checkpoints" / str(job) / "began").read_text()) - sent

    def all_ended(self, jobs: int, replicas: int, patience: float) -> tuple[float, int]:
        spec = self.spec(replicas, ["true"])
        with self.platform.database() as database:
            (newest,) = database.execute("SELECT coalesce(max(id), 0) FROM scheduler_job").fetchone()
            count = "SELECT count(*) FROM scheduler_job WHERE id > %s AND state = ANY(%s)"
            sent = time.monotonic()
            for first in range(0, jobs, BULK_MOST):
                bulk = {"tenant": "vision", "jobs": [spec] * min(BULK_MOST, jobs - first)}
                self.platform.call("POST", "jobs/bulk", bulk)
            ended = ended_in_time(
                lambda: database.execute(count, [newest, list(FINAL)]).fetchone()[0], jobs, sent, patience
            )
            (bad,) = database.execute(count, [newest, list(FINAL[1:])]).fetchone()
        if bad:
            raise SystemExit(f"{bad} jobs did not succeed")
        return ended

    def spec(self, replicas: int, command: list[str]) -> dict[str, object]:
        task = {"name": "main", "replicas": replicas, "resources": {"gpu": 1}, "command": command}
        return {"name": "empty", "tasks": [task], "time_limit": "10m"}

    def choose(self, policy: str) -> None:
        self.platform.call("PUT", f"virtual-clusters/{CLUSTER}", {"policy_plugin": {"name": policy}})

    def processor_seconds(self) -> dict[str, float]:
        assert self.platform.supervisor is not None
        roots = [self.platform.supervisor.pid, *(agent.process.pid for agent in self.platform.agents)]
        return by_kind(roots, OURS)


class Theirs:
    """Slurm as Debian packages it."""

    name = "Slurm"

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster

    def single(self, replicas: int) -> float:
        began = self.cluster.folder / "began"
        began.unlink(missing_ok=True)
        sent = time.time()
        self.cluster.command("sbatch", *self.words(replicas, f"date +%s.%N > {began}"))
        ended_in_time(lambda: began.exists() and began.read_text().endswith("\n"), 1, sent, SINGLE_SECONDS)
        seconds = float(began.read_text()) - sent
        ended_in_time(lambda: not self.unfinished(), 1, time.monotonic(), SINGLE_SECONDS)
        return seconds

    def all_ended(self, jobs: int, replicas: int, patience: float) -> tuple[float, int]:
        sent = time.monotonic()
        for first in range(0, jobs, BULK_MOST):
            array = f"--array=1-{min(BULK_MOST, jobs - first)}"
            self.cluster.command("sbatch", array, *self.words(replicas, "true"))
        return ended_in_time(lambda: jobs - self.unfinished(), jobs, sent, patience)

    def words(self, replicas: int, command: str) -> list[str]:
        if replicas == 1:
            return ["--ntasks=1", "--gres=gpu:1", "--output=/dev/null", f"--wrap={command}"]
        script = f"srun --mpi=none sh -c '{command}'"
        nodes = [f"--nodes={len(NODES)}", f"--ntasks={replicas}", f"--gres=gpu:{GPUS_PER_NODE}"]
        return [*nodes, "--output=/dev/null", f"--wrap={script}"]

    def unfinished(self) -> int:
        """Count as Slurm's own commands do: tasks of an array that have not ended, one a line."""
        return len(self.cluster.command("squeue", "-h", "-r", "-o", "%i").splitlines())

    def choose(self, policy: str) -> None:
        """Slurm keeps its own order, first come first served with backfill, whatever ours is."""

    def processor_seconds(self) -> dict[str, float]:
        return by_kind([daemon.pid for daemon in self.cluster.daemons], THEIRS)


Side = Ours | Theirs


def ended_in_time(count: Callable[[], int], wanted: int, began: float, patience: float) -> tuple[float, int]:
    """Return the seconds from `began` until that many had ended, and how many had when patience was over."""
    give_up = time.monotonic() + patience
    while (ended := count()) < wanted and time.monotonic() < give_up:
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began, ended


def by_kind(roots: list[int], kinds: dict[str, str]) -> dict[str, float]:
    """Return the processor time of the roots and all below them, ended children included, by kind."""
    seconds = dict.fromkeys(kinds, 0.0)
    if "agents" in kinds:
        seconds[SHIMS] = 0.0
    processes = [psutil.Process(root) for root in roots]
    for process in [each for root in processes for each in (root, *root.children(recursive=True))]:
        try:
            times, words = process.cpu_times(), " ".join(process.cmdline())
        except psutil.Error:
            continue  # It ended just now: its parent has its time.
        for kind, word in kinds.items():
            if word in words:
                seconds[kind] += times.user + times.system
                seconds[SHIMS if kind == "agents" else kind] += times.children_user + times.children_system
                break
    return seconds


def measure(sides: list[Side], options: argparse.Namespace, replicas: int, what: str) -> None:
    jobs = max(1, options.jobs // replicas)
    print(f"\n{what}", flush=True)
    singles: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(options.singles):
        for side in sides:
            singles[side.name].append(side.single(replicas))
    for name, seconds in singles.items():
        raw = " ".join(f"{value:.3f}" for value in seconds)
        print(f"{name}: submit -> first instruction, median {statistics.median(seconds):.3f} s\n  raw: {raw}")
    bulks: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(options.runs):
        for side in sides:
            before = side.processor_seconds()
            took, ended = side.all_ended(jobs, replicas, options.patience)
            spent = {kind: value - before[kind] for kind, value in side.processor_seconds().items()}
            bulks[side.name].append(took)
            each = ", ".join(f"{kind} {1_000 * value / max(1, ended):.1f}" for kind, value in spent.items())
            print(
                f"{side.name}: {ended:,} of {jobs:,} ended after {took:.1f} s, {ended / took:.1f} /s;"
                f" processor, ms a job: {each}; together {1_000 * sum(spent.values()) / max(1, ended):.1f}",
                flush=True,
            )
    medians = [statistics.median(values) for values in bulks.values()]
    if len(medians) == 2:
        print(f"ratio of all ended, ours to Slurm's: {medians[0] / medians[1]:.2f}")


def measure_all(sides: list[Side], options: argparse.Namespace) -> None:
    for policy in options.policies:
        for side in sides:
            side.choose(policy)
        measure(sides, options, 1, f"one GPU, one process, {options.jobs:,} jobs, policy {policy} here")
        if options.gangs:
            gangs = f"gangs of {GPUS} over two nodes, {max(1, options.jobs // GPUS):,} jobs"
            measure(sides, options, GPUS, f"{gangs}, policy {policy} here")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--singles", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--gangs", action="store_true")
    parser.add_argument("--policies", nargs="+", default=["fifo"])
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a side to end all")
    options = parser.parse_args()
    print(describe_machine())
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"processes that ran or wanted to in the last minute: {load}")
    FAST["ALLOT_ROUND_SECONDS"] = "5"
    with (
        tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder,
        installation(Path(folder)) as platform,
    ):
        ours = Ours(platform)
        if why := missing():
            print(f"Slurm is not measured: {why}")
            measure_all([ours], options)
            return
        with slurm(Path(folder) / "s") as cluster:
            print(cluster.command("sbatch", "--version").strip())
            measure_all([ours, Theirs(cluster)], options)


if __name__ == "__main__":
    main()
