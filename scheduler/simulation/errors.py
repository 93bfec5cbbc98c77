"""The errors of the files and parameters of a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a row of a file. Lines count from 1; 0 is the file as a whole."""

    file: str
    line: int
    #: The column or key; empty when the row as a whole is wrong.
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class InputError(Exception):
    """A file or a parameter of a simulation cannot be used. The message states what would be right."""


class TraceError(InputError):
    """A trace that cannot be read at all, or the first problem of a trace that is read strictly."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ThroughputError(InputError):
    """A throughput table that cannot be used."""


class ClusterError(InputError):
    """A description of a cluster that cannot be used."""


class GeneratorError(InputError):
    """Parameters of the workload generator that cannot be used."""
