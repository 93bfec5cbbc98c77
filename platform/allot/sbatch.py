"""Batch scripts of Slurm as specifications: `#SBATCH` options line by line, as sbatch(1) parses them.

Pure: text in, a specification and notes out. The script itself becomes the job's command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from allot.batch_shell import Component, preamble
from allot.beginning import begin_at
from allot.errors import WrongUse

SHORT = {
    "J": "job-name", "t": "time", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition",
    "A": "account", "q": "qos", "C": "constraint", "o": "output", "e": "error", "a": "array",
    "d": "dependency", "b": "begin", "D": "chdir", "G": "gpus", "w": "nodelist", "x": "exclude", "H": "hold",
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
#: Options that each component of a heterogeneous job has for itself; all others are those of the whole job.
OF_A_COMPONENT = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "gres", "gpus",
    "gpus-per-node", "gpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu", "constraint",
})  # fmt: skip
#: Between the components of a heterogeneous job: `#SBATCH hetjob`, and a colon on the command line.
HETJOB = "hetjob"
_LIKE_HETJOB = (HETJOB, "packjob")
#: What the usual names of a QOS mean here; sites name them as they like.
QOS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(("guaranteed", "normal"), ("guarantee", "guaranteed")),
    **dict.fromkeys(
        ("opportunistic", "preemptible", "preempt", "scavenger", "scavenge", "standby", "spot", "free"),
        ("guarantee", "opportunistic"),
    ),
    **dict.fromkeys(("high", "urgent", "express"), ("priority", 50)),
    "low": ("priority", -50),
}


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


@dataclass
class Asked:
    """What a job, or a component of one, asks for in numbers; how they belong together is seen at the end."""

    sizes: dict[str, int] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Site:
    """What names of another cluster mean here: partitions as virtual clusters, and accounts as tenants."""

    partitions: Mapping[str, str] = field(default_factory=dict)
    #: The user's tenants.
    tenants: Collection[str] = ()


#: A line (0: the command line), the long name of an option, and its value.
Option = tuple[int, str, str | None]


def options_of(script: str) -> list[Option]:
    """Return each option. Reading ends at the first command, as in Slurm."""
    found: list[Option] = []
    for number, line in enumerate(script.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        if not re.match(r"#SBATCH\s", line):
            continue
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError as error:
            raise WrongUse(f"Line {number}: {error}.") from None
        if len(words) == 1 and words[0] in _LIKE_HETJOB:
            found.append((number, HETJOB, None))
            continue
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                given: str | None = value if equals else None
            elif word.startswith("-") and len(word) > 1:
                name = SHORT.get(word[1], word[1])
                given = word[2:].removeprefix("=") or None
            else:
                raise WrongUse(
                    f"Line {number}: {word!r} is not an option of sbatch; options begin with - or --."
                )
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
    site: Site | None = None,
    *,
    more: Sequence[tuple[str, str | None]] = (),
    arguments: Sequence[str] = (),
) -> Translation:
    """Return the specification of a batch script.

    `more`: options of a command line, which win over the script's, component by component; `arguments` are
    the script's own.
    """
    made = Translation(spec={"name": name}, notes=mistyped(script))
    components = _components(options_of(script), [(0, *one) for one in more])
    asked = [Asked() for _ in components]
    said: set[tuple[str, str]] = set()
    for number, options in enumerate(components):
        for line, option, value in options:
            is_common = option not in OF_A_COMPONENT
            try:
                if number and is_common:
                    how, what = _again((option, value or "") in said)
                else:
                    how, what = _one(option, value or "", made.spec, asked[number], site or Site())
            except WrongUse as error:
                raise WrongUse(f"Line {line}: {error}" if line else str(error)) from None
            said.add((option, value or ""))
            made.notes.append(Note(line, f"--{option}" + (f"={value}" if value else ""), how, what))
    _images_of_steps(script, made)
    _shape(script, made, asked)
    for task in made.spec["tasks"]:
        task["command"] += arguments
    return made


def _components(script: Sequence[Option], line: Sequence[Option]) -> list[list[Option]]:
    """Return the options of each component; those of the command line take the place of the script's."""
    of_script, of_line = _split(script), _split(line)
    found = []
    for number in range(max(len(of_script), len(of_line))):
        over = of_line[number] if number < len(of_line) else []
        given = {option for _, option, _ in over}
        own = of_script[number] if number < len(of_script) else []
        found.append([one for one in own if one[1] not in given] + over)
    return found


