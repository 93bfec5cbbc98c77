"""Reads the fields of a specification one by one and notes, instead of raising, what is wrong.

Durations and memory sizes are as people write them.
"""

import math
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from tenants.errors import FieldError

# At most 15 digits a number, so that nothing overflows on its way to a float.
_AMOUNT = r"(\d{1,15}(?:\.\d{1,15})?)"
_DURATION = re.compile(rf"(?:{_AMOUNT}d)?(?:{_AMOUNT}h)?(?:{_AMOUNT}m)?(?:{_AMOUNT}s?)?")
_DURATION_UNITS_SECONDS = (86_400, 3_600, 60, 1)

_SIZE = re.compile(rf"{_AMOUNT} ?([KMGT]i?)?B?")
_SIZE_UNITS_BYTES: dict[str, int] = {
    "": 1,
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("KMGT")},
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGT")},
}


def numeral(number: float) -> str:
    """Return a number as people write it: 31,536,000 and not 3.1536e+07."""
    return f"{number:,.12g}"


def seconds_of(text: str) -> float | None:
    """Return the seconds in "90", "45s", "30m", "1h30m" or "2d12h", or None if it is not a duration."""
    match = _DURATION.fullmatch(text.replace(" ", "").lower())
    if match is None or not any(match.groups()):
        return None
    return sum(
        float(amount) * unit
        for amount, unit in zip(match.groups(), _DURATION_UNITS_SECONDS, strict=True)
        if amount
    )


def bytes_of(text: str) -> int | None:
    """Return the bytes in "512MiB", "4GiB", "4Gi", "1.5GB" or "4096", or None if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    amount, unit = match.groups(default="")
    return round(float(amount) * _SIZE_UNITS_BYTES[unit])


def described(value: object) -> str:
    """Return how an error message names a value: short, in JSON's words."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    # What cannot be seen is escaped, letters of any language are not.
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return ' (did you mean "gpus"?)' when one of the known words is near, else nothing."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f' (did you mean "{by_lower[near[0]]}"?)' if near else ""


_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """PostgreSQL stores neither NUL nor half a surrogate pair, though both can come in JSON."""
    return _NOT_STORABLE.search(text) is None


#: Beyond this number, unknown fields of one object are not listed one by one: users stop reading, and it
#: costs time.
UNKNOWN_REPORTED = 10


