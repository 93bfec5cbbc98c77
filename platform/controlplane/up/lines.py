"""Read a child's output line by line."""

import asyncio
import os
from collections.abc import Callable

# A longer line is handed over in pieces.
LINE_BYTES = 64 * 1024


async def read_lines(descriptor: int, on_line: Callable[[str], None]) -> None:
    """Call `on_line` for each line until the last writer is gone; closes the descriptor."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    on_line(_text(end.partial))
                return
            except asyncio.LimitOverrunError as overrun:
                line = await reader.read(max(overrun.consumed, 1))
            on_line(_text(line))
    finally:
        transport.close()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip()
