"""Finding lines in stored output, within bounds of time and size.

Lines are what a page shows of them: without escape sequences, and of what was overwritten only the last.
Text is compared here; a regular expression is given to PostgreSQL, whose engine does not backtrack and whose
statements can be given up: Python's cannot.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from django.db import DataError, OperationalError, connection, transaction

from scheduler.models.attempts import Attempt
from scheduler.telemetry.logs.services.reading import NONE_SEEN, all_chunks
from scheduler.telemetry.logs.services.redrawing import moves_up, redrawn
from tenants.errors import FieldError, Invalid

#: After this long the answer is what was found by then, and where to go on.
SEARCH_SECONDS = 4.0
#: The time for one page of text; only an expression that explodes takes more.
PATTERN_SECONDS = 2.0
LONGEST_PATTERN_CHARACTERS = 500
#: Shown of a line, around what was found.
SHOWN_CHARACTERS = 1_000
_SHOWN_BEFORE = 200
#: A line longer than this is searched in pieces.
_LONGEST_LINE_CHARACTERS = 2**20

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LARGEST = 2**31 - 1

_MATCHES = """
SELECT line.place - 1, regexp_instr(line.text, %(pattern)s, 1, 1, 0, %(flags)s) - 1,
    regexp_instr(line.text, %(pattern)s, 1, 1, 1, %(flags)s) - 1
FROM unnest(%(lines)s::text[]) WITH ORDINALITY AS line (text, place)
WHERE regexp_like(line.text, %(pattern)s, %(flags)s)
ORDER BY line.place LIMIT %(limit)s
"""

#: Of lines and how many at most: the index of each line that matches, and where in it the match is.
Matcher = Callable[[Sequence[str], int], list[tuple[int, int, int]]]


@dataclass(frozen=True, slots=True)
class Place:
    """How far was searched: up to and including `line` of `rank`.

    To go on there, reading starts at chunk `sequence`, before which there are `newlines` ends of lines.
    """

    rank: int
    line: int = 0
    sequence: int = 0
    newlines: int = 0

    def text(self) -> str:
        return f"{self.rank}.{self.line}.{self.sequence}.{self.newlines}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return what `text` wrote down; raise Invalid for anything else."""
        if re.fullmatch(r"\d{1,10}(\.\d{1,10}){3}", text):
            numbers = [int(number) for number in text.split(".")]
            if max(numbers) <= _LARGEST:
                return cls(*numbers)
        raise Invalid(
            "This is not a position in the output.",
            [
                FieldError(
                    "after", "It is not a position in the output.", "`next_after` of an answer, as it is"
                )
            ],
        )


