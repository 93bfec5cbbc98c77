"""Jobs that share GPUs: joining and leaving running jobs.

The other jobs run on, at another speed. A job that has to leave keeps the GPUs until its checkpoint is
written, and makes no progress meanwhile. The simulator knows at once how fast the jobs of an allocation are
together. The scheduler knows it of three or four applications once it was measured, as in the live loop, and
of pairs beforehand, from the table of throughputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from scheduler.core.model.attempts import OUTCOME_BY_CAUSE
from scheduler.core.model.changing import changed
from scheduler.core.model.interference import GroupSpeeds
from scheduler.core.model.lifecycle import StopCause
from scheduler.core.model.plan import Action
from scheduler.core.model.snapshot import AllocationId, JobId, Running
from scheduler.core.perf.throughput import MOST_TOGETHER, WARM_UP_SECONDS, WINDOW_SECONDS
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import GOES_ON, STOPPED
from scheduler.core.sim.result import StayEnd

if TYPE_CHECKING:
    from scheduler.core.sim.simulated_cluster import SimulatedCluster


class Company:
    """Carries out joining and leaving among the jobs of one allocation."""

    def __init__(self, cluster: SimulatedCluster, events: EventQueue) -> None:
        self._cluster, self._events = cluster, events
        #: By leaving job: how its stay will end, and the jobs for which it was preempted.
        self._ends: dict[JobId, tuple[StayEnd, tuple[JobId, ...]]] = {}

    def join(self, action: Action) -> None:
        """Let jobs start beside those that run there."""
        assert action.allocation is not None
        facts, now = self._cluster.facts, self._events.now
        running = facts.running[action.allocation]
        joined = {**running.joined, **dict.fromkeys(action.jobs, now)}
        # In the order in which the live loop reads them.
        self._change(running, replace(running, jobs=tuple(sorted(running.jobs + action.jobs)), joined=joined))
        for job in action.jobs:
            self._cluster.put_to_work(job, facts.running[action.allocation])
        self.measure(action.allocation)

    def part(
        self, running: Running, jobs: tuple[JobId, ...], end: StayEnd, by: tuple[JobId, ...] = ()
    ) -> None:
        """Let some of the jobs leave, after writing a checkpoint if they go on elsewhere."""
        cluster = self._cluster
        for job in jobs:
            self._ends[job] = end, by
            cluster.progress[job].stop(self._events.now, cluster.cause_for(job, running, end))
        staying = tuple([job for job in running.jobs if job not in jobs])
        self._change(running, replace(running, jobs=staying, leaving=running.leaving + jobs))
        self.measure(running.allocation)
        self._release_later(running.allocation, jobs)

    def resume(self, running: Running) -> None:
        """Take over the jobs that were leaving when the simulation began."""
        for job in running.leaving:
            self._ends[job] = "preempted", ()
            self._cluster.progress[job].stop(self._events.now, StopCause.PREEMPTED)
        self._release_later(running.allocation, running.leaving)

    def left_by(self, running: Running, jobs: Collection[JobId]) -> bool:
        """Let the jobs that share the GPUs of these jobs go on; return whether any job still has the GPUs."""
        staying = tuple([job for job in running.jobs if job not in jobs])
        leaving = tuple([job for job in running.leaving if job not in jobs])
        if staying:
            self._change(running, replace(running, jobs=staying, leaving=leaving))
            self.measure(running.allocation)
        elif leaving:
            self._change(running, replace(running, jobs=leaving, leaving=(), stopping=True))
        return bool(staying or leaving)

    def speed_beside_others(self, job: JobId, running: Running) -> float:
        """Return a job's speed while it shares GPUs, relative to having them alone."""
        if running.slice_seconds is not None:
            return 1 / len(running.jobs)
        progress = self._cluster.progress
        others = [progress[other].job for other in running.jobs if other != job]
        return self._cluster.rules.speeds.together(progress[job].job, others, running.gpu_model)

    def measure(self, allocation: AllocationId) -> None:
        """Let the scheduler know how fast jobs that share GPUs are there."""
        running = self._cluster.facts.running[allocation]
        if len(running.jobs) > 1 and running.slice_seconds is None:
            speeds = {job: self.speed_beside_others(job, running) for job in running.jobs}
            self._cluster.facts.put_running(replace(running, speeds=speeds))
            if 2 < len(running.jobs) <= MOST_TOGETHER:
                measured_at = self._events.now + WARM_UP_SECONDS + WINDOW_SECONDS
                self._events.schedule(measured_at, partial(self._record, allocation, speeds))

    def _record(self, allocation: AllocationId, speeds: Mapping[JobId, float]) -> bool:
        """Let the scheduler know how fast these applications are together; return whether that is new."""
        facts = self._cluster.facts
        running = facts.running.get(allocation)
        # Another speeds object, even if equal, means that a job came or left, so nothing was measured.
        if running is None or running.stopping or running.speeds is not speeds:
            return False
        jobs = [self._cluster.progress[job].job for job in running.jobs]
        if not all([job.application for job in jobs]):
            return False
        sides = sorted([(job.application, speeds[job.id]) for job in jobs])
        group = GroupSpeeds(
            applications=tuple([application for application, _ in sides]),
            gpus=len(running.gpus),
            gpu_model=running.gpu_model,
            speeds=tuple([speed for _, speed in sides]),
        )
        known = facts.frame.group_speeds
        if group in known:
            return False
        others = [each for each in known if replace(each, speeds=group.speeds) != group]
        facts.frame = changed(facts.frame, group_speeds=(*others, group))
        return True

    def _change(self, before: Running, after: Running) -> None:
        """Change the jobs of an allocation; the staying jobs' progress so far counts at the earlier speed."""
        cluster, facts = self._cluster, self._cluster.facts
        staying = [] if after.stopping else [job for job in before.jobs if job in after.jobs]
        for job in staying:
            cluster.steps.note(job, before)
        cluster.use(before, -1)
        cluster.use(after)
        joined = {job: at for job, at in after.joined.items() if job in after.jobs + after.leaving}
        facts.put_running(replace(after, joined=joined, speeds={}))
        for job in staying:
            cluster.change_speed(job)

    def _release_later(self, allocation: AllocationId, jobs: tuple[JobId, ...]) -> None:
        for job in jobs:
            cause = self._cluster.progress[job].present.known.stop_cause
            pause = self._cluster.rules.costs.of(self._cluster.progress[job].job).checkpoint_seconds
            if pause and OUTCOME_BY_CAUSE[cause] in GOES_ON:
                self._events.schedule(self._events.now + pause, partial(self._release, allocation, job))
            else:
                self._release(allocation, job)

    def _release(self, allocation: AllocationId, job: JobId) -> bool:
        """Release a job that has left: it waits again or has ended."""
        cluster = self._cluster
        running = cluster.facts.running.get(allocation)
        if running is None or job not in running.jobs + running.leaving:
            return False  # Its node was lost while it wrote its checkpoint.
        end, by = self._ends.pop(job)
        if not self.left_by(running, [job]):
            cluster.take_back(running)
        cluster.end_stopped(job, running, end, by, STOPPED)
        cluster.promote(running.gpus, (job,))
        return True
