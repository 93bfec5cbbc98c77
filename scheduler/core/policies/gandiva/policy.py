"""Gandiva: jobs take turns in time slices, share GPUs where that pays, move closer, and grow into idle GPUs.

W. Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018. It promises early
feedback and a busy cluster, neither fairness nor completion times.

What is the paper's: time slicing when not all jobs fit, round robin, whole gangs, equal shares, about a
minute each (3.1); none when all fit; packing by trial, kept only if the measured progress of both together
beats taking turns (3.2; off by default, see `core.policies.gandiva.trials`); moving a gang that is spread
over nodes when one node could hold it (3.3); growing elastic jobs into idle GPUs of their node, and taking
those back as soon as a job waits (3.4).

What is not:

- Slices are those of the view, all at the same instants. The paper rotates on each server separately, among
  jobs of equal size, and places new jobs on servers of their size ("affinity"): places are the placer's here.
  Equal shares come from passes as in stride scheduling: at the end of a slice gangs go in the order of the
  time they had; a newcomer begins level with the least served, ahead of it.
- A suspension is our preemption: a checkpoint, not the paper's copy of GPU memory within 100 ms. Choose the
  slice accordingly. It does not wait for the end of a mini-batch: the job does that, in its grace period.
  With `in_place`, pairs take turns without one: the other is frozen where it is and keeps its GPU memory,
  which therefore has to hold both. Any further job has its turns by checkpoint.
- A migration is a grant that asks for one node (one gang a round, each at most once per interval). The placer
  has to move a gang that runs on several; a placer that leaves it in place ignores the request.
- Profiling of migrations, growth and GPU utilisation, and reverting what did not help, is left out: only
  pairs are measured. Jobs that interfere are separated only as pairs.
- Only what was grown beyond the job's own size is taken back; no job is shrunk below it.
- Both jobs of a pair stop before they start together. Until they have, for a slice at most, nothing else
  starts. It stays together while it pays, also when GPUs come free; when one of the two ends, the other
  starts again alone.
- Priority of our jobs comes first: slices are shared among the highest that wait, which preempt at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.ordering import (
    Outcome,
    Starts,
    anywhere,
    serve_in_order,
    start_in_order,
    waiting_jobs,
)
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of
from scheduler.core.fitting.settle import settle
from scheduler.core.model.plan import Decision, Grant, Locality, Mode, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, Running
from scheduler.core.policies.gandiva.slices import Slices
from scheduler.core.policies.gandiva.trials import name_of, next_pair, pays

#: Pairs that failed and are remembered, the latest.
FAILURES_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Gandiva:
    """Round robin in time slices, with packing, migration and growth."""

    #: A waiting job has its turn in a later slice, though jobs neither come nor go.
    rotates: ClassVar[bool] = True
    #: It decides itself when elastic gangs grow.
    resizes: ClassVar[bool] = True

    slice_seconds: float = 60.0
    #: Try pairs of jobs on the same GPUs when not all fit.
    packing: bool = False
    #: Let pairs of jobs take turns in place: frozen, with all they have in memory, instead of by checkpoints.
    #: This is only safe where both fit into the memory of the GPUs, which is not checked.
    in_place: bool = False
    #: How much more progress than taking turns a pair must make; 0.1 is a tenth more.
    packing_gain: float = 0.1
    #: Let elastic jobs grow into idle GPUs of their node while no job waits.
    grow: bool = True
    #: Move gangs onto one node while no job waits.
    migrate: bool = True
    #: A job is left alone for this long after it started, grew or was moved.
    migration_interval_seconds: float = 600.0

    def __post_init__(self) -> None:
        if not self.slice_seconds > 0:
            raise ValueError("slice_seconds must be above 0")
        if self.packing and self.in_place:
            raise ValueError("pairs run at the same time (packing) or take turns (in_place), not both")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Start what fits; take turns when something does not; improve what runs when no job waits."""
        state = _State(self, view, memory if memory.get("policy") == "gandiva" else {})
        grants = _parted(state)
        # A job that joins another, or parts from it, stops first and starts in a round of its own.
        next_round_at = view.now + view.round_seconds
        if grants:
            return state.decision(Outcome(grants=grants, queue=state.queue(grants)), wake_at=next_round_at)
        if state.trial is not None:
            return _together(state)
        if not state.waiting:
            return _improved(self, state)
        outcome = start_in_order(state.waiting, view)
        if outcome.queue:
            outcome = (
                _shrunk(state) or self._packed(state, outcome) or serve_in_order(view, state.slices.rank)
            )
        return state.decision(outcome, wake_at=next_round_at if state.trial is not None else None)

    def _packed(self, state: _State, outcome: Outcome) -> Outcome | None:
        """Let the next pair stop, to start together in a later round."""
        if not (self.packing or self.in_place):
            return None
        view = state.view
        shares = CoLocation(view).shares
        hosts = [host for running in _alone(view) if shares(host := view.jobs[running.jobs[0]])]
        queue = [guest for job in outcome.queue if shares(guest := view.jobs[job])]
        pair = next_pair(hosts, queue, state.failed, view.running)
        if pair is None:
            return None
        state.trial = [*pair, view.now + self.slice_seconds]
        running = view.running[pair[0]]
        # The grant keeps the place for them; the core stops the one that runs there alone.
        together = replace(self.sharing(pair, len(running.gpus)), gpu_model=running.gpu_model)
        left = tuple([job for job in outcome.queue if job != pair[1]])
        return Outcome(grants=(*outcome.grants, together), queue=left)

    def sharing(self, pair: tuple[JobId, ...], gpus: int) -> Grant:
        """Return the grant by which two jobs share GPUs in this policy's way."""
        mode = Mode.TIME_SLICE if self.in_place else Mode.PACK
        return Grant(jobs=pair, gpus=gpus, mode=mode, slice_seconds=self.slice_seconds)


