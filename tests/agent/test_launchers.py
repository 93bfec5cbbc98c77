"""Launchers: what replicas run where a job names one. Programs that only tell what they were given stand for
those that are heavy; MPI is met as it is where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.launching import commands, mpi
from nodeagent.messages import DesiredPart, Launcher
from tests.agent.builders import make_part, make_replica
from tests.agent.runtime_node import RuntimeNode
from tests.patience import until_async

KEY = {"ALLOT_LAUNCH_KEY": "of this attempt"}
#: Tells its words and what it was given in the environment, as one line.
TELLS = """\
#!{python}
import json, os, sys
words = sys.argv[1:]
hosts = [open(word).read() for name, word in zip(words, words[1:]) if name == "--hostfile"]
names = ("RANK", "CUDA_VISIBLE_DEVICES")
print(json.dumps({{"words": words, "hosts": hosts, "env": {{name: os.environ[name] for name in names}}}}))
"""
#: As MPICH's does, it runs the program here and, by its agent, in the other replica.
MPIRUN = """\
#!{python}
import os, shlex, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print({version!r})
    sys.exit()
print("hosts", *open(words[words.index("-f") + 1]).read().split(), flush=True)
program = words[words.index("sh"):]
place = {{"PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}}
there = ["PMI_RANK=1", *[f"{{name}}={{value}}" for name, value in place.items()]]
agent = [os.environ["HYDRA_LAUNCHER_EXEC"], "-x", "allot-replica-1", *there, *map(shlex.quote, program)]
here = subprocess.Popen(program, env={{**os.environ, **place, "PMI_RANK": "0"}})
sys.exit(max(subprocess.Popen(agent).wait(), here.wait()))
"""
SAVES = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    """One whose jobs see the programs of the test, and the MPI that is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    installed = shutil.which("mpirun")
    readable = [folder, *([Path(installed).parents[1]] if installed else [])]
    node = RuntimeNode(tmp_path, readable_folders=tuple(map(str, readable)))
    yield node
    await node.clean_up()


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def launched(launcher: Launcher, *command: str, gpus: int = 2, replicas: int = 2, **env: str) -> DesiredPart:
    """Return an attempt of replicas with GPUs of their own on one node."""
    made = [
        make_replica(
            *command,
            rank=rank,
            gpu_indexes=tuple(range(rank * gpus, (rank + 1) * gpus)),
            launcher=launcher,
            env={**KEY, **env},
        )
        for rank in range(replicas)
    ]
    return make_part(*made)


async def told_by(
    node: RuntimeNode, folder: Path, launcher: Launcher, name: str, **changes: Any
) -> list[dict[str, Any]]:
    """Return what a program of that name was given on each replica."""
    program(folder, name, TELLS.format(python=sys.executable))
    part = launched(launcher, "python", "train.py", "--lr", "1", PATH=f"{folder}:/usr/bin:/bin", **changes)
    outcome = await node.run(part)
    assert outcome.category == "", node.text()
    return [json.loads(node.text(rank=replica.rank)) for replica in part.replicas]


async def test_torchrun_is_told_of_all_replicas_and_of_the_place_where_they_meet(
    node: RuntimeNode, tmp_path: Path
) -> None:
    first, second = await told_by(node, tmp_path / "bin", "torchrun", "torchrun")
    port = node.ports[1]
    assert second["words"] == [
        *("--nnodes=2", "--node_rank=1", "--nproc_per_node=2", "--master_addr=127.0.0.1"),
        *(f"--master_port={port}", "--max_restarts=0", "--no_python", "python", "train.py", "--lr", "1"),
    ]
    assert first["words"][1] == "--node_rank=0"


async def test_accelerate_is_told_how_many_processes_there_are_in_all(
    node: RuntimeNode, tmp_path: Path
) -> None:
    _, second = await told_by(node, tmp_path / "bin", "accelerate", "accelerate")
    assert second["words"] == [
        *(
            "launch",
            "--num_machines=2",
            "--machine_rank=1",
            "--num_processes=4",
            "--main_process_ip=127.0.0.1",
        ),
        *(f"--main_process_port={node.ports[1]}", "--multi_gpu", "--same_network", "--no_python"),
        *("python", "train.py", "--lr", "1"),
    ]


@pytest.mark.parametrize(
    ("gpus", "replicas", "kind"),
    [(1, 1, []), (0, 2, ["--cpu"]), (0, 1, ["--cpu"]), (2, 1, ["--multi_gpu", "--same_network"])],
)
async def test_accelerate_is_not_asked_for_many_gpus_where_there_is_one_or_none(
    node: RuntimeNode, tmp_path: Path, gpus: int, replicas: int, kind: list[str]
) -> None:
    first, *_ = await told_by(
        node, tmp_path / "bin", "accelerate", "accelerate", gpus=gpus, replicas=replicas
    )
    words = first["words"]
    assert words[6 : words.index("--no_python")] == kind


async def test_deepspeed_gets_a_file_of_hosts_and_leaves_each_replica_its_devices(
    node: RuntimeNode, tmp_path: Path
) -> None:
    _, second = await told_by(node, tmp_path / "bin", "deepspeed", "deepspeed")
    assert second["hosts"] == ["replica-0 slots=2\nreplica-1 slots=2\n"]
    assert second["words"][2:] == [
        *("--no_ssh", "--node_rank=1", "--master_addr=127.0.0.1", f"--master_port={node.ports[1]}"),
        *("--no_python", "--no_local_rank", "env", "CUDA_VISIBLE_DEVICES=2,3"),
        *("python", "train.py", "--lr", "1"),
    ]


def test_a_script_alone_is_run_by_python() -> None:
    environment = {"NNODES": "1", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    replica = make_replica("train.py", "x", launcher="torchrun")
    assert commands.launched(replica, environment)[-4:] == ("--no_python", "python3", "train.py", "x")


def test_without_a_launcher_a_command_is_what_it_was() -> None:
    assert commands.launched(make_replica("train.py"), {}) == ("train.py",)


@pytest.mark.parametrize(
    ("launcher", "missing", "install"),
    [
        ("torchrun", "torchrun", "pip install torch"),
        ("accelerate", "accelerate", "pip install accelerate"),
        ("deepspeed", "deepspeed", "pip install deepspeed"),
        ("mpi", "mpirun", "apt-get install python3 openmpi-bin"),
    ],
)
async def test_a_launcher_that_is_not_there_ends_the_job_and_says_what_to_install(
    node: RuntimeNode, tmp_path: Path, launcher: Launcher, missing: str, install: str
) -> None:
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    outcome = await node.run(launched(launcher, "true", replicas=1, PATH=str(tmp_path / "bin")))
    assert (outcome.exit_code, outcome.category) == (127, "start_failed")
    assert outcome.message.startswith(f"launcher {launcher}: the program {missing} is not there. Install ")
    assert install in outcome.message


class TestMpi:
    """What replaces ssh between replicas."""

    def part(self, tmp_path: Path, script: str, version: str = "HYDRA build details:") -> DesiredPart:
        program(tmp_path / "bin", "mpirun", MPIRUN.format(python=sys.executable, version=version))
        path = f"{tmp_path / 'bin'}:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
        return launched("mpi", "sh", "-c", script, PATH=path)

    async def test_processes_run_in_the_replicas_that_mpirun_names(
        self, node: RuntimeNode, tmp_path: Path
    ) -> None:
        script = "echo $RANK of $WORLD_SIZE, $CUDA_VISIBLE_DEVICES in $PWD, ${ALLOT_LAUNCH_KEY:-no key}"
        outcome = await node.run(self.part(tmp_path, script))
        assert outcome.category == "", node.text()
        folder = node.runtime.folder(1)
        assert node.text().splitlines()[0] == "hosts localhost:2 allot-replica-1:2"
        assert f"0 of 2, 0,1 in {folder.work(0)}, no key" in node.text()
        assert node.text(rank=1) == f"1 of 2, 2,3 in {folder.work(1)}, no key\n"

    async def test_a_process_that_fails_in_another_replica_ends_the_job_as_it_ended(
        self, node: RuntimeNode, tmp_path: Path
    ) -> None:
        outcome = await node.run(self.part(tmp_path, '[ "$RANK" = 0 ] || { echo broken; exit 7; }'))
        assert (outcome.exit_code, outcome.category) == (7, "user_error")
        assert node.text(rank=1) == "broken\n"

    async def test_processes_hear_that_the_job_is_to_stop_and_mpirun_waits_for_them(
        self, node: RuntimeNode, tmp_path: Path
    ) -> None:
        await node.start(self.part(tmp_path, SAVES))
        await until_async(lambda: "up" in node.text() and "up" in node.text(rank=1))
        node.runtime.stop(1, 60.0)
        outcome = await node.end_of()
        assert outcome.category == "stopped"
        assert [node.text().splitlines()[-1], node.text(rank=1).splitlines()[-1]] == ["saved", "saved"]

    async def test_open_mpi_is_not_begun_where_it_would_take_two_replicas_for_one(
        self, node: RuntimeNode, tmp_path: Path
    ) -> None:
        outcome = await node.run(self.part(tmp_path, "echo begun", version="mpirun (Open MPI) 5.0"))
        assert (outcome.exit_code, outcome.category) == (126, "start_failed")
        assert "Open MPI runs one replica on a machine" in outcome.message
        assert "begun" not in node.text() + node.text(rank=1)

    def test_who_has_not_the_key_is_neither_let_in_nor_obeyed(self, replicas: list[mpi.Replica]) -> None:
        first, second = replicas
        second.key = b"of another attempt"
        ours, theirs = socket.socketpair()
        said = (1, "machine", "nonce")
        with ours, theirs:
            mpi.Line(theirs).say([*said, second.proof("any", *said)])
            with pytest.raises(ValueError, match="not of this gang"):
                mpi.Other(first, ours)

    def test_an_order_that_is_not_signed_is_not_carried_out(
        self, replicas: list[mpi.Replica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, second = replicas
        ours, theirs = socket.socketpair()
        monkeypatch.setattr(mpi, "come", lambda _: (mpi.Line(ours), "nonce"))
        mark = tmp_path / "mark"
        mpi.Line(theirs).say([1, f"touch {mark}", "no proof"])
        with ours, theirs:
            assert mpi.follow(second) == 1
        assert not mark.exists()

    async def test_the_mpi_that_is_installed_runs_a_program_in_a_replica(self, node: RuntimeNode) -> None:
        if shutil.which("mpirun") is None:
            pytest.skip("needs mpirun: apt-get install openmpi-bin, or pip install mpich")
        met = 'touch "met-$RANK"; until [ -e met-0 ] && [ -e met-1 ]; do sleep 0.05; done; echo met'
        path = f"{os.environ['PATH']}:{os.path.dirname(sys.executable)}"
        outcome = await node.run(launched("mpi", "sh", "-c", met, replicas=1, PATH=path))
        assert outcome.category == "", node.text()
        assert node.text().splitlines() == ["met", "met"]

    async def test_the_mpich_that_is_installed_runs_a_program_in_two_replicas(
        self, node: RuntimeNode
    ) -> None:
        said = (
            subprocess.run(["mpirun", "--version"], capture_output=True, check=False)
            if shutil.which("mpirun")
            else None
        )
        if said is None or b"HYDRA" not in said.stdout:
            pytest.skip("needs the mpirun of MPICH: apt-get install mpich, or pip install mpich")
        path = f"{os.environ['PATH']}:{os.path.dirname(sys.executable)}"
        outcome = await node.run(
            launched("mpi", "sh", "-c", "echo $RANK of $CUDA_VISIBLE_DEVICES", PATH=path)
        )
        assert outcome.category == "", node.text()
        assert sorted(node.text().splitlines()) == ["0 of 0,1", "1 of 0,1", "2 of 2,3", "3 of 2,3"]


@pytest.fixture
def replicas(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[mpi.Replica]]:
    """Two of one attempt, in this process."""
    before = signal.getsignal(signal.SIGTERM)
    made = []
    for rank in ("0", "1"):
        for name, value in {
            **KEY,
            "RANK": rank,
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "x",
            "MASTER_PORT": "1",
        }.items():
            monkeypatch.setenv(name, value)
        made.append(mpi.Replica())
    yield made
    signal.signal(signal.SIGTERM, before)
    for replica in made:
        shutil.rmtree(replica.notes)
    for name in ("ALLOT_LAUNCH_FOLDER", "ALLOT_LAUNCH_NOTES"):
        os.environ.pop(name, None)
