"""admin member, admin invite: who is in a tenant and in which role, and who may join."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from allot.commands.admin.asking import Role, Tenant, User, YesOption, confirm, print_json
from allot.commands.options import JsonOption, connect
from allot.output import local_time, print_line, print_table, say

members = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
invitations = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

RoleArgument = Annotated[Role, typer.Argument(help="Role: viewer, member or admin.", show_default=False)]


@members.command(name="list")
def list_members(tenant: Tenant, as_json: JsonOption = False) -> None:
    """List the members of a tenant."""
    with connect() as client:
        found = list(client.administration.members(tenant))
    if as_json:
        print_json(found)
    else:
        rows = [[row["username"], row["role"], row["email"] or "-"] for row in found]
        print_table(["USER", "ROLE", "EMAIL"], rows)


@members.command()
def add(tenant: Tenant, user: User, role: RoleArgument = Role.member, as_json: JsonOption = False) -> None:
    """Add a user to a tenant. For operators; admins invite people with `allot admin invite add`."""
    _set(tenant, user, role, as_json)


@members.command(name="set")
def change(tenant: Tenant, user: User, role: RoleArgument, as_json: JsonOption = False) -> None:
    """Change the role of a member, up to your own role. For admins of the tenant."""
    _set(tenant, user, role, as_json)


def a_role(role: str) -> str:
    return f"an {role}" if role == "admin" else f"a {role}"


def _set(tenant: str, user: str, role: Role, as_json: bool) -> None:
    with connect() as client:
        done = client.administration.set_member(tenant, user, role.value)
    if as_json:
        print_json(done)
    else:
        print_line(f"{user} is {a_role(done['role'])} of tenant {tenant}")


@members.command()
def remove(tenant: Tenant, user: User, yes: YesOption = False) -> None:
    """Remove a member, who needs an invitation to come back. For admins; members can remove themselves."""
    confirm(f"End the membership of {user} in tenant {tenant}?", yes=yes)
    with connect() as client:
        client.administration.remove_member(tenant, user)
    print_line(f"{user} is no longer a member of tenant {tenant}")


@invitations.command(name="list")
def list_invitations(tenant: Tenant, as_json: JsonOption = False) -> None:
    """List the open invitations to a tenant. For its admins."""
    with connect() as client:
        found = list(client.administration.invitations(tenant))
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["key"],
            row["role"],
            row["email"] or "anyone with the link",
            "yes" if row["mailed"] else "no",
            row["invited_by"],
            local_time(row["expires_at"]),
        ]
        for row in found
    ]
    print_table(["INVITATION", "ROLE", "FOR", "MAILED", "BY", "EXPIRES"], rows)


@invitations.command(name="add")
def invite(
    tenant: Tenant,
    role: Annotated[Role, typer.Option(help="Role that the person gets.")] = Role.member,
    email: Annotated[
        str,
        typer.Option(
            help="E-mail address to send the link to, if the server sends mail. Default: the link is printed."
        ),
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=30, help="Days for which the link works.")] = 7,
    as_json: JsonOption = False,
) -> None:
    """Invite a person to a tenant, and print the link unless it was mailed. For its admins."""
    wanted: dict[str, Any] = {"role": role.value, "email": email, "expires_in_days": days}
    with connect() as client:
        made = client.administration.invite(tenant, wanted)
    if as_json:
        print_json(made)
    elif made["link"] is None:
        print_line(f"The link was mailed to {made['email']}.")
    else:
        print_line(made["link"])
        say(f"The link works once, until {local_time(made['expires_at'])}. It is not shown again.")


@invitations.command(name="remove")
def revoke(
    tenant: Tenant,
    key: Annotated[
        str, typer.Argument(metavar="INVITATION", help="Key of the invitation, as `list` shows it.")
    ],
    yes: YesOption = False,
) -> None:
    """Revoke an invitation: its link stops working. For admins of the tenant."""
    confirm(f"Revoke invitation {key} into tenant {tenant}?", yes=yes)
    with connect() as client:
        client.administration.revoke_invitation(tenant, key)
    print_line(f"invitation {key} is revoked")
