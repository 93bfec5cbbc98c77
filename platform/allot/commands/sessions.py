"""exec, port-forward and open: into a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from allot.commands.options import JobId, connect
from allot.errors import WrongUse
from allot.output import say

INTERRUPTED = 130
LARGEST_PORT = 65_535
RankOption = Annotated[int, typer.Option("--rank", "-r", min=0, help="Rank of the process in the gang.")]


def exec_(
    job_id: JobId,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] [COMMAND]...", help="Command to run.", show_default="a shell"),
    ] = None,
    rank: RankOption = 0,
    terminal: Annotated[
        bool | None,
        typer.Option(
            "--tty/--no-tty",
            "-t/-T",
            help="Give the command a terminal.",
            show_default="where there is one here",
        ),
    ] = None,
) -> None:
    """Run a command, or a shell, inside a running job.

    The command has the job's sandbox or container, user, limits, GPUs and environment variables. It ends with
    the attempt. Without a terminal, standard output and standard error stay separate. The exit code is the
    command's. As in a shell, 127 means that the command does not exist, and 126 that it cannot be executed.
    """
    from allot.credentials import find_account
    from allot.sessions import has_terminal, run_command

    wants_terminal = has_terminal() if terminal is None else terminal
    if wants_terminal and not has_terminal():
        raise typer.BadParameter("standard input is not a terminal", param_hint="--tty")
    try:
        code = run_command(
            find_account(), job_id, rank=rank, command=command or [], has_terminal=wants_terminal
        )
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


def port_forward(
    job_id: JobId,
    port: Annotated[
        str,
        typer.Argument(metavar="PORT", help="Name of a port of the job, or a number.", show_default=False),
    ],
    local: Annotated[
        int | None,
        typer.Argument(
            metavar="[LOCAL]",
            min=0,
            max=LARGEST_PORT,
            help="Port of this machine; 0: any free port.",
            show_default="the same number, or any",
        ),
    ] = None,
    rank: RankOption = 0,
    address: Annotated[
        str, typer.Option("--address", help="Address of this machine to listen on.")
    ] = "127.0.0.1",
) -> None:
    """Forward a port of this machine to a port of a job, until Ctrl-C."""
    from allot.credentials import find_account
    from allot.sessions import forward_port

    number = int(port) if port.isdecimal() else 0
    if port.isdecimal() and not 1 <= number <= LARGEST_PORT:
        raise WrongUse(f"{port} is not a port; expected 1 to {LARGEST_PORT}, or the name of one of the job.")
    local = number if local is None else local
    with connect() as client:
        job = client.job(job_id)  # Report a job that does not exist before a connection is made.
    try:
        forward_port(
            find_account(),
            job["id"],
            rank=rank,
            port=port,
            local=local,
            address=address,
            ready=lambda number: say(
                f"{address}:{number} leads to port {port} of job {job_id}. Ctrl-C ends it."
            ),
            failed=lambda problem: say(f"allot: {problem}"),
        )
    except OSError as error:
        say(f"allot: Cannot listen at {address}:{local}: {error.strerror or error}.")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def open_(
    job_id: JobId,
    port: Annotated[str, typer.Argument(metavar="[PORT]", help="Name of a port of the job.")] = "notebook",
) -> None:
    """Print a one-time link to a web page of the job, such as a notebook. It works for one minute."""
    with connect() as client:
        print(client.page_address(job_id, port))


def register(app: typer.Typer) -> None:
    app.command("exec", context_settings={"ignore_unknown_options": False})(exec_)
    app.command("port-forward")(port_forward)
    app.command("open")(open_)
