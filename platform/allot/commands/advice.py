"""vc anomalies, vc advise, vc advice-apply: which jobs wait longer here than in a private cluster, and which
cells would help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import OutputOption, connect
from allot.commands.vc import Name, group
from allot.describe import problem_lines
from allot.errors import AllotError, FieldProblem, WrongUse
from allot.output import Format, duration, local_time, plural, print_line, print_objects, print_table, say
from allot.specfiles import pairs

if TYPE_CHECKING:
    from allot.schema import AdviceFigures, Anomalies, WholeAdvice

#: How long an answer is waited for.
PATIENCE_SECONDS = 180.0
PAUSE_SECONDS = 0.5
SHOWN = 20


@group.command()
def anomalies(
    name: Name,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Compare now, even if the last comparison is less than ten minutes old."
        ),
    ] = False,
    hours: Annotated[float | None, typer.Option(help="Compare now, over the last HOURS hours.")] = None,
    output: OutputOption = Format.table,
) -> None:
    """Show jobs that waited longer here than they would have in a private cluster of the guaranteed GPUs."""
    with connect() as client:
        if fresh or hours is not None:
            found = client.compare(
                name, hours=hours, patience_seconds=PATIENCE_SECONDS, pause_seconds=PAUSE_SECONDS
            )
        else:
            found = client.anomalies(name)
    if output is not Format.table:
        print_objects(found, output)
    else:
        _print_anomalies(found)
    if found["state"] == "failed":
        raise AllotError(found["problem"])


def _print_anomalies(found: Anomalies) -> None:
    if found["made_at"] is None:
        say("There is no comparison yet. Run one with `--fresh`.")
        return
    delay = found["delay"]
    compared = plural(found["jobs"], "guaranteed job")
    print_line(f"{compared} submitted from {local_time(found['since'])} to {local_time(found['until'])}.")
    if delay is not None:
        rows = [
            ["here", duration(delay["real_mean_seconds"]), duration(delay["real_p95_seconds"])],
            ["privately", duration(delay["private_mean_seconds"]), duration(delay["private_p95_seconds"])],
        ]
        print_table(["WAITED", "MEAN", "P95"], rows, right=("MEAN", "P95"))
    if not found["count"]:
        print_line("None of them waited longer here than it would have there.")
        return
    print_line(
        f"{plural(found['count'], 'job')} waited longer here, {duration(found['total_extra_seconds'])} in"
        f" all; {found['hard_affinity_count']} of them with hard affinity."
    )
    rows = [
        [
            str(late["job"]),
            late["name"] or "-",
            late["tenant"] or "-",
            str(late["gpus"]),
            duration(late["real_delay_seconds"]),
            duration(late["private_delay_seconds"]),
            late["cause"],
            late["message"] or "-",
        ]
        for late in found["anomalies"][:SHOWN]
    ]
    columns = ["JOB", "NAME", "TENANT", "GPUS", "HERE", "PRIVATELY", "CAUSE", "TOLD THEN"]
    print_table(columns, rows, right=("JOB", "GPUS", "HERE", "PRIVATELY"))


@group.command()
def advise(
    days: Annotated[float, typer.Option(help="Use the jobs of the last DAYS days.")] = 7.0,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="MODEL=GPUS",
            help="Maximum number of GPUs of a model that all virtual clusters own together; may be repeated.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price", metavar="MODEL=PRICE", help="Price of one GPU-hour of a model; may be repeated."
        ),
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option(
            "--minimum",
            metavar="VC:TYPE=CELLS",
            help="Minimum number of cells of a type, or larger, for a virtual cluster; may be repeated.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="VC", help="Leave this virtual cluster as it is; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Advise which cells each virtual cluster should get. Changes nothing. For operators.

    `allot vc advise --days 14 --budget V100=64 --price V100=2.5 --keep vision`
    """
    output = Format.json if as_json else output
    question = {
        "days": days,
        "budget_gpus": _numbers(budget, "--budget", int),
        "price_per_gpu_hour": _numbers(price, "--price", float),
        "minimum": _minimum(minimum or []),
        "keep": keep or [],
    }
    with connect() as client:
        found = client.advise(question, patience_seconds=PATIENCE_SECONDS, pause_seconds=PAUSE_SECONDS)
    if output is not Format.table:
        print_objects(found, output)
    elif found["state"] == "done":
        _print_advice(found)
    if found["state"] == "failed":
        problems = [FieldProblem(**problem) for problem in found["fields"]]
        raise AllotError("\n".join(problem_lines("", found["problem"], problems)))
    if found["state"] != "done":
        raise AllotError(f"There is no advice yet; it will be /cells/advice/{found['id']}.")


