"""The GPUs of each model that each tenant and user is entitled to: an equal part of every model for the same
weight, as far as it can use it, and what others leave.

Water filling as in S. Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for
Deep Learning" (Gandiva-Fair), EuroSys 2020, section 4: if three users share 8 GPUs and one of them needs 2,
this one is entitled to 2 and the others to 3 each. In two levels, tenants have their parts by weight and
their users equal parts of these (`entitled_within`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Claimant = TypeVar("Claimant", bound=Hashable)
Group = TypeVar("Group", bound=Hashable)

#: GPUs, also fractions of them, by claimant and model.
Holdings = dict[Claimant, dict[str, float]]
#: A smaller part of a GPU counts as 0.
NOTHING = 1e-9
#: Each round hands out all that is left or satisfies a claimant on a model; this is never reached.
MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claimant could use at once."""

    weight: float
    #: GPUs of all models together, and of each.
    gpus: float
    by_model: Mapping[str, float]
    #: The worth of a GPU of each model to it: it takes the best models first where it cannot use its whole
    #: part.
    worth: Mapping[str, float] = field(default_factory=dict)


def claim_of(weight: float, gangs: Iterable[tuple[float, Mapping[str, float]]]) -> Claim:
    """Return the claim of a tenant or user with these gangs, each given by its GPUs and its speeds by model.

    A model's worth is the mean of their speeds there, weighted by their GPUs.
    """
    gpus, by_model, worth = 0.0, dict[str, float](), dict[str, float]()
    for size, speeds in gangs:
        gpus += size
        for model, speed in speeds.items():
            by_model[model] = by_model.get(model, 0.0) + size
            worth[model] = worth.get(model, 0.0) + size * speed
    return Claim(weight, gpus, by_model, {model: value / gpus for model, value in worth.items()})


def entitled(gpus: Mapping[str, float], claims: Mapping[Claimant, Claim]) -> Holdings[Claimant]:
    """Return each claimant's entitlement: no more than it claims, and no more than each model has."""
    held: Holdings[Claimant] = {claimant: {} for claimant in claims}
    left = {model: count for model, count in gpus.items() if count > NOTHING}
    for _ in range(MOST_ROUNDS):
        parts = _parts(left, held, claims)
        if not parts:
            break
        for claimant, amounts in parts.items():
            for model, amount in amounts.items():
                held[claimant][model] = held[claimant].get(model, 0.0) + amount
                left[model] -= amount
    return held


def entitled_within(
    gpus: Mapping[str, float], groups: Mapping[Group, tuple[float, Mapping[Claimant, Claim]]]
) -> dict[Group, Holdings[Claimant]]:
    """Return each claimant's entitlement within its group's part; a group has a weight and its claimants."""
    together = {group: _together(weight, claims.values()) for group, (weight, claims) in groups.items()}
    parts = entitled(gpus, together)
    return {group: entitled(parts[group], claims) for group, (_, claims) in groups.items()}


def _together(weight: float, claims: Iterable[Claim]) -> Claim:
    """Return several claims as one."""
    gpus, by_model, worth = 0.0, dict[str, float](), dict[str, float]()
    for claim in claims:
        gpus += claim.gpus
        for model, amounts in claim.by_model.items():
            by_model[model] = by_model.get(model, 0.0) + amounts
        for model, value in claim.worth.items():
            worth[model] = worth.get(model, 0.0) + value * claim.gpus
    return Claim(weight, gpus, by_model, worth)


def _parts(
    left: Mapping[str, float], held: Holdings[Claimant], claims: Mapping[Claimant, Claim]
) -> Holdings[Claimant]:
    """Return each claimant's part of the GPUs left, divided by weight, as far as it can use it."""
    parts: Holdings[Claimant] = {}
    for model, count in left.items():
        if count <= NOTHING:
            continue
        unmet = {
            claimant: claim.by_model.get(model, 0.0) - held[claimant].get(model, 0.0)
            for claimant, claim in claims.items()
            if claim.weight > 0
        }
        takers = {
            claimant: want
            for claimant, want in unmet.items()
            if want > NOTHING and claims[claimant].gpus - sum(held[claimant].values()) > NOTHING
        }
        weight = sum([claims[claimant].weight for claimant in takers])
        for claimant, want in takers.items():
            even = count * claims[claimant].weight / weight
            parts.setdefault(claimant, {})[model] = min(even, want)
    for claimant, amounts in parts.items():
        room = claims[claimant].gpus - sum(held[claimant].values())
        if sum(amounts.values()) > room:
            parts[claimant] = _most_of_use(amounts, room, claims[claimant].worth)
    return parts


def _most_of_use(amounts: Mapping[str, float], room: float, worth: Mapping[str, float]) -> dict[str, float]:
    """Return the amounts cut to `room`: the models of most worth first, models of equal worth cut alike."""
    taken: dict[str, float] = {}
    by_worth: dict[float, list[str]] = {}
    for model in amounts:
        by_worth.setdefault(worth.get(model, 0.0), []).append(model)
    for _, models in sorted(by_worth.items(), reverse=True):
        much = sum([amounts[model] for model in models])
        part = min(1.0, room / much) if much > 0 else 0.0
        taken.update({model: amounts[model] * part for model in models})
        room -= much * part
    return taken
