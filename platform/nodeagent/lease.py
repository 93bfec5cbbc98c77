"""The file that says until when the jobs of a node may run: its agent moves it on, its shims read it.

It is written over in place, since a full disk would refuse a new file, and that must not end the lease of all
jobs on the node. A reader may then see half of the old and half of the new text, so its last digits are a
checksum of the others.

Shims outlive an upgrade of the agent and may be older than it, or newer. To an older one the text is a number
in JSON, which the checksum makes greater by less than a millisecond: by what was cut off.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import math
import zlib

from nodeagent.folder import overwrite

#: Also more than any other version writes, which replaces the file.
_NUMBER_BYTES, _CHECKSUM_DIGITS = 24, 8
#: To write the text takes far less time than to read it so often.
_READS = 5


def write_lease(path: str, deadline: float) -> None:
    """Let jobs go on until the deadline, in seconds of the boot clock; at most a millisecond is cut off."""
    number = f"{math.floor(deadline * 1000) / 1000:{_NUMBER_BYTES}.3f}"
    overwrite(path, number + _checksum(number))


def read_lease(path: str) -> float | None:
    """Return the deadline in seconds of the boot clock; None where none can be read."""
    for _ in range(_READS):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        number, checksum = text[:_NUMBER_BYTES], text[_NUMBER_BYTES:]
        if not checksum or checksum == _checksum(number):
            return _float(number)
    return None


def _checksum(number: str) -> str:
    return f"{zlib.crc32(number.encode()) % 10**_CHECKSUM_DIGITS:0{_CHECKSUM_DIGITS}}"


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
