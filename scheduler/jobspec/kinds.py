"""The kinds of fields: how a value of each is written by people, checked, kept, and described in a schema.

A kind knows nothing of the field that has it: `declaring` joins it with a name, a default and a help text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scheduler.jobspec.fields import Fields, bytes_of, described, is_storable
from scheduler.jobspec.kind import Definitions, Kind, Schema

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
NAME_EXPECTED = "1 to 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit"
MOST_SECONDS = 365 * 86_400


@dataclass(frozen=True)
class Word(Kind):
    """A name of a given form; kept as text, empty where it is left out."""

    form: re.Pattern[str] = NAME
    expected: str = NAME_EXPECTED
    most: int = 63
    blank = ""
    takes = "text"

    def check(self, fields: Fields, name: str, value: object) -> str:
        return fields.checked_word(name, value, self.form, self.expected)

    def schema(self, definitions: Definitions) -> Schema:
        schema: Schema = {"type": "string", "maxLength": self.most}
        return schema if definitions.normal else schema | {"pattern": f"^{self.form.pattern}$"}


@dataclass(frozen=True)
class Text(Kind):
    """Any text that can be stored, of a bounded length; empty where it is left out."""

    most: int
    blank = ""
    takes = "text"

    def check(self, fields: Fields, name: str, value: object) -> str:
        expected = f"text of at most {self.most} characters"
        if not isinstance(value, str):
            fields.refuse(name, f"{described(value)} is not text", expected)
        elif len(value) > self.most:
            fields.refuse(name, f"has {len(value):,} characters", expected)
        elif not is_storable(value):
            fields.refuse(name, "has a NUL or a broken character", "plain text")
        else:
            return value
        return ""

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "string", "maxLength": self.most}


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number in a range."""

    least: int
    most: int
    takes = "integer"

    @property
    def blank(self) -> int:
        return self.least

    @property
    def expected(self) -> str:  # type: ignore[override]
        return f"a whole number from {self.least} to {self.most}"

    def check(self, fields: Fields, name: str, value: object) -> int:
        return fields.checked_integer(name, value, least=self.least, most=self.most)

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number(Kind):
    """A number in a range."""

    least: float
    most: float
    takes = "number"

    def check(self, fields: Fields, name: str, value: object) -> float:
        return fields.checked_number(name, value, least=self.least, most=self.most)

    def write(self, value: float | None) -> float | None:
        return None if value is None else plain(value)

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Duration(Kind):
    """A time span, kept in seconds."""

    least: float = 1
    most: float = MOST_SECONDS
    expected: str = 'a duration such as "30m"'
    blank = 0.0
    takes = "text"

    def check(self, fields: Fields, name: str, value: object) -> float | None:
        return fields.checked_duration(name, value, least_seconds=self.least, most_seconds=self.most)

    def write(self, value: float | None) -> float | None:
        return None if value is None else plain(value)

    def schema(self, definitions: Definitions) -> Schema:
        seconds = {"type": "number", "minimum": self.least, "maximum": self.most}
        if definitions.normal:
            return seconds
        return {"anyOf": [{"type": "string", "pattern": r"^[0-9. dhmsDHMS]+$"}, seconds]}


@dataclass(frozen=True)
class Size(Kind):
    """An amount of memory, kept in bytes."""

    most: int
    most_written: str
    takes = "text"

    def check(self, fields: Fields, name: str, value: object) -> int:
        amount = bytes_of(value) if isinstance(value, str) else value
        if not isinstance(amount, int) or isinstance(amount, bool):
            fields.refuse(name, f"{described(value)} is not a size", 'a size such as "4GiB", or bytes')
        elif not 0 <= amount <= self.most:
            problem = "is negative" if amount < 0 else "is more than any machine has"
            fields.refuse(name, f"{described(value)} {problem}", f'a size from 0 to "{self.most_written}"')
        else:
            return amount
        return 0

    def schema(self, definitions: Definitions) -> Schema:
        in_bytes = {"type": "integer", "minimum": 0, "maximum": self.most}
        if definitions.normal:
            return in_bytes
        return {"anyOf": [{"type": "string", "pattern": r"^ *[0-9.]+ ?([KMGT]i?)?B? *$"}, in_bytes]}


