"""admin token: the API tokens of all users. For operators."""

from __future__ import annotations

from typing import Annotated

import typer

from allot.commands.admin.asking import YesOption, confirm, print_json
from allot.commands.options import JsonOption, connect
from allot.commands.tokens import print_tokens
from allot.output import plural, print_line

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@group.command(name="list")
def list_tokens(
    user: Annotated[str | None, typer.Option(help="Only tokens of this user.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List API tokens: their owner, scopes and last use."""
    with connect() as client:
        found = list(client.tokens.list(user=user, everybody=True))
    if as_json:
        print_json(found)
    else:
        print_tokens(found, of_others=True)


@group.command()
def remove(
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Keys of the tokens: the parts after alt_.")
    ],
    yes: YesOption = False,
) -> None:
    """Revoke tokens at once."""
    confirm(f"End {plural(len(keys), 'token')}?", yes=yes)
    with connect() as client:
        for key in keys:
            client.tokens.revoke(key)
            print_line(f"{key} revoked")
