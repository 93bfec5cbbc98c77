"""Jobs that were submitted together as tasks of an array: the same job for many indices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTask:
    """That a job is a task of an array of which only so many run at once."""

    #: Of the array: the number of its first task.
    number: int
    at_most: int
