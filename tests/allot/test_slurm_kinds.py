"""The kinds of batch scripts that people publish, and what comes over: the table in docs/slurm-users.md."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from allot.errors import WrongUse
from allot.sbatch import translate
from scheduler.jobspec.parsing import parse
from tests.allot.fake_api import FakeApi, running
from tests.allot.in_process import Allot

PAGE = Path(__file__).parents[2] / "docs/slurm-users.md"
DAYS = Path(__file__).parents[1] / "e2e/test_days.py"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A script, and what its job is like. `left_out`: options of which nothing comes over."""

    script: str
    #: Of its first task.
    replicas: int = 1
    gpus: int = 1
    #: Replicas and GPUs of a second task.
    second: tuple[int, int] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


KINDS = {
    "array over the lines of a file": Kind(
        script="#SBATCH --array=1-100%8\n#SBATCH --gres=gpu:1\n#SBATCH -o logs/%A_%a.out\n"
        'ARGS=$(sed -n "${SLURM_ARRAY_TASK_ID}p" args.txt)\npython train.py $ARGS',
        spec={"array": {"indices": "1-100%8"}},
    ),
    "signal before the limit, then requeue": Kind(
        script="#SBATCH --time=4:00:00\n#SBATCH --signal=B:USR1@120\n#SBATCH --requeue\n#SBATCH --gpus=1\n"
        "trap 'scontrol requeue $SLURM_JOB_ID' USR1\npython train.py &\nwait",
        spec={"time_limit": 14_400, "checkpoint": {"grace_seconds": 120}},
    ),
    "chain of dependencies": Kind(
        script="#SBATCH -G 1\n#SBATCH -d afterok:17,afterany:18\npython eval.py",
        spec={"after": [{"job": 17, "when": "succeeded"}, {"job": 18, "when": "ended"}]},
    ),
    "torchrun on two nodes": Kind(
        script="#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_endpoint $head:29500 train.py",
        replicas=2,
        gpus=4,
    ),
    "accelerate": Kind(
        script="#SBATCH -N 2 --ntasks-per-node=1 --gres=gpu:4\n#SBATCH --exclusive\n"
        "srun bash -c 'accelerate launch --num_machines $SLURM_NNODES --machine_rank $SLURM_NODEID train.py'",
        replicas=2,
        gpus=4,
        left_out=("--exclusive",),
    ),
    "DeepSpeed with a host file": Kind(
        script="#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4\n"
        "scontrol show hostnames $SLURM_NODELIST | sed 's/$/ slots=4/' > hostfile\n"
        "srun deepspeed --hostfile hostfile train.py",
        replicas=2,
        gpus=4,
    ),
    "MPI with all options on one line": Kind(
        script="#SBATCH -J mpi -N 2 -n 8 --gpus-per-task=1 -t 30 --mem-per-gpu=8G\nsrun --mpi=pmix ./a.out",
        replicas=8,
        spec={"name": "mpi", "time_limit": 1_800},
    ),
    "two kinds of workers": Kind(
        script="#SBATCH -N 1 --gpus-per-node=4 --ntasks-per-node=1\n#SBATCH hetjob\n#SBATCH -n 8 -c 4\n"
        "srun --het-group=0 python learn.py : --het-group=1 python act.py",
        gpus=4,
        second=(8, 0),
    ),
    "modules with conda and apptainer": Kind(
        script="#SBATCH --gpus=2\n#SBATCH --chdir=/scratch/me\nmodule load cuda\nconda activate torch\n"
        "apptainer exec --nv image.sif python train.py",
        gpus=2,
        left_out=("--chdir=/scratch/me",),
    ),
    "Jupyter through a tunnel": Kind(
        script="#SBATCH --gres=gpu:1\n#SBATCH --time=08:00:00\nport=$(shuf -i 8000-9999 -n 1)\n"
        'echo "ssh -L $port:$(hostname):$port login"\njupyter lab --no-browser --port=$port',
        spec={"time_limit": 28_800},
    ),
    "pyxis": Kind(
        script="#SBATCH --gpus=1\n#SBATCH --container-image=nvcr.io\\#nvidia\\/pytorch:24.10-py3\n"
        "#SBATCH --container-mounts=/data:/data\npython train.py",
        spec={"image": "nvcr.io/nvidia/pytorch:24.10-py3"},
        left_out=("--container-mounts=/data:/data",),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_over_of_each_kind(name: str) -> None:
    kind = KINDS[name]
    made = translate(f"#!/bin/bash\n{kind.script}\n", "job")
    parse(made.spec)
    assert not made.blocked
    task: dict[str, Any] = made.spec["tasks"][0]
    sizes = [(task["replicas"], task["resources"]["gpu"]) for task in made.spec["tasks"]]
    assert sizes == [(kind.replicas, kind.gpus), *([kind.second] if kind.second else ())]
    assert {**made.spec, **kind.spec} == made.spec
    assert tuple(note.option for note in made.notes if note.how == "not possible") == kind.left_out
    assert subprocess.run(["bash", "-n", "-c", task["command"][-2]], check=False).returncode == 0


def test_typing_mistakes_are_told_by_line() -> None:
    for line, option in (("#SBATCH --job_name=x", "--job_name=x"), ("#SBATCH --gpu=2", "--gpu=2")):
        made = translate(f"#!/bin/bash\n#SBATCH -G 1\n{line}\ntrue\n", "job")
        (note,) = [note for note in made.notes if note.line == 3]
        assert (note.option, note.how) == (option, "not possible")
    # An en dash, as word processors make of two hyphens.
    with pytest.raises(WrongUse, match="Line 2: '\u2013time=10' is not an option of sbatch"):
        translate("#!/bin/bash\n#SBATCH \u2013time=10\n#SBATCH -G 1\ntrue\n", "job")
    made = translate("#!/bin/bash\n#SBTACH --time=10\n#SBATCH -G 1\ntrue\n", "job")
    (note,) = [note for note in made.notes if note.line == 2]
    assert (note.how, note.what) == (
        "not possible",
        "it does not begin with #SBATCH, so Slurm ignores it, too",
    )


def test_one_index_of_an_array_is_requeued(allot: Allot, api: FakeApi) -> None:
    for number, index in ((12, 0), (13, 3), (14, 4)):
        array = {"number": 12, "index": index, "size": 3, "at_most": None}
        api.add(number, name="sweep", array=array, **running())
    requeued = allot("slurm", "scontrol", "requeue", "12_3")
    assert requeued.exit_code == 0, requeued.stderr
    assert [path for method, path, *_ in api.requests if method == "POST"] == ["/jobs/13/requeue"]


def test_the_table_has_every_kind_and_its_tests() -> None:
    rows = re.findall(r"^\| ([^|]+?) \|.*\| (`test_[^|]+`) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 13
    others = {"typing mistakes", "array with requeue of one index"}
    assert {kind for kind, _ in rows} == {*KINDS, *others}
    tests = "".join(path.read_text() for path in (Path(__file__), DAYS))
    for kind, named in rows:
        names = re.findall(r"`(\w+)`", named)
        assert [name for name in names if f"def {name}(" not in tests] == [], kind
        assert (test_what_comes_over_of_each_kind.__name__ in names) == (kind in KINDS), kind
