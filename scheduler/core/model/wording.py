"""Formats numbers, models, times and jobs for sentences to people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from scheduler.core.model.snapshot import JobId


def gpus(count: float, models: Sequence[str] = ()) -> str:
    """Return "4 V100", "0.5 V100", "4 V100 or P100" or, for any model, "4 GPUs", "0.5 GPU"."""
    if not models:
        return f"{count:.12g} GPU" if 0 < count <= 1 else f"{count:.12g} GPUs"
    return f"{count:.12g} {either(models)}"


def either(names: Sequence[str]) -> str:
    """Return "A", "A or B", "A, B or C"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def replicas(count: int, largest: int) -> str:
    """Return "8 on one node" or "4 replicas with up to 2 on one node each"."""
    return (
        f"{largest} on one node" if count == 1 else f"{count} replicas with up to {largest} on one node each"
    )


def processors(cpus: float, memory_bytes: float) -> str:
    """Return "4 CPUs", "1.5 GiB of memory" or "4 CPUs and 1.5 GiB of memory"."""
    memory = f"{memory_bytes / 2**30:.1f} GiB of memory"
    return listed([words for words, count in ((f"{cpus:g} CPUs", cpus), (memory, memory_bytes)) if count])


def gibibytes(memory_bytes: float) -> str:
    """Return "5.5 GiB"."""
    return f"{memory_bytes / 1024**3:.4g} GiB"


def rate(bytes_per_second: float) -> str:
    """Return "500 MiB/s", "1.5 GiB/s"."""
    mebibytes = bytes_per_second / 2**20
    return f"{mebibytes / 1024:.4g} GiB/s" if mebibytes >= 1024 else f"{mebibytes:.4g} MiB/s"


def parts(milligpus: Sequence[int]) -> str:
    """Return "0.3 of a GPU", "parts of 4 GPUs"."""
    return f"{milligpus[0] / 1000:g} of a GPU" if len(milligpus) == 1 else f"parts of {len(milligpus)} GPUs"


def listed(names: Collection[str], most: int = 5) -> str:
    """Return "A", "A and B", "A, B and 7 more"."""
    shown = list(names)[:most]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def counted(count: int, what: str) -> str:
    """Return "1 job", "1,200 jobs"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def jobs(ids: Collection[JobId]) -> str:
    """Return "job 7", "jobs 7 and 8"."""
    return ("job " if len(ids) == 1 else "jobs ") + listed([str(job) for job in ids])


def duration(seconds: float) -> str:
    """Return "45 s", "12 min", "3 h" or "2 d", rounded up to whole units."""
    for unit, size, up_to in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds <= up_to:
            return f"{-int(-seconds // size)} {unit}"
    return f"{-int(-seconds // 86_400)} d"


#: The last instant that has a date.
_LAST_SECONDS = 253_402_300_799


def instant(seconds: float) -> str:
    """Return "14:05:30 UTC on 21 November" for Unix seconds."""
    if not seconds <= _LAST_SECONDS:
        return "a time after the year 9999"
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S UTC on %-d %B}"
