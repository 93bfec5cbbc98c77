"""The shims as scripts meet them: programs in PATH, one after another, against the real API."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from allot.slurm.relying import names_in
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


class TestWorkingFolder:
    """Slurm starts a script where it was submitted; here that folder travels when somebody says so."""

    @pytest.fixture(autouse=True)
    def _script(self, tmp_path: Path, settings: Any) -> None:
        archives = str(tmp_path / "archives")
        settings.CONFIG = settings.CONFIG.model_copy(update={"archives_folder": archives})
        project = tmp_path / "project"
        project.mkdir()
        (project / "train.py").write_text("print(1)")
        (project / "conf.yaml").write_text("a: 1")
        (project / "job.sh").write_text(
            "#!/bin/bash\n#SBATCH -J train -p gpu -G 1\n# python other.py\n"
            "python $SLURM_SUBMIT_DIR/train.py --config=conf.yaml /etc/hosts ../project/train.py\n"
        )
        (project / "alone.sh").write_text("#!/bin/bash\n#SBATCH -p gpu -G 1\nnvidia-smi\n")

    def archive(self) -> Any:
        """That of the newest job."""
        return Job.objects.order_by("-id")[0].archive

    def test_a_script_that_names_its_files_is_told_that_these_stay(self, shell: Shell) -> None:
        said = shell("cd project; sbatch job.sh 2>&1 >/dev/null")
        assert "sbatch: the script names train.py, conf.yaml in ., which stays here" in said
        assert "sbatch --upload sends it." in said
        assert self.archive() is None
        assert "which stays here" not in shell("cd project; sbatch alone.sh 2>&1")

    def test_the_option_sends_the_folder_and_standard_output_stays_what_it_was(self, shell: Shell) -> None:
        said = shell("cd project; sbatch --upload --parsable alone.sh 2>../said")
        job = Job.objects.get()
        assert said == f"{job.id}\n"
        assert (self.archive().files, "Packed 4 files" in shell("cat said")) == (4, True)
        shell("sbatch --upload --chdir=project project/alone.sh 2>/dev/null")
        assert self.archive() == job.archive

    def test_the_variable_sends_it_where_a_script_needs_it(self, shell: Shell) -> None:
        said = shell("cd project; ALLOT_SBATCH_UPLOAD=auto sbatch job.sh 2>&1 >/dev/null")
        assert "so the folder is sent (ALLOT_SBATCH_UPLOAD=auto)" in said
        assert self.archive().files == 4
        shell("cd project; ALLOT_SBATCH_UPLOAD=auto sbatch alone.sh 2>/dev/null")
        assert self.archive() is None
        shell("cd project; ALLOT_SBATCH_UPLOAD=always sbatch alone.sh 2>/dev/null")
        assert self.archive() is not None
        shell("cd project; ALLOT_SBATCH_UPLOAD=always sbatch --no-upload job.sh 2>/dev/null")
        assert self.archive() is None
        said = shell("cd project; HOME=$PWD ALLOT_SBATCH_UPLOAD=auto sbatch job.sh 2>&1")
        assert "a home folder is not sent unasked" in said
        assert self.archive() is None

    def test_what_can_not_be_is_refused_and_nothing_is_submitted(self, shell: Shell) -> None:
        for line, problem in (
            ("ALLOT_SBATCH_UPLOAD=yes sbatch job.sh", "'yes' is none of never, auto and always"),
            ("sbatch --upload --no-upload job.sh", "give either --upload or --no-upload"),
            ("ALLOT_UPLOAD_BYTES=10 sbatch --upload job.sh", "more than the 0.0 MiB that ALLOT_UPLOAD_BYTES"),
            ("sbatch --upload --chdir=nowhere job.sh", "there is no such folder"),
        ):
            assert problem in shell(f"cd project; {line} 2>&1 && exit 1; true")
        shell("cd project; sbatch --test-only --upload job.sh 2>/dev/null")
        assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("python -m tool.main", ["tool", "tool/main.py"]),
        ("source ./env.sh && cd src/", ["env.sh", "src"]),
        ("cat 'a file' > out.txt", ["a file"]),
        ("srun -n 2 python ${SLURM_SUBMIT_DIR}/env.sh", ["env.sh"]),
        ('A=$(sed -n "${SLURM_ARRAY_TASK_ID}p" env.sh)', ["env.sh"]),
        ('A="$(sed -n "${SLURM_ARRAY_TASK_ID}p" env.sh)"', ["env.sh"]),
        ("B=`cat env.sh`; while read l; do echo $l; done <'a file'", ["env.sh", "a file"]),
        ("echo 'over\nseveral lines' env.sh", ["env.sh"]),
        ("# env.sh\nls /env.sh ~/env.sh ../env.sh $HOME/env.sh . ..", []),
    ],
)
def test_names_in_a_folder(tmp_path: Path, script: str, named: list[str]) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "src").mkdir()
    for name in ("env.sh", "a file", "tool/main.py"):
        (tmp_path / name).touch()
    assert names_in(str(tmp_path), script) == named


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