#: For CPUs and memory: the platform gives as much as is useful.
AUTO = "auto"


class OrAuto(Kind):
    """An amount, or the word "auto"; kept as that word."""

    def __init__(self, of: Kind) -> None:
        self.of = of
        self.takes = "amount" if of.takes == "number" else of.takes

    def check(self, fields: Fields, name: str, value: object) -> Any:
        if isinstance(value, str) and value == AUTO:
            return AUTO
        if isinstance(value, str) and value.strip().lower() == AUTO:
            fields.refuse(name, f"{described(value)} is not an amount", f'"{AUTO}", or an amount')
            return self.of.blank
        return self.of.check(fields, name, value)

    def write(self, value: Any) -> Any:
        return value if value == AUTO else self.of.write(value)

    def schema(self, definitions: Definitions) -> Schema:
        amount = self.of.schema(definitions)
        return {"anyOf": [{"type": "string", "enum": [AUTO]}, *amount.get("anyOf", (amount,))]}


@dataclass(frozen=True)
class Curve(Kind):
    """Speeds by an amount, which never fall as it grows; kept as (amount, speed), ascending."""

    #: The kind of the amounts, as they are written: CPUs, or a size.
    of: Kind
    #: What they are amounts of, and one as it may be written.
    called: str
    example: str
    most: int = 20
    blank: tuple[tuple[float, float], ...] = ()

    def check(self, fields: Fields, name: str, value: object) -> tuple[tuple[float, float], ...]:
        expected = f"at most {self.most} speeds by {self.called}, such as {{{self.example}}}"
        if not isinstance(value, Mapping):
            fields.refuse(name, f"{described(value)} is not an object", expected)
            return ()
        if not 1 <= len(value) <= self.most:
            fields.refuse(name, f"has {len(value)} entries", expected)
            return ()
        problems = len(fields.problems)
        found: dict[float, float] = {}
        for key, speed in value.items():
            where = f"{name}.{str(key)[:80]}"
            amount = self._amount(fields, where, key)
            if amount in found:
                fields.refuse(where, "repeats an amount", "each amount once")
            found[amount] = fields.checked_number(where, speed, least=0, most=1e6)
        if len(fields.problems) > problems:
            return ()
        points = tuple(sorted(found.items()))
        for (_, slower), (amount, speed) in pairwise(points):
            if speed < slower:
                problem = (
                    f"is slower with {plain(amount)} {self.called} ({speed:g}) than with less ({slower:g})"
                )
                fields.refuse(name, problem, "speeds that never fall")
                return ()
        if not points[-1][1]:
            fields.refuse(name, "has no speed above 0", expected)
            return ()
        return points

    def _amount(self, fields: Fields, where: str, key: object) -> float:
        amount: Any = key
        if isinstance(key, str) and not isinstance(self.of, Size):
            try:
                amount = float(key)
            except ValueError:
                amount = key
        elif isinstance(key, str) and key.isdigit():
            amount = int(key)
        checked = float(self.of.check(fields, where, amount))
        if checked == 0 and amount == 0:
            fields.refuse(where, f"0 {self.called} need no speed", "more than 0")
        return checked

    def write(self, value: tuple[tuple[float, float], ...]) -> dict[str, float]:
        return {str(plain(amount)): plain(speed) for amount, speed in value}

    def schema(self, definitions: Definitions) -> Schema:
        values = {"type": "number", "minimum": 0, "maximum": 1e6}
        return {"type": "object", "additionalProperties": values, "maxProperties": self.most}


