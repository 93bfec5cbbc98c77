"""vc limits, spare limits, vc overcommit: limits on preemption, and what is lent of nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from allot.commands.options import connect
from allot.commands.policies import spare_pool
from allot.commands.vc import Name
from allot.commands.vc import group as virtual_clusters
from allot.describe import limits_words, overcommit_words, settings_lines
from allot.errors import AllotError
from allot.output import print_line

#: Removes the preemption budget.
UNLIMITED = "none"


def limits(
    name: Name,
    min_run_time: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds before a policy may stop, move or resize an attempt; 0: none."),
    ] = None,
    min_run_time_before_reclaim: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Seconds before a guarantee may reclaim an opportunistic attempt's GPUs; 0: none."
        ),
    ] = None,
    longest_wait: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds after which GPUs are reserved for a waiting job, whatever its policy prefers;"
            " 0: never.",
        ),
    ] = None,
) -> None:
    """Limit preemption in a virtual cluster, and how long its jobs wait. For operators."""
    asked = {
        "min_run_seconds": min_run_time,
        "reclaim_min_run_seconds": min_run_time_before_reclaim,
        "longest_wait_seconds": longest_wait,
    }
    changes = {field: value for field, value in asked.items() if value is not None}
    if not changes:
        raise AllotError(
            "Nothing to change: give --min-run-time, --min-run-time-before-reclaim or --longest-wait."
        )
    with connect() as client:
        changed = client.set_virtual_cluster(name, changes)
    print_line(f"Virtual cluster {name}: {limits_words(changed)}.")


class Overcommit(StrEnum):
    never = "never"
    predicted = "predicted"


def overcommit(
    name: Name,
    how: Annotated[
        Overcommit | None,
        typer.Argument(
            help=(
                "predicted: opportunistic jobs get CPUs and memory that guaranteed jobs are not "
                "expected to use. never: they do not."
            )
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=0.9, help="Fraction of each node's CPUs and memory that is never lent, 0 to 0.9."
        ),
    ] = None,
) -> None:
    """Set whether opportunistic jobs get CPUs and memory that guaranteed jobs leave unused. For operators."""
    asked = {"overcommit": how and how.value, "overcommit_margin": margin}
    changes = {field: value for field, value in asked.items() if value is not None}
    if not changes:
        raise AllotError("Nothing to change: give `never` or `predicted`, or --margin.")
    with connect() as client:
        changed = client.set_virtual_cluster(name, changes)
    print_line(f"Virtual cluster {name}: {overcommit_words(changed)}.")


def limit_all(
    preemptions_per_round: Annotated[
        str | None,
        typer.Option(
            "--preemptions-per-round",
            metavar="N",
            help="Maximum number of jobs that policies preempt in one scheduling round; `none`: unlimited.",
        ),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds for which a job gets no spare GPUs after an early preemption; doubles each time.",
        ),
    ] = None,
    max_backoff: Annotated[
        float | None, typer.Option(min=0.0, help="The longest back-off, in seconds.")
    ] = None,
) -> None:
    """Limit preemption in the whole cluster. For operators."""
    changes: dict[str, Any] = {}
    if preemptions_per_round is not None:
        changes["preemptions_per_round"] = _number_or_none(preemptions_per_round)
    if backoff is not None:
        changes["backoff_seconds"] = backoff
    if max_backoff is not None:
        changes["most_backoff_seconds"] = max_backoff
    if not changes:
        raise AllotError("Nothing to change: give --preemptions-per-round, --backoff or --max-backoff.")
    with connect() as client:
        changed = client.set_cluster_settings(changes)
    for heading, text in settings_lines(changed):
        print_line(f"{heading}: {text}")


def _number_or_none(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isdecimal():
        raise AllotError(f"--preemptions-per-round: {text!r} is neither a number nor `{UNLIMITED}`.")
    return int(text)


def register(_: typer.Typer) -> None:
    """Add these commands to the groups that they belong to."""
    virtual_clusters.command()(limits)
    virtual_clusters.command()(overcommit)
    spare_pool.command(name="limits")(limit_all)
