"""`allot logs --grep`: what was found, printed as grep prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allot.schema import LogHit

BETWEEN_GROUPS = "--"


def hit_lines(hits: Iterator[LogHit], *, has_names: bool) -> Iterator[str]:
    """Yield `12:text` for each line found and `11-text` for those around it, each line once.

    Before lines that do not follow the last ones stands `--`, where lines around them were asked for.
    """
    shown: tuple[int, int] | None = None
    for hit in hits:
        rank = hit["rank"]
        name = f"[{hit['task']} {rank}] " if has_names else ""
        first = hit["line"] - len(hit["before"])
        numbered = [*enumerate([*hit["before"], hit["text"], *hit["after"]], first)]
        if shown is not None and (hit["before"] or hit["after"]) and (rank, first) > (shown[0], shown[1] + 1):
            yield BETWEEN_GROUPS
        for number, text in numbered:
            if shown is not None and (rank, number) <= shown and number != hit["line"]:
                continue
            mark = ":" if number == hit["line"] else "-"
            yield f"{name}{number}{mark}{text}"
            shown = (rank, number)
