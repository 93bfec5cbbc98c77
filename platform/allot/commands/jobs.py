"""ls, show, why, cancel, hold, release: looking at jobs and changing their fate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import JobId, JobIds, OutputOption, QuietOption, connect
from allot.describe import (
    after_first_start,
    array_words,
    attempt_detail,
    attempt_words,
    auxiliary_lines,
    change_line,
    dependency_line,
    dependent_words,
    detail,
    enforcement_words,
    gpus_of,
    gpus_wanted,
    guarantee_words,
    model_of,
    nodes_of,
    preemption_words,
    reason_lines,
    run_time,
    run_time_words,
    secret_line,
    state_word,
    task_line,
    task_name,
    time_limit_words,
    turn_words,
    usual_words,
)
from allot.errors import Refused, WrongUse
from allot.forecasts import prediction_line
from allot.output import (
    Format,
    local_time,
    plural,
    print_line,
    print_objects,
    print_table,
    say,
    since,
)
from allot.specfiles import pairs

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Attempt, Job, JobDependencies, JobPreemptions, JobRunTime

DEFAULT_ROWS = 50


class State(StrEnum):
    queued = "queued"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class Guarantee(StrEnum):
    guaranteed = "guaranteed"
    opportunistic = "opportunistic"


def ls(
    state: Annotated[
        list[State] | None, typer.Option("--state", "-s", help="Only these; repeatable.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    vc: Annotated[str | None, typer.Option(help="Only in this virtual cluster.")] = None,
    name: Annotated[str | None, typer.Option(help="Only with this in the name.")] = None,
    model: Annotated[str | None, typer.Option(help="Only for this GPU model.")] = None,
    guarantee: Annotated[Guarantee | None, typer.Option(help="Only of this kind.")] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", metavar="KEY[=VALUE]", help="Only with this label, or of this name."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="USER", help="Only submitted by this user.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", "-m", help="Only submitted by you.")] = False,
    array: Annotated[
        int | None, typer.Option("--array", metavar="ID", help="Only the tasks of this array.")
    ] = None,
    fold: Annotated[bool, typer.Option("--fold", help="One line for each array.")] = False,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Rows at most.")] = DEFAULT_ROWS,
    everything: Annotated[bool, typer.Option("--all", "-a", help="However many there are.")] = False,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
) -> None:
    """List jobs, the newest first."""
    with connect() as client:
        found = client.jobs(
            # One more than is shown tells whether there are more.
            limit=None if everything else rows + 1,
            state=",".join(state) if state else None,
            tenant=tenant,
            virtual_cluster=vc,
            q=name,
            gpu_model=model,
            guarantee=guarantee,
            label=label,
            submitted_by=client.me()["user"]["username"] if mine else by,
            array=array,
            fold="true" if fold else None,
        )
        if quiet:
            for job in found if everything else islice(found, rows):
                print_line(str(job["id"]))
            return
        jobs = list(found)
    more = not everything and len(jobs) > rows
    jobs = jobs if everything else jobs[:rows]
    if output is not Format.table:
        print_objects(jobs, output)
    elif jobs:
        _print_jobs(jobs)
    else:
        say("No jobs." if not state else f"No jobs that are {' or '.join(state)}.")
    if more:
        say(f"The newest {plural(rows, 'job')}; there are more. Use -n NUMBER or --all.")


def _print_jobs(jobs: list[Job]) -> None:
    # The tenant is worth a column only to those who see several.
    several = len({job["tenant"] for job in jobs}) > 1
    columns = ["ID", "NAME", "STATE", "GPUS", "MODEL", "VC", "USER", "AGE", "TIME", "DETAIL"]
    if several:
        columns.insert(columns.index("VC"), "TENANT")
    rows = []
    for job in jobs:
        row: list[object] = [job["id"], task_name(job), state_word(job), gpus_of(job), model_of(job)]
        row += [job["tenant"]] if several else []
        row += [job["virtual_cluster"], job["submitted_by"], since(job["submitted_at"]), run_time(job)]
        rows.append([*row, detail(job)])
    print_table(columns, rows, right=("ID", "GPUS", "AGE", "TIME"))


def show(
    job_id: JobId,
    spec: Annotated[
        bool, typer.Option("--spec", help="Print only the specification, ready for `allot submit -`.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Show one job and its attempts."""
    with connect() as client:
        job = client.job(job_id)
        if spec:
            print_objects(job["spec"], Format.json if output is Format.json else Format.yaml)
        elif output is not Format.table:
            print_objects(job, output)
        else:
            preemptions = client.job_preemptions(job_id) if job["preemptions"] else None
            latest = job["attempt"]
            known = client.job_run_time(job_id) if latest and latest["total_steps"] else None
            attempts = client.attempts(job_id) if latest else []
            _print_job(job, attempts, preemptions, known, client.dependencies(job_id))


