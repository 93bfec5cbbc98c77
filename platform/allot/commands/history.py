"""hist: jobs of the past by time, person and outcome. usage: GPU-hours by tenant, user and so on."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from allot.columns import COLUMNS, chosen, row
from allot.commands.jobs import State
from allot.commands.options import JsonOption, OutputOption, ParquetOption, connect, submitter
from allot.errors import WrongUse
from allot.output import Format, local_time, plural, print_objects, print_table, say
from allot.specfiles import words
from allot.times import past

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from allot.schema import UsageReport, UsageRow, UsageTotal

DEFAULT_COLUMNS = "id,name,user,state,gpus,model,vc,started,ended,time,gpu_hours,exit"
DEFAULT_ROWS = 50
#: Jobs that began to run, and may have ended.
_SEEN_RUNNING = (State.running, State.succeeded, State.failed, State.cancelled)
_BY = {"vc": "virtual_cluster", "model": "gpu_model"}
GROUPINGS = ("tenant", "user", "vc", "model", "application", "day")

CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, with times in ISO 8601.")]
TenantOption = Annotated[str | None, typer.Option(help="Only of this tenant.")]
UserOption = Annotated[str | None, typer.Option("--user", "-u", help="Only jobs that this user submitted.")]
MineOption = Annotated[bool, typer.Option("--mine", "-m", help="Only jobs that you submitted.")]


def hist(
    since: Annotated[
        str,
        typer.Option(
            "--since",
            "-S",
            metavar="TIME",
            help="Only jobs that had not ended by this time: 7d (ago), yesterday, 2026-12-01T18:00.",
        ),
    ] = "1d",
    until: Annotated[
        str | None,
        typer.Option("--until", "-E", metavar="TIME", help="Only jobs submitted before this time."),
    ] = None,
    ended_since: Annotated[
        str | None,
        typer.Option("--ended-since", metavar="TIME", help="Only jobs that ended at or after this time."),
    ] = None,
    ended_until: Annotated[
        str | None,
        typer.Option("--ended-until", metavar="TIME", help="Only jobs that ended before this time."),
    ] = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            "--state", "-s", help="Only jobs in this state; may be repeated.", show_default="all but queued"
        ),
    ] = None,
    user: UserOption = None,
    mine: MineOption = False,
    tenant: TenantOption = None,
    vc: Annotated[str | None, typer.Option(help="Only in this virtual cluster.")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs whose name contains this text.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only jobs that ask for this GPU model, or run on it.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "-l",
            metavar="KEY[=VALUE]",
            help="Only jobs with this label, or with any label of this name.",
        ),
    ] = None,
    failure: Annotated[
        str | None,
        typer.Option(
            "--failure",
            metavar="CLASS",
            help="Only jobs with an attempt of this failure class, such as import_error.",
        ),
    ] = None,
    array: Annotated[
        int | None, typer.Option("--array", metavar="ID", help="Only tasks of this array.")
    ] = None,
    columns: Annotated[
        str,
        typer.Option("--format", "-F", metavar="COLUMN,...", help=f"Of {', '.join(COLUMNS)} and label:NAME."),
    ] = DEFAULT_COLUMNS,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Maximum number of rows.")] = DEFAULT_ROWS,
    everything: Annotated[bool, typer.Option("--all", "-a", help="List all, without a limit.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    parquet: ParquetOption = None,
    output: OutputOption = Format.table,
) -> None:
    """List jobs that ran in a period, newest first: `allot hist --since 7d --state failed`."""
    output = _one_output(output, as_json, as_csv, parquet)
    shown = chosen(columns)
    if parquet and (columns != DEFAULT_COLUMNS or rows != DEFAULT_ROWS):
        raise WrongUse("--parquet has all columns of all jobs: leave out --format and --rows.")
    with connect() as client:
        filters: dict[str, str | int | None] = {
            "since": _written(past(since, "--since")),
            "until": _written(past(until, "--until")) if until else None,
            "ended_since": _written(past(ended_since, "--ended-since")) if ended_since else None,
            "ended_until": _written(past(ended_until, "--ended-until")) if ended_until else None,
            "state": ",".join(state or _SEEN_RUNNING),
            "submitted_by": submitter(client, user, mine=mine, flag="--user"),
            "tenant": tenant,
            "virtual_cluster": vc,
            "q": name,
            "gpu_model": model,
            "label": label,
            "failure": failure,
            "array": array,
        }
        if parquet:
            say(f"Wrote {client.exports.parquet('jobs', parquet, **filters)}.")
            return
        found = client.jobs(limit=None if everything else rows + 1, **filters)
        if as_csv:
            # Line by line, so that however many there are need no memory.
            _print_csv(
                list(shown), (row(job, shown, plain=True) for job in islice(found, _most(everything, rows)))
            )
            return
        jobs = list(found)
    more = not everything and len(jobs) > rows
    jobs = jobs[: _most(everything, rows)]
    if output is not Format.table:
        print_objects(jobs, output)
    elif jobs:
        right = [name.upper() for name, column in shown.items() if column.is_right]
        print_table([name.upper() for name in shown], [row(job, shown) for job in jobs], right=right)
    else:
        say("No jobs in this time.")
    if more:
        say(f"The newest {plural(rows, 'job')}; there are more. Use -n NUMBER or --all.")


def _most(everything: bool, rows: int) -> int | None:
    return None if everything else rows


def usage(
    by: Annotated[
        str, typer.Option("--by", "-b", metavar="GROUPING,...", help=f"Of {', '.join(GROUPINGS)}.")
    ] = "tenant",
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            "-S",
            metavar="TIME",
            help="Start of the period: 30d (ago), yesterday, 2026-12-01.",
            show_default="this month, by UTC",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", "-E", metavar="TIME", help="End of the period, not included.", show_default="now"
        ),
    ] = None,
    tenant: TenantOption = None,
    user: UserOption = None,
    mine: MineOption = False,
    vc: Annotated[str | None, typer.Option(help="Only in this virtual cluster.")] = None,
    model: Annotated[str | None, typer.Option(help="Only use of this GPU model.")] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    parquet: ParquetOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Show GPU-hours used: `allot usage --by user,model --since 30d`.

    Members see the use of their tenants; admins of a tenant can also group it by user. Operators see all
    tenants.
    """
    output = _one_output(output, as_json, as_csv, parquet)
    groupings = words(by)
    unknown = [name for name in groupings if name not in GROUPINGS]
    if unknown or not groupings:
        raise WrongUse(
            f"--by: {unknown[0] if unknown else ''!r} is not a grouping; expected: {', '.join(GROUPINGS)}."
        )
    with connect() as client:
        question = {
            "by": ",".join(_BY.get(name, name) for name in groupings),
            "since": _written(past(since, "--since")) if since else None,
            "until": _written(past(until, "--until")) if until else None,
            "tenant": tenant,
            "user": submitter(client, user, mine=mine, flag="--user"),
            "virtual_cluster": vc,
            "gpu_model": model,
        }
        if parquet:
            say(f"Wrote {client.exports.parquet('usage', parquet, **question)}.")
            return
        if as_csv:
            sys.stdout.write(client.exports.csv("usage", **question))
            return
        found = client.usage(**question)
    if output is not Format.table:
        print_objects(found, output)
        return
    _print_usage(found, groupings)


