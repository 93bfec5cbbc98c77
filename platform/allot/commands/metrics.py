"""metrics, top: what jobs and nodes use, over time and now."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import OutputOption, QuietOption, connect
from allot.errors import WrongUse
from allot.output import Format, duration, parse_time, plural, print_line, print_objects, print_table, say
from allot.times import span_seconds

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import JobMetricsAnswer, JobUsage, NodeMetricsAnswer, Series

COLUMNS_MOST = 48
REFRESH_SECONDS = 10.0
#: Moves to the top left corner and clears the screen.
CLEAR = "\x1b[H\x1b[2J"
MIB = 2.0**20
#: A figure's height in a line of text, from nothing to the highest.
_BLOCKS = "▁▂▃▄▅▆▇█"
#: Measures by their names' endings: what is written behind the number, and what it is divided by.
_UNITS = (
    ("_bytes_per_second", " MiB/s", MIB),
    ("_bytes", " MiB", MIB),
    ("_percent", " %", 1.0),
    ("_watts", " W", 1.0),
    ("_celsius", " °C", 1.0),
    ("_mhz", " MHz", 1.0),
)


class By(StrEnum):
    all = "all"
    gpu = "gpu"
    rank = "rank"


def metrics(
    job: Annotated[int | None, typer.Argument(metavar="ID", help="The job's number.", min=1)] = None,
    node: Annotated[str | None, typer.Option(help="Show this node instead of a job.")] = None,
    by: Annotated[By, typer.Option(help="Show all GPUs together, each GPU, or each rank.")] = By.all,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Only this attempt. Default: all attempts.")
    ] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="Only this rank and its GPUs.")] = None,
    last: Annotated[
        str | None, typer.Option(help="Length of the period that ends now, such as 30m or 2d.")
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Show what a job or a node used over time: GPUs, CPUs, memory, power."""
    if (job is None) == (node is None):
        raise WrongUse("Name a job, or a node with --node.")
    if node is not None and (by is By.rank or attempt is not None or rank is not None):
        raise WrongUse("--by rank, --attempt and --rank need a job.")
    parameters: dict[str, str | int | None] = {"attempt": attempt, "rank": rank}
    if last is not None:
        begin = datetime.now().astimezone() - timedelta(seconds=span_seconds(last, "--last"))
        parameters["since"] = begin.isoformat()
    with connect() as client:
        found = (
            client.job_metrics(job, by="attempt" if by is By.all else by, **parameters)
            if job is not None
            else client.node_metrics(str(node), by="node" if by is By.all else by, **parameters)
        )
    if output is not Format.table:
        print_objects(found, output)
    elif not found["series"]:
        say("There are no readings in this period.")
    else:
        _print_metrics(found)


