"""Batch scripts of Slurm as specifications: `#SBATCH` options line by line, as sbatch(1) parses them.

Pure: text in, a specification and notes out. The script itself becomes the job's command.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from allot.beginning import begin_at
from allot.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHORT = {
    "J": "job-name", "t": "time", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition",
    "A": "account", "q": "qos", "C": "constraint", "o": "output", "e": "error", "a": "array",
    "d": "dependency", "b": "begin", "D": "chdir", "G": "gpus", "w": "nodelist", "x": "exclude",
}  # fmt: skip
MAIL = {
    "BEGIN": ["start"],
    "END": ["end"],
    "FAIL": ["failure"],
    "REQUEUE": ["preemption"],
    "ALL": ["start", "end", "failure", "preemption"],
    "NONE": [],
}
#: What each kind of a dependency waits for; aftercorr and the like are not known here.
DEPENDENCIES = {"after": "started", "afterany": "ended", "afterok": "succeeded", "afternotok": "failed"}
UNITS = {"": "MiB", "K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB"}
LONGEST_GRACE_SECONDS = 600

#: What scripts read of Slurm, from what agents set; srun runs its command once, as this rank.
PREAMBLE = """\
export SLURM_JOB_ID="$ALLOT_JOB" SLURM_JOBID="$ALLOT_JOB" SLURM_PROCID="${{RANK:-0}}"
export SLURM_NTASKS="${{WORLD_SIZE:-1}}" SLURM_NPROCS="${{WORLD_SIZE:-1}}" SLURM_JOB_NAME={name}
export SLURM_NNODES={nodes} SLURM_JOB_NUM_NODES={nodes} SLURM_GPUS_ON_NODE={gpus} SLURM_CPUS_PER_TASK={cpus}
export SLURM_NTASKS_PER_NODE={per_node} SLURM_LOCALID=0 SLURM_NODEID="$((${{RANK:-0}} / {per_node}))"
if [ -n "${{ALLOT_ARRAY:-}}" ]; then
  export SLURM_ARRAY_JOB_ID="$ALLOT_ARRAY" SLURM_ARRAY_TASK_ID="$ALLOT_ARRAY_INDEX"
  export SLURM_ARRAY_TASK_COUNT="$ALLOT_ARRAY_SIZE"
fi
if [ "${{ALLOT_RESTARTS:-0}}" != 0 ]; then export SLURM_RESTART_COUNT="$ALLOT_RESTARTS"; fi
export SLURM_SUBMIT_DIR="$PWD" SLURM_TASKS_PER_NODE={per_node} SLURMD_NODENAME="${{ALLOT_NODE:-}}"
export SLURM_NODELIST="${{MASTER_ADDR:-$ALLOT_NODE}}" SLURM_JOB_NODELIST="${{MASTER_ADDR:-$ALLOT_NODE}}"
srun() {{
  while [ $# -gt 0 ]; do
    case "$1" in
      --) shift; break ;;
      -[nNcGpAtJowexCDqm]|--ntasks|--nodes|--cpus-per-task|--gpus|--output|--error|--ntasks-per-node|--mpi|\
      --gres|--gpus-per-task|--gpus-per-node|--mem|--time|--chdir|--job-name|--partition|--account|--nodelist|\
      --container-image|--container-mounts|--container-workdir|--container-name|--export)
        shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  "$@"
}}
scontrol() {{ if [ "$1 $2" = "show hostnames" ]; then echo "${{3:-$SLURM_NODELIST}}"; else return 1; fi; }}
"""


@dataclass(frozen=True)
class Note:
    """What became of one line: `how` is translated, approximated or not possible."""

    line: int
    option: str
    how: str
    what: str


@dataclass
class Translation:
    """A specification, what was said of each line, and whether it may be submitted."""

    spec: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    blocked: bool = False


def options_of(script: str) -> list[tuple[int, str, str | None]]:
    """(line, long name, value) of each option. Reading ends at the first command, as in Slurm."""
    found: list[tuple[int, str, str | None]] = []
    for number, line in enumerate(script.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        if not re.match(r"#SBATCH\s", line):
            continue
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError as error:
            raise WrongUse(f"Line {number}: {error}.") from None
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                given: str | None = value if equals else None
            elif word.startswith("-") and len(word) > 1:
                name = SHORT.get(word[1], word[1])
                given = word[2:].removeprefix("=") or None
            else:
                raise WrongUse(f"Line {number}: {word!r} is no option of sbatch; options begin with - or --.")
            if given is None and words and not words[0].startswith("-"):
                given = words.pop(0)
            found.append((number, name, given))
    return found


def mistyped(script: str) -> list[Note]:
    """Comments before the first command that look as if they were meant for sbatch."""
    found = []
    for number, line in enumerate(script.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word not in ("#SBATCH", "##SBATCH") and get_close_matches(word.upper(), ["#SBATCH"], cutoff=0.75):
            what = "it does not begin with #SBATCH, so Slurm ignores it, too"
            found.append(Note(number, word, "not possible", what))
    return found


def seconds_of(text: str) -> int | None:
    """Slurm's times: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. None: no limit."""
    if text.upper() in {"0", "UNLIMITED", "INFINITE"}:
        return None
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        raise WrongUse(f"time {text!r} is not a time; expected minutes, H:M:S or D-H:M:S.")
    days, a, b, c = (int(part or 0) for part in match.groups())
    if match[1]:
        return days * 86400 + a * 3600 + b * 60 + c
    return a * 3600 + b * 60 + c if match[4] else a * 60 + b


