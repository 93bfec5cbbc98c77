"""Which files of a batch script are in the folder that it is submitted from, and whether that folder travels.

Slurm starts a script in that folder, on a file system that all nodes share. Here a job starts in an empty
folder of its own. Nothing leaves the machine unasked: for a script that needs the folder, the command prints
how to send it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from allot.errors import WrongUse
from allot.output import say

#: Says when `sbatch` and `srun` send the folder, where --upload and --no-upload do not.
VARIABLE = "ALLOT_SBATCH_UPLOAD"
#: What it may say: not at all, where the script names something in the folder, each time.
NEVER, AUTO, ALWAYS = "never", "auto", "always"
_NAMED = 3
#: What ends a word of a shell without a space.
_BETWEEN = "();<>|&`"
#: A command whose output is a part of the word.
_SUBSTITUTED = re.compile(r"\$\(|`")
_SUBMIT_FOLDER = re.compile(r"\A(?:\$SLURM_SUBMIT_DIR|\$\{SLURM_SUBMIT_DIR\}|\$PWD|\$\{PWD\})/")


def folder_to_send(
    command: str, script: str, arguments: Sequence[str], folder: str, *, is_asked: bool | None
) -> str | None:
    """Return the folder if it is to be sent, and say so if the script seems to need one that stays.

    `is_asked`: what --upload and --no-upload said; None: neither was given.
    """
    if is_asked is not None:
        return folder if is_asked else None
    mode = os.environ.get(VARIABLE, NEVER)
    if mode not in (NEVER, AUTO, ALWAYS):
        raise WrongUse(f"{VARIABLE} {mode!r} is none of {NEVER}, {AUTO} and {ALWAYS}.")
    if mode == ALWAYS:
        return folder
    named = names_in(folder, script, arguments)
    if not named:
        return None
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    seen = f"{command}: the script names {', '.join(named[:_NAMED])}{more} in {folder}"
    home = Path.home()
    if mode == AUTO and Path(folder).resolve() not in (home, *home.parents):
        say(f"{seen}, so the folder is sent ({VARIABLE}={AUTO}).")
        return folder
    why = "" if mode == NEVER else ", and a home folder is not sent unasked"
    say(f"{seen}, which stays here{why}: the job starts in an empty folder. {command} --upload sends it.")
    return None


def names_in(folder: str, script: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the files and folders in a folder that a script names by a path inside it, each once."""
    top = Path(folder)
    found = dict[str, None]()
    for word in (*_words(script), *arguments):
        name = _SUBMIT_FOLDER.sub("", word.rpartition("=")[2]).removeprefix("./").rstrip("/")
        if _is_inside(name) and os.path.lexists(top / name):
            found[name] = None
    return list(found)


def _words(script: str) -> Iterator[str]:
    """Yield the words of a script's commands; of `python -m x.y`, what it would read as well."""
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=_BETWEEN)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            # A quotation that goes on over several lines.
            words = line.split()
        for word in words:
            yield word
            # In quotes; it is shorter than its line by these, so that this ends.
            if _SUBSTITUTED.search(word) and len(word) < len(line):
                yield from _words(word)
        for before, module in pairwise(words):
            if before == "-m":
                yield module.partition(".")[0]
                yield f"{module.replace('.', '/')}.py"


def _is_inside(name: str) -> bool:
    is_path = name not in ("", ".") and not name.startswith(("/", "~", "-", "$")) and len(name) < 256
    return is_path and "\0" not in name and ".." not in name.split("/")
