"""Users, tenants, nodes and virtual clusters, as a part of the client: `client.administration.users()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import (
        BudgetOfTenant,
        BudgetState,
        Invitation,
        Leaving,
        LimitsOfUser,
        MaintenanceWindow,
        Member,
        NewInvitation,
        NewUser,
        Node,
        NodeWithToken,
        Quota,
        Reservation,
        Tenant,
        User,
        UserQuotaState,
        VirtualCluster,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """Users, tenants with their members, invitations and quotas, nodes, maintenance, virtual clusters.

    Each has from the client only what it needs, as the parts in `resources` do.
    """

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    # Users, for operators

    def users(self, *, limit: int | None = None, **filters: str | None) -> Iterator[User]:
        """Users, the newest first. Filters are those of GET /users: q, tenant, is_active, is_operator."""
        return cast("Iterator[User]", self.pages("/users", filters, limit))

    def user(self, username: str) -> User:
        return cast("User", self.read(_path("users", username)))

    def add_user(self, wanted: Mapping[str, Any]) -> NewUser:
        """Make a user: username, email, is_operator, your_password. The answer alone has the password."""
        # Not repeated as a write is: a stored answer has no password.
        return cast("NewUser", self.send("POST", "/users", body=dict(wanted)))

    def change_user(self, username: str, changes: Mapping[str, Any]) -> User:
        """Change email, is_operator or password; `is_active` True lets the user sign in again."""
        return cast("User", self.send("PATCH", _path("users", username), body=dict(changes)))

    def deactivate(self, username: str, *, jobs: str, dry_run: bool = False) -> Leaving:
        """End sign-ins and tokens, and hold or cancel the jobs; a dry run only says which."""
        path = _path("users", username, "deactivate")
        return cast("Leaving", self.write(path, {"jobs": jobs, "dry_run": dry_run}))

    # Tenants

    def tenants(self) -> Iterator[Tenant]:
        """One's own; for operators all, the newest first."""
        return cast("Iterator[Tenant]", self.pages("/tenants", {}, None))

    def tenant(self, name: str) -> Tenant:
        return cast("Tenant", self.read(_path("tenants", name)))

    def add_tenant(self, wanted: Mapping[str, Any]) -> Tenant:
        """Make a tenant: name, title."""
        return cast("Tenant", self.write("/tenants", dict(wanted)))

    def change_tenant(self, name: str, changes: Mapping[str, Any]) -> Tenant:
        """Change title or most_unfinished_jobs."""
        return cast("Tenant", self.send("PATCH", _path("tenants", name), body=dict(changes)))

    def remove_tenant(self, name: str) -> None:
        self.send("DELETE", _path("tenants", name))

    def quota(self, tenant: str) -> Quota:
        return cast("Quota", self.read(_path("tenants", tenant, "quota")))

    def set_quota(
        self,
        tenant: str,
        limits: Mapping[str, int],
        *,
        cpus: float | None = None,
        memory_bytes: int | None = None,
    ) -> Quota:
        """Replace the whole quota, and return it; None: no limit."""
        body = {"limits": dict(limits), "cpus": cpus, "memory_bytes": memory_bytes}
        return cast("Quota", self.send("PUT", _path("tenants", tenant, "quota"), body=body))

    def limits_of_users(self, tenant: str) -> Iterator[LimitsOfUser]:
        """Quotas and budgets of members who have some; members who are not admins see only their own."""
        return cast("Iterator[LimitsOfUser]", self.pages(_path("tenants", tenant, "user-limits"), {}, None))

    def user_quota(self, tenant: str, username: str) -> UserQuotaState:
        path = _path("tenants", tenant, "members", username, "quota")
        return cast("UserQuotaState", self.read(path))

    def set_user_quota(self, tenant: str, username: str, wanted: Mapping[str, Any]) -> UserQuotaState:
        """Replace a member's quota by gpus, cpus and memory_bytes; what is left out has no limit."""
        path = _path("tenants", tenant, "members", username, "quota")
        return cast("UserQuotaState", self.send("PUT", path, body=dict(wanted)))

    def user_budget(self, tenant: str, username: str) -> BudgetState:
        path = _path("tenants", tenant, "members", username, "budget")
        return cast("BudgetState", self.read(path))

    def set_user_budget(self, tenant: str, username: str, wanted: Mapping[str, Any]) -> BudgetState:
        """Give a member a budget: amount, unit, period, action."""
        path = _path("tenants", tenant, "members", username, "budget")
        return cast("BudgetState", self.send("PUT", path, body=dict(wanted)))

    def remove_user_budget(self, tenant: str, username: str) -> None:
        self.send("DELETE", _path("tenants", tenant, "members", username, "budget"))

    def budgets(self) -> Iterator[BudgetOfTenant]:
        """The budgets of the tenants that one may see."""
        return cast("Iterator[BudgetOfTenant]", self.pages("/budgets", {}, None))

    # Members and invitations

    def members(self, tenant: str) -> Iterator[Member]:
        return cast("Iterator[Member]", self.pages(_path("tenants", tenant, "members"), {}, None))

    def set_member(self, tenant: str, username: str, role: str) -> Member:
        """Give a user a role; only operators make members of others."""
        path = _path("tenants", tenant, "members", username)
        return cast("Member", self.send("PUT", path, body={"role": role}))

    def remove_member(self, tenant: str, username: str) -> None:
        self.send("DELETE", _path("tenants", tenant, "members", username))

    def invitations(self, tenant: str) -> Iterator[Invitation]:
        """Those that were neither accepted nor revoked."""
        return cast("Iterator[Invitation]", self.pages(_path("tenants", tenant, "invitations"), {}, None))

    def invite(self, tenant: str, wanted: Mapping[str, Any]) -> NewInvitation:
        """Invite by role, email, expires_in_days. The answer alone has the link, unless it was mailed."""
        return cast("NewInvitation", self.send("POST", _path("tenants", tenant, "invitations"), body=wanted))

    def revoke_invitation(self, tenant: str, key: str) -> None:
        self.send("DELETE", _path("tenants", tenant, "invitations", key))

    # Maintenance windows

    def windows(self, *, states: Sequence[str] = ()) -> list[MaintenanceWindow]:
        """Windows by their start, for all users; of these states, or all."""
        filters = {"state": ",".join(states)} if states else {}
        return cast("list[MaintenanceWindow]", list(self.pages("/maintenance", filters, None)))

    def window(self, number: int) -> MaintenanceWindow:
        return cast("MaintenanceWindow", self.read(f"/maintenance/{number}"))

    def announce_window(self, wanted: Mapping[str, Any]) -> MaintenanceWindow:
        """Make a window: reason, starts_at, ends_at, and nodes or racks."""
        return cast("MaintenanceWindow", self.write("/maintenance", dict(wanted)))

    def change_window(self, number: int, changes: Mapping[str, Any]) -> MaintenanceWindow:
        """Change reason, starts_at, ends_at, or nodes and racks, which replace the nodes."""
        return cast("MaintenanceWindow", self.send("PATCH", f"/maintenance/{number}", body=dict(changes)))

    def cancel_window(self, number: int) -> None:
        """Call a window off, or end it early."""
        self.send("DELETE", f"/maintenance/{number}")

    # Reservations

    def reservations(self, *, states: Sequence[str] = ()) -> list[Reservation]:
        """Those that you may see by their start; of these states, or all."""
        filters = {"state": ",".join(states)} if states else {}
        return cast("list[Reservation]", list(self.pages("/reservations", filters, None)))

    def reservation(self, number: int) -> Reservation:
        return cast("Reservation", self.read(f"/reservations/{number}"))

    def reserve(self, wanted: Mapping[str, Any]) -> Reservation:
        """Make one: name, tenant, gpu_model, gpus, starts_at, ends_at; user, virtual_cluster, note."""
        return cast("Reservation", self.write("/reservations", dict(wanted)))

    def change_reservation(self, number: int, changes: Mapping[str, Any]) -> Reservation:
        """Change gpus, starts_at, ends_at or note."""
        return cast("Reservation", self.send("PATCH", f"/reservations/{number}", body=dict(changes)))

    def cancel_reservation(self, number: int) -> None:
        """Call a reservation off, or end it early."""
        self.send("DELETE", f"/reservations/{number}")

    # Nodes and virtual clusters

    def add_node(self, wanted: Mapping[str, Any]) -> NodeWithToken:
        """Expect a node: name, rack. The answer alone has the token of its agent."""
        return cast("NodeWithToken", self.send("POST", "/nodes", body=dict(wanted)))

    def change_node(self, name: str, changes: Mapping[str, Any]) -> Node:
        """Change rack, or cordoned with why."""
        return cast("Node", self.send("PATCH", _path("nodes", name), body=dict(changes)))

    def remove_node(self, name: str) -> None:
        self.send("DELETE", _path("nodes", name))

    def new_node_token(self, name: str) -> NodeWithToken:
        """Make a new token, which the answer alone has; the old one stops working at once."""
        return cast("NodeWithToken", self.send("POST", _path("nodes", name, "token")))

    def add_virtual_cluster(self, wanted: Mapping[str, Any]) -> VirtualCluster:
        """Make a virtual cluster: the fields of POST /virtual-clusters."""
        return cast("VirtualCluster", self.write("/virtual-clusters", dict(wanted)))

    def remove_virtual_cluster(self, name: str) -> None:
        self.send("DELETE", _path("virtual-clusters", name))


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)
