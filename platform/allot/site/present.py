"""What there is, read from the server in the form of a site's file; no secret is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allot.output import parse_time

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Cells, Node, User, VirtualCluster

#: What a file says of a virtual cluster in the same words as the API.
_SAME = (
    "title",
    "policy_plugin",
    "placer_plugin",
    "default_time_limit_seconds",
    "sharing",
    "min_run_seconds",
    "reclaim_min_run_seconds",
    "longest_wait_seconds",
    "overcommit",
    "overcommit_margin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Each part by name, in the order of names, with the fields of the file."""

    #: The currency of prices; None: cost units.
    currency: str | None = None
    #: For one GPU and hour, by model.
    prices: Mapping[str, float] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tenants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    virtual_clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The specification in force, and its version.
    cells: Mapping[str, Any] = field(default_factory=dict)
    cells_version: int = 0
    #: Models whose guarantees follow from cells.
    gpu_models_in_cells: Collection[str] = ()
    #: Users who cannot sign in. They are in no file, and a file does not end their memberships.
    inactive: Collection[str] = ()
    #: Of open invitations, by tenant, address and role: the key.
    invitation_keys: Mapping[tuple[str, str, str], str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return it as a file for which `allot apply` makes no changes."""
        named: dict[str, Any] = {
            "currency": self.currency,
            "prices": dict(self.prices),
            "users": [{"username": name, **fields} for name, fields in self.users.items()],
            "tenants": [{"name": name, **fields} for name, fields in self.tenants.items()],
            "nodes": [{"name": name, **fields} for name, fields in self.nodes.items()],
            "virtual_clusters": [{"name": name, **fields} for name, fields in self.virtual_clusters.items()],
        }
        return {**named, "cells": dict(self.cells)} if any(self.cells.values()) else named


def present(client: Client, *, invitations_of: Callable[[str], bool] = lambda tenant: True) -> Present:
    """Read it all. The open invitations are asked for tenant by tenant, of those that are wanted."""
    areas = client.administration
    users = sorted(areas.users(), key=lambda user: user["username"])
    cells = client.cells()
    invitation_keys: dict[tuple[str, str, str], str] = {}
    budgets = {
        line["tenant"]: {name: line[name] for name in ("amount", "unit", "period", "action", "starts_at")}
        for line in areas.budgets()
    }
    members = _members(users)
    tenants = {}
    for tenant in sorted(areas.tenants(), key=lambda tenant: tenant["name"]):
        name = tenant["name"]
        fields: dict[str, Any] = {
            "title": tenant["title"],
            "most_unfinished_jobs": tenant["most_unfinished_jobs"],
            "quota": tenant["quota"],
            "quota_cpus": tenant["quota_cpus"],
            "quota_memory_bytes": tenant["quota_memory_bytes"],
            "budget": budgets.get(name),
            "members": members.get(name, {}),
        }
        if invitations_of(name):
            open_ones = _open_invitations(client, name)
            invitation_keys |= {(name, *who): key for who, key in open_ones.items()}
            fields["invitations"] = [{"email": email, "role": role} for email, role in sorted(open_ones)]
        tenants[name] = fields
    return Present(
        currency=client.cluster_settings()["currency"] or None,
        prices={model["name"]: model["price_per_hour"] for model in client.gpu_models()},
        users={user["username"]: {"email": user["email"]} for user in users if user["is_active"]},
        tenants=tenants,
        nodes={node["name"]: _node(node) for node in client.nodes()},
        virtual_clusters={vc["name"]: _virtual_cluster(vc, cells) for vc in client.virtual_clusters()},
        cells=dict(cells["specification"]),
        cells_version=cells["version"],
        gpu_models_in_cells=cells["gpu_models"],
        inactive={user["username"] for user in users if not user["is_active"]},
        invitation_keys=invitation_keys,
    )


def _members(users: Collection[User]) -> dict[str, dict[str, str]]:
    """Return by tenant the role of each user who can sign in."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for user in users:
        for one in user["tenants"] if user["is_active"] else ():
            found[one["name"]][user["username"]] = one["role"]
    return found


def _open_invitations(client: Client, tenant: str) -> dict[tuple[str, str], str]:
    """Return by address and role the keys of those that name an address and have not expired."""
    now = datetime.now(UTC)
    return {
        (row["email"], row["role"]): row["key"]
        for row in client.administration.invitations(tenant)
        if row["email"] and parse_time(row["expires_at"]) > now
    }


def _node(node: Node) -> dict[str, Any]:
    withdrawn = node["withdrawn"]
    # What a health check cordoned comes back by itself, and no person asked for it.
    cordoned = node["cordoned"] and not (withdrawn and withdrawn["returns_itself"])
    why = withdrawn["why"] if cordoned and withdrawn else ""
    return {"rack": node["rack"], "cordoned": cordoned, **({"why": why} if why else {})}


def _virtual_cluster(vc: VirtualCluster, cells: Cells) -> dict[str, Any]:
    return {
        **{name: vc[name] for name in _SAME},  # type: ignore[literal-required]
        "guaranteed": {
            model: gpus
            for model, gpus in vc["own_guaranteed"].items()
            if gpus and model not in cells["gpu_models"]
        },
        "members": {member["tenant"]: member["weight"] for member in vc["members"]},
    }
