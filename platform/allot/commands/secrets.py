"""secret: values that jobs are given by name, and that are never shown again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from allot.commands.options import OutputOption, connect
from allot.errors import WrongUse
from allot.output import Format, print_line, print_objects, print_table, say, since

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

#: The server takes no more.
MOST_BYTES = 32 * 1024
#: Shorter ones are not masked in what jobs write.
SHORTEST_MASKED = 8

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret, such as hf-token.")]
TenantOption = Annotated[
    str | None, typer.Option(help="A secret of this tenant. Default: your own.", show_default=False)
]


@group.command(name="set")
def set_secret(name: Name, tenant: TenantOption = None) -> None:
    """Store a secret, or replace its value. The value is asked for, or read from standard input.

    `allot secret set hf-token`, or `allot secret set s3-key --tenant vision < key.pem`
    """
    value = _value(name)
    with connect() as client:
        client.secrets.set(name, value, tenant=tenant)
    print_line(f"secret {name} is kept{f' for tenant {tenant}' if tenant else ''}")
    if len(value.strip().encode()) < SHORTEST_MASKED:
        say(f"It has fewer than {SHORTEST_MASKED} characters, so it is not masked in what jobs write.")


def _value(name: str) -> str:
    """The value, never from the command line, which others on the machine can see."""
    if sys.stdin.isatty():
        value: str = typer.prompt(f"Value of {name}", hide_input=True, err=True)
        return value
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise WrongUse(f"The value is longer than {MOST_BYTES:,} bytes.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise WrongUse("The value is not text in UTF-8; put bytes into base64.") from None
    # A shell's `echo` ends its line; a text of several lines keeps its last one's end.
    return text.removesuffix("\n") if text.count("\n") == 1 else text


@group.command(name="list")
def list_secrets(
    tenant: Annotated[
        str | None,
        typer.Option(help="Only secrets of this tenant. Default: all that you may use.", show_default=False),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """List secrets by name: who set each, and when it was last used."""
    with connect() as client:
        owners = [tenant] if tenant else [None, *(each["name"] for each in client.me()["tenants"])]
        found = [(owner, row) for owner in owners for row in client.secrets.list(owner)]
    if output is not Format.table:
        print_objects([{**row, "tenant": owner} for owner, row in found], output)
        return
    rows = [
        [
            row["name"],
            owner or "you",
            row["changed_by"],
            since(row["changed_at"]),
            since(row["last_used_at"]) if row["last_used_at"] else "never",
        ]
        for owner, row in found
    ]
    print_table(["NAME", "OF", "SET BY", "AGE", "USED"], rows)


@group.command()
def delete(name: Name, tenant: TenantOption = None) -> None:
    """Delete a secret. Jobs that name it and have not started will fail."""
    with connect() as client:
        client.secrets.delete(name, tenant=tenant)
    print_line(f"secret {name} is deleted")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="secret", help="Manage secrets, which jobs use by name.")
