"""Runs `decide` as papers draw it: preemption is free and instant, rounds happen only when something does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running, Snapshot
from scheduler.core.round.decide import decide


class IdealLoop:
    """Plays the jobs of a snapshot; `arrivals` says how many seconds after the first instant they come."""

    def __init__(
        self,
        snapshot: Snapshot,
        seconds: Mapping[int, float],
        arrivals: Mapping[int, float] | None = None,
    ) -> None:
        self.begin = snapshot.now
        self.snapshot = replace(snapshot, jobs=())
        later = arrivals or {}
        #: Jobs that have not been submitted yet, and seconds of work left.
        self.coming = sorted(
            [(snapshot.now + later.get(job.id, 0.0), job) for job in snapshot.jobs],
            key=lambda pair: (pair[0], pair[1].id),
        )
        self.left = {JobId(job): float(left) for job, left in seconds.items()}
        #: Seconds from the first instant to each job's end, and what ran: (job, from, to).
        self.ended: dict[int, float] = {}
        self.stays: list[tuple[int, float, float]] = []
        self.rounds = 0
        self._allocations = count(1)

    def run(self, most_rounds: int = 1_000) -> None:
        """Go on until every job has ended."""
        while self.snapshot.jobs or self.coming:
            self.rounds += 1
            assert self.rounds <= most_rounds, "the jobs do not end"
            self._arrive()
            self._pass_time(self._decide())

    def _arrive(self) -> None:
        now = self.snapshot.now
        due = [job for at, job in self.coming if at <= now]
        self.coming = [pair for pair in self.coming if pair[0] > now]
        jobs = sorted((*self.snapshot.jobs, *due), key=lambda job: job.id)
        self.snapshot = replace(self.snapshot, jobs=tuple(jobs))

    def _decide(self) -> float | None:
        plan = decide(self.snapshot)
        assert not plan.degraded
        running = {held.allocation: held for held in self.snapshot.running}
        jobs = {job.id: job for job in self.snapshot.jobs}
        for action in plan.actions:
            if action.allocation is not None:
                before = running.pop(action.allocation)
                jobs.update((job, self._served(jobs[job], before)) for job in before.jobs)
            if action.placement is not None:
                number = AllocationId(next(self._allocations))
                running[number] = Running(
                    allocation=number,
                    jobs=action.jobs,
                    gpu_model=action.placement.gpu_model,
                    replicas=action.placement.replicas,
                    since=self.snapshot.now,
                    guaranteed=action.guaranteed,
                )
                jobs.update((job, replace(jobs[job], attempts=jobs[job].attempts + 1)) for job in action.jobs)
        self.snapshot = replace(
            self.snapshot,
            jobs=tuple(jobs.values()),
            running=tuple(running[number] for number in sorted(running)),
            memory=plan.memory,
        )
        return plan.wake_at

    def _served(self, job: Job, held: Running) -> Job:
        """Book what an attempt received that is over."""
        now = self.snapshot.now
        self.stays.append((job.id, held.since - self.begin, now - self.begin))
        service = job.attained_service.get(held.gpu_model, 0.0) + (now - held.since) * len(held.gpus)
        return replace(job, attained_service={**job.attained_service, held.gpu_model: service})

    def _pass_time(self, wake_at: float | None) -> None:
        """Move on to the next arrival, end or instant that the policy asked for."""
        now, running = self.snapshot.now, self.snapshot.running
        instants = [now + self.left[job] for held in running for job in held.jobs]
        instants += [at for at, _ in self.coming[:1]]
        if wake_at is not None:
            assert wake_at > now, "a policy wants to be woken in the past"
            instants.append(wake_at)
        then = min(instants)
        over: set[JobId] = set()
        for held in running:
            for job in held.jobs:
                self.left[job] -= then - now
                if self.left[job] <= 1e-6:
                    over.add(job)
                    self.ended[job] = then - self.begin
                    self.stays.append((job, held.since - self.begin, then - self.begin))
        self.snapshot = replace(
            self.snapshot,
            now=then,
            round_number=self.snapshot.round_number + 1,
            jobs=tuple(job for job in self.snapshot.jobs if job.id not in over),
            running=tuple(held for held in running if over.isdisjoint(held.jobs)),
        )
