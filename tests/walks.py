"""How often a reader who follows a call comes back to a file that he had left.

Each call of a function of ours is a step. A *stay* is a run of steps in one file, a *return* is a stay in a
file where there was a stay before. Comprehensions, and generators that go on, are no steps.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]


class Walk:
    """The files of a walk in order, a file once for each stay."""

    def __init__(self) -> None:
        self.stays: list[str] = []

    @property
    def returns(self) -> int:
        return len(self.stays) - len(set(self.stays))

    def step(self, file: str) -> None:
        if self.stays[-1:] != [file]:
            self.stays.append(file)


@contextmanager
def walking(*folders: str) -> Iterator[Walk]:
    """Walk along what is called of these folders."""
    walk, before = Walk(), sys.getprofile()
    inside = tuple(f"{ROOT / folder}/" for folder in folders)

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(inside) or code.co_name.startswith("<"):
            return
        if not code.co_flags & CO_GENERATOR or frame.f_lasti <= _beginning(code):
            walk.step(code.co_filename.removeprefix(f"{ROOT}/"))

    sys.setprofile(called)
    try:
        yield walk
    finally:
        sys.setprofile(before)


@cache
def _beginning(code: CodeType) -> int:
    """Return where a generator begins; where it goes on is behind that."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")
