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
        help=(
            "Scope of the token; may be repeated. submit: jobs; manage: tenants and account; "
            "operate: the platform. Each includes read."
        ),
        show_default=False,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the token: the part after alt_.")]


@group.command(name="list")
def show(
    user: Annotated[str | None, typer.Option(help="Tokens of this user. For operators.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Tokens of all users. For operators.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """List your API tokens: their scopes, last use and expiry."""
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
        int | None,
        typer.Option("--days", min=1, help="Days for which it works. Default: as the server is configured."),
    ] = None,
    never: Annotated[
        bool,
        typer.Option("--never-expires", help="Create a token that never expires, if the server allows it."),
    ] = False,
    password_stdin: PasswordStdin = False,
    output: OutputOption = Format.table,
) -> None:
    """Create an API token and print it. Without --scope it has the scopes read and submit.

    If you ask for more scopes than the token of this machine has, you are asked for your password.
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
    """Replace a token by a new one, and print it. The old token works for a while longer.

    With --password-stdin the new token may outlive the token of this machine.
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
def revoke(keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys of the tokens.")]) -> None:
    """Revoke tokens at once: your own, or as an operator those of any user."""
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
    app.add_typer(group, name="token", help="Create, list, rotate and revoke API tokens.")
