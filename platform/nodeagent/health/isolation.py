"""Whether jobs can be kept apart here, without which none starts."""

from __future__ import annotations

from nodeagent.messages import Finding


class IsolationCheck:
    """Tells what the runtime found out when it began; nothing of that changes while it lives."""

    name = "isolation"
    every_seconds = 3600.0
    patience_seconds = 20.0

    def __init__(self, problem: str) -> None:
        """`problem`: why no job starts here; "" when they do."""
        self.problem = problem

    def look(self) -> tuple[Finding, ...]:
        return (Finding(name=self.name, verdict="failed" if self.problem else "ok", message=self.problem),)
