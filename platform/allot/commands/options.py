"""What means the same in every command: options, the signed-in client, passwords."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from allot.errors import NotAllowed, WrongUse
from allot.output import Format, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allot.client import Client
    from allot.schema import Me

T = TypeVar("T")

#: `logs -f` and `wait` outlast a restart of the server.
PATIENCE_SECONDS = 300.0

OutputOption = Annotated[
    Format,
    typer.Option("--output", "-o", help="Output format: a table, or complete objects.", show_default=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
ParquetOption = Annotated[
    Path | None,
    typer.Option("--parquet", metavar="FILE", help="Write all rows to a Parquet file, oldest first."),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input, if one is needed.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only ids or names.")]
JobId = Annotated[int, typer.Argument(metavar="ID", help="The job's number.", show_default=False, min=1)]
JobIds = Annotated[
    list[int], typer.Argument(metavar="ID...", help="The jobs' numbers.", show_default=False, min=1)
]


def only_tenant(names: Sequence[str], why: str, *, flag: str = "--tenant") -> str:
    """Return the only one of these tenants; without just one, raise WrongUse that says why one is needed and
    names them. `flag`: the option that says which.
    """
    if len(names) != 1:
        which = f"one of: {', '.join(sorted(names))}" if names else "one of which you are a member"
        raise WrongUse(f"{why} Say which by {flag}: {which}.")
    return names[0]


def connect(*, patient: bool = False) -> Client:
    """The client of the signed-in user. A patient one goes on asking while the server is away."""
    from allot.client import Client

    told: set[str] = set()

    def on_retry(problem: str) -> None:
        if problem not in told:
            told.add(problem)
            say(f"allot: {problem} Trying again.")

    return Client.from_environment(read_retry_seconds=PATIENCE_SECONDS if patient else 0.0, on_retry=on_retry)


def submitter(client: Client, user: str | None, *, mine: bool, flag: str) -> str | None:
    """Return the user whose jobs are meant; None: those of all. `flag`: the option that names a user."""
    if mine and user is not None:
        raise WrongUse(f"Give either --mine or {flag}.")
    return client.me()["user"]["username"] if mine else user


def typed_password(username: str, *, from_stdin: bool, what: str = "Password") -> str:
    """Ask for a password, or read the next line of standard input.

    A password is never an argument, which other users can see.
    """
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise WrongUse("--password-stdin was given, but standard input is empty.")
        return password
    if not sys.stdin.isatty():
        raise WrongUse("There is no terminal to ask for the password on. Give --password-stdin or --token.")
    import getpass

    return getpass.getpass(f"{what} of {username}: ")


def with_password(
    ask: Callable[[dict[str, Any]], T], wanted: dict[str, Any], me: Callable[[], Me], *, from_stdin: bool
) -> T:
    """Send a request without the password first, and with it if the server requires it."""
    try:
        return ask(wanted)
    except NotAllowed as error:
        if all(problem.field != "your_password" for problem in error.fields):
            raise
    password = typed_password(me()["user"]["username"], from_stdin=from_stdin)
    return ask({**wanted, "your_password": password})
