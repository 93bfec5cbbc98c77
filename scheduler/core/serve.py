"""Steps 3 and 4 for one view: its policy, then its placer; a failure costs only this view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.allocate import allocate
from scheduler.core.capacity import Capacity
from scheduler.core.errors import PolicyError, UnknownPlugin
from scheduler.core.place import place
from scheduler.core.plan import Decision, Grant, Placement
from scheduler.core.policy import View
from scheduler.core.registry import make_placer, make_policy
from scheduler.core.snapshot import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """A view's policy and placer, by name."""

    policy: str
    policy_parameters: Mapping[str, object]
    placer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a view decided, and what that left of the cluster."""

    view: View
    decision: Decision
    #: By position in the decision's grants.
    placements: Mapping[int, Placement]
    capacity: Capacity
    #: Why the policy or the placer failed, if so.
    failure: str = ""


def serve(view: View, plugins: Plugins, memory: Memory) -> Served:
    """Let the view's policy and placer decide; if they fail, its jobs keep what they have."""
    try:
        policy = make_policy(plugins.policy, plugins.policy_parameters)
        decision = allocate(view, policy, memory)
        placements, capacity = place(view, decision, make_placer(plugins.placer))
    except (PolicyError, UnknownPlugin) as error:
        return _standstill(view, memory, str(error))
    return Served(view=view, decision=decision, placements=placements, capacity=capacity)


def _standstill(view: View, memory: Memory, failure: str) -> Served:
    capacity = view.capacity.fork()
    grants: list[Grant] = []
    placements: dict[int, Placement] = {}
    for jobs, holding in view.capacity.pending.items():
        assert holding.running is not None
        placements[len(grants)] = Placement(gpu_model=holding.model, replicas=holding.running.replicas)
        grants.append(Grant(jobs=jobs, gpus=holding.gpus, gpu_model=holding.model))
        capacity.keep(holding)
    decision = Decision(grants=tuple(grants), memory=memory)
    return Served(view=view, decision=decision, placements=placements, capacity=capacity, failure=failure)
