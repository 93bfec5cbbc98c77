"""A live loop in miniature: applies plans to plain variables and moves time on, round by round.

It behaves like the real one where it matters to the core: a stopped gang holds its GPUs for a round, its
successor is planned meanwhile, actions can get lost, and jobs end by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import AllocationId, GpuId, JobId, Memory, Running, Snapshot
from scheduler.core.round.decide import decide


class VirtualLoop:
    """Runs the jobs of a snapshot to their end; `seconds` says how long each one takes, `by` who decides."""

    def __init__(
        self,
        snapshot: Snapshot,
        seconds: Mapping[int, float],
        *,
        drop: float = 0.0,
        keep_memory: bool = True,
        by: Callable[[Snapshot], Plan] = decide,
    ) -> None:
        self.snapshot = snapshot
        self._decide = by
        self.remaining = {JobId(job): left for job, left in seconds.items()}
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.dice = random.Random(7)
        self.drop, self.keep_memory = drop, keep_memory
        self.last_plan = Plan(round_number=0)
        self._allocations = count(1 + max((running.allocation for running in snapshot.running), default=0))

    def run(self, rounds: int) -> None:
        """Go on until every job has ended or nothing moves any more, for so many rounds at most."""
        for _ in range(rounds):
            if not self.snapshot.jobs:
                return
            idle = not self.snapshot.running
            if not self.step().actions and idle:
                return

    def step(self) -> Plan:
        """Decide one round, carry it out, and let its seconds pass."""
        plan = self.last_plan = self._decide(self.snapshot)
        running = {allocated.allocation: allocated for allocated in self.snapshot.running}
        # Stops first: whoever takes over must find the place on its way to being free.
        ordered = sorted(plan.actions, key=lambda action: action.kind is not ActionKind.STOP)
        actions = [action for action in ordered if self.dice.random() >= self.drop]
        # Two that change places each wait for the other to leave.
        leaving = {
            action.allocation
            for action in actions
            if action.kind is not ActionKind.REGRADE and not _keeps_some(action, running)
        }
        for action in actions:
            self._apply(action, running, leaving)
        self._pass_time(running, plan.memory if self.keep_memory else {})
        return plan

    def _apply(
        self,
        action: Action,
        running: dict[AllocationId, Running],
        leaving: Collection[AllocationId | None],
    ) -> None:
        before = running[action.allocation] if action.allocation is not None else None
        if before is not None and action.kind is ActionKind.REGRADE:
            running[before.allocation] = replace(before, guaranteed=action.guaranteed)
            return
        if before is not None and _keeps_some(action, running):
            if action.kind is ActionKind.JOIN:
                joined = {**before.joined, **dict.fromkeys(action.jobs, self.snapshot.now)}
                running[before.allocation] = replace(
                    before, jobs=(*before.jobs, *action.jobs), joined=joined, speeds={}
                )
                self._note_start(action.jobs, self.snapshot.now)
            else:
                staying = tuple(job for job in before.jobs if job not in action.jobs)
                left = before.leaving + action.jobs
                running[before.allocation] = replace(before, jobs=staying, leaving=left, speeds={})
            return
        if action.placement is not None:
            others = [other for other in running.values() if other.allocation not in leaving]
            wanted = set(action.placement.gpus)
            # The STOP of whoever is there got lost: then this action is dropped as well.
            if any(not other.stopping and wanted.intersection(other.gpus) for other in others):
                return
            occupied = {gpu for held in running.values() if held.phase == "held" for gpu in held.gpus}
            allocation = AllocationId(next(self._allocations))
            running[allocation] = Running(
                allocation=allocation,
                jobs=action.jobs,
                gpu_model=action.placement.gpu_model,
                replicas=action.placement.replicas,
                nodes=action.placement.nodes,
                phase="planned" if occupied & wanted else "held",
                since=self.snapshot.now,
                guaranteed=action.guaranteed,
                slice_seconds=action.slice_seconds,
                opportunistic_gpus=action.opportunistic_gpus,
            )
            if not occupied & wanted:
                self._note_start(action.jobs, self.snapshot.now)
        if before is not None and before.phase == "held":
            running[before.allocation] = replace(before, stopping=True)
        elif before is not None:
            del running[before.allocation]

    def _pass_time(self, running: dict[AllocationId, Running], memory: Mapping[str, Memory]) -> None:
        now = self.snapshot.now + self.snapshot.round_seconds
        ended: set[JobId] = set()
        for held in list(running.values()):
            if held.stopping:
                del running[held.allocation]
            elif held.phase == "held":
                running[held.allocation] = replace(held, leaving=())
                for job in held.jobs:
                    self.remaining[job] -= self.snapshot.round_seconds
                    if self.remaining[job] <= 0:
                        ended.add(job)
                        self.ended[job] = now
        for held in list(running.values()):
            staying = tuple(job for job in held.jobs if job not in ended)
            if not staying:
                del running[held.allocation]
            elif staying != held.jobs:
                running[held.allocation] = replace(held, jobs=staying, speeds={})
        occupied = _occupied(running)
        for planned in list(running.values()):
            if planned.phase == "planned" and occupied.isdisjoint(planned.gpus):
                running[planned.allocation] = replace(planned, phase="held", since=now)
                self._note_start(planned.jobs, now)
        _occupied(running)
        self.snapshot = replace(
            self.snapshot,
            round_number=self.snapshot.round_number + 1,
            now=now,
            jobs=tuple(job for job in self.snapshot.jobs if job.id not in ended),
            running=tuple(running[allocation] for allocation in sorted(running)),
            memory=memory,
        )

    def _note_start(self, jobs: Sequence[JobId], now: float) -> None:
        for job in jobs:
            self.started.setdefault(job, now)


def _keeps_some(action: Action, running: Mapping[AllocationId, Running]) -> bool:
    """Whether some of those who have an allocation stay there: others join them, or leave them."""
    if action.kind is ActionKind.JOIN:
        return True
    return action.allocation is not None and set(action.jobs) < set(running[action.allocation].jobs)


def _occupied(running: Mapping[AllocationId, Running]) -> set[GpuId]:
    """Return the GPUs with a holder, and make sure that none has two."""
    held = [gpu for allocated in running.values() if allocated.phase == "held" for gpu in allocated.gpus]
    planned = [
        gpu for allocated in running.values() if allocated.phase == "planned" for gpu in allocated.gpus
    ]
    assert len(held) == len(set(held)), "a GPU has two holders"
    assert len(planned) == len(set(planned)), "a GPU has two successors"
    return set(held)
