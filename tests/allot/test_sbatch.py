"""Batch scripts of Slurm as specifications."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from allot.batch_shell import own_script
from allot.describe import task_line
from allot.errors import WrongUse
from allot.sbatch import options_of, translate
from allot.sbatch_options import QOS, Site, seconds_of
from scheduler.jobspec.parsing import parse

SITE = Site({"gpu": "research"}, ["vision", "research"])

# One script of each kind: its options and body, and (replicas, GPUs, CPUs, memory) of the job.
KINDS: dict[str, tuple[str, tuple[int, int, int, str | None]]] = {
    "one GPU": ("#SBATCH -J a\n#SBATCH --gres=gpu:1\n#SBATCH --mem=16G\npython a.py", (1, 1, 1, "16GiB")),
    "model": ("#SBATCH --gres=gpu:a100:4\n#SBATCH -c 8\npython a.py", (1, 4, 8, None)),
    "torchrun, a launcher a node": (
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\nsrun torchrun a.py",
        (2, 8, 1, None),
    ),
    "a rank a GPU": (
        "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
        "#SBATCH --mem=64G\nsrun python a.py",
        (8, 1, 1, "16GiB"),
    ),
    "gpus in all": ("#SBATCH -n 4 -G 8\nsrun python a.py", (4, 2, 1, None)),
    "gpus-per-task": ("#SBATCH -n 3\n#SBATCH --gpus-per-task=2\nsrun python a.py", (3, 2, 1, None)),
    "mem-per-cpu": ("#SBATCH -c 6 --mem-per-cpu=2G -G 1\npython a.py", (1, 1, 6, "12GiB")),
    "mem-per-gpu": ("#SBATCH -G 2\n#SBATCH --mem-per-gpu=500\npython a.py", (1, 2, 1, "1000MiB")),
    "much memory": ("#SBATCH -G 1\n#SBATCH --mem=1031521M\npython a.py", (1, 1, 1, "1031521MiB")),
    "fewer tasks than nodes": (
        "#SBATCH -N 2 -n 1\n#SBATCH --gpus-per-node=2\nsrun python a.py",
        (1, 2, 1, None),
    ),
    "no srun": ("#SBATCH -N 2\n#SBATCH --gpus-per-node=4\npython a.py", (1, 4, 1, None)),
    "disabled lines": (
        '##SBATCH -G 8\n# SBATCH -G 8\n#SBATCH --gpus=1 # -G 4\n#SBATCH -J "x y"\ntrue\n#SBATCH -G 9',
        (1, 1, 1, None),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_of_each_kind_becomes_replicas_and_resources(kind: str) -> None:
    text, (replicas, gpus, cpus, memory) = KINDS[kind]
    made = translate("#!/bin/bash\n" + text, "job")
    parse(made.spec)  # What the server would say of it.
    task: dict[str, Any] = made.spec["tasks"][0]
    resources = task["resources"]
    assert not made.blocked
    assert (task["replicas"], resources["gpu"], resources["cpu"], resources.get("memory")) == (
        replicas, gpus, cpus, memory,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "how", "fields"),
    [
        ("--time=1-02:00:00", "translated", {"time_limit": 93600}),
        ("--job-name='a b'", "approximated", {"name": "a-b"}),
        ("-p gpu", "translated", {"virtual_cluster": "research"}),
        ("-p other", "not possible", {}),
        ("-A vision", "translated", {"tenant": "vision"}),
        ("--account=vision", "translated", {"tenant": "vision"}),
        ("-q preemptible", "approximated", {"guarantee": "opportunistic"}),
        ("--qos=high", "approximated", {"priority": 50}),
        ("--qos=gpu_long", "not possible", {}),
        ("-H", "translated", {"hold": True}),
        ("--hold", "translated", {"hold": True}),
        ("--signal=B:USR1@60", "approximated", {"checkpoint": {"grace_seconds": 60}}),
        ("--mail-type=END,FAIL", "translated", {"notify": {"email": ["end", "failure"]}}),
        ("--no-requeue", "approximated", {"retry": {"max_attempts": 1}}),
        ("--export=ALL", "not possible", {}),
        ("--reservation=paper", "translated", {"reservation": "paper"}),
        ("--begin=2026-12-01T18:00:00+00:00", "translated", {"begin": "2026-12-01T18:00:00+00:00"}),
        (
            "-d afterok:17:18,afterany:19,singleton",
            "translated",
            {
                "after": [
                    {"job": 17, "when": "succeeded"},
                    {"job": 18, "when": "succeeded"},
                    {"job": 19, "when": "ended"},
                ],
                "singleton": True,
            },
        ),
        (
            "--dependency=after:4,afternotok:5",
            "translated",
            {
                "after": [
                    {"job": 4, "when": "started"},
                    {"job": 5, "when": "failed"},
                ]
            },
        ),
        ("-a 0-15:4%2", "translated", {"array": {"indices": "0-15:4%2"}}),
        ("--kill-on-invalid-dep=no", "translated", {"on_unmet": "wait"}),
        (
            r"--container-image=docker://nvcr.io\#nvidia/cuda:12",
            "translated",
            {"image": "nvcr.io/nvidia/cuda:12"},
        ),
        ("--container-image=ubuntu", "translated", {"image": "ubuntu"}),
        ("--container-image=/images/torch.sqsh", "not possible", {}),
        (r"--container-image=me@nvcr.io\#nvidia/cuda:12", "not possible", {}),
    ],
)
def test_each_line_says_what_became_of_it(option: str, how: str, fields: dict[str, Any]) -> None:
    made = translate(f"#!/bin/sh\n#SBATCH -G 1\n#SBATCH {option}\ntrue\n", "job", SITE)
    assert (made.notes[1].line, made.notes[1].how) == (3, how)
    assert {**made.spec, **fields} == made.spec
    parse(_without_tenant(made.spec))


def test_an_account_that_is_no_tenant_is_named_with_those_that_are() -> None:
    made = translate("#!/bin/sh\n#SBATCH -G 1\n#SBATCH -A astro\ntrue\n", "job", SITE)
    assert "tenant" not in made.spec
    assert made.notes[1].what == (
        "ignored: it is not a tenant of yours (you have research, vision); choose one with --tenant"
    )


def test_every_qos_that_is_known_gives_a_field_of_the_specification() -> None:
    for name in QOS:
        made = translate(f"#!/bin/sh\n#SBATCH -G 1 -q {name.upper()}\ntrue\n", "job")
        assert made.notes[1].how == "approximated"
        parse(made.spec)


def test_a_script_for_cpus_alone_is_a_job_without_gpus() -> None:
    made = translate("#!/bin/bash\n#SBATCH -c 4 --mem=8G\npython tokenize.py\n", "job")
    assert made.spec["tasks"][0]["resources"] == {"gpu": 0, "cpu": 4, "memory": "8GiB"}
    assert not made.blocked
    parse(made.spec)


def _without_tenant(spec: dict[str, Any]) -> dict[str, Any]:
    """The part of it that is the specification; for whom it is stands beside it."""
    return {name: value for name, value in spec.items() if name != "tenant"}


def test_a_begin_time_becomes_an_instant() -> None:
    before = datetime.now().astimezone().replace(microsecond=0)
    made = translate("#!/bin/bash\n#SBATCH -G 1 --begin=now+1hour\ntrue\n", "job")
    assert not made.blocked
    begins = datetime.fromisoformat(made.spec["begin"])
    assert timedelta(hours=1) <= begins - before <= timedelta(hours=1, minutes=1)
    parse(made.spec)


def test_what_would_be_another_job_is_blocked() -> None:
    assert translate("#!/bin/bash\n#SBATCH -n 3 -G 1\nsrun true\n", "job").blocked


def test_times_and_bad_input() -> None:
    assert [seconds_of(t) for t in ("90", "1:30", "1:00:00", "2-0", "0")] == [5400, 90, 3600, 172800, None]
    for line in (
        "--dependency=aftercorr:7",
        "-d afterok:1?afterok:2",
        "--time=soon",
        "--nodes=x",
        "--mem=lots",
        "--hold=no",
        "'open",
        "word",
    ):
        with pytest.raises(WrongUse, match="Line 2"):
            translate(f"#!/bin/bash\n#SBATCH {line}\n", "job")
    with pytest.raises(WrongUse, match="python"):
        translate("#!/usr/bin/env python\n#SBATCH -G 1\n", "job")
    assert options_of("#!/bin/bash\n#SBATCH -N2\n#SBATCH -HN 3\n") == [
        (2, "nodes", "2"), (3, "hold", None), (3, "nodes", "3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--nodes=0-4", "--nodes=0-4: 0 is not a whole number from 1."),
        ("--ntasks=two", "--ntasks=two is not a whole number from 1."),
    ],
)
def test_a_wrong_number_is_quoted_as_it_was_written(option: str, told: str) -> None:
    with pytest.raises(WrongUse) as refused:
        translate(f"#!/bin/bash\n#SBATCH {option}\ntrue\n", "run.sh")
    assert str(refused.value) == f"Line 2: {told}"


@pytest.mark.parametrize(
    "option",
    [
        "--gpus=a100:1,v100:1",
        "--gpus=2k",
        "--gpus-per-node=a100:2:3",
        "--gres=gpu:a100:x",
        "--gres=gpu:a100:2(S:0-1)",
        "--gres=gpu:a100:1,gpu:v100:1",
    ],
)
def test_gpus_that_are_not_a_number_of_one_model_are_refused(option: str) -> None:
    with pytest.raises(WrongUse, match=r"Line 2: --g.* of one model"):
        translate(f"#!/bin/bash\n#SBATCH {option}\ntrue\n", "run.sh")


@pytest.mark.parametrize(
    ("option", "gpus", "models"),
    [
        ("--gres=gpu", 1, None),
        ("--gres=gpu:2080ti", 1, ["2080ti"]),
        ("--gres=nvme:1,gpu:a100:2", 2, ["a100"]),
        ("--gres=gres:gpu:2", 2, None),
        ("--gpus=H100-80.GB:4", 4, ["H100-80.GB"]),
        ("--gres=gpu:0", 0, None),
        ("--gpus=a100:0", 0, None),
    ],
)
def test_gpus_of_each_form(option: str, gpus: int, models: list[str] | None) -> None:
    made = translate(f"#!/bin/bash\n#SBATCH {option}\ntrue\n", "job")
    resources = made.spec["tasks"][0]["resources"]
    assert (made.blocked, resources["gpu"], resources.get("gpu_model")) == (False, gpus, models)
    parse(made.spec)


@pytest.mark.parametrize(
    ("script", "line", "resources"),
    [
        ("--gpus=1", ("gres", "gpu:4"), {"gpu": 4, "cpu": 1}),
        ("--gpus=a100:1", ("gres", "gpu:h100:2"), {"gpu": 2, "cpu": 1, "gpu_model": ["h100"]}),
        ("-n 4 --gpus-per-task=1", ("gpus", "8"), {"gpu": 2, "cpu": 1}),
        ("--mem-per-cpu=1G -c 2", ("mem", "16G"), {"gpu": 0, "cpu": 2, "memory": "16GiB"}),
        ("-G 2 -c 8", ("cpus-per-gpu", "3"), {"gpu": 2, "cpu": 6}),
    ],
)
def test_an_option_of_the_line_takes_the_place_of_all_that_ask_for_the_same(
    script: str, line: tuple[str, str], resources: dict[str, Any]
) -> None:
    made = translate(f"#!/bin/bash\n#SBATCH {script}\nsrun true\n", "job", more=[line])
    assert made.spec["tasks"][0]["resources"] == resources
    assert next(note.option for note in made.notes if note.line == 0) == "--" + "=".join(line)


def test_requeue_of_the_line_wins() -> None:
    for script, line, retry in (
        ("--no-requeue", "requeue", None),
        ("--requeue", "no-requeue", {"max_attempts": 1}),
        ("--no-requeue --requeue", "hold", None),
    ):
        made = translate(f"#!/bin/bash\n#SBATCH {script}\ntrue\n", "job", more=[(line, None)])
        assert made.spec.get("retry") == retry


@pytest.mark.parametrize("script", ["", "\n", "echo sh\n", "#SBATCH -G 1\necho hi\n"])
def test_a_script_whose_first_line_names_no_shell_is_refused(script: str) -> None:
    with pytest.raises(
        WrongUse, match=r"its first line is '.*', but it must name a shell, such as '#!/bin/bash'"
    ):
        translate(script, "job")


def test_a_script_with_dos_line_ends_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"DOS line ends \(\\r\\n\)"):
        translate("#!/bin/sh\r\n#SBATCH --time=10\r\nhostname\r\n", "job")


def test_the_image_of_steps_is_that_of_the_job_where_all_have_one() -> None:
    head = "#!/bin/bash\n#SBATCH -G 1\n"
    one = "# srun --container-image=old a\nsrun -l \\\n  --container-image 'nvcr.io#nvidia/cuda:12' a\n"
    made = translate(head + one + "srun --container-image=nvcr.io#nvidia/cuda:12 b\n", "job")
    assert made.spec["image"] == "nvcr.io/nvidia/cuda:12"
    (note,) = [note for note in made.notes if note.option == "srun --container-image"]
    assert (note.how, "all of the script" in note.what) == ("approximated", True)
    parse(made.spec)
    several = translate(head + "srun --container-image=a x\nsrun --container-image=b x\n", "job")
    assert "image" not in several.spec
    assert [note.how for note in several.notes if note.option.startswith("srun ")] == ["not possible"]
    given = translate(head + "#SBATCH --container-image=c\nsrun --container-image=a x\n", "job")
    assert given.spec["image"] == "c"


def test_a_script_finds_the_folder_and_srun_runs_the_command_alone(tmp_path: Path) -> None:
    body = 'cd $SLURM_SUBMIT_DIR\nsrun --container-image nvcr.io#cuda --gres gpu:1 -l --mem=0 echo "$PWD"\n'
    command = translate("#!/bin/bash\n#SBATCH -G 1\n" + body, "job").spec["tasks"][0]["command"]
    environment = {"ALLOT_JOB": "7", "ALLOT_NODE": "n", "PATH": "/usr/bin:/bin", "HOME": "/"}
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{tmp_path}\n"


def test_errors_have_the_lines_of_the_script_and_people_see_no_other() -> None:
    script = '#!/bin/bash\n#SBATCH -G 1 -J "it\'s"\ntrue\nnosuchcommand\necho $LINENO $SLURM_JOB_NAME\n'
    (task,) = translate(script, "job").spec["tasks"]
    environment = {"ALLOT_JOB": "7", "ALLOT_NODE": "n", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(task["command"], env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr == "script: line 4: nosuchcommand: command not found\n"
    assert ran.stdout == "5 it-s\n"
    assert own_script(task["command"][2]) == script
    assert "eval" not in task_line(task)


def test_the_script_finds_its_variables_and_srun() -> None:
    body = 'srun -n 4 --gres=gpu:1 echo "$SLURM_JOB_ID $SLURM_PROCID/$SLURM_NTASKS" "$SLURM_NODEID"'
    head = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-node=2\n"
    command = translate(head + body, "job").spec["tasks"][0]["command"]
    environment = {
        "ALLOT_JOB": "7",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "ALLOT_NODE": "n",
        "PATH": "/usr/bin:/bin",
    }
    of_array = {"ALLOT_ARRAY": "5", "ALLOT_ARRAY_INDEX": "2", "ALLOT_ARRAY_SIZE": "9"}
    echo = 'echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT"'
    in_array = translate(head + echo, "job").spec["tasks"][0]["command"]
    ran = subprocess.run(
        in_array, env={**environment, **of_array}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "5 2 9\n"
    again = translate(head + 'echo "restarted ${SLURM_RESTART_COUNT:-never}"', "job").spec["tasks"][0][
        "command"
    ]
    for restarts, said in (("0", "never"), ("2", "2")):
        with_restarts = {**environment, "ALLOT_RESTARTS": restarts}
        ran = subprocess.run(again, env=with_restarts, capture_output=True, text=True, check=True)
        assert ran.stdout == f"restarted {said}\n"
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "7 3/4 1\n"


@pytest.mark.parametrize(
    ("lines", "replicas", "gpu", "cpu"),
    [
        ("#SBATCH -G 4 --cpus-per-gpu=6\n", 1, 4, 24),
        ("#SBATCH -n 2 --gpus-per-task=2 --cpus-per-gpu=3\nsrun x\n", 2, 2, 6),
        ("#SBATCH -G 4 --cpus-per-gpu=6 -c 2\n", 1, 4, 2),
        ("#SBATCH -G 4 --ntasks-per-gpu=1\nsrun x\n", 4, 1, 1),
        ("#SBATCH -n 4 --ntasks-per-gpu=1\nsrun x\n", 4, 1, 1),
    ],
)
def test_sizes_that_are_counted_by_gpus(lines: str, replicas: int, gpu: int, cpu: int) -> None:
    made = translate("#!/bin/bash\n" + lines, "job")
    assert not made.blocked
    (task,) = made.spec["tasks"]
    assert (task["replicas"], task["resources"]["gpu"], task["resources"]["cpu"]) == (replicas, gpu, cpu)
    parse(made.spec)


def test_two_tasks_on_each_gpu_are_not_possible() -> None:
    made = translate("#!/bin/bash\n#SBATCH -G 2 --ntasks-per-gpu=2\nsrun x\n", "job")
    assert made.blocked
    assert "2 GPUs for 4 tasks" in made.notes[-1].what
