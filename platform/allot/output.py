"""How things are printed: fixed-width tables for people, JSON and YAML for programs.

Data goes to stdout, everything said about the work goes to stderr, so a pipe gets data only. Piped
tables are never cut to a width and never coloured.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from allot.errors import AllotError

#: A table in a terminal narrower than this wraps instead of losing its last column.
NARROWEST_LAST_COLUMN = 16
#: Blanks between columns.
GAP = 2

COLOURS = {
    "RUNNING": "green",
    "READY": "green",
    "SUCCEEDED": "green dim",
    "QUEUED": "yellow",
    "HELD": "magenta",
    "PLANNED": "cyan",
    "STARTING": "cyan",
    "STOPPING": "cyan",
    "FAILED": "red",
    "LOST": "red",
    "CANCELLED": "dim",
}


class Format(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


def visible(text: str) -> str:
    """Return text in which what would act on a terminal is seen instead.

    Names, labels and messages come from other people. An escape in one of them could clear the screen, set
    the window's title or hide what stands beside it; a direction mark could reorder it.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(letter: str) -> str:
    if letter.isprintable() or letter in "\n\t":
        return letter
    if letter.isspace() and ord(letter) > 0x9F:
        return " "
    if ord(letter) < 0x20:
        return chr(0x2400 + ord(letter))
    return "\N{SYMBOL FOR DELETE}" if letter == "\x7f" else "\N{REPLACEMENT CHARACTER}"


#: Escape sequences as ECMA-48 has them, by ESC or by the one character that stands for ESC and the next.
_BEGINNING = r"\x1b\x90\x98\x9b\x9d-\x9f"
#: Every pattern ends before the next beginning, or a hostile output would be read again from each of them.
_STRING = rf"(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x07\x9c{_BEGINNING}]*(?:\x07|\x1b\\|\x9c)"
_CONTROL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPES = re.compile(rf"{_STRING}|{_CONTROL}|\x1b[ -/]*[0-OQ-WYZ`-~]")
_BEGUN = re.compile(rf"[{_BEGINNING}].*")
#: A text that begins like an escape sequence and goes on for longer is not one.
_ESCAPE_LONGEST = 4096
_MOVES = re.compile(r"(\n|\x1b\[\d{0,4}A)")
#: Of progress bars below each other; nothing farther up is touched.
_BARS_MOST = 50


class WithoutEscapes:
    """Takes escape sequences out of a job's output that comes in pieces, for a terminal.

    Carriage returns stay, for progress bars need them; they act on the job's own line only. So do moves
    up to a line of this output, by which bars below each other are drawn.
    """

    def __init__(self) -> None:
        self._begun = ""
        self._lines_above = 0

    def __call__(self, piece: str) -> str:
        piece = self._begun + piece
        bare = _ESCAPES.sub("", piece)
        begun = _BEGUN.search(bare, bare.rfind("\n") + 1)
        self._begun = begun[0] if begun and len(begun[0]) <= _ESCAPE_LONGEST else ""
        text = _ESCAPES.sub(lambda found: found[0] if _MOVES.fullmatch(found[0]) else "", piece)
        if not text.endswith(self._begun):
            text = bare
        return "".join(map(self._moved, _MOVES.split(text.removesuffix(self._begun))))

    def interrupted(self) -> None:
        """Others wrote to the terminal, whose lines the output must not reach."""
        self._lines_above = 0

    def _moved(self, part: str) -> str:
        if part == "\n":
            self._lines_above += 1
            return part
        if not _MOVES.fullmatch(part):
            return "\r".join(map(visible, part.split("\r")))
        rows = min(int(part[2:-1] or 1), self._lines_above, _BARS_MOST)
        self._lines_above -= rows
        return f"\x1b[{rows}A" if rows else ""


def say(text: str) -> None:
    """Print a message for the user; never part of the data."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def print_line(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")


def print_object_line(value: Any) -> None:
    """Print one object in one line of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    sys.stdout.write((text if visible(text) == text else json.dumps(value)) + "\n")


def print_objects(value: Any, output: Format) -> None:
    """Print a whole object or a list of them, with every field that the server sent."""
    # What is not printable becomes an escape of JSON or YAML, which programs read back as it was.
    plain = visible(text := json.dumps(value, indent=2, ensure_ascii=False)) == text
    if output is Format.json:
        # Line by line, so that a reader who has seen enough ends the rest.
        sys.stdout.writelines(
            f"{line}\n" for line in (text if plain else json.dumps(value, indent=2)).split("\n")
        )
        return
    import yaml

    sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=plain, width=10_000))


def printable(text: object) -> str:
    """One line without control characters, so that a job's message cannot move the cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text)).strip()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()
) -> None:
    """Print a table without borders. Columns named in `right` are aligned to the right.

    In a terminal only the last column is cut to fit.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(value) for value in row] for row in rows]
    widths = [max([cell_len(row[i]) for row in cells] + [len(name)]) for i, name in enumerate(columns)]
    terminal = sys.stdout.isatty()
    if terminal:
        left = Console().width - sum(widths[:-1]) - GAP * (len(columns) - 1)
        widths[-1] = min(widths[-1], max(left, NARROWEST_LAST_COLUMN))
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, width=width, no_wrap=True, overflow="ellipsis")
    for row in cells:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    # Told its width, rich prints whole lines; by itself it cuts everything piped to 80 columns.
    console = Console(width=sum(widths) + GAP * len(columns), highlight=False)
    with console.capture() as captured:
        console.print(table)
    # rich pads the last column; blanks at the end of a line are of no use in a pipe.
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def parse_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def duration(seconds: float) -> str:
    """`42s`, `5m10s`, `3h12m`, `2d4h`: two units at most."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest and minutes < 10 else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def since(text: str | None, *, until: str | None = None) -> str:
    """How long ago a time of the API was, or how long before `until`; `-` when there is none."""
    if not text:
        return "-"
    end = parse_time(until) if until else datetime.now(UTC)
    return duration((end - parse_time(text)).total_seconds())


def local_time(text: str | None) -> str:
    return parse_time(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else "-"


def size(count: int) -> str:
    """`512 MiB`, `1.5 GiB`."""
    return f"{count / 2**30:.4g} GiB" if count >= 2**30 else f"{count / 2**20:.4g} MiB"


def gibibytes(count: int) -> str:
    return f"{count / 2**30:.0f} GiB"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shown_once(text: str | None) -> str:
    """Return the text of a new token or secret. An answer that was lost and asked for again has none."""
    if text is None:
        raise AllotError(
            "The token was created, but the answer with its text was lost. Revoke it and create another."
        )
    return text
