"""What a job waits for of other jobs, as its specification states it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.core.model.awaited import SUCCEEDED, WHEN, Awaited
from scheduler.jobspec.declaring import Object, stated
from scheduler.jobspec.fields import Fields, described
from scheduler.jobspec.kind import Definitions, Kind, Schema
from scheduler.jobspec.kinds import Choice, Whole

MAX_AWAITED = 100
#: The largest number that a job may have.
MOST_JOB = 2**53 - 1
CANCEL = "cancel"
WAIT = "wait"
#: What becomes of a job when what it waits for cannot happen any more.
ON_UNMET = (CANCEL, WAIT)
_SHORT = re.compile(r"(?:([a-z]+):)?(\d{1,19})")
_EXPECTED = 'the number of a job, "failed:17", or an object such as {"job": 17, "when": "ended"}'

AWAITED = Object(
    Awaited,
    "Awaited",
    stated={
        "job": stated(
            Whole(1, MOST_JOB),
            help="The number of another job of the tenant. The number of an array means all its tasks.",
        ),
        "when": stated(
            Choice(WHEN),
            default=SUCCEEDED,
            help="What that job must have done. A cancelled job counts as failed and as started.",
        ),
    },
)


class AwaitedJobs(Kind):
    """Jobs to wait for, each written as a number, as text such as "failed:17", or as an object."""

    takes = "entries"

    def check(self, fields: Fields, name: str, value: object) -> tuple[Awaited, ...]:
        if not isinstance(value, list | tuple):
            value = [value]
        if len(value) > MAX_AWAITED:
            fields.refuse(name, f"has {len(value)} entries", f"at most {MAX_AWAITED} jobs")
            return ()
        found: list[Awaited] = []
        for number, each in enumerate(value):
            place = f"{name}.{number}"
            given = _as_object(each)
            if given is None:
                fields.refuse(place, f"{described(each)} names no job", _EXPECTED)
            else:
                found.append(AWAITED.check(fields, place, given))
        return tuple(dict.fromkeys(found))

    def write(self, value: Sequence[Awaited]) -> list[Any]:
        return [AWAITED.write(each) for each in value]

    def in_order(self, value: Any) -> Any:
        return [AWAITED.in_order(each) for each in value] if isinstance(value, list) else value

    def schema(self, definitions: Definitions) -> Schema:
        one = AWAITED.schema(definitions)
        number: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_JOB}
        text: Schema = {"type": "string", "pattern": rf"^{_SHORT.pattern}$"}
        items = one if definitions.normal else {"anyOf": [number, text, one]}
        return {"type": "array", "items": items, "maxItems": MAX_AWAITED}


def _as_object(each: object) -> Mapping[str, Any] | None:
    """Return an entry as an object; None: it has none of the three forms."""
    if isinstance(each, Mapping):
        return each
    if isinstance(each, int) and not isinstance(each, bool):
        return {"job": each}
    match = _SHORT.fullmatch(each) if isinstance(each, str) else None
    if match is None:
        return None
    return {"job": int(match[2])} | ({"when": match[1]} if match[1] else {})