def _print_metrics(found: NodeMetricsAnswer | JobMetricsAnswer) -> None:
    since, until = (parse_time(found[end]).timestamp() for end in ("since", "until"))
    # No narrower than a point, so that a blank is always a gap.
    columns_wide = max(min(COLUMNS_MOST, int((until - since) // found["resolution_seconds"])), 1)
    highest = {one["measure"]: max(point[3] for point in one["points"]) for one in found["series"]}
    rows = []
    for one in found["series"]:
        points = one["points"]
        readings = sum(point[4] for point in points)
        ceiling = 100.0 if one["measure"].endswith("_percent") else highest[one["measure"]]
        rows.append(
            [
                _subject(one),
                _measure(one),
                figure(min(point[2] for point in points), one["measure"]),
                figure(sum(point[1] * point[4] for point in points) / readings, one["measure"]),
                figure(max(point[3] for point in points), one["measure"]),
                f"│{sparkline(points, since=since, until=until, columns=columns_wide, highest=ceiling)}│",
            ]
        )
    columns = ["OF", "MEASURE", "LOWEST", "MEAN", "HIGHEST", f"{_clock(since)} TO {_clock(until)}"]
    print_table(columns, rows, right=("LOWEST", "MEAN", "HIGHEST"))
    if found["simulated"]:
        say("These GPUs are simulated: their figures follow from their jobs' progress and use of CPUs.")
    if found["left_out"]:
        say(f"{found['left_out']} more are left out; ask for one --attempt or --rank.")


def _subject(one: Series) -> str:
    said = [
        f"attempt {one['attempt']}" if one["attempt"] is not None else "",
        one["node"] or "",
        f"rank {one['rank']}" if one["rank"] is not None else "",
        f"GPU {one['gpu']}" if one["gpu"] is not None else "",
    ]
    return " ".join(word for word in said if word) or ("machine" if one["kind"] == "host" else "all GPUs")


def _measure(one: Series) -> str:
    name = one["measure"]
    for ending, _, _ in _UNITS:
        name = name.removesuffix(ending)
    words = (
        name.replace("_", " ")
        .replace("cpus", "CPUs")
        .replace("cpu", "CPU")
        .replace("gpu", "GPU")
        .replace("sm clock", "SM clock")
    )
    return f"GPU {words}" if one["kind"] == "gpu" else words


def figure(value: float | None, measure: str) -> str:
    """Return a figure with the unit that the measure's name ends with; `-` for none."""
    if value is None:
        return "-"
    if measure.endswith("_bytes") and value >= 1_024 * MIB:
        return f"{_short(value / (1_024 * MIB))} GiB"
    for ending, unit, size in _UNITS:
        if measure.endswith(ending):
            return f"{_short(value / size)}{unit}"
    return _short(value)


def _short(number: float) -> str:
    if number >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2g}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%m-%d %H:%M")


def top(
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Maximum number of jobs.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Refresh every ten seconds.")] = False,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
) -> None:
    """List running jobs and what they use now; jobs whose GPUs have been idle longest come first."""
    with connect(patient=follow) as client:
        while True:
            _show_top(client, tenant, rows, output, quiet, is_screen=follow and sys.stdout.isatty())
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(REFRESH_SECONDS)


def _show_top(
    client: Client, tenant: str | None, rows: int, output: Format, quiet: bool, *, is_screen: bool
) -> None:
    jobs = sorted(client.jobs_usage(limit=rows, tenant=tenant), key=_idle_first)
    if is_screen:
        sys.stdout.write(CLEAR)
    if output is not Format.table:
        print_objects(jobs, output)
    elif quiet:
        for job in jobs:
            print_line(str(job["job"]))
    elif not jobs:
        say("No job runs.")
    else:
        _print_top(jobs)


def _idle_first(job: JobUsage) -> tuple[float, float, int]:
    busy = job["utilisation_percent"]
    return -(job["idle_seconds"] or 0.0), 101.0 if busy is None else busy, -job["job"]


def _print_top(jobs: list[JobUsage]) -> None:
    table = [
        [
            job["job"],
            job["tenant"],
            f"{job['gpus']:g} {job['gpu_model']}",
            figure(job["utilisation_percent"], "_percent"),
            figure(job["least_busy_percent"], "_percent"),
            figure(job["gpu_memory_used_bytes"], "_bytes"),
            figure(job["power_watts"], "_watts"),
            figure(job["cpus_used"], ""),
            figure(job["memory_used_bytes"], "_bytes"),
            "-" if not job["idle_seconds"] else duration(job["idle_seconds"]),
            job["name"],
        ]
        for job in jobs
    ]
    numbers = ["BUSY", "LEAST BUSY", "GPU MEMORY", "POWER", "CPUS", "MEMORY", "IDLE FOR"]
    print_table(["ID", "TENANT", "GPUS", *numbers, "NAME"], table, right=("ID", *numbers))
    if any(job["simulated"] for job in jobs):
        simulated = sum(job["simulated"] for job in jobs)
        say(f"Of {plural(simulated, 'job')} the GPUs are simulated: figures follow from progress and CPUs.")


def sparkline(
    points: Sequence[Sequence[float]], *, since: float, until: float, columns: int, highest: float
) -> str:
    """Draw means of points [Unix seconds, mean, ...] from zero to `highest`; blank where there are none."""
    sums, counts = [0.0] * columns, [0] * columns
    width = max(until - since, 1.0) / columns
    for point in points:
        column = min(max(int((point[0] - since) / width), 0), columns - 1)
        sums[column] += point[1]
        counts[column] += 1
    return "".join(
        _block(total / count, highest) if count else " " for total, count in zip(sums, counts, strict=True)
    )


def _block(value: float, highest: float) -> str:
    place = int(value / highest * len(_BLOCKS)) if highest > 0 else 0
    return _BLOCKS[min(place, len(_BLOCKS) - 1)]


def register(app: typer.Typer) -> None:
    app.command()(metrics)
    app.command()(top)
