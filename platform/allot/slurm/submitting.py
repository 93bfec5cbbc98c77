"""sbatch and srun: a script, or a command, submitted with Slurm's options."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from allot.commands.logs import exit_code_of, wait_for
from allot.commands.options import connect
from allot.commands.running import Staying, stay
from allot.commands.submit import site_of
from allot.commands.uploading import bring_code, packed_code
from allot.errors import WrongUse
from allot.output import print_line, say
from allot.sbatch import HETJOB, Translation, translate
from allot.sbatch_grammar import SBATCH, SRUN, Spelled
from allot.slurm.relying import folder_to_send
from allot.specfiles import Source, name_from, pairs, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allot.client import Client

LARGEST_SCRIPT_BYTES = 60 * 1024
#: Where a site says which virtual cluster a partition is: "gpu=research,cpu=shared".
PARTITIONS = "ALLOT_PARTITIONS"
#: They say how sbatch itself behaves, and nothing of the job.
_OWN = {
    "parsable", "wait", "quiet", "verbose", "test-only", "wrap", "kill-on-bad-exit", "label",
    "unbuffered", "mpi", "upload", "no-upload",
}  # fmt: skip


def options_before(command: str, words: Sequence[str]) -> tuple[list[Spelled], list[str]]:
    """The options up to the first word that is not one, and that word with all behind it.

    A colon between options, as between those of the components of a heterogeneous job, is one itself.
    """
    grammar = SRUN if command == "srun" else SBATCH
    found: list[Spelled] = []
    left = list(words)
    while left and (left[0] == ":" or left[0].startswith("-")) and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if word == ":":
            found.append((HETJOB, None))
            continue
        try:
            spelled = grammar.spelled(word)
        except WrongUse as error:
            raise WrongUse(f"{command}: {error}") from None
        if not grammar.known.issuperset(name for name, _ in spelled):
            raise WrongUse(f"{command}: {word} is not known here; docs/slurm-users.md lists what is.")
        name, value = spelled[-1]
        if name in grammar.values and value is None:
            if not left:
                raise WrongUse(f"{command}: {word} needs a value.")
            spelled[-1] = name, left.pop(0)
        found += spelled
    return found, left


def sbatch(words: list[str]) -> int:
    options, rest = options_before("sbatch", words)
    own = dict(options)
    arguments: list[str] = []
    if "wrap" in own:
        if rest:
            raise WrongUse("sbatch: --wrap takes the place of a script; give one of them.")
        script, name = f"#!/bin/sh\n{own['wrap']}\n", "wrap"
    else:
        path, arguments = (rest[0], rest[1:]) if rest else ("-", [])
        script, name = read_text(path, most_bytes=LARGEST_SCRIPT_BYTES), name_from([path])
    with connect() as client:
        made = _translated(client, script, name, options, arguments, "sbatch", is_quiet="quiet" in own)
        _bring_folder(client, made, own, script, arguments, "sbatch")
        return _submit(client, made, own)


def _submit(client: Client, made: Translation, own: dict[str, str | None]) -> int:
    spec, tenant = dict(made.spec), made.spec.get("tenant")
    spec.pop("tenant", None)
    if "test-only" in own:
        checked = client.check(spec, tenant=tenant)
        say(f"sbatch: {checked['message']}")
        return 0 if checked["ok"] else 1
    submitted = client.submit(spec, tenant=tenant)
    print_line(str(submitted["id"]) if "parsable" in own else f"Submitted batch job {submitted['id']}")
    if "wait" not in own:
        return 0
    sys.stdout.flush()
    ids = (
        [task["id"] for task in client.jobs(array=submitted["id"])]
        if submitted["array"]
        else [submitted["id"]]
    )
    with connect(patient=True) as patient:
        return max(map(exit_code_of, wait_for(patient, ids)))


def _bring_folder(
    client: Client,
    made: Translation,
    own: dict[str, str | None],
    script: str,
    arguments: Sequence[str],
    command: str,
) -> None:
    """Send the folder in which the script expects to start, if that was asked for; say what becomes of it."""
    if "upload" in own and "no-upload" in own:
        raise WrongUse(f"{command}: give either --upload or --no-upload.")
    is_asked = "upload" in own if {"upload", "no-upload"} & own.keys() else None
    chosen = [note.option.partition("=")[2] for note in made.notes if note.option.startswith("--chdir=")]
    folder = folder_to_send(command, script, arguments, chosen[-1] if chosen else ".", is_asked=is_asked)
    if folder is None or "test-only" in own:
        return
    with packed_code(folder) as packed:
        source = Source("the script", made.spec)
        tenant = bring_code(client, packed, [source], made.spec.get("tenant"), flag="--account")
    if tenant is not None:
        made.spec["tenant"] = tenant


def srun(words: list[str]) -> int:
    options, commands = parts(words)
    command = next((each for each in commands if each), None)
    if command is None:
        raise WrongUse("srun: there is no command. Say what to run: `srun --gres=gpu:1 python train.py`.")
    script = f"#!/bin/bash\nsrun {' : '.join(map(shlex.join, commands))}\n"
    with connect(patient=True) as client:
        made = _translated(client, script, name_from(command), options, [], "srun", is_quiet=True)
        _bring_folder(client, made, dict(options), script, [], "srun")
        spec, tenant = dict(made.spec), made.spec.get("tenant")
        spec.pop("tenant", None)
        staying = Staying(client, detaches=False)
        with staying.listening():
            return stay(client, staying, spec, tenant)


def parts(words: Sequence[str]) -> tuple[list[Spelled], list[list[str]]]:
    """The options of all parts of `srun -n1 a : -n2 b`, and the command of each; a part may have none."""
    options: list[Spelled] = []
    commands = []
    left = list(words)
    while True:
        end = left.index(":") if ":" in left else len(left)
        of_part, command = options_before("srun", left[:end])
        options += of_part
        commands.append(command)
        if end == len(left):
            return options, commands
        options.append((HETJOB, None))
        left = left[end + 1 :]


def _translated(
    client: Client,
    script: str,
    name: str,
    options: list[Spelled],
    arguments: list[str],
    command: str,
    *,
    is_quiet: bool,
) -> Translation:
    partitions = pairs([one for one in os.environ.get(PARTITIONS, "").split(",") if one], PARTITIONS)
    of_the_job = [(option, value) for option, value in options if option not in _OWN]
    made = translate(script, name, site_of(client, partitions), more=of_the_job, arguments=arguments)
    for note in made.notes:
        if not is_quiet or note.how == "not possible":
            place = f"line {note.line}: " if note.line else ""
            say(f"{command}: {place}{note.option}: {note.how}: {note.what}")
    if made.blocked:
        raise WrongUse(
            f"{command}: it cannot be converted; the lines above state why. Nothing was submitted."
        )
    return made
