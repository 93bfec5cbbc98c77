"""How what is wrong with a specification is written."""

from typing import Any

import pytest

from scheduler.jobspec.parsing import parse
from tenants.errors import FieldError, Invalid


def problem(**fields: Any) -> FieldError:
    """Return the one thing that is wrong with a specification with these fields."""
    task = {"name": "main", "resources": {"gpu": 1}, "command": ["true"]}
    with pytest.raises(Invalid) as caught:
        parse({"name": "train", "tasks": [task], **fields})
    [found] = caught.value.fields
    return found


def test_a_wrong_name_is_repeated_as_it_was_written() -> None:
    assert problem(name="работа 日本\u202e").problem == "'работа 日本\\u202e' is not a valid name"


def test_large_numbers_are_written_with_all_digits() -> None:
    found = problem(time_limit="400d")
    assert found.problem.endswith(" is more than 31,536,000")
    assert found.expected == "a number from 1 to 31,536,000 seconds"
    found = problem(estimate=2_000_001, time_limit=2_000_000)
    assert found.problem == "2,000,001 seconds are longer than the time limit"
    assert found.expected == "at most the time limit, 2,000,000 seconds"
