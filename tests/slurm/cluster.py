"""A real Slurm of two nodes with four GPUs each, on this machine: munged, slurmctld and two slurmd.

Everything is in one folder and on loopback, beside whatever else runs here. The GPUs are device files that
lead nowhere: Slurm counts and assigns them as it would real ones.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.patience import PATIENCE_SECONDS, until

NODES = ("n1", "n2")
GPUS = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
#: major 1, minor 3: /dev/null.
NULL_DEVICE = os.makedev(1, 3)
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
GresTypes=gpu
ReturnToService=2
KillWait=2
NodeName=DEFAULT CPUs=8 RealMemory=16000 Gres=gpu:V100:{gpus}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]}
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Return why there can be no Slurm here; "" when there can."""
    if os.geteuid() != 0:
        return "slurmd and the device files of the tests' GPUs need root"
    absent = [program for program in PROGRAMS if shutil.which(program, path=SYSTEM_PATH) is None]
    return f"{absent[0]} is not installed (scripts/slurm installs it)" if absent else ""


class SlurmCluster:
    """The daemons and the operator's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": SYSTEM_PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        folder = self.folder
        for name in ("state", "spool-n1", "spool-n2", "gpus"):
            (folder / name).mkdir(parents=True)
        for index in range(GPUS):
            os.mknod(folder / "gpus" / f"nvidia{index}", stat.S_IFCHR | 0o666, NULL_DEVICE)
        host = socket.gethostname().split(".")[0]
        conf = SLURM_CONF.format(host=host, folder=folder, ports=_free_ports(3), gpus=GPUS)
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        files = f"{folder}/gpus/nvidia[0-{GPUS - 1}]"
        (folder / "gres.conf").write_text(f"NodeName=n[1-2] Name=gpu Type=V100 File={files}\n")
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        own = {
            "key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid",
            "log-file": "munge.log", "seed-file": "munge.seed",
        }  # fmt: skip
        paths = [f"--{option}={folder / name}" for option, name in own.items()]
        self._daemon("munged", "--foreground", "--force", "--num-threads=1", *paths)
        self._until(lambda: (folder / "munge.socket").exists())
        self._daemon("slurmctld", "-D", "-i", "-L", str(folder / "slurmctld.log"))
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node, "-L", str(folder / f"slurmd-{node}.log"))
        self._until(lambda: self.answer("sinfo", "-h", "-o", "%T %D").split() == ["idle", "2"])

    def stop(self) -> None:
        """End all daemons; jobs first, or they would go on without anybody."""
        self.end_all_jobs()
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.send_signal(signal.SIGKILL)
                daemon.wait()

    def end_all_jobs(self) -> None:
        for words in (("--full", "--signal=KILL", "--state=RUNNING"), ()):
            self.answer("scancel", "--user=root", *words)
        self._until(lambda: not self.answer("squeue", "-h"))

    def command(self, *words: str) -> str:
        """Run one of Slurm's commands; return what it writes."""
        ended = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=True)
        return ended.stdout

    def occupy(self, node: str, *, gpus: int) -> str:
        """Submit a job as somebody else would; return its number."""
        words = (f"--nodelist={node}", f"--gres=gpu:{gpus}", "--output=/dev/null", "--wrap=sleep 60")
        return self.command("sbatch", "--parsable", *words).strip()

    def answer(self, *words: str) -> str:
        """Return what a command writes, nothing while there is nobody to answer."""
        try:
            return self.command(*words)
        except subprocess.CalledProcessError:
            return ""

    def jobs(self) -> dict[str, list[str]]:
        """The names of all jobs that Slurm still remembers, with their states."""
        found: dict[str, list[str]] = {}
        for line in self.answer("squeue", "-h", "--states=all", "-o", "%j %T").splitlines():
            name, state = line.split()
            found.setdefault(name, []).append(state)
        return found

    def _daemon(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("ab") as output:
            daemon = subprocess.Popen(words, env=self.environment, stdout=output, stderr=output)
        self.daemons.append(daemon)

    def _until(self, condition: Callable[[], object]) -> None:
        until(condition, self._logs)

    def _logs(self) -> str:
        logs = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.[lo][ou][gt]")]
        return "\n".join(["Slurm; its logs:", *logs])


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    """`python -m tests.slurm.cluster FOLDER`: a Slurm to try things with, until SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(sys.argv[1])
    with slurm(folder), contextlib.suppress(KeyboardInterrupt):
        print(f"export SLURM_CONF={folder}/slurm.conf", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
