"""The rows that a terminal shows of output that moves the cursor up, as several progress bars do.

outer 10%
inner 50%       then ESC[A, and after the next line feed "inner 60%" in the same row
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MOVES = re.compile(r"(\n|\x1b\[\d{0,4}A)")
_UP = re.compile(r"\x1b\[\d{0,4}A")


def moves_up(text: str) -> bool:
    return _UP.search(text) is not None


def redrawn(pieces: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the rows, and the number of the one in which each piece begins, never a smaller one than before.

    Where a row is written again, the new text stands behind a carriage return. Rows are put together at the
    end, so that the time grows with the text however often it moves.
    """
    rows: list[list[str]] = [[]]
    at = 0
    begins: list[int] = []
    for piece in pieces:
        begins.append(max(at, begins[-1] if begins else 0))
        for part in _MOVES.split(piece):
            if part != "\n" and not _UP.fullmatch(part):
                if part:
                    rows[at].append(part)
                continue
            at = at + 1 if part == "\n" else max(0, at - int(part[2:-1] or 1))
            if at == len(rows):
                rows.append([])
            elif not (rows[at] and rows[at][-1].endswith("\r")):
                rows[at].append("\r")
    return ["".join(row) for row in rows], begins