class Fields:
    """One object of a specification. A field that is left out or null takes its default."""

    def __init__(self, value: object, path: str, problems: list[FieldError]) -> None:
        self.path = path
        self.problems = problems
        self._known: list[str] = []
        self._is_object = isinstance(value, Mapping)
        self._left: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
        if not self._is_object:
            problems.append(FieldError(path, f"{described(value)} is not an object", "an object with fields"))

    def path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, problem: str, expected: str = "") -> None:
        if self._is_object:
            self.problems.append(FieldError(self.path_of(name), problem, expected))

    def take(self, name: str) -> Any:
        """Return the raw value of a field, None when it is left out."""
        self._known.append(name)
        return self._left.pop(name, None)

    def inner(self, name: str) -> "Fields":
        """Return the fields of an object inside this one; left out, it is empty."""
        value = self.take(name)
        inner = Fields({} if value is None else value, self.path_of(name), self.problems)
        # A value that is not an object also lacks every field; that is one mistake, reported once.
        inner._is_object = inner._is_object and self._is_object
        return inner

    def checked_list(self, name: str, value: object, *, least: int, most: int, of: str) -> list[Any]:
        """Return a list's raw items; note a wrong kind or size and return none."""
        expected = f"a list of {least} to {most} {of}"
        if not isinstance(value, list | tuple):
            problem = "is missing" if value is None else f"{described(value)} is not a list"
            self.refuse(name, problem, expected)
        elif not least <= len(value) <= most:
            self.refuse(name, f"has {len(value)} entries", expected)
        else:
            return list(value)
        return []

    def integer(self, name: str, *, default: int | None, least: int, most: int) -> int:
        """Return a whole number; with default None the field must be given."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        return self.checked_integer(name, value, least=least, most=most)

    def checked_integer(self, name: str, value: object, *, least: int, most: int) -> int:
        """Return the value if it is a whole number in the range; else note it and return the least."""
        expected = f"a whole number from {least} to {most}"
        if value is None:
            self.refuse(name, "is missing", expected)
        elif not isinstance(value, int) or isinstance(value, bool):
            self.refuse(name, f"{described(value)} is not a whole number", expected)
        elif value < least:
            self.refuse(name, f"{described(value)} is less than {least}", expected)
        elif value > most:
            self.refuse(name, f"{described(value)} is more than {most}", expected)
        else:
            return value
        return least

    def checked_number(self, name: str, value: object, *, least: float, most: float, unit: str = "") -> float:
        """Return the value if it is a number in the range; else note it and return the least."""
        # With all digits: 1.00001e+06 and 3.1536e+07 are hard to compare.
        lowest, highest = numeral(least), numeral(most)
        expected = f"a number from {lowest} to {highest}{unit}"
        if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
            self.refuse(name, f"{described(value)} is not a number", expected)
        elif value < least:
            self.refuse(name, f"{described(value)} is less than {lowest}", expected)
        elif value > most:
            self.refuse(name, f"{described(value)} is more than {highest}", expected)
        else:
            return float(value)
        return least

    def duration(self, name: str, *, most_seconds: float) -> float | None:
        """Return the seconds in "30m", "1d12h" or a number of seconds; None when it is left out or wrong."""
        value = self.take(name)
        return None if value is None else self.checked_duration(name, value, most_seconds=most_seconds)

    def checked_duration(
        self, name: str, value: object, *, most_seconds: float, least_seconds: float = 1
    ) -> float | None:
        if isinstance(value, str):
            seconds = seconds_of(value)
            if seconds is None:
                self.refuse(name, f"{described(value)} is not a duration", '"30m", "2h", "1d12h" or seconds')
                return None
            value = seconds
        return self.checked_number(name, value, least=least_seconds, most=most_seconds, unit=" seconds")

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.take(name)
        return default if value is None else self.checked_boolean(name, value, default=default)

    def checked_boolean(self, name: str, value: object, *, default: bool) -> bool:
        if isinstance(value, bool):
            return value
        self.refuse(name, f"{described(value)} is neither true nor false", "true or false")
        return default

    def choice(self, name: str, allowed: tuple[str, ...], *, default: str | None) -> str:
        """Return one of the allowed words; with default None the field must be given."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        return self.checked_choice(name, value, allowed)

    def checked_choice(self, name: str, value: object, allowed: tuple[str, ...]) -> str:
        """Return the value if it is an allowed word; else note it and return the first."""
        if value in allowed:
            return str(value)
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        problem = "is missing" if value is None else f"{described(value)} is not known{hint}"
        self.refuse(name, problem, f"one of: {', '.join(allowed)}")
        return allowed[0]

    def word(self, name: str, form: re.Pattern[str], expected: str, *, default: str | None) -> str:
        """Return a name of the given form; with default None the field must be given."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        return self.checked_word(name, value, form, expected)

    def checked_word(self, name: str, value: object, form: re.Pattern[str], expected: str) -> str:
        """Return the value if it is a name of the given form; else note it and return ""."""
        if isinstance(value, str) and form.fullmatch(value):
            return value
        self.refuse(
            name, "is missing" if value is None else f"{described(value)} is not a valid name", expected
        )
        return ""

    def finish(self) -> None:
        """Note every field that was not read."""
        known = sorted(self._known) if self._left else []
        for name in islice(self._left, UNKNOWN_REPORTED):
            short = str(name)[:80]
            self.refuse(
                short, f"is not a known field{did_you_mean(short, known)}", f"one of: {', '.join(known)}"
            )
