"""Orion: a job of high priority shares its GPUs with guests of opposite needs only, and never if it suffers.

F. Strati, X. Ma and A. Klimovic, "Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications",
EuroSys 2024, section 5. On a GPU there is one client of high priority and several of best effort. A kernel of
best effort runs beside one of high priority only if they are bound by different resources: one by compute,
the other by memory (a kernel whose bound is unknown goes with either). That is the rule of the paper's
scheduler inside a GPU. Here it chooses the guests of a host among whole jobs, by how busy each keeps a device
that it has alone, as the paper suggests for clusters. Deviations:

- Kernels are launched by the hardware as they come, and none waits for the host's to end. So measurements of
  the two, where there are any, decide whether a guest may join a host. If a host that runs with guests is
  measured to be slower than `most_slowdown` allows, they leave it and it runs on. The paper pauses guests for
  the time of a request. This happens once for a pair of applications: the pair is remembered, and applies to
  all their jobs.
- A job is bound by memory if its device's memory is busy for `memory_bound_from` of the time, else by compute
  if the device computes for `compute_bound_from` of the time; the paper has 60 % of a kernel's throughput for
  both.
- A guest comes with its host, or joins it later; hosts that start choose first. It goes on when the host has
  ended, until another job of high priority needs its GPUs.
- A job of high priority takes GPUs from those that are not. Otherwise a higher priority takes them from a
  lower one, as under `priority`. Best-effort jobs get idle GPUs only.
- Jobs without a profile, elastic ones and trial runs do not share. Memory is checked as far as it is known,
  and the switch of virtual clusters binds (`co_location`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.companions import alike, beside, hosts_of, joinable, together, waiting_in
from scheduler.core.building_blocks.ordering import Outcome, serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, Running
from scheduler.core.model.training import Profile

#: After this time a host and its guests have been measured, as a rule.
LOOK_SECONDS = 60.0
#: The most waiting jobs that ask for the same that are considered for each host.
GUESTS_MOST = 100
#: The most pairs that interfered too much that are remembered.
HARMFUL_KEPT = 200


class Bound(StrEnum):
    """What limits a job."""

    COMPUTE = "compute"
    MEMORY = "memory"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orion:
    """One host of high priority on each GPU, and guests that are bound by what it is not."""

    #: Jobs of this priority and above are of high priority, the others of best effort.
    high_from: int = 1
    #: The most guests that share the GPUs of a host; 0: none do.
    guests: int = 1
    #: Fractions of the time that the device computes, and that its memory is busy, from which a job is bound
    #: by it.
    compute_bound_from: float = 0.6
    memory_bound_from: float = 0.6
    #: The part of its speed alone that a host may lose to its guests.
    most_slowdown: float = 0.1

    def __post_init__(self) -> None:
        if self.guests < 0:
            raise ValueError("guests must be at least 0")
        for name in ("compute_bound_from", "memory_bound_from", "most_slowdown"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Serve by priority, split pairs that interfere too much, and give guests to hosts that start or
        run.
        """
        pairs = _Pairs(self, view, memory if memory.get("policy") == "orion" else {})
        outcome = serve_in_order(view, lambda job: _rank(job, view), terms=self)
        outcome = replace(outcome, leaves=pairs.parted(outcome))
        if outcome.queue and self.guests:
            starting = [[host] for host in hosts_of(view, outcome).values()]
            guests = pairs.guests(starting, waiting_in(view, outcome))
            outcome = together(view, outcome, guests) if guests else outcome
            there = [pairs.hosted(held) for held in joinable(view, outcome)]
            guests = pairs.guests([group for group in there if group], waiting_in(view, outcome))
            outcome = beside(view, outcome, guests)
        return self._decision(outcome, pairs, wake_at=pairs.look_at(outcome))

    def _decision(self, outcome: Outcome, pairs: _Pairs, wake_at: float | None = None) -> Decision:
        memory: dict[str, Any] = {}
        if pairs.harmful:
            memory = {"policy": "orion", "harmful": [list(pair) for pair in pairs.harmful[-HARMFUL_KEPT:]]}
        return outcome.decision(outcome.reasons(_HIGHER_FIRST), memory=memory, wake_at=wake_at)

    def is_high(self, job: Job) -> bool:
        """Whether a job is of high priority."""
        return job.priority >= self.high_from

    def bound(self, profile: Profile | None) -> Bound | None:
        """Return what a job of this profile is bound by; None: it was not measured."""
        if profile is None or profile.utilisation is None:
            return None
        if (profile.memory_utilisation or 0.0) >= self.memory_bound_from:
            return Bound.MEMORY
        return Bound.COMPUTE if profile.utilisation >= self.compute_bound_from else Bound.UNKNOWN


def _rank(job: Job, view: View) -> tuple[int, bool, float, JobId]:
    return -job.priority, job.id not in view.running, job.submitted_at, job.id


