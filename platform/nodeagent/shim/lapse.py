"""What follows the end of a lease: the attempt stands still until the server says that it is still its own.

Nobody can tell from a node whether the server is down or the node is cut off. What is frozen neither
computes nor writes, so that both are safe: in the first case it goes on where it was, in the second a
successor runs elsewhere and this one is killed as it stands. Imported by the shim, so it imports nothing.
"""

from __future__ import annotations

#: How long freezing may take, before everything is killed instead.
FREEZE_SECONDS = 1.0
#: Of containers, which their engine freezes.
CONTAINER_FREEZE_SECONDS = 2.0
#: How often it is looked whether all is frozen: until it is, and afterwards.
LOOK_FIRST_SECONDS = 0.05
LOOK_SECONDS = 1.0


class Lapse:
    """One time of standing still. All times are seconds of the boot clock."""

    def __init__(self, *, deadline: float, complete_by: float, until: float, now: float) -> None:
        #: Of the lease that ended.
        self.deadline = deadline
        #: When everything has to be frozen; None: it is.
        self.complete_by: float | None = complete_by
        #: When it is killed at the latest.
        self.until = until
        self.began_at = now

    def is_over(self, resume: float, now: float, margin_seconds: float) -> bool:
        """Whether a newer lease, which ends at `resume`, names the attempt and lasts a while."""
        return resume > self.deadline and now < resume - margin_seconds

    def must_end(self, now: float) -> bool:
        """Whether it has stood still for as long as it may, or could not be frozen in time."""
        return now >= self.until or (self.complete_by is not None and now >= self.complete_by)

    def looked(self, now: float, *, is_complete: bool) -> None:
        """Take in whether everything was seen to stand still."""
        if is_complete:
            self.complete_by = None
        elif self.complete_by is None:
            # Somebody let a process go on.
            self.complete_by = now + FREEZE_SECONDS

    def look_again_seconds(self, now: float) -> float:
        look_seconds = LOOK_SECONDS if self.complete_by is None else LOOK_FIRST_SECONDS
        return min(look_seconds, self.until - now)