def _print_job(
    job: Job,
    attempts: list[Attempt],
    preemptions: JobPreemptions | None,
    known: JobRunTime | None,
    dependencies: JobDependencies,
) -> None:
    latest = job["attempt"]
    facts = [
        ("Description", job["spec"].get("description") or ""),
        ("State", _state_line(job)),
        ("Tenant", job["tenant"]),
        ("Virtual cluster", job["virtual_cluster"]),
        ("Submitted", f"{local_time(job['submitted_at'])} by {job['submitted_by']}"),
        ("GPUs", f"{gpus_wanted(job)}, {guarantee_words(job)}"),
        ("Priority", str(job["priority"])),
        ("Time limit", time_limit_words(job["spec"])),
        ("Tasks", "\n".join(task_line(task) for task in job["spec"].get("tasks", []))),
        ("Secrets", "\n".join(secret_line(use) for use in job["spec"].get("secrets") or [])),
        ("Array", array_words(job)),
        ("Labels", ", ".join(f"{key}={value}" for key, value in job["labels"].items())),
        ("Waits for", "\n".join(dependency_line(one) for one in dependencies["waits_for"])),
        ("Awaited by", dependent_words(dependencies)),
        ("Preempted", preemption_words(preemptions) if preemptions else ""),
        ("Turns", turn_words(latest["turn"]) if latest and latest["turn"] else ""),
        ("GPU part", enforcement_words(latest["enforcement"]) if latest else ""),
        (
            "CPUs, memory",
            "\n".join(auxiliary_lines(latest["auxiliary"])) if latest and latest["auxiliary"] else "",
        ),
        ("Runs on", nodes_of(latest) if latest and job["state"] == "running" else ""),
        ("Progress", _progress(latest) if latest else ""),
        ("Run time", run_time_words(known) if known else ""),
        ("Usual", usual_words(known) if known else ""),
        ("Message", job["message"]),
    ]
    print_line(f"Job {job['id']} {task_name(job)}")
    for name, text in facts:
        for number, line in enumerate(text.splitlines()):
            print_line(f"  {name if number == 0 else '':<16} {line}")
    if job["state"] == "queued":
        _print_reasons([reason_lines(reason) for reason in job["reasons"]])
    if attempts:
        print_line("")
        rows = [
            [
                attempt["number"],
                attempt_words(attempt),
                attempt["gpu_model"],
                since(attempt["running_at"], until=attempt["ended_at"]),
                nodes_of(attempt) or "-",
                attempt_detail(attempt),
            ]
            for attempt in sorted(attempts, key=lambda attempt: attempt["number"])
        ]
        print_table(["ATTEMPT", "STATE", "MODEL", "TIME", "NODES", "DETAIL"], rows, right=("ATTEMPT", "TIME"))


def _state_line(job: Job) -> str:
    word = state_word(job)
    if job["state"] == "queued":
        place = f", #{job['position']} in the queue" if job["position"] else ""
        return f"{word} for {since(job['submitted_at'])}{place}"
    if job["ended_at"]:
        ended = f"{word} {since(job['ended_at'])} ago"
        # Its attempts, and the waits between them.
        return f"{ended}, {after_first_start(job)} after its first start" if job["started_at"] else ended
    return f"{word} for {run_time(job)}{', is being cancelled' if job['cancelling'] else ''}"


def _progress(attempt: Attempt) -> str:
    parts = []
    if attempt["step"] is not None:
        total = f" of {attempt['total_steps']}" if attempt["total_steps"] else ""
        parts.append(f"step {attempt['step']}{total}")
    if attempt["throughput"]:
        parts.append(f"{attempt['throughput']:.4g} samples/s")
    return ", ".join(parts)


