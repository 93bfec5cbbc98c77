"""The errors of an instance and of a request to solve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.model.errors import SchedulingError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its owner (`job a`, `model V100`), the field, what is wrong, and what would be right."""

    subject: str
    field: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        place = ": ".join(filter(None, (self.subject, self.field)))
        return f"{place}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class InstanceError(SchedulingError):
    """An instance that cannot be used; lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class ObjectiveError(SchedulingError):
    """An objective that does not exist, or that cannot do what the caller asks."""


class PartitionError(ObjectiveError):
    """Too many parts: a gang fits on no model in its part."""


class SolverError(SchedulingError):
    """The solver gave up on a problem that has a solution."""
