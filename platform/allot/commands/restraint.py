"""vc restrain, spare restrain: how far policies may go against jobs that run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from allot.commands.options import connect
from allot.commands.policies import spare_pool
from allot.commands.vc import Name
from allot.commands.vc import group as virtual_clusters
from allot.describe import least_words, settings_lines
from allot.errors import AllotError
from allot.output import print_line

#: The word that takes a budget away.
NONE = "none"

Seconds = Annotated[float | None, typer.Option(min=0.0, help="In seconds.")]


def restrain(
    name: Name, min_run: Seconds = None, reclaim_min_run: Seconds = None, longest_wait: Seconds = None
) -> None:
    """Let attempts run for a while before others may have their GPUs, and bound how long jobs wait.

    `--min-run`: before a policy may stop, move or resize one. `--reclaim-min-run`: before an opportunistic
    one gives way to a guarantee. `--longest-wait`: once a job has waited for longer, GPUs are reserved for it
    whatever the policy prefers; 0: never. For operators.
    """
    asked = {
        "min_run_seconds": min_run,
        "reclaim_min_run_seconds": reclaim_min_run,
        "longest_wait_seconds": longest_wait,
    }
    changes = {field: value for field, value in asked.items() if value is not None}
    if not changes:
        raise AllotError("Nothing to change: give --min-run, --reclaim-min-run or --longest-wait.")
    with connect() as client:
        changed = client.set_virtual_cluster(name, changes)
    print_line(f"Virtual cluster {name}: {least_words(changed)}.")


def restrain_all(
    preemptions_per_round: Annotated[
        str | None,
        typer.Option(
            "--preemptions-per-round",
            metavar="N",
            help="Jobs that may be displaced in a round, or `none`: any number.",
        ),
    ] = None,
    backoff: Seconds = None,
    most_backoff: Seconds = None,
) -> None:
    """Bound preemptions in the whole cluster. For operators.

    `--backoff`: how long a job may not borrow GPUs after it was preempted too early, twice as long each time;
    `--most-backoff`: but never longer than this.
    """
    changes: dict[str, Any] = {}
    if preemptions_per_round is not None:
        changes["preemptions_per_round"] = _number_or_none(preemptions_per_round)
    if backoff is not None:
        changes["backoff_seconds"] = backoff
    if most_backoff is not None:
        changes["most_backoff_seconds"] = most_backoff
    if not changes:
        raise AllotError("Nothing to change: give --preemptions-per-round, --backoff or --most-backoff.")
    with connect() as client:
        changed = client.set_cluster_settings(changes)
    for heading, text in settings_lines(changed):
        print_line(f"{heading}: {text}")


def _number_or_none(text: str) -> int | None:
    if text == NONE:
        return None
    if not text.isdigit():
        raise AllotError(f"--preemptions-per-round: {text!r} is neither a number nor `{NONE}`.")
    return int(text)


def register(_: typer.Typer) -> None:
    """Add both commands to the groups that they belong to."""
    virtual_clusters.command()(restrain)
    spare_pool.command(name="restrain")(restrain_all)