class _State:
    """What one round knows. Memory, beside that of the slices: `failed` pairs, the `trial` under way (host,
    guest, until when) and the instants at which jobs were `moved`."""

    def __init__(self, policy: Gandiva, view: View, memory: Memory) -> None:
        self.policy, self.view = policy, view
        self.slices = Slices(policy.slice_seconds, view, memory)
        self.waiting: Sequence[Job] = sorted(waiting_jobs(view), key=self.slices.rank)
        self.failed: list[str] = list(memory.get("failed", ()))
        self.moved = {job: at for job, at in memory.get("moved", {}).items() if int(job) in view.jobs}
        trial: list[Any] | None = memory.get("trial")
        self.trial = trial if trial is not None and trial[2] > view.now + INSTANT_SECONDS else None

    def queue(self, grants: Sequence[Grant]) -> tuple[JobId, ...]:
        """Return the jobs that wait beside these grants, in queue order."""
        named = {job for grant in grants for job in grant.jobs}
        return tuple([job.id for job in self.waiting if job.id not in named])

    def decision(self, outcome: Outcome, wake_at: float | None = None) -> Decision:
        instants = [wake_at, self.slices.ends_at if outcome.queue else None]
        if self.trial is not None:
            instants.append(float(self.trial[2]))
        return outcome.decision(
            outcome.reasons(_NEXT_SLICE),
            memory=self._remember(crowded=bool(outcome.queue)),
            wake_at=min([instant for instant in instants if instant is not None], default=None),
        )

    def _remember(self, *, crowded: bool) -> dict[str, Any]:
        """Return the memory for the next round; turns are remembered only while there are any."""
        memory: dict[str, Any] = self.slices.remember() if crowded else {}
        kept = {"failed": self.failed[-FAILURES_KEPT:], "trial": self.trial, "moved": self.moved}
        memory.update((name, value) for name, value in kept.items() if value)
        return {"policy": "gandiva", **memory}


def _alone(view: View) -> list[Running]:
    """Return what runs without sharing its GPUs and may be disturbed, by job."""
    pinned = view.capacity.pinned
    running = [view.running[job] for job in sorted(view.running) if view.running[job].jobs not in pinned]
    return [held for held in running if len(held.jobs) == 1 and held.phase == "held"]


# Pairs


def _parted(state: _State) -> tuple[Grant, ...]:
    """Split pairs that need not share or do not pay: the first job keeps the GPUs, the others queue."""
    view, grants = state.view, []
    for number, running in sorted(view.running.items()):
        if len(running.jobs) < 2 or number != running.jobs[0]:
            continue
        if running.slice_seconds is not None:
            if _has_room(state, running):
                grants.append(Grant(jobs=(number,), gpus=len(running.gpus), gpu_model=running.gpu_model))
                break  # One a round: what is idle must not be counted on twice.
        elif pays(running, state.policy.packing_gain) is False:
            state.failed.append(name_of([view.jobs[job] for job in running.jobs]))
            grants.append(Grant(jobs=(number,), gpus=len(running.gpus), gpu_model=running.gpu_model))
    return tuple(grants)


