"""cancel, hold, release, requeue: jobs by their numbers, or all that match."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allot.commands.options import connect
from allot.errors import Refused, WrongUse
from allot.output import plural, print_line, say
from allot.specfiles import pairs

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Job, JobsActionKind

SomeJobs = Annotated[
    list[int] | None, typer.Argument(metavar="ID...", help="The jobs' numbers.", show_default=False, min=1)
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="NAME=VALUE",
        help=(
            "All jobs that match and have not ended. NAME is state, virtual_cluster, tenant, "
            "label, name, q (part of the name), submitted_by, gpu_model, guarantee, id or array; "
            "may be repeated."
        ),
    ),
]
States = Annotated[
    str | None,
    typer.Option(
        "--state", "-s", metavar="STATE,...", help="All jobs in these states; short for --filter state=."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print how many jobs match.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def cancel(
    job_ids: SomeJobs = None,
    all_queued: Annotated[
        bool, typer.Option("--all-queued", help="All waiting jobs that you submitted.")
    ] = False,
    filters: Filters = None,
    states: States = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel jobs. A running job gets its grace period to write a checkpoint.

    `allot cancel 17 18`, or `allot cancel --filter label=sweep=3 --filter state=queued`
    """
    if sum(map(bool, (job_ids, all_queued, filters or states))) != 1:
        raise WrongUse("Give either the numbers of jobs, or --all-queued, or --filter and --state.")
    with connect() as client:
        if job_ids and not dry_run:
            _cancel_these(client, list(dict.fromkeys(job_ids)))
            return
        chosen = _chosen(filters, states)
        if job_ids:
            chosen = {"id": ",".join(map(str, job_ids))}
        elif all_queued:
            chosen = {"state": "queued", "submitted_by": client.me()["user"]["username"]}
        _act_on_all(client, "cancel", chosen, "cancelled, or being stopped", dry_run=dry_run, yes=yes)


def hold(
    job_ids: SomeJobs = None,
    filters: Filters = None,
    states: States = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Hold waiting jobs: they start only after `allot release`.

    `allot hold 17 18`, or `allot hold --filter label=sweep=3`
    """
    _act("hold", "held", job_ids, filters, states, dry_run=dry_run, yes=yes)


def release(
    job_ids: SomeJobs = None,
    filters: Filters = None,
    states: States = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Release held jobs, so that they can start.

    `allot release 17 18`, or `allot release --filter label=sweep=3`
    """
    _act("release", "released", job_ids, filters, states, dry_run=dry_run, yes=yes)


def requeue(
    job_ids: SomeJobs = None,
    filters: Filters = None,
    states: States = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Stop running jobs after their checkpoint and put them back in the queue.

    `allot requeue 17 18`, or `allot requeue --filter label=sweep=3`
    """
    _act("requeue", "requeued", job_ids, filters, states, dry_run=dry_run, yes=yes)


def _act(
    action: Literal["hold", "release", "requeue"],
    outcome: str,
    job_ids: list[int] | None,
    filters: list[str] | None,
    states: str | None,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    with connect() as client:
        if job_ids and not (filters or states or dry_run):
            acts = {"hold": client.hold, "release": client.release, "requeue": client.requeue}
            each_of(job_ids, acts[action], lambda job: outcome)
            return
        _act_on_all(client, action, _all(job_ids, filters, states), outcome, dry_run=dry_run, yes=yes)


def _all(job_ids: list[int] | None, filters: list[str] | None, states: str | None) -> dict[str, str]:
    if bool(job_ids) == bool(filters or states):
        raise WrongUse("Give either the numbers of jobs, or --filter and --state.")
    return {"id": ",".join(map(str, job_ids))} if job_ids else _chosen(filters, states)


def _chosen(filters: list[str] | None, states: str | None) -> dict[str, str]:
    chosen = pairs(filters or [], "--filter")
    if states is not None:
        chosen["state"] = states
    for name, value in chosen.items():
        if not value.strip(" ,"):
            raise WrongUse(
                f"The filter {name} is empty, as of a variable that is not set; it means every job."
            )
    return chosen


def _act_on_all(
    client: Client, action: JobsActionKind, chosen: dict[str, str], outcome: str, *, dry_run: bool, yes: bool
) -> None:
    """Count the jobs first, ask, and change no more than were counted."""
    counted = client.act_on_many(action, chosen, dry_run=True)
    count = counted["jobs"]
    which = f"{plural(count, 'job')} ({counted['queued']:,} queued, {counted['running']:,} running)"
    if not count or dry_run:
        say(f"This would {action} {which}." if count else f"This would {action} no job.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise WrongUse(f"This would {action} {which}. Confirm it with --yes.")
        if not typer.confirm(f"{action.capitalize()} {which}?", err=True):
            raise typer.Exit(1)
    done, refused = 0, list[str]()
    while True:
        answer = client.act_on_many(action, chosen, most=count - done)
        done += answer["jobs"]
        refused = [one["message"] for one in answer["refused"]]
        if not answer["remaining"] or not answer["jobs"]:
            break
    print_line(f"{plural(done, 'job')} {outcome}.")
    for message in refused:
        say(f"allot: {message}")


def _cancel_these(client: Client, job_ids: list[int]) -> None:
    """Cancel jobs by their numbers, many by one request; where that leaves some out, each by its own."""
    if len(job_ids) > 1:
        answer = client.act_on_many("cancel", {"id": ",".join(map(str, job_ids))})
        if answer["jobs"] == len(job_ids):
            print_line(f"{plural(len(job_ids), 'job')} cancelled, or being stopped.")
            return
    each_of(job_ids, client.cancel, _cancelled)


def _cancelled(job: Job) -> str:
    return "is being cancelled" if job["state"] == "running" else "cancelled"


def each_of(job_ids: list[int], act: Callable[[int], Job], outcome: Callable[[Job], str]) -> None:
    """Do it to every job; a refusal for one does not stop the others."""
    worst = 0
    for job_id in job_ids:
        try:
            print_line(f"Job {job_id} {outcome(act(job_id))}.")
        except Refused as error:
            # Most messages name the job already.
            say(f"allot: {error}" if str(job_id) in str(error) else f"allot: job {job_id}: {error}")
            worst = max(worst, error.exit_code)
    if worst:
        raise typer.Exit(worst)


def register(app: typer.Typer) -> None:
    for command in (cancel, hold, release, requeue):
        app.command()(command)
