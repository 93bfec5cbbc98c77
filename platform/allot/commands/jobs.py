"""ls, show, why: looking at jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from allot.arrays import array_detail, array_name, array_state, array_words, task_name
from allot.commands.options import JobId, OutputOption, QuietOption, connect, submitter
from allot.describe import (
    after_first_start,
    attempt_detail,
    attempt_words,
    auxiliary_lines,
    change_line,
    data_words,
    dependency_line,
    dependent_words,
    detail,
    enforcement_words,
    gpus_of,
    gpus_wanted,
    guarantee_words,
    input_worker_words,
    maintenance_words,
    model_of,
    nodes_of,
    preemption_words,
    reason_lines,
    run_time,
    run_time_words,
    secret_line,
    state_word,
    task_line,
    time_limit_words,
    turn_words,
    usual_words,
)
from allot.errors import WrongUse
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
from allot.times import past

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import (
        Attempt,
        Job,
        JobCounts,
        JobDependencies,
        JobInputWorkers,
        JobPreemptions,
        JobRunTime,
    )

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


class Sort(StrEnum):
    newest = "-submitted"
    oldest = "submitted"
    started = "started"
    last_started = "-started"
    ended = "ended"
    last_ended = "-ended"
    name = "name"
    name_backwards = "-name"
    gpus = "gpus"
    most_gpus = "-gpus"
    priority = "priority"
    highest_priority = "-priority"


def ls(
    state: Annotated[
        list[State] | None, typer.Option("--state", "-s", help="Only jobs in this state; may be repeated.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    vc: Annotated[str | None, typer.Option(help="Only in this virtual cluster.")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs whose name contains this text.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only jobs that ask for this GPU model, or run on it.")
    ] = None,
    guarantee: Annotated[Guarantee | None, typer.Option(help="Only of this kind.")] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "-l",
            metavar="KEY[=VALUE]",
            help="Only jobs with this label, or with any label of this name.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="USER", help="Only jobs that this user submitted.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", "-m", help="Only jobs that you submitted.")] = False,
    failure: Annotated[
        str | None,
        typer.Option(
            "--failure",
            metavar="CLASS",
            help="Only jobs with an attempt of this failure class, such as import_error.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            "-S",
            metavar="TIME",
            help="Only jobs that had not ended by this time: 7d (ago), yesterday, 2026-12-01.",
        ),
    ] = None,
    sort: Annotated[
        Sort,
        typer.Option("--sort", help="Sort by this field; with - before it, the largest or latest first."),
    ] = Sort.newest,
    array: Annotated[
        int | None, typer.Option("--array", metavar="ID", help="Only tasks of this array.")
    ] = None,
    fold: Annotated[bool, typer.Option("--fold", help="Print one line for each array.")] = False,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Maximum number of rows.")] = DEFAULT_ROWS,
    everything: Annotated[bool, typer.Option("--all", "-a", help="List all, without a limit.")] = False,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
) -> None:
    """List jobs, newest first: `allot ls --state running --sort started`."""
    with connect() as client:
        found = client.jobs(
            # One more than is shown reveals whether there are more.
            limit=None if everything else rows + 1,
            state=",".join(state) if state else None,
            tenant=tenant,
            virtual_cluster=vc,
            q=name,
            gpu_model=model,
            guarantee=guarantee,
            label=label,
            submitted_by=submitter(client, by, mine=mine, flag="--by"),
            failure=failure,
            since=past(since, "--since").isoformat() if since else None,
            sort=None if sort is Sort.newest else sort.value,
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
        numbers = (
            {job["array"]["number"] for job in jobs if job["array"]}
            if fold and output is Format.table
            else ()
        )
        arrays = {number: client.job_counts(array=number) for number in numbers}
    if output is not Format.table:
        print_objects(jobs, output)
    elif jobs:
        _print_jobs(jobs, arrays)
    else:
        say("No jobs." if not state else f"No jobs that are {' or '.join(state)}.")
    if more:
        which = "newest" if sort is Sort.newest else "first"
        say(f"The {which} {plural(rows, 'job')}; there are more. Use -n NUMBER or --all.")


def _print_jobs(jobs: list[Job], arrays: Mapping[int, JobCounts]) -> None:
    """Print a line for each; `arrays`: how many tasks are in each state, for jobs that stand for an array."""
    # The tenant is worth a column only to those who see several.
    several = len({job["tenant"] for job in jobs}) > 1
    columns = ["ID", "NAME", "STATE", "GPUS", "MODEL", "VC", "USER", "AGE", "TIME", "DETAIL"]
    if several:
        columns.insert(columns.index("VC"), "TENANT")
    rows = []
    for job in jobs:
        counts = arrays.get(job["array"]["number"]) if job["array"] else None
        if counts is None:
            name, state, runs, how = task_name(job), state_word(job), run_time(job), detail(job)
        else:
            name, state, runs, how = array_name(job), array_state(counts), "", array_detail(counts)
        row: list[object] = [job["id"], name, state, gpus_of(job), model_of(job)]
        row += [job["tenant"]] if several else []
        row += [job["virtual_cluster"], job["submitted_by"], since(job["submitted_at"]), runs]
        rows.append([*row, how])
    print_table(columns, rows, right=("ID", "GPUS", "AGE", "TIME"))


def show(
    job_id: JobId,
    spec: Annotated[
        bool, typer.Option("--spec", help="Print only the specification; `allot submit -` accepts it.")
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
            inputs = client.input_workers(job_id) if latest and job["spec"].get("input_workers") else None
            _print_job(job, attempts, preemptions, known, client.dependencies(job_id), inputs)


def _print_job(
    job: Job,
    attempts: list[Attempt],
    preemptions: JobPreemptions | None,
    known: JobRunTime | None,
    dependencies: JobDependencies,
    inputs: JobInputWorkers | None,
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
        ("Data set", data_words(job["spec"].get("data"))),
        ("Secrets", "\n".join(secret_line(use) for use in job["spec"].get("secrets") or [])),
        ("Array", array_words(job)),
        ("Labels", ", ".join(f"{key}={value}" for key, value in job["labels"].items())),
        ("Waits for", "\n".join(dependency_line(one) for one in dependencies["waits_for"])),
        ("Awaited by", dependent_words(dependencies)),
        ("Works for", f"job {job['serves']}, as an input worker" if job["serves"] else ""),
        ("Input workers", input_worker_words(inputs) if inputs else ""),
        ("Preempted", preemption_words(preemptions) if preemptions else ""),
        ("Turns", turn_words(latest["turn"]) if latest and latest["turn"] else ""),
        ("GPU part", enforcement_words(latest["enforcement"]) if latest else ""),
        (
            "CPUs, memory",
            "\n".join(auxiliary_lines(latest["auxiliary"])) if latest and latest["auxiliary"] else "",
        ),
        ("Runs on", nodes_of(latest) if latest and job["state"] == "running" else ""),
        ("Maintenance", maintenance_words(job["maintenance"]) if job["maintenance"] else ""),
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
    """Show why a job waits: the reasons (most decisive first), its place in the queue and its predicted
    start.
    """
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
        print_line(f"{change_line(job).removesuffix('.')}. It does not wait.")
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


def register(app: typer.Typer) -> None:
    for command in (ls, show, why):
        app.command()(command)
