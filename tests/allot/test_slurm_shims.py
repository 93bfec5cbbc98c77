"""The shims as scripts meet them: programs in PATH, one after another, against the real API."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Attempt, Job, Node
from tenants.models import Role
from tests.allot.conftest import SOURCES
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import gpus_of, make_attempt, make_node, make_tenant, make_user, make_vc

Shell = Callable[[str], str]


@pytest.fixture
def shims(live_server: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shims, signed in as ann."""
    ann = make_user("ann")
    tenant = make_tenant("research", members={ann: Role.MEMBER})
    make_vc("gpu", members=[tenant], guaranteed={"V100": 8})
    make_node("v100-1", gpus=4)
    monkeypatch.setenv("ALLOT_CONFIG", str(tmp_path / "config.json"))
    allot: Allot = signed_in(monkeypatch, str(live_server.url), make_token(ann))
    folder = tmp_path / "bin"
    written = allot("slurm-shims", str(folder))
    assert written.exit_code == 0, written.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun",
    ]  # fmt: skip
    # Written again they are the same; what somebody else put there stays.
    assert allot("slurm-shims", str(folder)).exit_code == 0
    return folder


@pytest.fixture
def shell(shims: Path, tmp_path: Path) -> Shell:
    """Run a script of a user with the shims in front."""
    environment = {
        **os.environ,
        "PATH": f"{shims}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCES),
        "USER": "ann",
    }

    def run(script: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", script],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_script_submits_a_chain_waits_and_reads_the_outcome(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "prep.sh").write_text("#!/bin/bash\n#SBATCH -J prep -p gpu --gres=gpu:1\npython prep.py\n")
    (tmp_path / "train.sh").write_text(
        "#!/bin/bash\n#SBATCH -J train -p gpu --gres=gpu:2 -a 0-1\npython train.py\n"
    )
    said = shell(
        "prep=$(sbatch --parsable prep.sh 2>/dev/null)\n"
        "train=$(sbatch --parsable --dependency=afterok:$prep train.sh 2>/dev/null)\n"
        'squeue -u $USER -h -o "%i %T %j"\n'
        "scontrol hold $prep\n"
        'squeue --me -h -j $prep -o "%r"\n'
        "scontrol release $prep\n"
        "scancel ${train}_1\n"
        'squeue -h -u $USER -o "%i"'
    )
    prep, train = Job.objects.get(name="prep"), Job.objects.filter(name="train").order_by("id")[0]
    assert said.splitlines() == [
        f"{prep.id} PENDING prep",
        f"{train.id}_0 PENDING train",
        f"{train.id}_1 PENDING train",
        "JobHeldUser",
        str(prep.id),
        f"{train.id}_0",
    ]
    make_attempt(prep, gpus_of(Node.objects.get(name="v100-1"))[:1])
    assert shell(f'squeue -h -j {prep.id} -o "%T %N"') == "RUNNING v100-1\n"
    now = timezone.now()
    Attempt.objects.filter(job=prep).update(
        state="ended", outcome="failed", ended_at=now, exit_code=-9, failure="cpu_out_of_memory"
    )
    Job.objects.filter(id=prep.id).update(state="failed", ended_at=now, exit_code=-9)
    read = f"sacct -j {prep.id} -n -X -o JobID,State,ExitCode --parsable2"
    assert shell(read) == f"{prep.id}|OUT_OF_MEMORY|0:9\n"
    assert shell(f'squeue -h -j {prep.id} -o "%T"') == ""


def test_the_cluster_and_a_job_are_described(shell: Shell) -> None:
    assert shell('sinfo -h -o "%P %a %D %t %G"') == "gpu up 1 idle gpu:V100:4\n"
    assert shell("scontrol show hostnames 'n[1-2]'") == "n1\nn2\n"
    job = shell(
        'sbatch --parsable --hold -G 1 -p gpu --comment="a note" --wrap "sleep 1" 2>/dev/null'
    ).strip()
    shown = shell(f"scontrol -o show job {job}")
    assert "JobState=PENDING Reason=JobHeldUser" in shown
    row = Job.objects.get(id=job)
    assert (row.held, row.eligible_at) == (True, None)


def test_a_program_of_another_is_not_overwritten(
    shims: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "srun").write_text("#!/bin/sh\necho mine\n")
    result = signed_in(monkeypatch, "http://127.0.0.1:1", "none")("slurm-shims", str(other))
    assert result.exit_code == 2
    assert [path.name for path in other.iterdir()] == ["srun"]
    assert (other / "srun").read_text() == "#!/bin/sh\necho mine\n"
