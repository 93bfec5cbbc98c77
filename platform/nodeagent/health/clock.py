"""The node's clock beside the server's."""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.messages import Finding

WARNING_SECONDS = 5.0


class ClockCheck:
    """Never fails: leases are counted by a clock that nobody sets, so only times that are shown are wrong."""

    name = "clock"
    every_seconds = 30.0
    patience_seconds = 20.0

    def __init__(self, ahead_seconds: Callable[[], float | None]) -> None:
        """`ahead_seconds`: of the server's clock; None while there was no answer."""
        self.ahead_seconds = ahead_seconds

    def look(self) -> tuple[Finding, ...]:
        ahead = self.ahead_seconds()
        if ahead is None or abs(ahead) < WARNING_SECONDS:
            return (Finding(name=self.name, verdict="ok"),)
        relation = "ahead of" if ahead > 0 else "behind"
        message = f"The clock is {abs(ahead):.0f} s {relation} the server's."
        return (Finding(name=self.name, verdict="warning", message=message),)
