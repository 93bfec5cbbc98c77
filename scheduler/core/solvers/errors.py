"""What can be wrong with an instance, or with what is asked about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.model.errors import SchedulingError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: whose (`job a`, `model V100`), which field, what, and what would be right."""

    subject: str
    field: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        place = ": ".join(filter(None, (self.subject, self.field)))
        return f"{place}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class InstanceError(SchedulingError):
    """An instance that cannot be used; says everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class ObjectiveError(SchedulingError):
    """An objective that does not exist, or that cannot do what is asked of it."""


class PartitionError(ObjectiveError):
    """Too many parts: a gang fits into none of the models of its own."""


class SolverError(SchedulingError):
    """The solver gave up on a problem that has a solution."""
