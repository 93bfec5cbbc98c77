"""The data set that a job reads from the storage of its nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What may name one.
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
#: The largest one, and the most that is read of it in a second.
MOST_BYTES, MOST_BANDWIDTH = 2**50, 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Data that a job reads. Jobs of a tenant that name the same data set read the same bytes."""

    name: str
    size_bytes: int
    #: Bytes a second that each replica reads while nothing of it is cached; 0: no job waits for it.
    bandwidth: float = 0.0
