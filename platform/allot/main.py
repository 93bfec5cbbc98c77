"""The entry point of `allot`: the list of commands, and how errors become words and exit codes."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections import UserDict
from typing import Annotated, Any

import typer
import typer.core
import typer.main
from typer.models import CommandInfo, TyperInfo

from allot import VERSION
from allot.commands import (
    admin,
    advice,
    artefacts,
    audit,
    budgets,
    changing,
    cluster,
    comparing,
    failures,
    fairness,
    fate,
    history,
    jobs,
    ledger,
    limits,
    login,
    logs,
    maintenance,
    market,
    metrics,
    nodes,
    notices,
    policies,
    running,
    scaling,
    secrets,
    serving,
    sessions,
    site,
    slurm,
    submit,
    templates,
    throughputs,
    tokens,
    vc,
    what_if,
)
from allot.describe import problem_lines
from allot.errors import AllotError, NotSignedIn, Refused, Unreachable, WrongServer
from allot.output import say

HELP = "Submit training jobs to a shared GPU cluster, and follow them to their end."
EPILOG = (
    "Environment: ALLOT_URL is the server's address, ALLOT_TOKEN your API token, "
    "ALLOT_CONFIG the file that `allot login` writes. Exit codes: 0 success, 1 error, 2 "
    "wrong use, 3 not found or not allowed, 4 server unreachable, 130 interrupted. With "
    "--wait, and for `allot wait`, the exit code is the job's own."
)
INTERRUPTED = 130


def explain(error: AllotError) -> None:
    """Print what went wrong and what to do about it, on stderr."""
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


class CommandsByName(UserDict[str, Any]):
    """The commands that were registered, by name. Each is made when it is first looked up: to make all of
    their functions' signatures takes longer than most commands run."""

    def __init__(self, registered: typer.Typer) -> None:
        super().__init__()
        for command in registered.registered_commands:
            assert command.callback is not None
            self.data[command.name or typer.main.get_command_name(command.callback.__name__)] = command
        for group in registered.registered_groups:
            assert isinstance(group.name, str)
            self.data[group.name] = group

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        if isinstance(found, CommandInfo):
            alone.registered_commands = [found]
            self.data[name] = typer.main.get_command(alone)
        elif isinstance(found, TyperInfo):
            alone.registered_groups = [found]
            self.data[name] = typer.main.get_group(alone).commands[name]
        return self.data[name]


class Commands(typer.core.TyperGroup):
    """The group of all commands; the one place where an error turns into an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = COMMANDS

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(self.commands)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            try:
                return super().invoke(ctx)
            finally:
                _flush()
        except AllotError as error:
            explain(error)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                # A reader that has seen enough is no error; typer ends quietly.
                raise
            place = f"{error.filename}: " if error.filename else ""
            say(f"allot: {place}{error.strerror or error}.")
            raise typer.Exit(1) from None


def _flush() -> None:
    """Write the rest of the output now, while a full disk can still be explained; drop what does not fit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


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


def _registered() -> typer.Typer:
    registered = typer.Typer()
    for module in (
        login,
        submit,
        running,
        jobs,
        fate,
        changing,
        slurm,
        history,
        comparing,
        logs,
        artefacts,
        sessions,
        metrics,
        nodes,
        maintenance,
        serving,
        cluster,
        what_if,
        vc,
        advice,
        policies,
        limits,
        throughputs,
        scaling,
        market,
        ledger,
        fairness,
        notices,
        budgets,
        failures,
        secrets,
        templates,
        tokens,
        audit,
        admin,
        site,
    ):
        module.register(registered)
    return registered


COMMANDS = CommandsByName(_registered())


def main() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The caller has closed it: there is nothing to read, and no reader.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays open to the end
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks becomes a question mark, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="allot")