def _has_room(state: _State, running: Running) -> bool:
    """Whether one job of a pair could have GPUs of its own: no job waits, and enough GPUs are idle."""
    view = state.view
    if state.waiting:
        return False
    capacity = view.capacity.fork()
    capacity.keep_all()
    fit = capacity.find(demand_of(view.jobs[running.jobs[1]], capacity.cluster))
    return fit is not None and not fit.victims


def _together(state: _State) -> Decision:
    """Start the pair that stopped to run together; until both have stopped, start nothing else."""
    assert state.trial is not None
    pair = (JobId(state.trial[0]), JobId(state.trial[1]))
    if not {job.id for job in state.waiting}.issuperset(pair):
        return state.decision(Outcome(queue=state.queue(())))
    state.trial = None
    grant = state.policy.sharing(pair, state.view.jobs[pair[0]].gpus)
    return state.decision(Outcome(grants=(grant,), queue=state.queue((grant,))))


# Growth and migration


def _shrunk(state: _State) -> Outcome | None:
    """Take back what jobs grew into, and start the jobs that fit then; None when no job has grown."""
    view = state.view
    grown = [held for held in _alone(view) if len(held.gpus) > view.jobs[held.jobs[0]].gpus]
    if not grown:
        return None
    capacity = view.capacity.fork()
    capacity.keep_all(but=[held.jobs[0] for held in grown])
    grants = []
    for held in grown:
        size = view.jobs[held.jobs[0]].gpus
        grant = Grant(jobs=held.jobs, gpus=size, gpu_model=held.gpu_model)
        if settle(grant, view.jobs, capacity) is not None:
            grants.append(grant)
    starts = Starts(capacity, anywhere)
    started = [starts.start(job) for job in state.waiting]
    grants += [found[0] for found in started if found is not None]
    return Outcome(grants=tuple(grants), queue=state.queue(grants))


def _improved(policy: Gandiva, state: _State) -> Decision:
    """Let one gang grow or move; ask to be woken when the next gang may."""
    view, later = state.view, []
    for running in _alone(view):
        job = view.jobs[running.jobs[0]]
        left_alone_until = policy.migration_interval_seconds + max(
            running.since, state.moved.get(str(job.id), running.since)
        )
        can_grow = policy.grow and job.elastic is not None and job.elastic[1] > len(running.gpus)
        can_move = policy.migrate and _spans_nodes(running, view)
        if not can_grow and not can_move:
            continue
        if left_alone_until > view.now + INSTANT_SECONDS:
            later.append(left_alone_until)
            continue
        capacity = view.capacity.fork()
        capacity.keep_all(but=running.jobs)
        capacity.drop(capacity.pending[running.jobs])
        grant = (_larger(job, running, view, capacity) if can_grow else None) or (
            _nearer(job, running, capacity) if can_move else None
        )
        if grant is not None:
            state.moved[str(job.id)] = view.now
            # One a round: what it takes must not be offered to the next one.
            return state.decision(Outcome(grants=(grant,)), wake_at=view.now + view.round_seconds)
    return state.decision(Outcome(), wake_at=min(later, default=None))


def _spans_nodes(running: Running, view: View) -> bool:
    """Whether the gang is on several nodes though one could hold as many GPUs."""
    fleet = view.capacity.cluster.fleets[running.gpu_model]
    return len(view.capacity.pending[running.jobs].parts) > 1 and len(running.gpus) <= fleet.largest_node


def _larger(job: Job, running: Running, view: View, capacity: Capacity) -> Grant | None:
    """Return the largest growth into idle GPUs, within its node if it is on one."""
    has = len(running.gpus)
    near = Locality.NODE if len(view.capacity.pending[running.jobs].parts) == 1 else Locality.ANY
    most = has + view.capacity.idle(running.gpu_model)
    for size in [size for size in reversed(all_sizes_of(job)) if has < size <= most]:
        fit = capacity.find(demand_of(job, capacity.cluster, size, running.gpu_model, near))
        if fit is not None and not fit.victims:
            return Grant(jobs=running.jobs, gpus=size, gpu_model=running.gpu_model, locality=near)
    return None


def _nearer(job: Job, running: Running, capacity: Capacity) -> Grant | None:
    """Return the grant that asks for one node, when there is one."""
    gpus, model = len(running.gpus), running.gpu_model
    fit = capacity.find(demand_of(job, capacity.cluster, gpus, model, Locality.NODE))
    if fit is None or fit.victims:
        return None
    return Grant(jobs=running.jobs, gpus=gpus, gpu_model=model, locality=Locality.NODE)


_NEXT_SLICE = Reason(
    code="later_slice",
    tier=Tier.ORDER,
    message="Not everyone fits, so jobs take turns in time slices; others run in this one.",
)
