"""admin user: find users, make them, deactivate and reactivate them. For operators."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.admin.asking import Role, User, YesOption, changes_of, confirm, print_json
from allot.commands.admin.members import a_role
from allot.commands.options import JsonOption, PasswordStdin, QuietOption, connect, with_password
from allot.output import local_time, plural, print_line, print_table, say, shown_once, since

if TYPE_CHECKING:
    from allot.schema import Leaving
    from allot.schema import User as UserRow

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Jobs(StrEnum):
    hold = "hold"
    cancel = "cancel"


@group.command(name="list")
def list_users(
    search: Annotated[
        str | None, typer.Argument(help="Only users whose name or e-mail address contains this text.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only members of this tenant.")] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Only users that can sign in, or only those that cannot."),
    ] = None,
    operators: Annotated[bool, typer.Option("--operators", help="Only operators.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of rows.", min=1)] = 200,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List users, newest first: their tenants, and when they were last seen."""
    filters = {
        "q": search,
        "tenant": tenant,
        "is_active": None if active is None else str(active).lower(),
        "is_operator": "true" if operators else None,
    }
    with connect() as client:
        found = list(client.administration.users(limit=limit, **filters))
    if as_json:
        print_json(found)
    elif quiet:
        for user in found:
            print_line(user["username"])
    else:
        print_table(["USER", "STATE", "EMAIL", "SEEN", "TENANTS"], [_row(user) for user in found])


def _row(user: UserRow) -> list[str]:
    tenants = ", ".join(f"{one['name']} ({one['role']})" for one in user["tenants"]) or "-"
    return [
        f"{user['username']}{' (operator)' if user['is_operator'] else ''}",
        "active" if user["is_active"] else "inactive",
        user["email"] or "-",
        f"{since(user['last_seen_at'])} ago" if user["last_seen_at"] else "never",
        tenants,
    ]


@group.command()
def show(user: User, as_json: JsonOption = False) -> None:
    """Show one user."""
    with connect() as client:
        found = client.administration.user(user)
    if as_json:
        print_json(found)
        return
    name, state, email, _, tenants = _row(found)
    for heading, text in (
        ("User", f"{name}, {state}"),
        ("E-mail", email),
        ("Tenants", tenants),
        ("Last seen", local_time(found["last_seen_at"])),
        ("Since", local_time(found["date_joined"])),
    ):
        print_line(f"{heading:<10} {text}")


@group.command()
def add(
    user: User,
    email: Annotated[str, typer.Option(help="E-mail address for mail from the platform.")] = "",
    tenant: Annotated[str | None, typer.Option(help="Add the user to this tenant.")] = None,
    role: Annotated[Role, typer.Option(help="Role in the tenant.")] = Role.member,
    operator: Annotated[
        bool, typer.Option("--operator", help="Make the user an operator of the platform.")
    ] = False,
    password_stdin: PasswordStdin = False,
    as_json: JsonOption = False,
) -> None:
    """Create a user, and print a random password to hand over. It is not shown again.

    `allot admin invite add TENANT` lets people create their own account instead.
    """
    wanted: dict[str, Any] = {"username": user, "email": email, "is_operator": operator}
    with connect() as client:
        areas = client.administration
        if tenant is not None:
            # Before anything is made: without the tenant there would be a user in none.
            areas.tenant(tenant)
        made = with_password(areas.add_user, wanted, client.me, from_stdin=password_stdin)
        if as_json:
            print_json(made)
        else:
            print_line(shown_once(made["password"]))
            say(f"User {user} is created, with this password. `allot password` changes it.")
        if tenant is not None:
            areas.set_member(tenant, user, role.value)
            say(f"{user} is {a_role(role.value)} of tenant {tenant}.")


@group.command(name="set")
def change(
    user: User,
    email: Annotated[str | None, typer.Option(help="E-mail address for mail from the platform.")] = None,
    operator: Annotated[
        bool | None,
        typer.Option("--operator/--no-operator", help="Make the user an operator of the platform, or not."),
    ] = None,
    password_stdin: PasswordStdin = False,
    as_json: JsonOption = False,
) -> None:
    """Change a user's e-mail address or operator right."""
    changes = changes_of({"email": email, "is_operator": operator}, "--email, --operator or --no-operator")
    with connect() as client:
        changed = with_password(
            lambda body: client.administration.change_user(user, body),
            changes,
            client.me,
            from_stdin=password_stdin,
        )
    if as_json:
        print_json(changed)
    else:
        print_table(["USER", "STATE", "EMAIL", "SEEN", "TENANTS"], [_row(changed)])


@group.command()
def password(user: User, yes: YesOption = False, password_stdin: PasswordStdin = False) -> None:
    """Set a random password for a user, and print it. This revokes all tokens of the user."""
    confirm(f"Give {user} another password, and end all tokens of {user}?", yes=yes)
    wanted = {"password": secrets.token_urlsafe(15)}
    with connect() as client:
        with_password(
            lambda body: client.administration.change_user(user, body),
            wanted,
            client.me,
            from_stdin=password_stdin,
        )
    print_line(wanted["password"])
    say(f"This is the new password of {user}. It is not shown again.")


@group.command()
def deactivate(
    user: User,
    jobs: Annotated[
        Jobs,
        typer.Option(help="hold: running jobs go on, waiting jobs are held. cancel: all jobs are cancelled."),
    ] = Jobs.hold,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Deactivate a user: sign-ins and tokens end. Running jobs go on, waiting jobs are held, unless
    cancelled.

    Held jobs start after a member of their tenant releases them.
    """
    with connect() as client:
        areas = client.administration
        foreseen = areas.deactivate(user, jobs=jobs.value, dry_run=True)
        confirm(f"Deactivate {user}, end all tokens; {leaving_words(foreseen)}?", yes=yes)
        done = areas.deactivate(user, jobs=jobs.value)
        cancelled = done["cancelled"]
        # A request cancels a limited number; one that gets nowhere is not repeated.
        while done["remaining"] and done["cancelled"]:
            done = areas.deactivate(user, jobs=jobs.value)
            cancelled += done["cancelled"]
    if as_json:
        print_json({**done, "cancelled": cancelled})
    else:
        print_line(f"{user} is deactivated; {leaving_words({**done, 'cancelled': cancelled})}.")


def leaving_words(leaving: Leaving) -> str:
    """`2 running jobs to go on, 5 waiting jobs to be held`."""
    parts = [
        f"{plural(leaving['running'], 'running job')} to go on" if leaving["running"] else "",
        f"{plural(leaving['held'], 'waiting job')} to be held" if leaving["held"] else "",
        f"{plural(leaving['cancelled'], 'job')} to be cancelled" if leaving["cancelled"] else "",
        f"{plural(leaving['remaining'], 'job')} left" if leaving["remaining"] else "",
    ]
    return ", ".join(part for part in parts if part) or "no unfinished jobs"


@group.command()
def reactivate(user: User, as_json: JsonOption = False) -> None:
    """Let a user sign in again. Memberships are as before, tokens stay revoked, held jobs stay held."""
    with connect() as client:
        changed = client.administration.change_user(user, {"is_active": True})
    if as_json:
        print_json(changed)
    else:
        print_line(f"{user} is active. Create new tokens, and release the held jobs.")
