"""slurm: Slurm's commands by name. slurm-shims: small programs of their names that call it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from allot.errors import WrongUse
from allot.output import print_line, say

#: Slurm's command -> the module that answers it, in which a function has its name.
COMMANDS = {
    "sbatch": "submitting",
    "srun": "submitting",
    "squeue": "queue",
    "scancel": "queue",
    "sacct": "accounting",
    "sinfo": "cluster",
    "scontrol": "control",
}
#: Where the words behind the command's name are kept, as they are.
WORDS = "allot.slurm"
_SHIM = """\
#!/bin/sh
# {name} of Slurm, answered by Allotment. Written by `allot slurm-shims`.
exec {allot} slurm {name} "$@"
"""
_MARK = "Written by `allot slurm-shims`."


class Verbatim(typer.core.TyperCommand):
    """Leaves all words behind its name to the command that they are for; `--help` is among them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, ["--help"] if args in (["--help"], ["-h"]) else [])


def slurm(ctx: typer.Context) -> None:
    """Run a Slurm command against Allotment: `allot slurm squeue -u ann -h -o "%i %T %j"`.

    Commands: sbatch, srun, squeue, scancel, sacct, sinfo, scontrol. docs/slurm-users.md lists their options.
    """
    name, *words = ctx.meta[WORDS] or [""]
    raise typer.Exit(answer(name, words))


def answer(name: str, words: list[str]) -> int:
    """Do what Slurm's command would, and return what it exits with."""
    from importlib import import_module

    if name not in COMMANDS:
        raise WrongUse(f"{name!r} is not a supported Slurm command; expected {', '.join(COMMANDS)}.")
    command: Callable[[list[str]], int] = getattr(import_module(f"allot.slurm.{COMMANDS[name]}"), name)
    return command(words)


def slurm_shims(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the programs.")],
) -> None:
    """Write programs named sbatch, srun, squeue, scancel, sacct, sinfo and scontrol that use Allotment.

    Put the folder first in PATH: `export PATH="DIR:$PATH"`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    others = [
        path
        for name in COMMANDS
        if (path := folder / name).exists() and _MARK not in path.read_text(errors="replace")
    ]
    if others:
        raise WrongUse(
            f"{', '.join(map(str, others))} is there already, and not a shim. Choose another folder."
        )
    program = f"{shlex.quote(sys.executable)} -m allot"
    for name in COMMANDS:
        shim = folder / name
        shim.write_text(_SHIM.format(name=name, allot=program))
        shim.chmod(0o755)
        print_line(str(shim))
    say(f'Put them first: export PATH="{folder.resolve()}:$PATH"')


def register(app: typer.Typer) -> None:
    app.command(cls=Verbatim)(slurm)
    app.command("slurm-shims")(slurm_shims)