def translate(
    script: str,
    name: str,
    partitions: Mapping[str, str] | None = None,
    *,
    more: Sequence[tuple[str, str | None]] = (),
    arguments: Sequence[str] = (),
) -> Translation:
    """The specification of a batch script; `partitions` maps Slurm's partitions to virtual clusters.

    `more`: options of a command line, which win over the script's; `arguments` are the script's own.
    """
    made = Translation(spec={"name": name}, notes=mistyped(script))
    sizes: dict[str, int] = {}
    megabytes: dict[str, str] = {}
    models: list[str] = []
    given = {option for option, _ in more}
    options = [one for one in options_of(script) if one[1] not in given]
    for line, option, value in [*options, *((0, *one) for one in more)]:
        try:
            how, what = _one(option, value or "", made.spec, sizes, megabytes, models, partitions or {})
        except WrongUse as error:
            raise WrongUse(f"Line {line}: {error}" if line else str(error)) from None
        made.notes.append(Note(line, f"--{option}" + (f"={value}" if value else ""), how, what))
    _images_of_steps(script, made)
    _shape(script, made, sizes, megabytes, models)
    made.spec["tasks"][0]["command"] += arguments
    return made


def _number(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise WrongUse(f"--{option}={text} is not a whole number from 1.")
    return int(text)


def _one(
    option: str,
    value: str,
    spec: dict[str, Any],
    sizes: dict[str, int],
    memory: dict[str, str],
    models: list[str],
    partitions: Mapping[str, str],
) -> tuple[str, str]:
    done = "translated"
    if option == "job-name":
        spec["name"] = re.sub(r"[^A-Za-z0-9._-]+", "-", value)[:63].strip("._-") or spec["name"]
        return (done if spec["name"] == value else "approximated"), f"name: {spec['name']}"
    if option == "time":
        limit = seconds_of(value)
        if limit:
            spec["time_limit"] = limit
        return done, f"time_limit: {limit} seconds" if limit else "no time limit"
    if option in {"nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu"}:
        sizes[option] = _number(option, value.split("-")[0] if option == "nodes" else value)
        return ("approximated" if "-" in value else done), f"{sizes[option]}, in replicas and resources"
    if option in {"gres", "gpus", "gpus-per-node", "gpus-per-task"}:
        parts = value.split(":")
        if option == "gres":
            if parts[0] != "gpu" or "," in value:
                return "not possible", "of generic resources only gpu is known"
            parts = parts[1:]
        count = _number(option, parts.pop()) if parts and parts[-1].isdecimal() else 1
        models += parts[:1]
        sizes["gpus-per-node" if option == "gres" else option] = count
        return done, f"{count} GPUs" + (f" of model {parts[0]}" if parts else "")
    if option in {"mem", "mem-per-cpu", "mem-per-gpu"}:
        match = re.fullmatch(r"(\d+)([KMGT]?)B?", value.upper())
        if not match:
            raise WrongUse(f"--{option}={value} is not a size; expected a number with K, M, G or T.")
        memory[option] = f"{match[1]}{UNITS[match[2]]}"
        return done, "resources.memory of each replica"
    if option == "partition":
        if value in partitions:
            spec["virtual_cluster"] = partitions[value]
            return done, f"virtual_cluster: {partitions[value]}"
        return "not possible", f"say which virtual cluster it is: --map-partition {value}=NAME"
    if option == "signal":
        match = re.fullmatch(r"(?:[RB]+:)?\w+(?:@(\d+))?", value)
        if not match:
            raise WrongUse(f"--signal={value} is not of the form B:USR1@60.")
        grace = min(int(match[1] or 60), LONGEST_GRACE_SECONDS)
        spec["checkpoint"] = {"grace_seconds": grace}
        return "approximated", f"checkpoint.grace_seconds: {grace}; the signal is SIGTERM"
    if option == "mail-type":
        kinds = [MAIL.get(kind.strip().upper()) for kind in value.split(",")]
        spec["notify"] = {"email": list(dict.fromkeys(k for known in kinds for k in known or []))}
        return ("approximated" if None in kinds else done), "notify.email, to your own address"
    if option in {"requeue", "no-requeue"}:
        if option == "no-requeue":
            spec["retry"] = {"max_attempts": 1}
        return "approximated", "retry.max_attempts: " + ("1" if option == "no-requeue" else "as usual, 3")
    if option == "dependency":
        return _dependency(value, spec)
    if option == "array":
        spec["array"] = {"indices": value}
        return done, f"array: {value}"
    if option == "kill-on-invalid-dep":
        spec["on_unmet"] = "wait" if value == "no" else "cancel"
        return done, f"on_unmet: {spec['on_unmet']}"
    if option == "begin":
        spec["begin"] = begin_at(value)
        return done, f"begin: {spec['begin']}"
    if option == "reservation":
        spec["reservation"] = value
        return done, f"reservation: {value}"
    if option == "export":
        pairs = [part.partition("=") for part in value.split(",") if "=" in part]
        spec["env"] = {name.strip(): text for name, _, text in pairs}
        if not spec["env"]:
            return "not possible", "left out: the variables of your shell stay here"
        return "approximated", f"variables {', '.join(spec['env'])}; those of your shell stay here"
    if option == "container-image":
        return _image(value, spec)
    if option in {"account", "qos"}:
        return "not possible", "choose the tenant with --tenant"
    if option in {"output", "error"}:
        return "approximated", "output is kept with the job: allot logs"
    if option == "constraint" and re.fullmatch(r"[A-Za-z0-9._-]+(\|[A-Za-z0-9._-]+)*", value):
        models += value.split("|")
        return "approximated", "taken as GPU models: " + ", ".join(value.split("|"))
    return "not possible", "left out"


def _image(value: str, spec: dict[str, Any]) -> tuple[str, str]:
    """Pyxis names images as enroot does, `docker://USER@REGISTRY#IMAGE:TAG`, or by a squashed file."""
    name = value.removeprefix("docker://").replace("#", "/", 1)
    if name.startswith(("/", ".", "~", "$")) or name.endswith(".sqsh") or "@" in name.partition("/")[0]:
        return "not possible", "left out: expected an image of a registry, without a user; no file"
    spec["image"] = name
    return "translated", f"image: {name}"


def _images_of_steps(script: str, made: Translation) -> None:
    """Take the image of the script's srun for the job's, where all name the same one."""
    joined = script.replace("\\\n", " ")
    found = re.findall(r"^[^#\n]*\bsrun\b[^\n]*?--container-image[= ]([^\s]+)", joined, re.MULTILINE)
    images = dict.fromkeys(image.strip("\"'") for image in found)
    if not images or made.spec.get("image"):
        return
    option = "srun --container-image"
    if len(images) > 1:
        what = "left out: a job has one image, and these are several"
        made.notes.append(Note(0, option, "not possible", what))
        return
    (image,) = images
    how, what = _image(image, made.spec)
    if how == "translated":
        how, what = "approximated", f"{what}, in which all of the script runs"
    made.notes.append(Note(0, option, how, what))


def _dependency(value: str, spec: dict[str, Any]) -> tuple[str, str]:
    """`afterok:17:18,singleton`; with ? between them one would be enough, which is not possible here."""
    after: list[dict[str, Any]] = []
    for part in value.split(","):
        kind, *jobs = part.split(":")
        if kind == "singleton" and not jobs:
            spec["singleton"] = True
        elif kind in DEPENDENCIES and jobs and all(job.isdecimal() for job in jobs):
            after += [{"job": int(job), "when": DEPENDENCIES[kind]} for job in jobs]
        else:
            known = ", ".join(f"{word}:ID" for word in DEPENDENCIES)
            raise WrongUse(
                f"--dependency={value}: {part!r} is not known here; expected one or more of {known},"
                " singleton, with commas between them."
            )
    if after:
        spec["after"] = after
    wishes = [f"job {each['job']} has {each['when']}" for each in after]
    told = ["singleton"] * ("singleton" in spec) + wishes
    return "translated", f"starts when {', '.join(told)}"


def _shape(
    script: str, made: Translation, sizes: dict[str, int], memory: dict[str, str], models: list[str]
) -> None:
    """Replicas, their resources and the command, from all that was said."""
    nodes = sizes.get("nodes", 1)
    tasks = sizes.get("ntasks", nodes * sizes.get("ntasks-per-node", 1))
    if "ntasks-per-gpu" in sizes and "ntasks" not in sizes:
        tasks = (sizes.get("gpus") or nodes * sizes.get("gpus-per-node", 0)) * sizes["ntasks-per-gpu"]
    nodes = min(nodes, tasks) or 1  # As Slurm does: it can not run one process on two nodes.
    gpus = sizes.get("gpus") or nodes * sizes.get("gpus-per-node", 0)
    if not gpus and "ntasks-per-gpu" in sizes:
        gpus = tasks // sizes["ntasks-per-gpu"]
    if "gpus-per-task" in sizes:
        gpus = tasks * sizes["gpus-per-task"]
    if not re.search(r"^[^#\n]*\bsrun\b", script, re.MULTILINE) and tasks > 1:
        made.notes.append(
            Note(0, "no srun", "approximated", "the script runs once, on one node, as it would in Slurm")
        )
        gpus, tasks, nodes = gpus // nodes, 1, 1
    elif tasks > 1:
        made.notes.append(
            Note(0, "srun", "approximated", f"all of the script runs {tasks} times, srun as its own rank")
        )
    if not gpus or gpus % tasks:
        made.blocked = True
        made.notes.append(
            Note(0, "GPUs", "not possible", f"{gpus} GPUs for {tasks} tasks; expected 1 or more for each")
        )
    each = max(gpus // tasks, 1) if tasks else 1
    cpus = sizes.get("cpus-per-task") or sizes.get("cpus-per-gpu", 0) * each or 1
    resources: dict[str, Any] = {"gpu": each, "cpu": cpus}
    if models:
        resources["gpu_model"] = list(dict.fromkeys(models))
    per_node = max(tasks // nodes, 1)
    for option, size in memory.items():
        number, unit = re.fullmatch(r"(\d+)(\w+)", size).groups()  # type: ignore[union-attr]
        times = {"mem": 1 / per_node, "mem-per-cpu": cpus, "mem-per-gpu": each}[option]
        if int(number):
            resources["memory"] = f"{int(number) * times:.3f}".rstrip("0").rstrip(".") + unit
    shell = script.splitlines()[0].removeprefix("#!").split()
    program = next((word.rsplit("/", 1)[-1] for word in reversed(shell) if not word.startswith("-")), "")
    if program not in {"bash", "sh"}:
        raise WrongUse(f"The script is for {program or 'nothing'}; only scripts for a shell can come over.")
    first = PREAMBLE.format(
        name=shlex.quote(made.spec["name"]), nodes=nodes, gpus=each, cpus=cpus, per_node=per_node
    )
    flags = [word for word in shell[1:] if word.startswith("-")]
    task = {"name": "main", "replicas": tasks, "resources": resources}
    if env := made.spec.pop("env", None):
        task["env"] = env
    made.spec["tasks"] = [task | {"command": ["bash", *flags, "-c", first + script, "script"]}]
