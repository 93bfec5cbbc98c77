"""CPUs and memory of nodes in the simulator, where somebody comes who has no GPUs to wait for."""

from __future__ import annotations

from scheduler.core.model.snapshot import Running
from scheduler.core.round.facts import Facts


def has_processors(facts: Facts, running: Running) -> bool:
    """Whether those who hold something of the nodes of an allocation leave it what it takes there.

    A round gives out what is free or about to be: only where somebody is still leaving there is a question.
    """
    places = facts.places_of(running)
    leaving = {each.allocation: each for each in facts.stopping.values()}
    if all([places.isdisjoint(facts.places_of(each)) for each in leaving.values()]):
        return True
    needed = facts.holding_on(facts.cluster, running)
    fleet = facts.cluster.fleets[needed.model]
    left = {part.node: [fleet.cpus[part.node], fleet.memory[part.node]] for part in needed.parts}
    for allocation, other in facts.running.items():
        if other.phase != "held" or allocation == running.allocation or other.gpu_model != needed.model:
            continue
        for held in facts.held_by(allocation):
            for part in held.parts:
                if part.node in left:
                    left[part.node][0] -= part.cpus
                    left[part.node][1] -= part.memory
    return all(
        [
            amount <= has
            for part in needed.parts
            for amount, has in zip(part[2:4], left[part.node], strict=True)
        ]
    )
