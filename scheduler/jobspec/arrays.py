"""Arrays: one specification for many jobs that differ by their index."""

import re
from dataclasses import dataclass
from typing import Any

from scheduler.jobspec.declaring import Object, stated
from scheduler.jobspec.fields import Fields
from scheduler.jobspec.kind import Flag, Kind, Schema
from scheduler.jobspec.kinds import Whole

#: The most jobs that one request submits.
MOST_TASKS = 1_000
MOST_INDEX = 4_000_000
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_WRITTEN = re.compile(r"[0-9,:-]{1,2000}(%[0-9]{1,4})?")
_EXPECTED = f'such as "0-99", "1-9:2", "3,5,8-10" or "0-99%8", with at most {MOST_TASKS:,} indices'


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArray:
    """The same job for many indices. Each index is a separate job, which reads it in $ALLOT_ARRAY_INDEX."""

    #: As they were written, without spaces and "%".
    indices: str
    #: None: any number.
    at_most: int | None = None

    def numbers(self) -> list[int]:
        """Return the indices, ascending."""
        return numbers_in(self.indices)


def numbers_in(text: str) -> list[int]:
    """Return the indices in "1-9:2,20", ascending; raise ValueError where it is something else."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is neither an index nor a range")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1:
            raise ValueError(f"{part!r} is an empty range")
        if last > MOST_INDEX:
            raise ValueError(f"{last:,} is more than {MOST_INDEX:,}")
        indices = range(first, last + 1, step)
        if len(found) + len(indices) > MOST_TASKS:
            raise ValueError(f"has more than {MOST_TASKS:,} indices")
        found.update(indices)
    return sorted(found)


class Indices(Kind):
    """Indices as Slurm writes them; "%8" at their end is short for at_most."""

    expected = _EXPECTED
    blank = ""
    takes = "text"

    def check(self, fields: Fields, name: str, value: object) -> str:
        text = str(value).replace(" ", "") if isinstance(value, str | int) and value is not True else ""
        if not _WRITTEN.fullmatch(text):
            fields.refuse(name, "are no indices", _EXPECTED)
            return ""
        indices, percent, at_most = text.partition("%")
        try:
            numbers_in(indices)
            if percent and not int(at_most):
                raise ValueError("%0 would let no task run")
        except ValueError as error:
            fields.refuse(name, str(error), _EXPECTED)
            return ""
        return text

    def schema(self, definitions: Any) -> Schema:
        return {"type": "string", "pattern": f"^{_WRITTEN.pattern}$"}


def _array(indices: str, at_most: int | None) -> JobArray:
    text, percent, written = indices.partition("%")
    if percent and at_most is None:
        return JobArray(indices=text, at_most=int(written))
    return JobArray(indices=indices, at_most=at_most)


def _says_once(fields: Fields, array: JobArray) -> None:
    if "%" in array.indices:
        problem = f"{array.at_most} is given beside {array.indices!r}, which limits the tasks, too"
        fields.refuse("at_most", problem, "one of the two")


ARRAY = Object(
    JobArray,
    "JobArray",
    stated={
        "indices": stated(
            Indices(),
            help=f"At most {MOST_TASKS:,} numbers and ranges; %8 at the end means at_most: 8.",
            example="0-99%8",
            flag=Flag(("--array",), metavar="INDICES"),
        ),
        "at_most": stated(
            Whole(1, MOST_TASKS),
            default=None,
            help="Maximum number of tasks that run at once; null: any number.",
        ),
    },
    make=_array,
    check_together=_says_once,
)
