"""Ship output files in numbered chunks, so that the server stores every byte once whatever gets lost.

Where a chunk ends is written to disk before it is sent for the first time: sent again, by this life of
the agent or the next, it is the same chunk.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import time

from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.messages import CHUNKS_PER_BATCH, LOG_CHUNK_BYTES, LogAnswer, LogBatch, LogChunk

log = logging.getLogger(__name__)

#: An invalid byte becomes U+FFFD, which has three.
REPLACEMENT_BYTES = 3
LONGEST_CHARACTER_BYTES = 4
#: What one batch may take as JSON, in which a control character has six bytes. Servers limit requests.
BATCH_JSON_BYTES = 600_000


def decode_text(data: bytes) -> str:
    """Return the bytes as text that every JSON reader and database takes."""
    return data.decode("utf-8", errors="replace").replace("\x00", "�")


def raw_of(data: bytes) -> str:
    """Return the bytes in base64 where their text does not represent them, else ""."""
    return "" if decode_text(data).encode() == data else base64.b64encode(data).decode()


def cut(data: bytes, *, is_last: bool) -> int:
    """Return how many bytes the next chunk takes: all, but no half character and no more than fits.

    A character whose rest is not there yet is left for the next chunk, unless nothing will follow.
    """
    taken = data[:LOG_CHUNK_BYTES]
    if len(decode_text(taken).encode()) > LOG_CHUNK_BYTES:
        taken = data[: LOG_CHUNK_BYTES // REPLACEMENT_BYTES]
    if is_last and len(taken) == len(data):
        return len(taken)
    return len(taken) - _unfinished_bytes(taken)


def _unfinished_bytes(data: bytes) -> int:
    """Return how many bytes at the end begin a character that goes on after them."""
    for count in range(1, min(LONGEST_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-count]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if byte < 0xF8 and length > count else 0
        if byte < 0x80:
            return 0
    return 0


class OutputTail:
    """The output of one replica: what the server has, what is under way, and where to go on."""

    def __init__(self, attempt: int, rank: int, folder: AttemptFolder) -> None:
        self.attempt = attempt
        self.rank = rank
        self.path = folder.log(rank)
        self.journal = folder.sent(rank)
        kept = read_json(self.journal) or {}
        #: The first chunk that the server may not have, and where it begins in the file.
        self.sequence: int = kept.get("sequence", 0)
        self.offset: int = kept.get("offset", 0)
        #: Where each chunk that was, or may have been, sent since then ends.
        self.ends: list[int] = kept.get("ends", [])
        self.is_full: bool = kept.get("is_full", False)

    def next_batch(self, *, is_last: bool) -> LogBatch | None:
        """Return what to send now; the same again until `answered`. None when there is nothing new."""
        if self.is_full:
            return None
        if not self.ends:
            self._cut_chunks(is_last=is_last)
            if not self.ends:
                return None
            self._keep()
        now = time.time()
        starts = [self.offset, *self.ends[:-1]]
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            pieces = [file.read(end - start) for start, end in zip(starts, self.ends, strict=True)]
        chunks = (
            LogChunk(sequence=self.sequence + n, at=now, text=decode_text(piece), raw=raw_of(piece))
            for n, piece in enumerate(pieces)
        )
        return LogBatch(attempt=self.attempt, rank=self.rank, chunks=tuple(chunks))

    def answered(self, answer: LogAnswer) -> None:
        """Go on behind the last chunk that the server stored."""
        stored = min(answer.next_sequence - self.sequence, len(self.ends))
        if stored > 0:
            self.offset = self.ends[stored - 1]
            self.sequence += stored
            self.ends = self.ends[stored:]
        elif answer.next_sequence < self.sequence:
            log.error(
                "The server wants chunk %d of attempt %d rank %d again, which was already confirmed; "
                "the rest of this output stays on the node until the attempt is forgotten.",
                answer.next_sequence,
                self.attempt,
                self.rank,
            )
            self.is_full = True
        self.is_full |= answer.full
        if self.is_full or not self.ends:
            self._keep()

    def has_more(self) -> bool:
        """Whether there is output that the server does not have."""
        return not self.is_full and (bool(self.ends) or self._size() > self.offset)

    def _cut_chunks(self, *, is_last: bool) -> None:
        window = CHUNKS_PER_BATCH * LOG_CHUNK_BYTES
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read(window)
        except FileNotFoundError:
            return
        is_last = is_last and self.offset + len(data) >= self._size()
        start, json_bytes = 0, 0
        while start < len(data) and len(self.ends) < CHUNKS_PER_BATCH and json_bytes < BATCH_JSON_BYTES:
            taken = cut(
                data[start : start + LOG_CHUNK_BYTES],
                is_last=is_last and len(data) - start <= LOG_CHUNK_BYTES,
            )
            if taken == 0:
                break
            piece = data[start : start + taken]
            text = json.dumps(decode_text(piece), ensure_ascii=False)
            json_bytes += len(text.encode()) + len(raw_of(piece))
            start += taken
            self.ends.append(self.offset + start)

    def _size(self) -> int:
        try:
            return os.path.getsize(self.path)
        except FileNotFoundError:
            return 0

    def _keep(self) -> None:
        state = {"sequence": self.sequence, "offset": self.offset, "ends": self.ends, "is_full": self.is_full}
        write_json(self.journal, state)
