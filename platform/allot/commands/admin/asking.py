"""What the commands of `admin` have in common: options, confirmation, pairs of a name and a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from allot.errors import WrongUse
from allot.output import Format, print_objects
from allot.output import size as shown_size
from allot.specfiles import pairs

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
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


def quota_words(limits: Mapping[str, float], cpus: float | None, memory_bytes: int | None) -> str:
    """`*:16,V100:8, 128 CPUs, 1 TiB`; `-` without any limit."""
    words = [",".join(f"{model}:{gpus:g}" for model, gpus in limits.items())] if limits else []
    words += [] if cpus is None else [f"{cpus:g} CPUs"]
    words += [] if memory_bytes is None else [shown_size(memory_bytes)]
    return ", ".join(words) or "-"


_UNITS = {"": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|KiB|MiB|GiB|TiB)")


def size(text: str, flag: str) -> int:
    """`512GiB` as bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise WrongUse(f"{flag} {text}: {text!r} is not a size; write 512GiB, or a number of bytes.")
    return round(float(match[1]) * (1 << _UNITS[match[2]]))


def weights(words: Sequence[str], flag: str) -> list[dict[str, Any]]:
    """`vision` or `vision=2` words as members with their weights."""
    found = pairs([word if "=" in word else f"{word}=1" for word in words], flag)
    try:
        return [{"tenant": name, "weight": float(text)} for name, text in found.items()]
    except ValueError:
        raise WrongUse(f"{flag}: write TENANT, or TENANT=WEIGHT with a number, such as vision=2.") from None
