"""throughputs: how fast job classes are on each GPU model: list, show, correct, import, export, price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import JobId, OutputOption, connect
from allot.errors import AllotError, WrongUse
from allot.output import Format, gibibytes, plural, print_line, print_objects, print_table, say
from allot.plugin_text import text_of
from allot.specfiles import read_text

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import (
        JobModelThroughput,
        JobProfile,
        JobThroughputs,
        ThroughputCell,
        ThroughputImport,
        ThroughputRow,
    )

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

#: As it lies there; without white space it must fit into a request of 1 MB.
LARGEST_FILE_BYTES = 4_000_000
#: Changes that `import` prints; `-o json` has more.
CHANGES_SHOWN = 20
#: Marks after a throughput that was neither measured nor stated.
MARKS = {"estimated": "~", "assumed": "?"}

TenantOption = Annotated[str | None, typer.Option(help="Needed by members of several tenants.")]
ModelOption = Annotated[
    str | None, typer.Option("--gpu-model", "--model", "-m", help="Only throughputs on this GPU model.")
]


@group.command(name="list")
def list_all(
    application: Annotated[
        str | None, typer.Argument(help="Only applications whose name contains this text.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    gpu_model: ModelOption = None,
    partners: Annotated[
        bool,
        typer.Option(
            "--partners",
            help="List throughputs beside other applications on the same GPUs, relative to running alone.",
        ),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of rows.", min=1)] = 200,
    output: OutputOption = Format.table,
) -> None:
    """List throughputs of applications by GPU model, in samples per second of the gang.

    Marks: ~ estimated from how other applications compare, ? assumed, * corrected by hand. 0 means that the
    application does not run there.
    """
    with connect() as client:
        rows = list(
            client.throughputs.list(
                limit=limit,
                application=application,
                tenant=tenant,
                gpu_model=gpu_model,
                partners="true" if partners else None,
            )
        )
    if output is not Format.table:
        print_objects(rows, output)
        return
    models = sorted({cell["gpu_model"] for row in rows for cell in row["throughputs"]})
    headings = ["APPLICATION", "TENANT", "GPUS", *(["BESIDE"] if partners else []), "NODES", *models]
    print_table(headings, [_row(row, models, partners) for row in rows], right=["GPUS", *models])


def _row(row: ThroughputRow, models: list[str], partners: bool) -> list[object]:
    cells = {cell["gpu_model"]: _value(cell) for cell in row["throughputs"]}
    beside = [row["partner"]] if partners else []
    nodes = "spread" if row["spread"] else "near"
    return [
        row["application"],
        row["tenant"],
        row["gpus"] if row["gpu_limit"] == 1 else f"{row['gpus']} x {row['gpu_limit']:g}",
        *beside,
        nodes,
        *(cells.get(model, "-") for model in models),
    ]


def _value(cell: ThroughputCell) -> str:
    if cell["value"] is None:
        return "-"
    mark = "*" if cell["source"] == "corrected" else MARKS.get(cell["source"] or "", "")
    return f"{cell['value']:.4g}{mark}"


@group.command()
def show(job_id: JobId, output: OutputOption = Format.table) -> None:
    """Show why a job runs on its GPU model: its throughputs, its target shares and what it received."""
    with connect() as client:
        found = client.throughputs.of_job(job_id)
    if output is not Format.table:
        print_objects(found, output)
        return
    print_line(f"Job {job_id}: {found['application']}, {plural(found['gpus'], 'GPU')}")
    print_line(f"Policy {text_of(found['policy_plugin'])}, of {found['view']}")
    if said := reason_of(found):
        print_line(said)
    print_line(profile_words(found["profile"]))
    print_line("")
    headings = ["GPU MODEL", "THROUGHPUT", "RELATIVE", "SOURCE", "TARGET", "RECEIVED", "IN ALL", "PRICE/H"]
    rows = [_model(model) for model in found["models"]]
    print_table([*headings, "NOW"], rows, right=headings[1:3] + headings[4:])


def profile_words(profile: JobProfile | None) -> str:
    """Show how the job uses GPUs that it has alone, by which policies decide which jobs share with it."""
    if profile is None:
        return "Profile: not measured yet, so that policies which go by profiles do not let it share."
    facts = []
    if profile["utilisation"] is not None:
        facts.append(f"{profile['utilisation']:.0%} of the time computing")
    if profile["memory_utilisation"] is not None:
        facts.append(f"{profile['memory_utilisation']:.0%} using memory")
    if profile["memory_bytes"] is not None:
        facts.append(f"{gibibytes(profile['memory_bytes'])} of a GPU's memory")
    if profile["stages"] is not None:
        storage, gpu, network = profile["stages"]
        facts.append(
            f"{storage:g} s an iteration on storage, {gpu:g} s on the GPU, {network:g} s on the network"
        )
    if profile["amp"]:
        facts.append("mixed precision")
    return f"Profile{'' if profile['is_own'] else ', of jobs like it'}: {', '.join(facts)}."


def reason_of(found: JobThroughputs) -> str:
    """Return in a sentence where the job runs and how that compares; empty while it runs nowhere."""
    here = next((model for model in found["models"] if model["runs_now"]), None)
    if here is None:
        return ""
    said = f"It runs on {here['gpu_model']}"
    own = here["throughput"] or 0.0
    slower = {
        model["throughput"]: model["gpu_model"]
        for model in found["models"]
        if model["accepted"] and model["throughput"] and model["throughput"] < own
    }
    if slower:
        slowest = min(slower)
        said += f", {own / slowest:.1f}x as fast as on {slower[slowest]}"
    aims = [
        f"{model['target_share']:.0%} of its time on {model['gpu_model']}"
        for model in found["models"]
        if model["target_share"]
    ]
    return f"{said}; its target is {' and '.join(aims)}." if aims else f"{said}."


def _model(model: JobModelThroughput) -> list[str]:
    throughput = "-" if model["throughput"] is None else f"{model['throughput']:.4g}"
    source: str = model["source"] or "-"
    if model["source"] == "measured":
        source = f"measured ({model['samples']})"
    return [
        model["gpu_model"] if model["accepted"] else f"{model['gpu_model']} (not accepted)",
        throughput,
        _percent(model["relative"]),
        source,
        _percent(model["target_share"]),
        _percent(model["received_share"]),
        _percent(model["attained_share"]),
        f"{model['price_per_hour']:g}",
        "runs" if model["runs_now"] else "",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


@group.command(context_settings={"ignore_unknown_options": True})
def correct(
    application: Annotated[
        str, typer.Argument(help="Name of the application; name:JOB for jobs that state none.")
    ],
    gpu_model: Annotated[str, typer.Argument(metavar="MODEL")],
    value: Annotated[
        float | None, typer.Argument(help="Samples per second of the gang; 0: it does not run there.")
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", "-g", help="GPUs of the gang.", min=1)] = 1,
    spread: Annotated[bool, typer.Option("--spread", help="For gangs on more nodes than needed.")] = False,
    beside: Annotated[
        str,
        typer.Option(
            "--beside",
            metavar="APPLICATION",
            help=(
                "For jobs that share all their GPUs with this application, or with several joined by "
                "+. VALUE is then relative to running alone."
            ),
        ),
    ] = "",
    tenant: TenantOption = None,
    reason: Annotated[str, typer.Option(help="Reason; other users can read it.")] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the correction.")] = False,
) -> None:
    """Correct the throughput of an application; this overrides measurements. For admins of the tenant, and
    operators.

    `allot throughputs correct bert V100 812.5 -g 4`, `allot throughputs correct bert V100 -g 4 --remove`.
    """
    if (value is None) != remove:
        raise WrongUse("Give a throughput, or --remove to remove the correction.")
    where = f"{application} with {plural(gpus, 'GPU')} on {gpu_model}"
    with connect() as client:
        setting: dict[str, Any] = {
            "tenant": _tenant(client, tenant),
            "application": application,
            "gpu_model": gpu_model,
            "gpus": gpus,
            "spread": spread,
            "partner": beside,
        }
        if value is None:
            client.throughputs.remove_correction(setting)
            print_line(f"{where}: what was measured, declared or estimated counts again.")
            return
        row = client.throughputs.correct(setting, value, reason=reason)
    now = next(cell for cell in row["throughputs"] if cell["gpu_model"] == gpu_model)
    print_line(f"{where}: {now['value']:g}, from the next round on.")


@group.command(name="import")
def import_file(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File in CSV or Gavel's JSON; - reads standard input.")
    ],
    tenant: TenantOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False,
    reason: Annotated[str, typer.Option(help="Reason; other users can read it.")] = "",
    output: OutputOption = Format.table,
) -> None:
    """Import a file of throughputs, all or none. For admins of the tenant, and operators."""
    content = _compact(read_text(file, most_bytes=LARGEST_FILE_BYTES))
    with connect() as client:
        done = client.throughputs.import_table(
            _tenant(client, tenant), content, dry_run=dry_run, reason=reason
        )
    if output is not Format.table:
        print_objects(done, output)
    else:
        _print_import(done)


def _compact(text: str) -> str:
    """Return JSON without its white space: Gavel's table is then half as large, and fits into a request."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    try:
        return json.dumps(json.loads(text.lstrip("\ufeff")), separators=(",", ":"))
    except (ValueError, RecursionError):
        return text  # The server says what is wrong with it.


