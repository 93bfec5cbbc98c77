"""token: API tokens, one's own and for operators those of all users."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, PasswordStdin, connect, typed_password, with_password
from allot.output import Format, local_time, print_line, print_objects, print_table, say, shown_once, since
from allot.times import span_seconds

if TYPE_CHECKING:
    from allot.schema import NewToken, Token

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Scope(StrEnum):
    read = "read"
    submit = "submit"
    manage = "manage"
    operate = "operate"


ScopeOption = Annotated[
    list[Scope] | None,
    typer.Option(
        "--scope",
        help="Scope; may be repeated. submit: jobs; manage: tenants and account; operate: the "
        "platform. Each may read.",
        show_default=False,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The part of the token after alt_.")]


@group.command(name="list")
def show(
    user: Annotated[str | None, typer.Option(help="Those of this user. For operators.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Those of all users. For operators.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """List your API tokens: what they may do, who used them and until when they work."""
    with connect() as client:
        found = list(client.tokens.list(user=user, everybody=everybody))
    if output is not Format.table:
        print_objects(found, output)
        return
    of_others = everybody or user is not None
    print_tokens(found, of_others=of_others)


def print_tokens(found: list[Token], *, of_others: bool) -> None:
    columns = ["KEY", *(["USER"] if of_others else []), "NAME", "SCOPES", "USED", "FROM", "EXPIRES"]
    print_table(columns, (_row(token, of_others) for token in found))


def _row(token: Token, of_others: bool) -> list[str]:
    used = f"{since(token['last_used_at'])} ago" if token["last_used_at"] else "never"
    expires = local_time(token["expires_at"]) if token["expires_at"] else "never"
    return [
        token["key"],
        *([token["user"]] if of_others else []),
        token["name"],
        ",".join(token["scopes"]),
        used,
        token["last_used_from"] or "-",
        f"{expires}, replaced by {token['replaced_by']}" if token["replaced_by"] else expires,
    ]


@group.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scopes: ScopeOption = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="How long it works. Left out: the usual.")
    ] = None,
    never: Annotated[bool, typer.Option("--never-expires", help="Where the installation allows it.")] = False,
    password_stdin: PasswordStdin = False,
    output: OutputOption = Format.table,
) -> None:
    """Make an API token and print it; without --scope it reads and submits.

    For more scopes than the token of this machine has, your password is asked for.
    """
    wanted: dict[str, Any] = {"name": name}
    if scopes:
        wanted["scopes"] = [scope.value for scope in scopes]
    if days is not None or never:
        wanted["expires_in_days"] = days
    with connect() as client:
        made = with_password(client.tokens.create, wanted, client.me, from_stdin=password_stdin)
    _print_new(made, output)


@group.command()
def rotate(
    key: Key,
    overlap: Annotated[str, typer.Option(help="How long the old one keeps working: 0s, 2h, 7d.")] = "1d",
    password_stdin: PasswordStdin = False,
    output: OutputOption = Format.table,
) -> None:
    """Put a new token in the place of one, and print it; the old one works for a while yet.

    With --password-stdin the new one may last longer than the token of this machine.
    """
    wanted: dict[str, Any] = {"overlap_seconds": int(span_seconds(overlap, "--overlap"))}
    with connect() as client:
        if password_stdin:
            wanted["your_password"] = typed_password("", from_stdin=True)

        def ask(body: dict[str, Any]) -> NewToken:
            return client.tokens.rotate(key, body)

        made = with_password(ask, wanted, client.me, from_stdin=password_stdin)
    _print_new(made, output)
    say(f"{key} works for {overlap} more.")


@group.command()
def revoke(keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Their keys.")]) -> None:
    """End tokens at once: your own, and for operators any user's."""
    with connect() as client:
        for key in keys:
            client.tokens.revoke(key)
            print_line(f"{key} revoked")


def _print_new(made: NewToken, output: Format) -> None:
    if output is not Format.table:
        print_objects(made, output)
        return
    print_line(shown_once(made["token"]))
    until = f"until {local_time(made['expires_at'])}" if made["expires_at"] else "for ever"
    say(f"It works {until}, for: {', '.join(made['scopes'])}. It is not shown again.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="token", help="API tokens: make, list, rotate and revoke them.")