class Truth(Kind):
    """True or false."""

    takes = "switch"

    def check(self, fields: Fields, name: str, value: object) -> bool:
        return fields.checked_boolean(name, value, default=False)

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words, kept as that word, or as the value that `kept` gives for it."""

    words: tuple[str, ...]
    kept: Mapping[str, Any] | None = None
    takes = "choice"

    @property
    def blank(self) -> Any:
        return self._kept(self.words[0])

    @property
    def expected(self) -> str:  # type: ignore[override]
        return f"one of: {', '.join(self.words)}"

    def check(self, fields: Fields, name: str, value: object) -> Any:
        return self._kept(fields.checked_choice(name, value, self.words))

    def write(self, value: Any) -> Any:
        if self.kept is None:
            return super().write(value)
        return next(word for word, kept in self.kept.items() if kept == value)

    def schema(self, definitions: Definitions) -> Schema:
        return {"type": "string", "enum": list(self.words)}

    def _kept(self, word: str) -> Any:
        return word if self.kept is None else self.kept[word]


@dataclass(frozen=True)
class Words(Kind):
    """A list of some of a few words, each at most once."""

    words: tuple[str, ...]
    takes = "words"

    def check(self, fields: Fields, name: str, value: object) -> tuple[str, ...]:
        expected = f"a list of some of: {', '.join(self.words)}"
        if not isinstance(value, list | tuple):
            fields.refuse(name, f"{described(value)} is not a list", expected)
        elif unknown := [word for word in value if word not in self.words]:
            fields.refuse(name, f"{described(unknown[0])} is not known", expected)
        elif len(set(value)) < len(value):
            fields.refuse(name, "names something twice", expected)
        else:
            return tuple(value)
        return ()

    def write(self, value: tuple[str, ...] | None) -> list[str] | None:
        return None if value is None else list(value)

    def schema(self, definitions: Definitions) -> Schema:
        items = {"type": "string", "enum": list(self.words)}
        return {"type": "array", "items": items, "uniqueItems": True}


@dataclass(frozen=True)
class Names(Kind):
    """A list of names of one form; one that is named twice counts once."""

    form: re.Pattern[str]
    most: int
    #: What they are names of: "a node", "nodes".
    one: str
    many: str
    takes = "words"

    def check(self, fields: Fields, name: str, value: object) -> tuple[str, ...]:
        expected = f"a list of at most {self.most} names of {self.many}"
        if not isinstance(value, list | tuple):
            fields.refuse(name, f"{described(value)} is not a list", expected)
        elif len(value) > self.most:
            fields.refuse(name, f"has {len(value)} entries", expected)
        elif wrong := [each for each in value if not isinstance(each, str) or not self.form.fullmatch(each)]:
            fields.refuse(name, f"{described(wrong[0])} is not the name of {self.one}", expected)
        else:
            return tuple(dict.fromkeys(value))
        return ()

    def write(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def schema(self, definitions: Definitions) -> Schema:
        items = {"type": "string", "pattern": f"^{self.form.pattern}$"}
        return {"type": "array", "items": items, "maxItems": self.most}


@dataclass(frozen=True)
class Table(Kind):
    """An object with names of the user's own and one kind of value."""

    #: Returns a checked value; notes at the place `NAME.KEY` what is wrong with it or with its name.
    entry: Callable[[Fields, str, object, object], Any]
    most: int
    #: The JSON Schema of a value.
    values: Mapping[str, Any]
    #: The JSON Schema of a value in the normal form, where it differs.
    kept_values: Mapping[str, Any] | None = None
    #: Looks at all of them together.
    together: Callable[[Fields, str, Mapping[str, Any]], None] | None = None
    takes = "pairs"

    def check(self, fields: Fields, name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            fields.refuse(name, f"{described(value)} is not an object", "an object of names and values")
            return {}
        if len(value) > self.most:
            fields.refuse(name, f"has {len(value)} entries", f"at most {self.most}")
            return {}
        problems = len(fields.problems)
        entries = {
            key: self.entry(fields, f"{name}.{str(key)[:80]}", key, each) for key, each in value.items()
        }
        if self.together is not None and len(fields.problems) == problems:
            self.together(fields, name, entries)
        return entries

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self, definitions: Definitions) -> Schema:
        values = self.kept_values if definitions.normal and self.kept_values else self.values
        return {"type": "object", "additionalProperties": dict(values), "maxProperties": self.most}


def plain(number: float) -> float:
    """Return 600 and not 600.0: people read it."""
    return int(number) if float(number).is_integer() else number