@dataclass(slots=True)
class Hit:
    """A line that matches. `start` and `end` bound the first match in `text`.

    A reader of chunks from `sequence` on meets the line; the text of that chunk begins in line `chunk_line`.
    """

    rank: int
    line: int
    sequence: int
    chunk_line: int
    text: str
    start: int
    end: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SearchOutcome:
    """`go_on` is where the search stopped before its end; None when everything was searched."""

    hits: list[Hit] = field(default_factory=list)
    lines_searched: int = 0
    go_on: Place | None = None


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines of one rank, and (sequence, ends of lines before it) of the chunks they came from."""

    first_line: int
    lines: list[str]
    chunks: list[tuple[int, int]]

    def place(self, rank: int, line: int) -> Place:
        """Return the place of a line, with the chunk in which it begins."""
        index = bisect_left(self.chunks, line - 1, key=lambda chunk: chunk[1]) - 1
        sequence, newlines = self.chunks[max(0, index)]
        return Place(rank, line, sequence, newlines)


def search(
    attempt: Attempt,
    ranks: Sequence[int],
    matcher: Matcher,
    *,
    context: int = 0,
    limit: int = 100,
    after: Place | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchOutcome:
    """Look for lines of these ranks, one rank after another, until `limit` hits or the end of the time."""
    deadline = clock() + SEARCH_SECONDS
    found = SearchOutcome()
    for rank in ranks:
        if after is not None and rank < after.rank:
            continue
        start = after if after is not None and rank == after.rank else Place(rank)
        previous: list[str] = []
        unfinished: list[Hit] = []
        for block in _blocks(attempt, start):
            for hit in unfinished:
                hit.after += map(_shown, block.lines[: context - len(hit.after)])
            skipped = min(len(block.lines), max(0, start.line + 1 - block.first_line))
            fresh = block.lines[skipped:]
            matches = matcher(fresh, limit - len(found.hits))
            for index, begin, end in matches:
                hit = _hit(block, rank, skipped + index, begin, end)
                lines, at = [*previous, *block.lines], len(previous) + skipped + index
                hit.before = [_shown(line) for line in lines[max(0, at - context) : at]]
                hit.after = [_shown(line) for line in lines[at + 1 : at + 1 + context]]
                found.hits.append(hit)
            unfinished = [hit for hit in found.hits if hit.rank == rank and len(hit.after) < context]
            previous = [*previous, *block.lines][-context:] if context else []
            is_full = len(found.hits) >= limit
            last = found.hits[-1].line if is_full else block.first_line + len(block.lines) - 1
            found.lines_searched += last - (block.first_line + skipped) + 1
            if is_full or clock() > deadline:
                found.go_on = block.place(rank, last)
                return found
    return found


def matcher_of(sought: str, *, is_pattern: bool, match_case: bool) -> Matcher:
    """Return what finds a text or a regular expression. Raises Invalid for an invalid expression."""
    if not is_pattern:
        return _text_matcher(sought, match_case=match_case)
    matcher = _pattern_matcher(sought, match_case=match_case)
    matcher([""], 1)
    return matcher


def _text_matcher(sought: str, *, match_case: bool) -> Matcher:
    # Not lower(): that may change a text's length, and with it all places behind.
    pattern = re.compile(re.escape(sought), 0 if match_case else re.IGNORECASE)

    def matches(lines: Sequence[str], limit: int) -> list[tuple[int, int, int]]:
        found = []
        for index, line in enumerate(lines):
            if match := pattern.search(line):
                found.append((index, match.start(), match.end()))
                if len(found) == limit:
                    break
        return found

    return matches


def _pattern_matcher(pattern: str, *, match_case: bool) -> Matcher:
    def matches(lines: Sequence[str], limit: int) -> list[tuple[int, int, int]]:
        given = {
            "pattern": pattern,
            "flags": "c" if match_case else "i",
            "lines": list(lines),
            "limit": limit,
        }
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                milliseconds = str(int(PATTERN_SECONDS * 1000))
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [milliseconds])
                cursor.execute(_MATCHES, given)
                found: list[tuple[int, int, int]] = cursor.fetchall()
                return found
        except DataError as error:
            reason = str(error).splitlines()[0].removeprefix("invalid regular expression: ")
            expected = "a regular expression, such as loss=nan|epoch [0-9]+; or a plain text, without `regex`"
            raise Invalid(
                f"This regular expression cannot be used: {reason}.",
                [FieldError("q", f"The regular expression cannot be used: {reason}.", expected)],
            ) from error
        except OperationalError as error:
            if "statement timeout" not in str(error):
                raise
            problem = f"It takes more than {PATTERN_SECONDS:g} seconds for one page of this output."
            raise Invalid(
                f"The search by this regular expression was stopped. {problem}",
                [FieldError("q", problem, "one without nested repetitions and references back")],
            ) from error

    return matches


def _blocks(attempt: Attempt, start: Place) -> Iterator[_Block]:
    """Yield the lines of a rank, page by page; the last one may not have ended."""
    rest, newlines = "", start.newlines
    rest_chunk: tuple[int, int] | None = None
    for page in all_chunks(attempt, start.rank, start.sequence + NONE_SEEN):
        chunks = [rest_chunk] if rest_chunk else []
        first_line = newlines + 1
        texts = [chunk.text for chunk in page]
        if any(map(moves_up, texts)):
            (*lines, rest), begins = redrawn([rest, *texts])
            chunks += [(chunk.sequence, newlines + row) for chunk, row in zip(page, begins[1:], strict=True)]
            newlines += len(lines)
        else:
            for chunk in page:
                chunks.append((chunk.sequence, newlines))
                newlines += chunk.text.count("\n")
            *lines, rest = (rest + "".join(texts)).split("\n")
        block = _Block(first_line, [_visible(line) for line in lines], chunks)
        if lines:
            yield block
        place = block.place(start.rank, newlines + 1)
        rest_chunk = (place.sequence, place.newlines)
        if len(rest) > _LONGEST_LINE_CHARACTERS:
            yield _Block(newlines + 1, [_visible(rest)], [rest_chunk])
            rest = ""
    if rest and rest_chunk:
        yield _Block(newlines + 1, [_visible(rest)], [rest_chunk])


def _visible(line: str) -> str:
    """What a terminal would leave to see; the page does the same (`log-buffer.ts`)."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def _hit(block: _Block, rank: int, index: int, start: int, end: int) -> Hit:
    place = block.place(rank, block.first_line + index)
    cut = max(0, start - _SHOWN_BEFORE)
    text = block.lines[index][cut : cut + SHOWN_CHARACTERS]
    return Hit(
        rank=rank,
        line=place.line,
        sequence=place.sequence,
        chunk_line=place.newlines + 1,
        text=text,
        start=start - cut,
        end=min(end - cut, len(text)),
    )


def _shown(line: str) -> str:
    return line[:SHOWN_CHARACTERS]
