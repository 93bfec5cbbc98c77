"""Short runs of new jobs on GPU models on which they were not measured yet (Sia, SOSP'23, section 3.2).

A new job runs with the fewest GPUs that it can have on one model after the other. It stays on each until its
goodput there is known, for a round at most. So the program compares measured models, and projects only to
larger numbers of GPUs. Choices of ours:

- A job is new if it has never been measured with more than its fewest GPUs, and runs on no more. A job that
  has grown is projected to other models: giving up many GPUs to measure one would cost too much.
- Only adaptive jobs report what a goodput is computed from, so only they are profiled. A job that reported
  nothing from its first run is not profiled again. Neither is a job that accepts one model only: its first
  run measures that.
- A waiting job begins on the model that has most GPUs left for such runs; between rounds, wherever GPUs are
  idle.
- These runs get at most a part of the GPUs at a time, but a single run may have all that it needs; higher
  priorities and earlier jobs come first. They come before the program, since the program's optimum does not
  value what is learnt.
- No job runs twice on a model for this, unless what is remembered is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import least_gpus
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import ADAPTIVE, Job, JobId, Memory, Running
from scheduler.core.policies.sia.program import Candidate, Configuration

#: By job: the models on which it ran to be profiled, in order.
Profiled = Mapping[JobId, tuple[str, ...]]


def profiled_before(known: Memory, jobs: Collection[JobId]) -> Profiled:
    """Return what `memory_of` wrote, for jobs that are still in the view."""
    written: Mapping[str, Sequence[str]] = known.get("profiled", {})
    return {JobId(int(job)): tuple(models) for job, models in written.items() if int(job) in jobs}


def memory_of(
    before: Profiled, runs: Mapping[JobId, Configuration], models: Sequence[str], grants: Sequence[Grant]
) -> dict[str, Any]:
    """Return the memory for the next round, given a round's runs and grants; plain values."""
    had = dict(before)
    granted = {(job, grant.gpu_model, grant.gpus) for grant in grants for job in grant.jobs}
    for job, run in runs.items():
        model = models[run.model]
        if (job, model, run.gpus) in granted and model not in had.get(job, ()):
            had[job] = (*had.get(job, ()), model)
    return {"profiled": {str(job): list(had[job]) for job in sorted(had)}} if had else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiling:
    """Which jobs are profiled in a round. `room`: GPUs by model; `part` of all of them may be used."""

    view: View
    models: Sequence[str]
    room: Sequence[int]
    part: float
    round_seconds: float
    before: Profiled

    def runs(self, candidates: Mapping[JobId, Candidate], taken: Sequence[int]) -> dict[JobId, Configuration]:
        """Return the configurations in which candidates run to be profiled; `taken`: GPUs by model that other
        jobs get first.
        """
        left = [max(room - used, 0) for room, used in zip(self.room, taken, strict=True)]
        budget, used = self.part * sum(self.room), 0
        if not budget:
            return {}
        found: dict[JobId, Configuration] = {}
        new = [job for job in map(self.view.jobs.__getitem__, candidates) if self._is_new(job)]
        # Jobs that already run to be measured come first.
        new.sort(key=lambda job: (not self._goes_on(job), -job.priority, job.submitted_at, job.id))
        for job in new:
            gpus = least_gpus(job)
            if used and used + gpus > budget:
                break
            open_to = self._open_to(job, candidates[job.id], left)
            if open_to:
                model = max(open_to, key=lambda model: (left[model], -model))
                found[job.id] = Configuration(model, gpus, -(-gpus // self._node_gpus(model)))
                left[model] -= gpus
                used += gpus
        return found

    def _is_new(self, job: Job) -> bool:
        if job.elastic is None or job.elastic_mode != ADAPTIVE:
            return False
        running, least = self.view.running.get(job.id), least_gpus(job)
        if running is not None and len(running.gpus) != least:
            return False
        if job.goodput is None:
            return (running is None and job.attempts == 0) or self._goes_on(job)
        return job.goodput.most_replicas * job.tasks[0].gpus <= least

    def _goes_on(self, job: Job) -> bool:
        """Whether the job runs to be profiled, is not measured there yet, and has not had a whole round."""
        running = self.view.running.get(job.id)
        return running is not None and self._is_under_way(job, running)

    def _is_under_way(self, job: Job, running: Running) -> bool:
        is_sent = self.before.get(job.id, ())[-1:] == (running.gpu_model,)
        is_young = self.view.now - running.since < self.round_seconds - INSTANT_SECONDS
        return is_sent and is_young and running.gpu_model not in measured_on(job)

    def _open_to(self, job: Job, candidate: Candidate, left: Sequence[int]) -> list[int]:
        """Return the places of the models on which it may be profiled now."""
        runs_on = {option.model for option in candidate.configurations}
        running = self.view.running.get(job.id)
        if running is not None and self._is_under_way(job, running):
            here = self.models.index(running.gpu_model)
            return [here] if least_gpus(job) <= left[here] else []
        seen = {*measured_on(job), *self.before.get(job.id, ())}
        missing = [model for model in sorted(runs_on) if self.models[model] not in seen]
        if len(runs_on) < 2:
            return []
        return [model for model in missing if least_gpus(job) <= left[model]]

    def _node_gpus(self, model: int) -> int:
        return self.view.capacity.cluster.fleets[self.models[model]].largest_node


def measured_on(job: Job) -> frozenset[str]:
    """Return the GPU models on which a job was measured, not projected to."""
    if job.goodput is None:
        return frozenset()
    return frozenset(job.goodput.parameters).difference(job.goodput.projected)
