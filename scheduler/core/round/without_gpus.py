"""Place jobs without GPUs where CPUs and memory are left, beside the views.

Policies divide GPUs, so they have nothing to decide about a job without GPUs: no policy sees or counts it.
The jobs of a virtual cluster are served in the order of priority and submission, each by the placer of its
virtual cluster, after the GPUs of the round are given out: a job that needs GPUs never waits for CPUs that
were handed out in the same round. A job that fits nowhere is skipped.

Guarantees cover GPUs. A guaranteed job without GPUs reclaims CPUs and memory from opportunistic jobs and is
not stopped for others; an opportunistic one gives way to every guaranteed job that needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.errors import PolicyError, UnknownPlugin
from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.registry import make_placer
from scheduler.core.round.reserve import SPARE
from scheduler.core.round.run_view import ViewOutcome, place, standstill


class WithoutGpus:
    """Serves the jobs without GPUs of every virtual cluster in turn."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        #: The outcomes of this round; that of opportunistic jobs has the name of the spare view.
        self.outcomes: list[ViewOutcome] = []

    def guaranteed(self, cluster: Capacity) -> Capacity:
        """Serve the guaranteed jobs from what guaranteed views leave; return what is left then."""
        self.outcomes = []
        jobs = [job for job in self._admitted() if job.guaranteed]
        for vc in self._facts.virtual_clusters.values() if jobs else ():
            own = {job.id: job for job in jobs if job.virtual_cluster == vc.name}
            if own:
                capacity = cluster.narrowed(None, may_evict=True)
                cluster = self._serve(vc.name, own, capacity, vc.placer, vc.placer_parameters)
        return cluster

    def opportunistic(self, cluster: Capacity) -> Capacity:
        """Serve the other jobs from what is left in the end; return what they leave."""
        own = {job.id: job for job in self._admitted() if not job.guaranteed}
        if not own:
            return cluster
        frame = self._facts.frame
        capacity = cluster.narrowed(None, may_evict=False)
        return self._serve(SPARE, own, capacity, frame.spare_placer, frame.spare_placer_parameters)

    def _admitted(self) -> Iterable[Job]:
        admitted = self._admission.admitted
        return [job for number, job in sorted(self._facts.without_gpus.items()) if number in admitted]

    def _serve(
        self,
        name: str,
        jobs: Mapping[JobId, Job],
        capacity: Capacity,
        placer: str,
        parameters: Mapping[str, object],
    ) -> Capacity:
        facts = self._facts
        running = {job: facts.current[job] for job in jobs if self._stays(job, capacity)}
        waiting = {job: known for job, known in jobs.items() if job not in running}
        view = self._view(name, jobs, running, waiting, capacity)
        line = sorted(waiting.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
        decision = Decision(grants=tuple([Grant(jobs=(job.id,), gpus=0) for job in line]), keep_running=True)
        try:
            placed, left = place(view, decision, make_placer(placer, parameters))
            outcome = ViewOutcome(view=view, decision=decision, placements=placed.placements, capacity=left)
        except (PolicyError, UnknownPlugin) as error:
            outcome = standstill(view, {}, str(error))
        self.outcomes.append(outcome)
        return outcome.capacity

    def _stays(self, job: JobId, capacity: Capacity) -> bool:
        """Return whether a job keeps what it has or is promised, after all earlier jobs were served."""
        running = self._facts.current.get(job)
        if running is None or not self._facts.is_live(running):
            return False
        return capacity.dropped.isdisjoint(self._facts.held_by(running.allocation))

    def _view(
        self,
        name: str,
        jobs: Mapping[JobId, Job],
        running: Mapping[JobId, Running],
        waiting: Mapping[JobId, Job],
        capacity: Capacity,
    ) -> View:
        frame = self._facts.frame
        return View(
            name=name,
            guaranteed=name != SPARE,
            now=frame.now,
            round_seconds=frame.round_seconds,
            jobs=jobs,
            running=running,
            waiting=waiting,
            elastic={},
            members=(),
            capacity=capacity,
            workload=frame.workload,
        )
