"""Convert the text of one field to its value. Every function raises BadField with what would be right."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from scheduler.core.model import wording
from scheduler.core.sim.workload import Status

#: How the published logs write a missing time.
ABSENT = frozenset({"", "None", "NaN", "nan", "NaT", "null", "Unknown"})
#: How tools that write traces write a missing name; lower case.
_NO_NAMES = frozenset({"nan", "nat", "none", "null"})
#: Longer texts are cut in messages.
_SHOWN = 60
#: The longest time of a job, or until it comes: a hundred years.
MOST_SECONDS = 36_525 * 86_400
#: Whole numbers of JSON and YAML may be larger, and cannot become floats then.
LARGEST_FLOAT = sys.float_info.max


class BadField(Exception):
    """A field of a row is wrong; `field` is empty when the row as a whole is wrong."""

    def __init__(self, field: str, message: str) -> None:
        # A file may have any text where the name of a field belongs.
        field = one_line(field)
        super().__init__(f"{field}: {message}" if field else message)
        self.field, self.message = field, message


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, of whose pairs no key is given twice: which of the two holds would be a guess."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadField(next(name for name in names if names.count(name) > 1), "is given twice; give it once")
    return made


def pairs(field: str, text: str, separator: str = "|") -> dict[str, str]:
    """Return the values of a list such as v100=12.5|p100=8 by name; that of a part without = is empty.

    A name may not be given twice: which of the two holds would be a guess.
    """
    values: dict[str, str] = {}
    for part in filter(None, text.split(separator)):
        name, _, value = part.rpartition("=")
        if name in values:
            raise BadField(field, f"{shown(text)}: {one_line(name)} is given twice; give it once")
        values[name] = value
    return values


def stated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the fields that are null, which count as left out."""
    return {name: value for name, value in given.items() if value is not None}


def one_line(value: object) -> str:
    """Return a value as messages name it: short, on one line."""
    text = str(value)
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """Return a value as messages quote it: short, on one line."""
    return f'"{one_line(value)}"'


def listed_columns(names: Sequence[str]) -> str:
    """Return the columns of a header as messages list them; one stray quote makes a file a single column."""
    return wording.listed([*map(shown, names)], 20)


def as_float(value: Any) -> float:
    """Return the number that a text or a JSON value states; NaN where it states none that a float holds."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def number(field: str, text: str | float) -> float:
    """Return a finite number."""
    value = as_float(text)
    if not -math.inf < value < math.inf:
        raise BadField(field, f"{shown(text)} is not a number")
    return value


def seconds(field: str, text: str | float, unit: str = "seconds") -> float:
    """Return a finite number of at least 0, in the unit in which it is written."""
    value = as_float(text)
    if not 0 <= value < math.inf:
        raise BadField(field, f"{shown(text)} is not a number of {unit} of at least 0")
    return value


def positive(field: str, text: str | float, what: str) -> float:
    """Return a finite number above 0; `what` names its unit."""
    value = as_float(text)
    if not 0 < value < math.inf:
        raise BadField(field, f"{shown(text)} is not a number of {what} above 0")
    return value


def count(field: str, text: str | float, what: str = "GPUs", least: int = 1) -> int:
    """Return a whole number of at least `least`; "8.0", as some tools export it, is 8."""
    value = as_float(text)
    if not least <= value < 2**53 or value != int(value):
        raise BadField(field, f"{shown(text)} is not a whole number of {what} of at least {least}")
    return int(value)


def within_a_century(field: str, value: float) -> float:
    """Return a number of seconds, counted from any zero, that sums and dates can hold."""
    if not -MOST_SECONDS <= value <= MOST_SECONDS:
        message = f"{value:g} seconds are more than 100 years; at most {MOST_SECONDS:,} are allowed"
        raise BadField(field, message)
    return value


def whole(field: str, text: str | float) -> int:
    """Return a whole number, which may be negative."""
    value = number(field, text)
    if value != int(value):
        raise BadField(field, f"{shown(text)} is not a whole number")
    return int(value)


def instant(field: str, text: str) -> float:
    """Return the Unix seconds of "2017-10-07 01:11:39"; a time without a zone counts as UTC.

    The public logs have local wall-clock time without a zone, so a run during a change of the clocks is an
    hour off.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadField(field, f"{shown(text)} is not a time like 2017-10-07 01:11:39") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def truth(field: str, text: str | bool) -> bool:
    """Return true or false, written true/false, yes/no or 1/0."""
    if isinstance(text, bool):
        return text
    lowered = str(text).strip().lower()
    if lowered in {"true", "yes", "1", "1.0"}:
        return True
    if lowered in {"false", "no", "0", "0.0"}:
        return False
    raise BadField(field, f"{shown(text)} is neither true nor false")


def named(field: str, text: str) -> str:
    """Return a name, which may not be empty."""
    if not isinstance(text, str) or not text.strip():
        raise BadField(field, "is empty; it must be a name")
    name = text.strip()
    if name.lower() in _NO_NAMES:
        raise BadField(field, f"{shown(name)} stands for a missing name; it must be a name")
    return name


def one_of(field: str, text: str, known: Collection[str]) -> str:
    """Return a word of a closed list."""
    if text not in known:
        near = get_close_matches(str(text), sorted(known), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadField(field, f"{shown(text)} is not {wording.either(sorted(known))}{hint}")
    return text


#: The words of the logs for the three ends of a job; lower case.
_STATUSES: dict[str, Status] = {
    **dict.fromkeys(("pass", "passed", "completed", "succeeded", "success", "finished"), "passed"),
    **dict.fromkeys(("killed", "kill", "cancelled", "canceled", "cancel"), "killed"),
    **dict.fromkeys(("failed", "fail", "timeout", "deadline", "node_fail", "boot_fail"), "failed"),
    **dict.fromkeys(("out_of_memory", "preempted"), "failed"),
}


def status(field: str, text: str) -> Status:
    """Return how a job ended, in Philly's words, from the words of Philly, Slurm or Kubernetes."""
    found = _STATUSES.get(str(text).lower())
    if found is None:
        raise BadField(field, f"{shown(text)} is not a known end of a job: passed, killed or failed")
    return found
