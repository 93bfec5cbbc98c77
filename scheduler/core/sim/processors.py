"""CPUs and memory of nodes in the simulator, where somebody comes who has no GPUs to wait for."""

from __future__ import annotations

from scheduler.core.model.snapshot import Running
from scheduler.core.round.facts import Facts
from scheduler.core.round.leaving import in_the_way


def has_processors(facts: Facts, running: Running) -> bool:
    """Whether those who hold something of the nodes of an allocation leave it what it takes there."""
    return not in_the_way(facts, running, facts.stopping.values())
