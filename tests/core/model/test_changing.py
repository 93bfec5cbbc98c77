"""Copies with other fields are those of `dataclasses.replace`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from scheduler.core.model.changing import changed
from tests.builders import make_job


def test_a_copy_differs_in_what_was_named_only() -> None:
    job = make_job(1, 4, priority=3)
    copy = changed(job, priority=5, attempts=2)
    assert copy == replace(job, priority=5, attempts=2)
    assert (job.priority, job.attempts) == (3, 0)


def test_a_field_that_the_class_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError, match="colour"):
        changed(make_job(1), colour="red")  # type: ignore[call-arg]


def test_a_class_that_checks_its_fields_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number <= 0:
                raise ValueError("it is positive")

    with pytest.raises(TypeError, match="checks its fields"):
        changed(Positive(1), number=-1)
