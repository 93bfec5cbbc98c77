"""How the simulated world behaves: speeds, costs, failures, nodes that come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.sim.costs import Costs
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.scaling_jobs import GoodputFacts
from scheduler.core.sim.speeds import Speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """The bounds within which a cluster changes its number of nodes in service, and how often it checks."""

    min_nodes: int = 1
    #: None for all nodes.
    max_nodes: int | None = None
    low_utility: float = 0.35
    high_utility: float = 0.65
    every_seconds: float = 300.0

    def __post_init__(self) -> None:
        for name, nodes in (("min_nodes", self.min_nodes), ("max_nodes", self.max_nodes)):
            if nodes is not None and nodes < 1:
                raise ValueError(f"{name} is {nodes}; it must be at least 1")
        if self.max_nodes is not None and self.min_nodes > self.max_nodes:
            raise ValueError(f"min_nodes is {self.min_nodes}; it must be at most max_nodes, {self.max_nodes}")
        if not 0 < self.low_utility < self.high_utility <= 1:
            raise ValueError(
                f"low_utility is {self.low_utility} and high_utility {self.high_utility}; the first must be"
                " above 0 and below the second, and that at most 1"
            )
        if not 0 < self.every_seconds < float("inf"):
            raise ValueError(f"every_seconds is {self.every_seconds}; it must be a number above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the simulated world behaves."""

    speeds: Speeds = field(default_factory=Speeds)
    costs: Costs = field(default_factory=Costs)
    failures: Failures = field(default_factory=Failures)
    #: Whether jobs report their steps, from which run times are measured, whatever was declared.
    tells_steps: bool = False
    #: Whether a running job may be moved to other GPUs; otherwise it keeps its GPUs or is preempted.
    moves: bool = True
    #: The part of its speed that a gang over several nodes loses if it shares a node with another such gang.
    interference: float = 0.0
    #: How jobs with a measured profile scale, as their scheduler knows it.
    goodput: GoodputFacts = "measured"
    #: If None, all nodes are always in service.
    autoscaling: Autoscaling | None = None
    #: Whether the next round stops jobs that have reached their time limit, as in the live loop, whose rounds
    #: are seconds apart. Otherwise they stop at that instant, however far apart rounds are.
    limits_by_rounds: bool = False
    seed: int = 0
