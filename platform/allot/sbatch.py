"""Batch scripts of Slurm as specifications: `#SBATCH` options line by line, as sbatch(1) parses them.

Pure: text in, a specification and notes out. The script itself becomes the job's command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from allot.batch_shell import Component, with_preamble
from allot.errors import WrongUse
from allot.sbatch_grammar import SBATCH, Spelled
from allot.sbatch_options import Asked, Given, Site, said_of, take_image

#: Options that each component of a heterogeneous job has for itself; all others are those of the whole job.
OF_A_COMPONENT = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "gres", "gpus",
    "gpus-per-node", "gpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu", "constraint",
})  # fmt: skip
#: Options that ask for the same thing: one of the command line takes the place of all of them in the script.
_FAMILIES = (
    {"gres", "gpus", "gpus-per-node", "gpus-per-task"},
    {"mem", "mem-per-cpu", "mem-per-gpu"},
    {"cpus-per-task", "cpus-per-gpu"},
    {"requeue", "no-requeue"},
)
#: Between the components of a heterogeneous job: `#SBATCH hetjob`, and a colon on the command line.
HETJOB = "hetjob"
_LIKE_HETJOB = (HETJOB, "packjob")


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
            if len(word) < 2 or not word.startswith("-"):
                raise WrongUse(
                    f"Line {number}: {word!r} is not an option of sbatch; options begin with - or --."
                )
            try:
                spelled = SBATCH.spelled(word)
            except WrongUse as error:
                raise WrongUse(f"Line {number}: {error}") from None
            name, given = spelled[-1]
            may_follow = given is None and name not in SBATCH.switches | SBATCH.optional
            if may_follow and words and not words[0].startswith("-"):
                spelled[-1] = name, words.pop(0)
            found += [(number, *one) for one in spelled]
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


def translate(
    script: str,
    name: str,
    site: Site | None = None,
    *,
    more: Sequence[Spelled] = (),
    arguments: Sequence[str] = (),
) -> Translation:
    """Return the specification of a batch script.

    `more`: options of a command line, which win over the script's, component by component; `arguments` are
    the script's own.
    """
    if "\r\n" in script:
        raise WrongUse(
            "The script has DOS line ends (\\r\\n), with which a shell fails; dos2unix removes them."
        )
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
                    given = Given(option, value or "", made.spec, asked[number], site or Site())
                    how, what = said_of(given)
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
        given = given.union(*(family for family in _FAMILIES if family & given))
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
    how, what = take_image(image, made.spec)
    if how == "translated":
        how, what = "approximated", f"{what}, in which all of the script runs"
    made.notes.append(Note(0, option, how, what))


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
        text = with_preamble(script, made.spec["name"], components, number)
        made.spec["tasks"].append(task | {"command": ["bash", *flags, "-c", text, "script"]})


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
