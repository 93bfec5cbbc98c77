"""What the commands of `admin` have in common: options, confirmation, pairs of a name and a number."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from allot.errors import WrongUse
from allot.output import Format, print_objects
from allot.specfiles import pairs

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before what cannot be undone.")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.", show_default=False)]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]


class Role(StrEnum):
    viewer = "viewer"
    member = "member"
    admin = "admin"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone, and end the command unless the answer is yes."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def print_json(value: Any) -> None:
    print_objects(value, Format.json)


def changes_of(wanted: dict[str, Any], options: str) -> dict[str, Any]:
    """Return what was given; raise WrongUse that names the options where nothing was."""
    changes = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise WrongUse(f"Say what to change: {options}.")
    return changes


def counts(words: Sequence[str], flag: str) -> dict[str, int]:
    """`V100=8` words as numbers of GPUs by model."""
    found = pairs(words, flag)
    for name, text in found.items():
        if not text.isdecimal():
            raise WrongUse(f"{flag} {name}={text}: {text!r} is not a number of GPUs; write {name}=8.")
    return {name: int(text) for name, text in found.items()}


def weights(words: Sequence[str], flag: str) -> list[dict[str, Any]]:
    """`vision` or `vision=2` words as members with their weights."""
    found = pairs([word if "=" in word else f"{word}=1" for word in words], flag)
    try:
        return [{"tenant": name, "weight": float(text)} for name, text in found.items()]
    except ValueError:
        raise WrongUse(f"{flag}: write TENANT, or TENANT=WEIGHT with a number, such as vision=2.") from None
