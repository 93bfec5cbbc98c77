"""The flags of `allot submit`, made of the job specification's JSON Schema, which is packaged beside this.

The schema is written from the server's declarations (`make schema`): a field that is declared with a flag
has it here, with its type, its choices and its help.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from inspect import Parameter
from typing import Annotated, Any

import typer

from allot.beginning import begin_at
from allot.errors import WrongUse
from allot.specfiles import pairs, words

#: The types as which values of one word on the command line are parsed.
_PLAIN: Mapping[str, type] = {"integer": int, "number": float}
#: Fields for which a bare number means bytes, which is hardly ever what is meant on a command line.
_SIZES = frozenset({"memory", "gpu_memory"})


@dataclass(frozen=True, slots=True)
class SpecFlag:
    """A field of the specification that a flag sets."""

    #: Where it stands: ("topology", "level"); below "tasks" the flag counts for each task.
    path: tuple[str, ...]
    names: tuple[str, ...]
    #: Its form on the command line, as the schema says: "text", "integer", "number", "amount" (a number, or
    #: text), "instant", "choice", "switch", "words" (WORD,WORD), "model_words" (the same; a single one stays
    #: text), "pairs" (KEY=VALUE, again and again) or "entries" (again and again).
    takes: str
    help: str
    metavar: str | None
    choices: tuple[str, ...]
    #: Words of a choice that has a flag each, in the flags' order.
    words: tuple[str, ...]
    #: It is not clear whose it would be where there are several tasks.
    is_of_one_task: bool

    @property
    def where(self) -> str:
        return ".".join(self.path)

    def parameter(self) -> Parameter:
        """The parameter of a command from which typer makes the flag; None: it is not given."""
        option: dict[str, Any] = {"help": self.help, "metavar": self.metavar}
        kind: Any = self._type()
        annotation = Annotated[kind | None, typer.Option(*self.names, **option)]
        name = "_".join(self.path)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def _type(self) -> Any:
        if self.takes == "switch" or self.words:
            return bool
        if self.takes == "choice":
            return StrEnum("Choice", {word: word for word in self.choices})
        if self.takes in ("pairs", "entries"):
            return list[str]
        return _PLAIN.get(self.takes, str)

    def value(self, given: Any) -> Any:
        """What the specification gets for what typer has parsed."""
        match self.takes:
            case _ if self.words:
                return self.words[0] if given else self.words[1]
            case "choice":
                return str(given)
            case "amount":
                return _amount(given)
            case "instant":
                return begin_at(given, self.names[0])
            case "words":
                return list(words(given))
            case "model_words":
                models = [word.strip() for word in given.split(",")]
                return models[0] if len(models) == 1 else models
            case "pairs":
                return pairs(given, self.names[0])
            case "entries":
                return list(given)
            case "text" if self.path[-1] in _SIZES and given.strip().isdecimal() and int(given):
                raise WrongUse(
                    f"{self.names[0]} {given} has no unit: write {given}MiB or {given}GiB"
                    f" ({given}B for bytes)."
                )
        return given


def _amount(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    # A number as it was written: messages repeat it.
    return int(number) if number.is_integer() else number


@cache
def spec_flags() -> Sequence[SpecFlag]:
    """Every flag, in the order of the specification."""
    schema = json.loads(files("allot").joinpath("job-spec.schema.json").read_text())
    return tuple(_flags(schema, schema["$defs"], ()))


def values_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their places in the specification ("topology.level") for the parameters of a command."""
    return {
        flag.where: flag.value(given[name])
        for flag in spec_flags()
        if given.get(name := "_".join(flag.path)) not in (None, [])
    }


def _flags(
    schema: Mapping[str, Any], objects: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[SpecFlag]:
    for name, field in schema["properties"].items():
        here = (*path, name)
        if "x-flag" in field:
            yield _flag(here, field)
        elif inner := _object(field, objects):
            yield from _flags(inner, objects, here)


def _object(field: Mapping[str, Any], objects: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that a field holds, or of which it is a list; None: none that has flags of its own."""
    for one in (field, *field.get("anyOf", ()), field.get("items", {})):
        title = one.get("$ref", "").removeprefix("#/$defs/")
        if title and not title.startswith("Short"):
            return objects[title]  # type: ignore[no-any-return]
    return None


def _flag(path: tuple[str, ...], field: Mapping[str, Any]) -> SpecFlag:
    flag = field["x-flag"]
    return SpecFlag(
        path=path,
        names=tuple(flag["names"]),
        takes=flag["takes"],
        help=field["description"],
        metavar=flag.get("metavar"),
        choices=tuple(word for word in field.get("enum", ()) if word is not None),
        words=tuple(flag.get("words", ())),
        is_of_one_task=flag.get("of_one_task", False),
    )
