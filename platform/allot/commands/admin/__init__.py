"""admin: users, tenants, members, invitations, quotas, budgets, nodes, virtual clusters and tokens."""

from __future__ import annotations

import typer

from allot.commands.admin import (
    limits,
    maintenance,
    members,
    money,
    nodes,
    reservations,
    tenants,
    tokens,
    users,
    virtual_clusters,
)

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    for name, area, about in (
        ("user", users.group, "Find, create and deactivate users. For operators."),
        ("tenant", tenants.group, "List, create, change and remove tenants."),
        ("member", members.members, "Manage the members of a tenant and their roles."),
        ("invite", members.invitations, "Manage invitations to a tenant."),
        ("quota", limits.quotas, "Show and set quotas: what tenants and members may hold at once."),
        (
            "budget",
            limits.budgets,
            "Show and set budgets: what tenants and members may use in a month or a week.",
        ),
        ("node", nodes.group, "Add, move, cordon and remove nodes."),
        ("maintenance", maintenance.group, "Announce, change and cancel maintenance windows."),
        ("reservation", reservations.group, "Create, list, change and cancel reservations."),
        ("vc", virtual_clusters.group, "Create, change and remove virtual clusters."),
        ("token", tokens.group, "List and revoke API tokens of all users."),
    ):
        group.add_typer(area, name=name, help=about)
    group.command()(money.currency)
    app.add_typer(group, name="admin", help="Administer users, tenants, nodes and virtual clusters.")
