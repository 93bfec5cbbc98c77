"""Formats of Slurm's commands: `%.18i %T`, `JobID,State%20`, and the lines that they make of things."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from allot.errors import WrongUse

T = TypeVar("T")
#: What a field is called in the header, and its value.
Fields = Mapping[str, tuple[str, Callable[[T], object]]]
_PERCENT = re.compile(r"%(\.?)(\d*)([A-Za-z%])")


def collapsed(value: object) -> str:
    """The text of a field without line ends, with which a description could forge other rows and fields."""
    return " ".join(str(value).split())


@dataclass(frozen=True, slots=True)
class Part:
    """A field, how wide it is (0: as wide as it is), and the text before it."""

    before: str
    field: str
    width: int
    is_right: bool

    def padded(self, value: object) -> str:
        text = collapsed(value)
        if not self.width:
            return text
        return (text.rjust if self.is_right else text.ljust)(self.width)[: self.width]


def percent_parts(text: str, fields: Mapping[str, object], command: str) -> tuple[list[Part], str]:
    """The fields of `%.18i %T` in their order, and what stands behind the last one."""
    parts, end = [], 0
    for match in _PERCENT.finditer(text):
        if match[3] not in fields:
            raise WrongUse(
                f"{command}: the field %{match[3]} is not known here; {', '.join(f'%{n}' for n in fields)}."
            )
        parts.append(Part(text[end : match.start()], match[3], int(match[2] or 0), bool(match[1])))
        end = match.end()
    return parts, text[end:]


def percent_lines(
    things: Sequence[T], text: str, fields: Fields[T], command: str, *, header: bool
) -> list[str]:
    """The lines of a format of squeue or sinfo, the header first."""
    parts, end = percent_parts(text, fields, command)
    rows = [[fields[part.field][0] for part in parts]] if header else []
    rows += [[str(fields[part.field][1](thing)) for part in parts] for thing in things]
    return [
        "".join(part.before + part.padded(value) for part, value in zip(parts, row, strict=True)) + end
        for row in rows
    ]


def named_parts(text: str, fields: Mapping[str, object], command: str) -> list[Part]:
    """The fields of `JobID,State%20`, whose names are taken in any case."""
    known = {name.lower(): name for name in fields}
    parts = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, _, width = word.partition("%")
        if name.lower() not in known or not re.fullmatch(r"-?\d*", width):
            raise WrongUse(f"{command}: the field {word!r} is not known here; {', '.join(fields)}.")
        columns = int(width or 0)
        parts.append(Part("", known[name.lower()], abs(columns), columns >= 0))
    return parts