def _name(job: Job) -> str:
    return job.application or f"job {job.id}"


class _Pairs:
    """Which jobs may be guests of which host. Memory: `harmful`, names of hosts and guests that were too slow
    together.
    """

    def __init__(self, policy: Orion, view: View, memory: Memory) -> None:
        self._policy, self._view = policy, view
        self.harmful: list[tuple[str, str]] = [(host, guest) for host, guest in memory.get("harmful", ())]
        self._co_location = CoLocation(view)

    def parted(self, outcome: Outcome) -> dict[JobId, str]:
        """Return the guests that leave hosts which they slow down too much, with the reasons."""
        view, leaves = self._view, dict[JobId, str]()
        named = {job for grant in outcome.grants for job in grant.jobs}.union(outcome.stops)
        for number, running in sorted(view.running.items()):
            if len(running.jobs) < 2 or running.jobs in view.capacity.pinned:
                continue
            group = self.hosted(running)
            if not group or group[0].id != number:
                continue
            _, *guests = group
            speed = running.speeds.get(number, 1.0)
            if speed < 1.0 - self._policy.most_slowdown and named.isdisjoint(running.jobs):
                pairs = [(_name(group[0]), _name(guest)) for guest in guests]
                self.harmful += [pair for pair in dict.fromkeys(pairs) if pair not in self.harmful]
                why = f"Job {number} was at {speed:.0%} of its speed beside it, and is of high priority."
                leaves.update(dict.fromkeys([guest.id for guest in guests], why))
        return leaves

    def look_at(self, outcome: Outcome) -> float | None:
        """Return when the speed of hosts with new guests will be known; None: there are none."""
        now = self._view.now
        begun = [now for grant in outcome.grants if len(grant.jobs) > 1]
        begun += [now for _ in outcome.joins]
        shared = [running for running in self._view.running.values() if len(running.jobs) > 1]
        begun += [max([running.since, *running.joined.values()]) for running in shared]
        looks = [at + LOOK_SECONDS for at in begun if at + LOOK_SECONDS > now + INSTANT_SECONDS]
        return min(looks, default=None)

    def hosted(self, running: Running) -> list[Job]:
        """Return the host of a held allocation, followed by its guests; empty: it has no host."""
        jobs = [self._view.jobs[job] for job in running.jobs]
        host = max(jobs, key=lambda job: job.priority)
        if running.is_nominated or not self._policy.is_high(host):
            return []
        return [host, *[job for job in jobs if job is not host]]

    def guests(self, groups: Iterable[list[Job]], waiting: Iterable[Job]) -> dict[JobId, list[JobId]]:
        """Return the new guests of hosts: jobs of opposite needs before those of unknown needs, then in queue
        order.

        `groups`: each host, followed by the guests that it has already.
        """
        lines: dict[object, list[Job]] = {}
        for job in waiting:
            if not self._policy.is_high(job) and self._shares(job):
                lines.setdefault(alike(self._view, job), []).append(job)
        found: dict[JobId, list[JobId]] = {}
        for host, *there in groups:
            line = lines.get(alike(self._view, host), [])
            if line and self._policy.is_high(host) and self._shares(host):
                chosen = self._chosen(host, there, line[:GUESTS_MOST])
                if chosen:
                    found[host.id] = names = [job.id for job in chosen]
                    lines[alike(self._view, host)] = [job for job in line if job.id not in names]
        return found

    def _chosen(self, host: Job, there: Sequence[Job], line: Sequence[Job]) -> list[Job]:
        chosen: list[Job] = []
        for guest in sorted(line, key=lambda job: self._policy.bound(job.profile) is Bound.UNKNOWN):
            if len(there) + len(chosen) >= self._policy.guests:
                break
            if self._get_along(host, guest) and self._co_location.may_share((host, *there, *chosen, guest)):
                chosen.append(guest)
        return chosen

    def _shares(self, job: Job) -> bool:
        is_plain = job.elastic is None and job.trial is None
        return is_plain and self._policy.bound(job.profile) is not None and self._co_location.shares(job)

    def _get_along(self, host: Job, guest: Job) -> bool:
        if (_name(host), _name(guest)) in self.harmful:
            return False
        measured = self._co_location.measured(host, guest)
        if measured is not None:
            return measured >= 1.0 - self._policy.most_slowdown
        bounds = self._policy.bound(host.profile), self._policy.bound(guest.profile)
        return Bound.UNKNOWN in bounds or bounds[0] != bounds[1]


_HIGHER_FIRST = Reason(
    code="higher_priority_first",
    tier=Tier.ORDER,
    message="Jobs of higher priority, and earlier jobs of the same priority, come first.",
    hint="A higher priority moves it forward; without one, a job that was measured may be a guest.",
)