def _numbers(words: list[str] | None, option: str, kind: type[int] | type[float]) -> dict[str, float]:
    numbers = {}
    for model, text in pairs(words or [], option).items():
        try:
            numbers[model] = kind(text)
        except ValueError:
            raise WrongUse(f"{option} {model}={text}: {text!r} is not a number.") from None
    return numbers


def _minimum(words: list[str]) -> dict[str, dict[str, int]]:
    minimum: dict[str, dict[str, int]] = {}
    for where, text in pairs(words, "--minimum").items():
        vc, colon, kind = where.partition(":")
        if not (vc and colon and kind and text.isdecimal()):
            raise WrongUse(f"--minimum {where}={text}: expected VC:TYPE=CELLS, such as vision:V100-NODE=2.")
        minimum.setdefault(vc, {})[kind] = int(text)
    return minimum


def _print_advice(found: WholeAdvice) -> None:
    rows = [[row["virtual_cluster"], *_change(row["today"], row["advised"])] for row in found["rows"]]
    print_table(["VC", "CELLS", "GPUS", "WAITS (MEAN)", "P95", "USED", "A DAY"], rows)
    for row in found["rows"]:
        print_line(f"{row['virtual_cluster']}: {row['why']}")
    if found["totals"] is not None:
        today, advised = found["totals"]["today"], found["totals"]["advised"]
        print_line(
            f"All: {today['gpus']} > {advised['gpus']} GPUs, mean wait"
            f" {duration(today['delay_mean_seconds'])} > {duration(advised['delay_mean_seconds'])}, used"
            f" {today['utilisation']:.0%} > {advised['utilisation']:.0%}."
        )
    say(found["assumption"])
    say(f"`allot vc advice-apply {found['id']}` applies it.")


def _change(today: AdviceFigures, advised: AdviceFigures) -> list[str]:
    def both(before: str, after: str) -> str:
        return before if before == after else f"{before} > {after}"

    def cells(figures: AdviceFigures) -> str:
        return ",".join(f"{kind}:{number}" for kind, number in figures["cells"].items()) or "none"

    def cost(figures: AdviceFigures) -> str:
        return "-" if figures["cost_per_day"] is None else f"{figures['cost_per_day']:,.2f}"

    return [
        both(cells(today), cells(advised)),
        both(str(today["gpus"]), str(advised["gpus"])),
        both(duration(today["delay_mean_seconds"]), duration(advised["delay_mean_seconds"])),
        both(duration(today["delay_p95_seconds"]), duration(advised["delay_p95_seconds"])),
        both(f"{today['utilisation']:.0%}", f"{advised['utilisation']:.0%}"),
        both(cost(today), cost(advised)),
    ]


@group.command(name="advice-apply")
def advice_apply(
    advice_id: Annotated[str, typer.Argument(metavar="ID", help="Number of the advice.", show_default=False)],
) -> None:
    """Divide the cluster as advised. Refused if its cells have changed since. For operators."""
    with connect() as client:
        done = client.apply_advice(advice_id)
    print_line(f"The cells are in force as version {done['version']}.")


def register(app: typer.Typer) -> None:
    """The commands are in the group `vc`, which is registered by itself."""
