"""A field with parts that a round needs is written by hand in at most five modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from scheduler.jobspec.shape import Shape

ROOT = Path(__file__).parents[2]
#: Where fields are declared, carried, shown and taken. What reads one in order to decide is not among them.
WAY = (
    "scheduler/jobspec",
    "scheduler/models",
    "scheduler/jobs",
    "scheduler/rounds/job_facts.py",
    "scheduler/rounds/snapshot.py",
    "scheduler/core/model",
    "platform/allot",
    "platform/nodeagent",
    "frontend/src",
)
GENERATED = {"platform/allot/schema.py", "frontend/src/api/schema.d.ts"}
MOST_PLACES = 5


def with_parts(kind: Any) -> Iterator[type]:
    """Yield the dataclasses that a value may be, or be made of."""
    if is_dataclass(kind):
        yield kind
    for inside in get_args(kind):
        yield from with_parts(inside)


FIELDS = {
    name: found[0]
    for name, kind in get_type_hints(Shape).items()
    if name != "tasks" and (found := list(with_parts(kind)))
}


def places(kind: type) -> list[str]:
    named = re.compile(rf"\b{kind.__name__}\b")
    files = [
        file
        for place in WAY
        for file in ([ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*")))
        if file.suffix in (".py", ".ts", ".tsx") and ".test." not in file.name
    ]
    named_in = [str(file.relative_to(ROOT)) for file in files if named.search(file.read_text())]
    return [file for file in named_in if file not in GENERATED]


def test_the_fields_with_parts_are_found() -> None:
    assert FIELDS.keys() == {"topology", "nodes", "sharing", "constraints", "data"}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_with_parts_has_few_places(field: str) -> None:
    found = places(FIELDS[field])
    assert "scheduler/jobspec/spec.py" in found
    assert len(found) <= MOST_PLACES, found
