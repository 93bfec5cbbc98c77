"""The command of a replica of a job that names a launcher: the launcher's, with all that it has to know.

Pure: what the replica would run by itself, and its environment, in; words out. Ranks are the platform's:
each launcher is given the number of the replica, and none has the replicas find an order among themselves,
so that rank 0 is in the first one. How many replicas there are does not change during an attempt, and no
launcher starts processes again: both are the platform's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nodeagent.messages import Launcher, Replica


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be there where the job runs, and where it comes from."""

    programs: tuple[str, ...]
    install: str


NEEDS: Mapping[Launcher, Needs] = {
    "torchrun": Needs(("torchrun",), "PyTorch (pip install torch)"),
    "accelerate": Needs(("accelerate",), "Accelerate (pip install accelerate)"),
    "deepspeed": Needs(("deepspeed",), "DeepSpeed (pip install deepspeed)"),
    "mpi": Needs(("mpirun", "python3"), "Python and Open MPI or MPICH (apt-get install python3 openmpi-bin)"),
}
LOOK = """\
for program in {programs}; do
  if ! command -v "$program" >/dev/null 2>&1; then
    echo "launcher {launcher}: the program $program is not there. Install {install} where the job runs." >&2
    exit 127
  fi
done
"""
#: DeepSpeed reads the replicas and their processes from a file.
WITH_HOSTS = """\
hosts=$(mktemp) && printf '%s' "$1" >"$hosts" && shift && exec deepspeed --hostfile "$hosts" "$@"
"""


def launched(replica: Replica, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the replica runs: its command by its launcher, one process for each of its GPUs, or one."""
    command = replica.command
    if not replica.launcher:
        return command
    if command[0].endswith(".py"):
        command = ("python3", *command)
    processes = max(len(replica.gpu_indexes), 1)
    match replica.launcher:
        case "torchrun":
            return _start("torchrun", 'exec "$@"', *_torchrun(processes, environment), *command)
        case "accelerate":
            return _start("accelerate", 'exec "$@"', *_accelerate(replica, processes, environment), *command)
        case "deepspeed":
            return _start("deepspeed", WITH_HOSTS, *_deepspeed(processes, environment), *command)
        case "mpi":
            return _start("mpi", 'exec "$@"', "python3", "-c", _mpi_program(), str(processes), *command)


def _start(launcher: Launcher, script: str, *words: str) -> tuple[str, ...]:
    """Return a script with its words; first it says which program is missing, and what to install."""
    needs = NEEDS[launcher]
    look = LOOK.format(launcher=launcher, programs=" ".join(needs.programs), install=needs.install)
    return ("sh", "-c", look + script, "sh", *words)


def _torchrun(processes: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    return (
        "torchrun",
        f"--nnodes={environment['NNODES']}",
        f"--node_rank={environment['NODE_RANK']}",
        f"--nproc_per_node={processes}",
        f"--master_addr={environment['MASTER_ADDR']}",
        f"--master_port={environment['MASTER_PORT']}",
        "--max_restarts=0",
        "--no_python",
    )


def _accelerate(replica: Replica, processes: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    total = processes * int(environment["NNODES"])
    kind = () if replica.gpu_indexes else ("--cpu",)
    return (
        *("accelerate", "launch"),
        f"--num_machines={environment['NNODES']}",
        f"--machine_rank={environment['NODE_RANK']}",
        f"--num_processes={total}",
        f"--main_process_ip={environment['MASTER_ADDR']}",
        f"--main_process_port={environment['MASTER_PORT']}",
        *(("--multi_gpu", "--same_network") if replica.gpu_indexes and total > 1 else kind),
        "--no_python",
    )


def _deepspeed(processes: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    hosts = "".join(f"replica-{rank} slots={processes}\n" for rank in range(int(environment["NNODES"])))
    return (
        hosts,
        "--no_ssh",
        f"--node_rank={environment['NODE_RANK']}",
        f"--master_addr={environment['MASTER_ADDR']}",
        f"--master_port={environment['MASTER_PORT']}",
        "--no_python",
        "--no_local_rank",
        # It counts the devices of a node from 0, and would give the processes those of others.
        *("env", f"CUDA_VISIBLE_DEVICES={environment['CUDA_VISIBLE_DEVICES']}"),
    )


@cache
def _mpi_program() -> str:
    return Path(__file__).with_name("mpi.py").read_text()
