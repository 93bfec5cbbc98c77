"""Steps 3 and 4 for one view: its policy, then its placer; a failure costs only this view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.building_blocks.computing import Overrun
from scheduler.core.building_blocks.growing import with_growth
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.errors import PolicyError, UnknownPlugin
from scheduler.core.model.plan import Decision, Placement, Reason
from scheduler.core.model.snapshot import JobId, Memory
from scheduler.core.round.allocate import allocate
from scheduler.core.round.place import place
from scheduler.core.round.registry import make_placer, make_policy

#: Serves a view whose own policy takes too long.
CHEAP_POLICY = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """A view's policy and placer, by name."""

    policy: str
    policy_parameters: Mapping[str, object]
    placer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOutcome:
    """What a view decided, and what that left of the cluster."""

    view: View
    decision: Decision
    #: By position in the decision's grants.
    placements: Mapping[int, Placement]
    capacity: Capacity
    #: Why the policy or the placer failed, if so.
    failure: str = ""
    #: Jobs that were given cells for which there was no hardware, and why.
    unbound: Mapping[JobId, Reason] = field(default_factory=dict)
    #: Whether the policy took too long, and a cheap one decided in its place.
    overran: bool = False

    @property
    def kept(self) -> set[JobId]:
        """The jobs that stay where they were, or are promised what they were."""
        pending, dropped = self.view.capacity.pending, self.capacity.dropped
        return {job for job, running in self.view.running.items() if pending[running.jobs] not in dropped}


def run_view(view: View, plugins: Plugins, memory: Memory, overran: str = "") -> ViewOutcome:
    """Let the view's policy and placer decide; if they fail, its jobs keep what they have.

    Where the policy takes too long, or is known to (`overran` says how), idle GPUs are handed out in order of
    submission, and what the policy remembers stays as it is: its next round goes on from there.
    """
    try:
        if overran:
            raise Overrun(overran)
        policy = make_policy(plugins.policy, plugins.policy_parameters)
        decision = around_pinned(view, with_growth(view, allocate(view, policy, memory)))
        placed, capacity = place(view, decision, make_placer(plugins.placer))
    except Overrun as error:
        cheap = run_view(view, replace(plugins, policy=CHEAP_POLICY, policy_parameters={}), memory)
        decision = replace(cheap.decision, memory=memory)
        return replace(cheap, decision=decision, failure=cheap.failure or str(error), overran=True)
    except (PolicyError, UnknownPlugin) as error:
        return _standstill(view, memory, str(error))
    return ViewOutcome(
        view=view, decision=placed.added_to(decision), placements=placed.placements, capacity=capacity
    )


def around_pinned(view: View, decision: Decision) -> Decision:
    """Return the decision without what it would do to jobs that stay where they are."""
    pinned = {job: unit for unit in view.capacity.pinned for job in unit}
    if not pinned:
        return decision
    # A grant to the very jobs that hold GPUs together already leaves them where they are (`settle`).
    grants = [
        grant for grant in decision.grants if all(pinned.get(job) in (None, grant.jobs) for job in grant.jobs)
    ]
    return replace(
        decision,
        grants=tuple(grants),
        stops=tuple([job for job in decision.stops if job not in pinned]),
        queue=tuple([job for job in decision.queue if job not in pinned]),
    )


def _standstill(view: View, memory: Memory, failure: str) -> ViewOutcome:
    capacity = view.capacity.fork()
    capacity.keep_all()
    decision = Decision(grants=(), memory=memory, keep_running=True)
    return ViewOutcome(view=view, decision=decision, placements={}, capacity=capacity, failure=failure)
