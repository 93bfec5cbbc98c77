"""Determine which tenants hold more than their own part, and whose parts they use.

Guaranteed jobs beyond a tenant's part use what other members leave idle. Opportunistic jobs first use what is
left of their own tenant's part, then the GPUs that no virtual cluster is guaranteed, and then what virtual
clusters leave idle, each in proportion to what it leaves. Within a virtual cluster, each member lends in
proportion to what it leaves idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A tenant's part of a virtual cluster, including trades, and what its jobs hold, by model."""

    own: Mapping[str, float] = field(default_factory=dict)
    guaranteed: Mapping[str, float] = field(default_factory=dict)
    opportunistic: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Use:
    """What a tenant borrows and lends, in GPUs of all models together."""

    borrowed: float = 0.0
    lent: float = 0.0


#: A tenant of a virtual cluster.
Key = tuple[str, str]


def uses(shares: Mapping[Key, Share], unguaranteed: Mapping[str, float]) -> dict[Key, Use]:
    """Return what each tenant borrows and lends.

    `unguaranteed` has the GPUs by model that no virtual cluster is guaranteed.
    """
    found = {key: Use() for key in shares}
    models = {model for share in shares.values() for model in (*share.own, *share.guaranteed)}
    models |= {model for share in shares.values() for model in share.opportunistic}
    for model in sorted(models):
        _use(model, shares, unguaranteed.get(model, 0.0), found)
    return found


def _use(model: str, shares: Mapping[Key, Share], unguaranteed: float, found: dict[Key, Use]) -> None:
    idle: dict[str, dict[Key, float]] = {}
    over: dict[str, float] = {}
    beyond = 0.0
    for key, share in shares.items():
        own, held = share.own.get(model, 0.0), share.guaranteed.get(model, 0.0)
        extra = share.opportunistic.get(model, 0.0)
        left = max(0.0, own - held)
        more, others = max(0.0, held - own), max(0.0, extra - left)
        found[key].borrowed += more + others
        over[key[0]] = over.get(key[0], 0.0) + more
        beyond += others
        idle.setdefault(key[0], {})[key] = max(0.0, left - extra)
    sums = {vc: sum(parts.values()) for vc, parts in idle.items()}
    inside = {vc: min(sums[vc], over[vc]) for vc in sums}
    rest = {vc: sums[vc] - inside[vc] for vc in sums}
    taken = min(max(0.0, beyond - unguaranteed), sum(rest.values()))
    for vc, parts in idle.items():
        if sums[vc] > 0:
            outside = taken * rest[vc] / sum(rest.values()) if taken > 0 else 0.0
            for key, left in parts.items():
                found[key].lent += (inside[vc] + outside) * left / sums[vc]
