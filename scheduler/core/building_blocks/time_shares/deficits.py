"""What units are owed on each GPU model, and what jobs received there.

While a unit waits, the time it should have had there adds up; while it runs there, that time is paid off.
Idle GPUs create no deficit: time beyond a target counts for one lease at most, plus the time for which a unit
keeps its place because of its preemption cost. For the time that a job runs on a model on which it has no
target, it is owed nothing on models that are no faster for it.

Gavel compares target and received share since the last allocation. Whenever it decides shares again, it
forgets debts, except for ties (section 5). Here debts are carried over, so that a unit's time converges to
its shares however often these change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.units import TimeShares, Unit, name_of, unit_named
from scheduler.core.model.snapshot import JobId, Memory

#: Digits after the point of seconds that are remembered.
DIGITS = 3
#: The most leases for which a unit keeps its place because of its preemption cost.
MOST_LEASES = 10


#: The unit as which a job ran, its model, and for how many seconds.
_Stretch = tuple[Unit, str, float]


class Deficits:
    """Seconds owed by unit and model, and seconds received by job and model.

    Memory: `at`, `owed`, `received` since `reset_at`.
    """

    def __init__(self, view: View, memory: Memory, lease_seconds: float, overhead: float = 0.0) -> None:
        self._view, self._lease_seconds, self._overhead = view, lease_seconds, overhead
        self._at = float(memory.get("at", view.now))
        #: When shares were last decided, and what each job has received since.
        self.reset_at = float(memory.get("reset_at", view.now))
        self.received: dict[str, dict[str, float]] = memory.get("received", {})
        known = {unit_named(name): dict(owed) for name, owed in memory.get("owed", {}).items()}
        self._owed: dict[Unit, dict[str, float]] = known

    def settle(self, time_shares: TimeShares, run_options: RunOptions) -> None:
        """Record what units received since the last round, and what they are owed."""
        view = self._view
        passed = max(0.0, view.now - self._at)
        ran = self._receive(time_shares)
        owed: dict[Unit, dict[str, float]] = {}
        for unit, shares in time_shares.items():
            before, here = self._owed.get(unit, {}), ran.get(unit[0])
            if not all(job in view.jobs for job in unit):
                # Debts are kept for a job that is still leaving its GPUs or is held.
                owed[unit] = before
                continue
            owed[unit] = {}
            for model, share in shares.items():
                now_owed = before.get(model, 0.0) + share * passed
                if here is not None and here[:2] == (unit, model):
                    now_owed = max(now_owed - here[2], -self._lease_seconds - self.worth_staying(unit, model))
                elif all(self._is_better_off(job, model, ran, time_shares, run_options) for job in unit):
                    now_owed -= share * passed
                owed[unit][model] = now_owed
        self._owed = owed

    def _receive(self, time_shares: TimeShares) -> Mapping[JobId, _Stretch]:
        """Add up what jobs received, and return the latest stretch by job."""
        view = self._view
        ran: dict[JobId, _Stretch] = {}
        known = {str(job) for unit in time_shares for job in unit}.union(map(str, view.jobs))
        received = {job: dict(had) for job, had in self.received.items() if job in known}
        for job, running in view.running.items():
            if running.phase == "held":
                seconds = max(0.0, view.now - max(running.since_of(job), self._at))
                ran[job] = running.jobs, running.gpu_model, seconds
                had = received.setdefault(str(job), {})
                had[running.gpu_model] = had.get(running.gpu_model, 0.0) + seconds
        self.received = received
        return ran

    def _is_better_off(
        self,
        job: JobId,
        model: str,
        ran: Mapping[JobId, _Stretch],
        time_shares: TimeShares,
        run_options: RunOptions,
    ) -> bool:
        """Return whether the job was given left-over GPUs of another model that is as fast for it."""
        unit, there, seconds = ran.get(job, ((), "", 0.0))
        if not seconds or there in time_shares.get(unit, {}):
            return False
        known = self._view.jobs[job]
        return run_options.speed(known, there) >= run_options.speed(known, model)

    def owed(self, unit: Unit, model: str) -> float:
        """Return the seconds that the unit is behind its share there; negative when it is ahead."""
        return self._owed.get(unit, {}).get(model, 0.0)

    def worth_staying(self, unit: Unit, model: str) -> float:
        """Return how many more seconds another unit must be owed to take this unit's place; 0 if it does not
        run there.

        A preemption shall cost the unit at most a part, the overhead, of the time that it runs without
        interruption. This keeps a unit in its place for a few leases at most.
        """
        running = self._view.running.get(unit[0])
        if not self._overhead or running is None or (running.jobs, running.gpu_model) != (unit, model):
            return 0.0
        jobs = self._view.jobs
        cost = max([jobs[job].preemption_cost_seconds for job in unit if job in jobs], default=0.0)
        return min(cost / self._overhead, MOST_LEASES * self._lease_seconds)

    def reset(self, time_shares: TimeShares) -> None:
        """Restart the count of received time, since shares were decided again. Debts are kept."""
        self.reset_at, self.received = self._view.now, {}
        self._owed = {unit: owed for unit, owed in self._owed.items() if unit in time_shares}

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
