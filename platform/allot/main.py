"""The entry point of `allot`: the list of commands, and how errors become words and exit codes."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
import typer.core

from allot import VERSION
from allot.commands import (
    advice,
    audit,
    budgets,
    cluster,
    failures,
    fairness,
    jobs,
    ledger,
    login,
    logs,
    market,
    metrics,
    nodes,
    notices,
    policies,
    restraint,
    scaling,
    secrets,
    serving,
    sessions,
    submit,
    throughputs,
    tokens,
    vc,
    what_if,
)
from allot.describe import problem_lines
from allot.errors import AllotError, NotSignedIn, Refused, Unreachable, WrongServer
from allot.output import say

HELP = "Submit training jobs to a shared GPU cluster, and see what becomes of them."
EPILOG = (
    "Environment: ALLOT_URL and ALLOT_TOKEN say which server and who; ALLOT_CONFIG names the file that "
    "`allot login` writes. Exit codes: 0 done, 1 error, 2 wrong use, 3 not found or not allowed, 4 server "
    "cannot be reached, 130 interrupted; with --wait and `allot wait` the job's own."
)
INTERRUPTED = 130


def explain(error: AllotError) -> None:
    """Say what went wrong and what to do about it, on stderr."""
    if isinstance(error, NotSignedIn):
        say(f"allot: {error}")
        say("  Sign in with `allot login URL`, or set ALLOT_TOKEN to a valid token.")
        return
    for line in problem_lines("allot: ", str(error), error.fields if isinstance(error, Refused) else ()):
        say(line)
    if isinstance(error, Unreachable) and not isinstance(error, WrongServer):
        say(f"  Is the platform running there, and is the address right?{_address_source(error.url)}")


def _address_source(url: str) -> str:
    """Where a wrong address would have to be put right."""
    from allot.credentials import find_account

    try:
        account = find_account()
    except AllotError:
        return ""
    return f" It comes from {account.source}." if account.url == url else ""


class Commands(typer.core.TyperGroup):
    """The group of all commands; the one place where an error turns into an exit code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except AllotError as error:
            explain(error)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Commands,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    # Plain help and plain tracebacks: rich would take longer to load than most commands run.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"allot {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Options of `allot` itself, before any command."""


login.register(app)
submit.register(app)
jobs.register(app)
logs.register(app)
sessions.register(app)
metrics.register(app)
nodes.register(app)
serving.register(app)
cluster.register(app)
what_if.register(app)
vc.register(app)
advice.register(app)
policies.register(app)
restraint.register(app)
throughputs.register(app)
scaling.register(app)
market.register(app)
ledger.register(app)
fairness.register(app)
notices.register(app)
budgets.register(app)
failures.register(app)
secrets.register(app)
tokens.register(app)
audit.register(app)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks becomes a question mark, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="allot")