def _print_import(done: ThroughputImport) -> None:
    would = "would be " if done["dry_run"] else ""
    added, changed = (
        f"{plural(done['added'], 'throughput')} {would}added",
        f"{done['changed']} {would}changed",
    )
    print_line(f"{added}, {changed}, {done['unchanged']} unchanged.")
    if done["unknown_models"]:
        say(f"allot: the cluster has no GPUs of {', '.join(done['unknown_models'])}.")
    for each in done["renamed"][:CHANGES_SHOWN]:
        print_line(f"  {each['from']} is called {each['to']}.")
    if done["changes"]:
        print_line("")
        rows = [
            [
                each["application"] + (f" beside {each['partner']}" if each["partner"] else ""),
                each["gpus"],
                each["gpu_model"],
                "-" if each["before"] is None else f"{each['before']:.4g}",
                f"{each['after']:.4g}",
            ]
            for each in done["changes"][:CHANGES_SHOWN]
        ]
        print_table(
            ["APPLICATION", "GPUS", "MODEL", "BEFORE", "AFTER"], rows, right=["GPUS", "BEFORE", "AFTER"]
        )
    more = done["added"] + done["changed"] - CHANGES_SHOWN
    if more > 0:
        print_line(f"and {more} more.")


@group.command()
def export(
    tenant: TenantOption = None,
    layout: Annotated[str, typer.Option(help="Format of the file: csv, or gavel for Gavel's JSON.")] = "csv",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Write to this file. Default: standard output."),
    ] = None,
) -> None:
    """Export corrected, measured and declared throughputs as a file that `import` and `simulate` read."""
    with connect() as client:
        found = client.throughputs.export_table(_tenant(client, tenant), layout)
    text = found if isinstance(found, str) else json.dumps(found, indent=1) + "\n"
    if file is None:
        print_line(text.rstrip("\n"))
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise AllotError(f"Cannot write {file}: {error.strerror}.") from None


@group.command()
def price(
    gpu_model: Annotated[str, typer.Argument(metavar="MODEL")],
    price_per_hour: Annotated[
        float, typer.Argument(metavar="PRICE", help="Price of one GPU for one hour.", min=0)
    ],
) -> None:
    """Set the price of a GPU-hour of a model, for costs and policies that minimise cost. For operators."""
    with connect() as client:
        now = client.set_price(gpu_model, price_per_hour)
    code = f" {now['currency']}" if now["currency"] else ""
    print_line(f"{gpu_model}: {now['price_per_hour']:g}{code} an hour, from the next round on.")


def _tenant(client: Client, name: str | None) -> str:
    """Return the tenant that is meant: the one named, or the only one that one is a member of."""
    if name is not None:
        return name
    mine = [tenant["name"] for tenant in client.me()["tenants"]]
    if len(mine) != 1:
        raise WrongUse(f"Say which tenant with --tenant: {', '.join(mine) or 'you are a member of none'}.")
    return mine[0]


def register(app: typer.Typer) -> None:
    app.add_typer(
        group, name="throughputs", help="Show and correct how fast applications run on each GPU model."
    )
