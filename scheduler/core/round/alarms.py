"""Jobs to look at again at an instant, without an event."""

from __future__ import annotations

from heapq import heappop, heappush

from scheduler.core.model.snapshot import JobId


class Alarms:
    """Pairs of an instant and a job, the earliest first.

    Each pair is kept once, however often it is put: a job that runs for a week changes thousands of times
    before its time limit.
    """

    __slots__ = ("_heap", "_kept")

    def __init__(self) -> None:
        self._heap: list[tuple[float, JobId]] = []
        self._kept: set[tuple[float, JobId]] = set()

    def put(self, instant: float, job: JobId) -> None:
        """Set an alarm."""
        alarm = instant, job
        if alarm not in self._kept:
            self._kept.add(alarm)
            heappush(self._heap, alarm)

    @property
    def first(self) -> tuple[float, JobId] | None:
        """The earliest alarm; None: there is none."""
        return self._heap[0] if self._heap else None

    def pop(self) -> tuple[float, JobId]:
        """Remove the earliest alarm and return it."""
        alarm = heappop(self._heap)
        self._kept.discard(alarm)
        return alarm
