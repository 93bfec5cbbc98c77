"""How things are called in a checkpoint store.

    claims/START                            the highest start may write
    origins/START                           JSON: from which checkpoint that start went on
    limits/SAMPLES                          GPU model: this many do not fit into its memory in a gradient
    checkpoints/START/STEP/RANK/files/...   what one rank saved
    checkpoints/START/STEP/RANK/manifest.json   written last: without it the part does not count

START is ATTEMPT-TIME, STEP and RANK are numbers; all have a fixed width, so names sort as the numbers do.
"""

from __future__ import annotations

from dataclasses import dataclass

CLAIMS, ORIGINS, CHECKPOINTS, LIMITS = "claims/", "origins/", "checkpoints/", "limits/"
MANIFEST = "manifest.json"
FILES = "files"


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """One start of the training: of which attempt, and the how-manieth time within it. Higher is newer."""

    attempt: int
    time: int

    def __str__(self) -> str:
        return f"{self.attempt:010d}-{self.time:04d}"

    @classmethod
    def parse(cls, text: str) -> Start | None:
        attempt, _, time = text.partition("-")
        return cls(int(attempt), int(time)) if attempt.isdecimal() and time.isdecimal() else None


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """One checkpoint: which start made it, after how many steps."""

    start: Start
    step: int

    def __str__(self) -> str:
        return f"{self.start}/{self.step:015d}"

    @classmethod
    def parse(cls, text: str) -> Checkpoint | None:
        name, _, step = text.partition("/")
        start = Start.parse(name)
        return cls(start, int(step)) if start and step.isdecimal() else None

    @property
    def folder(self) -> str:
        return f"{CHECKPOINTS}{self}/"

    def part(self, rank: int) -> str:
        return f"{self.folder}{part_name(rank)}/"


def part_name(rank: int) -> str:
    return f"rank-{rank:05d}"


def starts_in(names: list[str], prefix: str) -> set[Start]:
    """Return the starts that are named right behind the prefix."""
    found = (Start.parse(name.removeprefix(prefix).partition("/")[0]) for name in names)
    return {start for start in found if start}


def parts_in(names: list[str]) -> dict[Checkpoint, set[str]]:
    """Return the checkpoints of which there is anything, each with the names of its finished parts."""
    found: dict[Checkpoint, set[str]] = {}
    for name in names:
        pieces = name.removeprefix(CHECKPOINTS).split("/")
        checkpoint = Checkpoint.parse("/".join(pieces[:2]))
        if checkpoint is None or len(pieces) < 3:
            continue
        parts = found.setdefault(checkpoint, set())
        if pieces[3:] == [MANIFEST]:
            parts.add(pieces[2])
    return found