def why(
    job_id: Annotated[
        int | None, typer.Argument(metavar="ID", help="The job's number.", show_default=False, min=1)
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Explain the job that you submitted last.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Say why a job waits: the reasons, the most decisive first, its place in the queue, and when it will
    probably start."""
    output = Format.json if as_json else output
    if (job_id is None) is not last:
        raise WrongUse("Give the number of a job, or --last.")
    with connect() as client:
        job_id = job_id or _last_job(client)
        answer = client.why(job_id)
        if output is not Format.table:
            print_objects(answer, output)
            return
        job = client.job(job_id)
    if answer["state"] != "queued":
        print_line(f"{change_line(job)}. It does not wait.")
        return
    place = f", #{answer['position']} of {answer['queue_length']} in its queue" if answer["position"] else ""
    print_line(f"Job {job_id} {job['name']} has waited {since(job['submitted_at'])}{place}.")
    if answer["reasons"]:
        _print_reasons([reason_lines(reason) for reason in answer["reasons"]])
    else:
        print_line("No round has looked at it yet; ask again in a few seconds.")
    if answer["prediction"] is not None:
        print_line(prediction_line(answer["prediction"]))
    elif answer["no_prediction"]:
        print_line(f"No start is predicted: {answer['no_prediction']}")
    if answer["round"] is not None:
        print_line(f"Decided in round {answer['round']}, {since(answer['decided_at'])} ago.")


def _last_job(client: Client) -> int:
    """The number of the job that the person submitted last."""
    for job in client.jobs(limit=1, submitted_by=client.me()["user"]["username"]):
        return job["id"]
    raise WrongUse("You have submitted no job yet.")


def _print_reasons(reasons: Iterable[list[str]]) -> None:
    for number, lines in enumerate(reasons, start=1):
        print_line(f"  {number}. {lines[0]}")
        for line in lines[1:]:
            print_line(f"     {line}")


def cancel(
    job_ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="The jobs' numbers.", show_default=False)
    ] = None,
    all_queued: Annotated[
        bool, typer.Option("--all-queued", help="All jobs that you submitted and that wait.")
    ] = False,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME=VALUE",
            help="All jobs that have not ended and match: state, virtual_cluster, tenant, label, name, q (a"
            " part of the name), submitted_by, gpu_model, guarantee, id, array; may be repeated.",
        ),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(
            "--state", "-s", metavar="STATE,...", help="All in these states; short for --filter state=."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print their number.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Cancel jobs. A running one gets time to write a checkpoint.

    `allot cancel 17 18`, or `allot cancel --filter label=sweep=3 --filter state=queued`
    """
    if sum(map(bool, (job_ids, all_queued, filters or states))) != 1:
        raise WrongUse("Give either the numbers of jobs, or --all-queued, or --filter and --state.")
    with connect() as client:
        if job_ids and not dry_run:
            _cancel_these(client, list(dict.fromkeys(job_ids)))
            return
        chosen = pairs(filters or [], "--filter")
        if states:
            chosen["state"] = states
        if job_ids:
            chosen = {"id": ",".join(map(str, job_ids))}
        elif all_queued:
            chosen = {"state": "queued", "submitted_by": client.me()["user"]["username"]}
        _cancel_all(client, chosen, dry_run=dry_run, yes=yes)


def _cancel_all(client: Client, chosen: dict[str, str], *, dry_run: bool, yes: bool) -> None:
    """Count the jobs first, ask, and cancel no more than were counted."""
    counted = client.cancel_many(chosen, dry_run=True)
    count = counted["jobs"]
    which = f"{plural(count, 'job')} ({counted['queued']:,} queued, {counted['running']:,} running)"
    if not count or dry_run:
        say(f"This would cancel {which}." if count else "No job that has not ended matches.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise WrongUse(f"This would cancel {which}. Say so with --yes.")
        if not typer.confirm(f"Cancel {which}?", err=True):
            raise typer.Exit(1)
    done = 0
    while True:
        answer = client.cancel_many(chosen, most=count - done)
        done += answer["jobs"]
        if not answer["remaining"] or not answer["jobs"]:
            break
    print_line(f"{plural(done, 'job')} cancelled, or being stopped.")


def _cancel_these(client: Client, job_ids: list[int]) -> None:
    """Cancel jobs by their numbers, many by one request; where that leaves some out, each by its own."""
    if len(job_ids) > 1:
        answer = client.cancel_many({"id": ",".join(map(str, job_ids))})
        if answer["jobs"] == len(job_ids):
            print_line(f"{plural(len(job_ids), 'job')} cancelled, or being stopped.")
            return
    each_of(job_ids, client.cancel, _cancelled)


def _cancelled(job: Job) -> str:
    return "is being cancelled" if job["state"] == "running" else "cancelled"


def hold(job_ids: JobIds) -> None:
    """Keep waiting jobs from starting until they are released."""
    with connect() as client:
        each_of(job_ids, client.hold, lambda job: "held")


def release(job_ids: JobIds) -> None:
    """Let held jobs start again."""
    with connect() as client:
        each_of(job_ids, client.release, lambda job: "released")


def each_of(job_ids: list[int], act: Callable[[int], Job], outcome: Callable[[Job], str]) -> None:
    """Do it to every job; one that refuses does not keep the others from theirs."""
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
    for command in (ls, show, why, cancel, hold, release):
        app.command()(command)
