"""The jobs that must leave nodes before replicas without GPUs have their CPUs and memory there."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.model.snapshot import Running
from scheduler.core.round.facts import Facts


def in_the_way(facts: Facts, nominated: Running, leaving: Iterable[Running]) -> list[Running]:
    """Return the leaving jobs on whose CPUs or memory a nominated allocation waits.

    A round hands out what is free or about to be, so this matters only where a job is still leaving.
    """
    places = facts.places_of(nominated)
    there = {
        each.allocation: each
        for each in leaving
        if each.phase == "held" and not places.isdisjoint(facts.places_of(each))
    }
    if not there:
        return []
    needed = facts.holding_on(facts.cluster, nominated)
    fleet = facts.cluster.fleets[needed.model]
    left = {part.node: [fleet.cpus[part.node], fleet.memory[part.node]] for part in needed.parts}
    for allocation, other in facts.running.items():
        if other.phase != "held" or allocation == nominated.allocation or other.gpu_model != needed.model:
            continue
        for held in facts.held_by(allocation):
            for part in held.parts:
                if part.node in left:
                    left[part.node][0] -= part.cpus
                    left[part.node][1] -= part.memory
    short = {
        (needed.model, part.node)
        for part in needed.parts
        if any([amount > has for amount, has in zip(part[2:4], left[part.node], strict=True)])
    }
    return [each for each in there.values() if not short.isdisjoint(facts.places_of(each))]
