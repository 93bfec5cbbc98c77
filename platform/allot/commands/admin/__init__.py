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
        ("user", users.group, "Users: find, make, deactivate. For operators."),
        ("tenant", tenants.group, "Tenants: list, make, change, remove."),
        ("member", members.members, "Who is in a tenant, and in which role."),
        ("invite", members.invitations, "Invitations into a tenant."),
        ("quota", limits.quotas, "What tenants and members may hold at once."),
        ("budget", limits.budgets, "What tenants and members may use up in a month or a week."),
        ("node", nodes.group, "Nodes: expect, move, cordon, remove."),
        ("maintenance", maintenance.group, "Maintenance windows: announce, change, cancel."),
        ("reservation", reservations.group, "Reservations: create, list, change, cancel."),
        ("vc", virtual_clusters.group, "Virtual clusters: make, change, remove."),
        ("token", tokens.group, "API tokens of all users."),
    ):
        group.add_typer(area, name=name, help=about)
    group.command()(money.currency)
    app.add_typer(group, name="admin", help="People and places: users, tenants, nodes, virtual clusters.")
