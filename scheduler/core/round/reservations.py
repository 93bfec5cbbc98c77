"""Reservations of whole nodes: which jobs may be on them, and until when (decision 0090).

From the start of a reservation to its end, only jobs that name it and may use it are on its nodes. Before the
start the nodes are usable like others: opportunistic jobs run there and are stopped at the start, and
guaranteed jobs start there if their time limits end before it. A job that names a reservation waits for its
start and runs only on its nodes. A reservation that has ended or was cancelled has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from scheduler.core.fitting.candidates import MOST_NODES, needed_words
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, candidates_of
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import Candidates, Job, JobId, Running, VirtualCluster
from scheduler.core.round.facts import Facts

#: The time limit of a job whose virtual cluster is unknown.
UNKNOWN_LIMIT_SECONDS = 86_400.0


def where(
    job: Job, reservations: Sequence[Reservation], now: float, lasts_seconds: float
) -> tuple[Candidates | None, float]:
    """Return the nodes on which reservations let a job start (None: all), and when time alone changes that.

    `lasts_seconds` is the longest run time of the job.
    """
    only: tuple[str, ...] = ()
    avoid: list[str] = []
    changes_at = math.inf
    for each in reservations:
        if each.ends_at <= now:
            continue
        changes_at = min(changes_at, each.starts_at if now < each.starts_at else each.ends_at)
        if each.is_for(job):
            only = each.nodes
        elif each.starts_at <= now:
            avoid.extend(each.nodes)
        elif job.guaranteed:
            latest = each.starts_at - lasts_seconds
            if now > latest:
                avoid.extend(each.nodes)
            else:
                # A job that starts exactly at that instant ends in time.
                changes_at = min(changes_at, math.nextafter(latest, math.inf))
    return (Candidates(only=only, avoid=tuple(avoid)) if only or avoid else None), changes_at


class Reservations:
    """Keeps `Job.reserved` of the jobs of a round up to date as jobs change and time passes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._reservations = facts.frame.reservations
        #: (instant, job): when to check a job again.
        self._alarms: list[tuple[float, JobId]] = []
        #: By job: the instant of its current alarm.
        self._changes_at: dict[JobId, float] = {}

    def refresh(self) -> None:
        """Update the jobs that changed, and those whose instant has come."""
        if not self._reservations:
            return
        facts, now = self._facts, self._facts.frame.now
        while self._alarms and self._alarms[0][0] <= now:
            facts.changed_jobs.add(heappop(self._alarms)[1])
        for number in sorted(facts.changed_jobs):
            self._changes_at.pop(number, None)
            if number not in facts.jobs:
                continue
            job = facts.jobs[number]
            lasts = lasts_seconds(job, facts.virtual_clusters.get(job.virtual_cluster))
            reserved, changes_at = where(job, self._reservations, now, lasts)
            if changes_at < math.inf:
                self._changes_at[number] = changes_at
                heappush(self._alarms, (changes_at, number))
            if reserved != job.reserved:
                facts.put_job(replace(job, reserved=reserved))

    @property
    def wake_at(self) -> float | None:
        """When time alone next changes the nodes of a job; None if it never does."""
        while self._alarms and self._changes_at.get(self._alarms[0][1]) != self._alarms[0][0]:
            heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None


def lasts_seconds(job: Job, virtual_cluster: VirtualCluster | None) -> float:
    """Return a job's longest run time, in seconds, or the assumed one."""
    if job.time_limit_seconds is not None:
        return job.time_limit_seconds
    return UNKNOWN_LIMIT_SECONDS if virtual_cluster is None else virtual_cluster.default_time_limit_seconds


def reservation_of(job: Job, facts: Facts) -> Reservation | None:
    """Return the reservation that a job uses or waits for; None if there is none, or it is over."""
    if not job.reservation:
        return None
    now = facts.frame.now
    return next((each for each in facts.frame.reservations if each.is_for(job) and now < each.ends_at), None)


def not_begun(job: Job, facts: Facts) -> Reason | None:
    """Return the reason if a job waits for its reservation to begin, or None."""
    own = reservation_of(job, facts)
    if own is None or own.starts_at <= facts.frame.now:
        return None
    return Reason(
        code="reserved",
        tier=Tier.HELD,
        message=f"Its reservation {own.name} begins at {wording.instant(own.starts_at)}.",
        blocking=_named([own]),
        hint="Without `reservation` in its specification it is considered at once.",
    )


def stopped_by(jobs: Sequence[Job], running: Running, facts: Facts) -> Reservation | None:
    """Return the reservation whose nodes the jobs of an allocation have to leave now, or None."""
    in_force = [each for each in facts.frame.reservations if each.is_in_force(facts.frame.now)]
    if not in_force:
        return None
    fleets = facts.cluster.fleets
    names = {fleets[model].nodes[number].name for model, number in facts.places_of(running)}
    there = [each for each in in_force if not names.isdisjoint(each.nodes)]
    return next((each for each in there if not all([each.is_for(job) for job in jobs])), None)


def described(reservation: Reservation) -> str:
    """Return "reserved for user ada of tenant speech until ... (reservation paper)"."""
    whom = f"tenant {reservation.tenant}"
    whom = f"user {reservation.user} of {whom}" if reservation.user else whom
    begin, end = wording.instant(reservation.starts_at), wording.instant(reservation.ends_at)
    return f"reserved for {whom} from {begin} until {end} (reservation {reservation.name})"


def in_the_way(job: Job, demand: Demand, capacity: Capacity, facts: Facts) -> Reason | None:
    """Return the reason if a job that waits would have room without reservations, or None."""
    if job.reserved is None:
        return None
    elsewhere = replace(demand, candidates=candidates_of([replace(job, reserved=None)]))
    return None if capacity.find(elsewhere) is None else waits_for_reserved(job, demand, facts)


def waits_for_reserved(job: Job, demand: Demand, facts: Facts) -> Reason:
    """Return the reason for a job that waits because reservations keep it from nodes."""
    own = reservation_of(job, facts)
    if own is not None:
        said, named = f"not on the nodes of its reservation {own.name}", [own]
        hint = (
            "It starts when others leave these nodes, or when the reservation ends. Without `reservation`"
            " in its specification it may start elsewhere."
        )
    else:
        assert job.reserved is not None
        barred = set(job.reserved.avoid)
        found = [each for each in facts.frame.reservations if not barred.isdisjoint(each.nodes)]
        named = sorted(found, key=lambda each: (each.starts_at, each.name))
        said = described(named[0])
        hint = (
            "It starts when there is room on other nodes, or when the reservation ends."
            if named[0].starts_at <= facts.frame.now
            else "With a time limit that ends before, or as an opportunistic job, which is stopped then, it"
            " may start now."
        )
    return Reason(
        code="reserved",
        tier=Tier.CAPACITY,
        message=f"{needed_words(demand)} are available, but {said}.",
        blocking=_named(named),
        needed=demand.gpus,
        hint=hint,
    )


def _named(reservations: Sequence[Reservation]) -> Mapping[str, object]:
    first = reservations[0]
    names = [each.name for each in reservations[:MOST_NODES]]
    return {"reservations": names, "starts_at": first.starts_at, "until": first.ends_at}
