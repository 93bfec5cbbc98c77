"""How the simulated world behaves: speeds, costs, failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.sim.costs import Costs
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.scaling_jobs import GoodputFacts
from scheduler.core.sim.speeds import Speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the simulated world behaves."""

    speeds: Speeds = field(default_factory=Speeds)
    costs: Costs = field(default_factory=Costs)
    failures: Failures = field(default_factory=Failures)
    #: Jobs tell of their steps, by which their run times are measured, whatever was declared.
    tells_steps: bool = False
    #: Whether a job that runs may be moved to other GPUs; else it stays where it is, or gives way.
    moves: bool = True
    #: What part of its speed a gang over several nodes loses where it meets another such gang on a node.
    interference: float = 0.0
    #: How jobs with a measured profile scale, as their scheduler knows it.
    goodput: GoodputFacts = "measured"
    seed: int = 0
