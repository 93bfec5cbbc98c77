"""Jobs that were submitted together as tasks of an array: the same job for many indices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTask:
    """That a job is a task of an array which runs at most `at_most` of its tasks at once."""

    #: The array, by the number of its first task.
    number: int
    at_most: int
