"""Recognise what a file is if it is not the text or the table that it should be."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence

#: Beginnings of files that are not text, and what such files are.
_BEGINNINGS = (
    (codecs.BOM_UTF32_LE, "is text in UTF-32; save it as UTF-8"),
    (codecs.BOM_UTF32_BE, "is text in UTF-32; save it as UTF-8"),
    (codecs.BOM_UTF16_LE, "is text in UTF-16; save it as UTF-8"),
    (codecs.BOM_UTF16_BE, "is text in UTF-16; save it as UTF-8"),
    (b"\x1f\x8b", "is a gzip archive; let its name end in .gz"),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet; save it as a table in UTF-8, separated by commas"),
    (b"PAR1", "is a Parquet file; save it as a table in UTF-8, separated by commas"),
)
#: The length of the beginning of a file that shows whether every other byte is 0.
_HEAD_BYTES = 256
_SEPARATORS = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))
#: The characters that bytes become that are not UTF-8.
_ESCAPED = re.compile("[\udc80-\udcff]")


def not_text(data: bytes) -> str:
    """Return what data is instead of UTF-8; empty when it may be UTF-8."""
    for beginning, words in _BEGINNINGS:
        if data.startswith(beginning):
            return words
    head = data[:_HEAD_BYTES]
    # In UTF-16, letters of most languages have one byte of 0, always on the same side.
    if len(head) >= 4 and max(head[0::2].count(0), head[1::2].count(0)) > len(head) // 4:
        return "is text in UTF-16; save it as UTF-8"
    return ""


def decoded(data: bytes) -> str:
    """Return the text of a file in UTF-8; if it is not, raise ValueError with the end of a sentence."""
    if words := not_text(data):
        raise ValueError(words)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"is not UTF-8: line {line} has a byte {data[error.start]:#04x}") from None


def has_bad_bytes(text: str) -> bool:
    """Return whether text that was decoded with surrogateescape has bytes that are not UTF-8."""
    return _ESCAPED.search(text) is not None


def json_fault(error: ValueError | RecursionError) -> tuple[str, int | None]:
    """Return what is wrong with JSON, and the position of the mistake where the parser states it."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg, error.pos
    return ("it is nested too deeply" if isinstance(error, RecursionError) else "a number is too long"), None


def not_a_table(columns: Sequence[str]) -> str:
    """Return what the first line is instead of names separated by commas; empty when it may be such names."""
    if columns and columns[0].lstrip()[:1] in ("{", "["):
        return "is JSON; it must be a table that begins with a header"
    if len(columns) == 1:
        for separator, name in _SEPARATORS:
            if separator in columns[0]:
                return f"the columns are separated by {name}; they must be separated by commas"
    return ""
