"""What units are owed on each GPU model, and what jobs received there.

While a unit waits, the time it should have had there adds up; while it runs there, that time is paid off.
Idle GPUs are no debt: time had beyond a target counts for one lease at most, and a job that was given a model
on which it has no target is owed nothing for that time on models that are no faster for it.

Gavel compares target and received share since the last allocation and forgets what it owed, but for ties,
whenever shares are decided anew (section 5). Here it is carried over, so that a unit's part converges to its
shares however often these change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core.policy import View
from scheduler.core.snapshot import JobId, Memory
from scheduler.core.targets.prospects import Prospects
from scheduler.core.targets.units import Targets, Unit, name_of, unit_named

#: Digits after the point of seconds that are remembered.
DIGITS = 3


class Ledger:
    """Seconds owed by unit and model, and seconds received by job and model.

    Memory: `at`, `owed`, `received` since `reset_at`.
    """

    def __init__(self, view: View, memory: Memory, lease_seconds: float) -> None:
        self._view, self._most_ahead = view, lease_seconds
        self._at = float(memory.get("at", view.now))
        #: When shares were decided last, and what each job received since then.
        self.reset_at = float(memory.get("reset_at", view.now))
        self.received: dict[str, dict[str, float]] = memory.get("received", {})
        known = {unit_named(name): dict(owed) for name, owed in memory.get("owed", {}).items()}
        self._owed: dict[Unit, dict[str, float]] = known

    def settle(self, targets: Targets, prospects: Prospects) -> None:
        """Write down what happened since the last round."""
        view = self._view
        passed = max(0.0, view.now - self._at)
        ran: dict[JobId, tuple[Unit, str, float]] = {}
        received = {job: dict(had) for job, had in self.received.items() if int(job) in view.jobs}
        for running in view.running.values():
            seconds = 0.0 if running.phase == "planned" else view.now - max(running.since, self._at)
            for job in running.jobs:
                ran[job] = running.jobs, running.gpu_model, max(0.0, seconds)
                had = received.setdefault(str(job), {})
                had[running.gpu_model] = had.get(running.gpu_model, 0.0) + max(0.0, seconds)
        self.received = received
        owed = {}
        for unit, shares in targets.items():
            if all(job in view.jobs for job in unit):
                before = self._owed.get(unit, {})
                owed[unit] = {
                    model: self._now_owed(unit, model, share * passed, before.get(model, 0.0), ran, prospects)
                    for model, share in shares.items()
                }
        self._owed = owed

    def _now_owed(
        self,
        unit: Unit,
        model: str,
        due: float,
        before: float,
        ran: Mapping[JobId, tuple[Unit, str, float]],
        prospects: Prospects,
    ) -> float:
        there = ran.get(unit[0])
        if there is not None and there[:2] == (unit, model):
            return max(before + due - there[2], -self._most_ahead)
        if all(self._fares_as_well(job, model, ran, prospects) for job in unit):
            return before
        return before + due

    def _fares_as_well(
        self, job: JobId, model: str, ran: Mapping[JobId, tuple[Unit, str, float]], prospects: Prospects
    ) -> bool:
        there = ran.get(job)
        if there is None or there[1] in self._owed.get(there[0], {}) or not there[2]:
            return False
        known = self._view.jobs[job]
        return prospects.speed(known, there[1]) >= prospects.speed(known, model)

    def owed(self, unit: Unit, model: str) -> float:
        """Return the seconds that the unit is behind its share there; negative when it is ahead."""
        return self._owed.get(unit, {}).get(model, 0.0)

    def reset(self, targets: Targets) -> None:
        """Begin to count what is received anew: shares were decided. What is owed stays owed."""
        self.reset_at, self.received = self._view.now, {}
        self._owed = {unit: owed for unit, owed in self._owed.items() if unit in targets}

    def remember(self) -> dict[str, Any]:
        """Return the memory for the next round."""
        owed = {name_of(unit): _rounded(seconds) for unit, seconds in self._owed.items()}
        received = {job: _rounded(seconds) for job, seconds in self.received.items()}
        return {
            "at": self._view.now,
            "reset_at": self.reset_at,
            "owed": {name: seconds for name, seconds in owed.items() if seconds},
            "received": {job: seconds for job, seconds in received.items() if seconds},
        }


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    rounded = {model: round(value, DIGITS) for model, value in seconds.items()}
    return {model: value for model, value in rounded.items() if value}