def _split(options: Sequence[Option]) -> list[list[Option]]:
    parts: list[list[Option]] = [[]]
    for one in options:
        if one[1] == HETJOB:
            parts.append([])
        else:
            parts[-1].append(one)
    return parts


def _again(is_same: bool) -> tuple[str, str]:
    if is_same:
        return "translated", "as in the first component"
    return "not possible", "left out: the first component states it for all of the job"


def _number(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise WrongUse(f"--{option}={text} is not a whole number from 1.")
    return int(text)


def _one(
    option: str,
    value: str,
    spec: dict[str, Any],
    asked: Asked,
    site: Site,
) -> tuple[str, str]:
    done = "translated"
    sizes, models = asked.sizes, asked.models
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
                return "not possible", "gpu is the only generic resource known here"
            parts = parts[1:]
        count = _number(option, parts.pop()) if parts and parts[-1].isdecimal() else 1
        models += parts[:1]
        sizes["gpus-per-node" if option == "gres" else option] = count
        return done, f"{count} GPU{'' if count == 1 else 's'}" + (f" of model {parts[0]}" if parts else "")
    if option in {"mem", "mem-per-cpu", "mem-per-gpu"}:
        match = re.fullmatch(r"(\d+)([KMGT]?)B?", value.upper())
        if not match:
            raise WrongUse(f"--{option}={value} is not a size; expected a number with K, M, G or T.")
        asked.memory[option] = f"{match[1]}{UNITS[match[2]]}"
        return done, "resources.memory of each replica"
    if option == "partition":
        if value in site.partitions:
            spec["virtual_cluster"] = site.partitions[value]
            return done, f"virtual_cluster: {site.partitions[value]}"
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
    if option == "account":
        return _account(value, spec, site)
    if option == "qos":
        return _qos(value, spec)
    if option == "hold":
        spec["hold"] = True
        return done, "on hold until `allot release`"
    if option in {"output", "error"}:
        return "approximated", "output is kept with the job: allot logs"
    if option == "constraint" and re.fullmatch(r"[A-Za-z0-9._-]+(\|[A-Za-z0-9._-]+)*", value):
        models += value.split("|")
        return "approximated", "taken as GPU models: " + ", ".join(value.split("|"))
    return "not possible", "left out"


def _account(value: str, spec: dict[str, Any], site: Site) -> tuple[str, str]:
    if value in site.tenants:
        spec["tenant"] = value
        return "translated", f"tenant: {value}"
    mine = f"you have {', '.join(sorted(site.tenants))}" if site.tenants else "you are in none"
    return "not possible", f"ignored: it is not a tenant of yours ({mine}); choose one with --tenant"


def _qos(value: str, spec: dict[str, Any]) -> tuple[str, str]:
    if value.lower() not in QOS:
        return "not possible", f"ignored: it means no tier or priority here, as {', '.join(QOS)} do"
    name, chosen = QOS[value.lower()]
    spec[name] = chosen
    return "approximated", f"{name}: {chosen}"


def qos_fields(value: str) -> Mapping[str, Any]:
    """Return the field of the specification that a QOS means. Raises WrongUse for other names."""
    if value.lower() not in QOS:
        raise WrongUse(f"--qos {value}: it means no tier or priority here; expected one of {', '.join(QOS)}.")
    return dict([QOS[value.lower()]])


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


def _shape(script: str, made: Translation, asked: Sequence[Asked]) -> None:
    """Write the tasks, their resources and commands, from all that was said."""
    first_line = script.partition("\n")[0]
    if not first_line.startswith("#!"):
        raise WrongUse(
            f"This is not a batch script: its first line is {first_line[:60]!r}, but it must name a shell,"
            " such as '#!/bin/bash'."
        )
    shell = first_line.removeprefix("#!").split()
    program = next((word.rsplit("/", 1)[-1] for word in reversed(shell) if not word.startswith("-")), "")
    if program not in {"bash", "sh"}:
        raise WrongUse(f"The script is for {program or 'nothing'}; only shell scripts can be converted.")
    flags = [word for word in shell[1:] if word.startswith("-")]
    has_steps = bool(re.search(r"^[^#\n]*\bsrun\b", script, re.MULTILINE))
    if len(asked) > 1:
        _check_components(script, made, asked, has_steps=has_steps)
    components = [_component(made, one, has_steps=has_steps) for one in asked]
    env = made.spec.pop("env", None)
    models = list(dict.fromkeys(model for one in asked for model in one.models))
    made.spec["tasks"] = []
    for number, (one, size) in enumerate(zip(asked, components, strict=True)):
        task: dict[str, Any] = {
            "name": f"component-{number}" if len(components) > 1 else "main",
            "replicas": size.tasks,
            "resources": {"gpu": size.gpus, "cpu": size.cpus} | _memory(one, size),
        }
        if models:
            task["resources"]["gpu_model"] = models
        if env:
            task["env"] = env
        first = preamble(made.spec["name"], components, number)
        made.spec["tasks"].append(task | {"command": ["bash", *flags, "-c", first + script, "script"]})


def _check_components(script: str, made: Translation, asked: Sequence[Asked], *, has_steps: bool) -> None:
    """Note what a heterogeneous job cannot have here."""
    if not has_steps:
        what = "the script starts nothing in the components after the first; it has no srun"
        made.notes.append(Note(0, HETJOB, "not possible", what))
        made.blocked = True
    if len({frozenset(one.models) for one in asked if one.models}) > 1:
        what = "the components name different GPU models; all tasks of a job are on GPUs of one model"
        made.notes.append(Note(0, HETJOB, "not possible", what))
        made.blocked = True
    if "array" in made.spec:
        what = "an array of heterogeneous jobs is not possible in Slurm either"
        made.notes.append(Note(0, HETJOB, "not possible", what))
        made.blocked = True
    for number, line in enumerate(script.splitlines(), start=1):
        if not line.startswith("#") and (found := re.search(r"SLURM_\w*NODELIST_HET_GROUP_[1-9]\d*", line)):
            what = "not set: only the address of the first task is known"
            made.notes.append(Note(number, f"${found[0]}", "not possible", what))


def _component(made: Translation, asked: Asked, *, has_steps: bool) -> Component:
    """Return how many tasks there are, on how many nodes, and what each of them has."""
    sizes = asked.sizes
    nodes = sizes.get("nodes", 1)
    tasks = sizes.get("ntasks", nodes * sizes.get("ntasks-per-node", 1))
    if "ntasks-per-gpu" in sizes and "ntasks" not in sizes:
        tasks = (sizes.get("gpus") or nodes * sizes.get("gpus-per-node", 0)) * sizes["ntasks-per-gpu"]
    nodes = min(nodes, tasks) or 1  # As Slurm does: it cannot run one process on two nodes.
    gpus = sizes.get("gpus") or nodes * sizes.get("gpus-per-node", 0)
    if not gpus and "ntasks-per-gpu" in sizes:
        gpus = tasks // sizes["ntasks-per-gpu"]
    if "gpus-per-task" in sizes:
        gpus = tasks * sizes["gpus-per-task"]
    if not has_steps and tasks > 1:
        made.notes.append(
            Note(0, "no srun", "approximated", "the script runs once, on one node, as it would in Slurm")
        )
        gpus, tasks, nodes = gpus // nodes, 1, 1
    elif tasks > 1:
        made.notes.append(
            Note(0, "srun", "approximated", f"all of the script runs {tasks} times, srun as its own rank")
        )
    if not tasks or gpus % tasks:
        made.blocked = True
        made.notes.append(
            Note(
                0, "GPUs", "not possible", f"{gpus} GPUs for {tasks} tasks; expected the same number for each"
            )
        )
    each = gpus // tasks if tasks else 0
    return Component(
        tasks=tasks,
        nodes=nodes,
        per_node=max(tasks // nodes, 1),
        gpus=each,
        cpus=sizes.get("cpus-per-task") or sizes.get("cpus-per-gpu", 0) * each or 1,
    )


def _memory(asked: Asked, size: Component) -> dict[str, str]:
    found = {}
    for option, text in asked.memory.items():
        number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
        times = {"mem": 1 / size.per_node, "mem-per-cpu": size.cpus, "mem-per-gpu": size.gpus}[option]
        if int(number) * times:
            found["memory"] = f"{int(number) * times:.3f}".rstrip("0").rstrip(".") + unit
    return found
