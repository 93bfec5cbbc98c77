"""The errors of a specification of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its place, what is wrong, and what would be right."""

    field: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class SpecificationError(ValueError):
    """A specification that cannot be used; lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
