"""On which GPUs who has the turn runs: those of the last round where that is possible, else the first free.

GPUs of a model are numbered from 0. Larger gangs choose first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.simulation.reproduction.gavel.jobs import Unit
from scheduler.simulation.reproduction.gavel.turns import Choice


@dataclass(frozen=True, slots=True)
class Lease:
    """GPUs of one model for a round."""

    model: int
    gpus: tuple[int, ...]


def leases_of(chosen: Mapping[int, Sequence[Choice]], before: Mapping[Unit, Lease]) -> dict[Unit, Lease]:
    """Return the leases of a round; those without a share get none, though they kept others from GPUs."""
    leases: dict[Unit, Lease] = {}
    for model, choices in chosen.items():
        _lease(model, sorted(choices, key=lambda choice: -choice.gang), before, leases)
    return leases


def _lease(
    model: int, choices: Sequence[Choice], before: Mapping[Unit, Lease], leases: dict[Unit, Lease]
) -> None:
    used: set[int] = set()
    nearest = 0
    for gang in sorted({choice.gang for choice in choices}, reverse=True):
        alike = [choice for choice in choices if choice.gang == gang]
        others = []
        for choice in alike:
            last = before.get(choice.unit)
            if last is not None and last.model == model and used.isdisjoint(last.gpus):
                used.update(last.gpus)
                leases[choice.unit] = last
            elif choice.has_share:
                others.append(choice)
        for choice in others:
            gpus: list[int] = []
            while len(gpus) < gang:
                if nearest not in used:
                    gpus.append(nearest)
                    used.add(nearest)
                nearest += 1
            leases[choice.unit] = Lease(model, tuple(gpus))
