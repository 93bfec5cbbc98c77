"""The tier of a tenant under a policy with tiers, and the fraction of its demand that a tenant has.

Singularity (arXiv 2202.07848, section 2) guarantees a fraction to each job. The fraction of a tenant is the
useful GPUs that its jobs had, divided by what they demanded. All terms are those of `policies.singularity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.policies.singularity.board import TIERS
from scheduler.core.policies.singularity.policy import Singularity
from scheduler.core.round.registry import make_policy

#: The time over which fractions are taken where the policy has no tiers and so does not define it.
FRACTION_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """What a policy promises to a tenant."""

    name: str
    #: The guaranteed part of the GPU time that its jobs demand; 0 promises nothing.
    guaranteed_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """The tiers of tenants under one policy; empty where it has none."""

    by_tenant: Mapping[str, Tier]
    window_seconds: float = FRACTION_SECONDS


def tiers_of(policy: str, parameters: Mapping[str, Any], tenants: Iterable[str]) -> Tiers:
    """Return the tiers of these tenants under a policy, by its name and parameters."""
    try:
        made = make_policy(policy, parameters)
    except UnknownPlugin:
        return Tiers(by_tenant={})
    if not isinstance(made, Singularity):
        return Tiers(by_tenant={})
    found = {}
    for tenant in tenants:
        tier = made.tier_of(tenant)
        found[tenant] = Tier(name=TIERS[tier], guaranteed_fraction=made.guarantee(tier))
    return Tiers(by_tenant=found, window_seconds=made.window_seconds)


@dataclass(slots=True)
class Use:
    """GPUs that a tenant's guaranteed jobs demand now, and those they have, up to each job's own size."""

    demanded_gpus: float = 0.0
    useful_gpus: float = 0.0


def uses_of(view: View) -> dict[str, Use]:
    """Return what the jobs of a view demand and have, by tenant, without held jobs and those over quota."""
    found: dict[str, Use] = {}
    for job in view.jobs.values():
        use = found.setdefault(job.tenant, Use())
        demanded = amount_of(job)
        use.demanded_gpus += demanded
        running = view.running.get(job.id)
        if running is not None and not running.is_nominated:
            use.useful_gpus += min(amount_of(job, len(running.gpus)) / len(running.jobs), demanded)
    return found