def _print_usage(found: UsageReport, groupings: Sequence[str]) -> None:
    fields = [_BY.get(name, name) for name in groupings]
    entitled = any(line["entitled_gpu_hours"] is not None for line in found["rows"])
    code = found["total"]["currency"]
    cost = f"COST, {code}" if code else "COST"
    figures = ["JOBS", "GPU-HOURS", "GUARANTEED", "OPPORTUNISTIC", "WASTED", cost] + [
        "ENTITLED",
        "USED",
    ] * entitled
    lines = [
        [*(line.get(field, "") for field in fields), *_figures(line), *(_against(line) if entitled else ())]
        for line in found["rows"]
    ]
    total = found["total"]
    lines.append(["total", *([""] * (len(fields) - 1)), *_figures(total), *([""] * (2 * entitled))])
    print_table([*(name.upper() for name in groupings), *figures], lines, right=figures)
    say(f"From {local_time(found['since'])} until {local_time(found['until'])}, costs at present prices.")


def _figures(line: UsageRow | UsageTotal) -> list[str]:
    figures = (
        line["gpu_hours"],
        line["guaranteed_gpu_hours"],
        line["opportunistic_gpu_hours"],
        line["wasted_gpu_hours"],
        line["cost"],
    )
    return [f"{line['jobs']:,}", *(f"{value:,.2f}" for value in figures)]


def _against(line: UsageRow) -> list[str]:
    """What was guaranteed, and the part of it that was delivered."""
    entitled = line["entitled_gpu_hours"]
    if not entitled:
        return ["-", "-"]
    return [f"{entitled:,.2f}", f"{line['guaranteed_gpu_hours'] / entitled:.0%}"]


def _one_output(output: Format, as_json: bool, as_csv: bool, parquet: Path | None) -> Format:
    if as_csv + bool(parquet) + (as_json or output is not Format.table) > 1:
        raise WrongUse("Give one of --csv, --parquet, --json and -o.")
    return Format.json if as_json else output


def _written(at: datetime) -> str:
    return at.isoformat()


def _print_csv(names: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(lines)


def register(app: typer.Typer) -> None:
    for command in (hist, usage):
        app.command()(command)
