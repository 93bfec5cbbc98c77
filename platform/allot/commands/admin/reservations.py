"""admin reservation: nodes that are kept for a tenant for a time. For operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.admin.asking import YesOption, changes_of, confirm, print_json
from allot.commands.options import JsonOption, OutputOption, connect
from allot.output import Format, local_time, parse_time, print_line, print_objects, print_table, say
from allot.times import instant

if TYPE_CHECKING:
    from allot.schema import Reservation

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

LASTING = ("announced", "in_force")
Number = Annotated[
    int, typer.Argument(metavar="ID", help="Number of the reservation.", show_default=False, min=1)
]
_START = "When it begins: 36h (from now), or 2026-12-04T18:00."
_END = "When it ends: 2026-12-06T08:00, or a duration after its start, such as 38h."


@group.command(name="ls")
def list_reservations(
    every: Annotated[bool, typer.Option("--all", "-a", help="Include past and cancelled windows.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """List the reservations that you may see; members see those that they may use."""
    with connect() as client:
        found = client.administration.reservations(states=() if every else LASTING)
    if output is not Format.table:
        print_objects(found, output)
        return
    if not found:
        say("No reservations.")
        return
    columns = ["ID", "NAME", "STATE", "FOR", "GPUS", "STARTS", "ENDS", "NODES", "NOTE"]
    print_table(columns, [_row(each) for each in found], right=("ID",))


def _row(one: Reservation) -> list[object]:
    return [
        one["id"],
        one["name"],
        one["state"].upper(),
        _whom(one),
        f"{one['gpus']} {one['gpu_model']}",
        local_time(one["starts_at"]),
        local_time(one["ends_at"]),
        ",".join(one["nodes"][:3]) + (f",+{len(one['nodes']) - 3}" if len(one["nodes"]) > 3 else ""),
        one["note"] or "-",
    ]


def _whom(one: Reservation) -> str:
    user = f"{one['user']}@" if one["user"] else ""
    return f"{user}{one['tenant']}" + (f"/{one['virtual_cluster']}" if one["virtual_cluster"] else "")


@group.command()
def create(
    name: Annotated[
        str,
        typer.Argument(help="Name of the reservation, which jobs give as `reservation`.", show_default=False),
    ],
    tenant: Annotated[str, typer.Option("--tenant", "-t", help="Tenant whose jobs get the nodes.")],
    gpus: Annotated[
        int, typer.Option("--gpus", "-g", help="Number of GPUs; whole nodes are reserved.", min=1)
    ],
    gpu_model: Annotated[str, typer.Option("--gpu-model", help="Model of the GPUs.")],
    start: Annotated[str, typer.Option("--start", metavar="WHEN", help=_START)],
    end: Annotated[str, typer.Option("--end", metavar="WHEN", help=_END)],
    user: Annotated[
        str | None, typer.Option("--user", help="Only for this user of the tenant. Default: all users.")
    ] = None,
    virtual_cluster: Annotated[
        str | None,
        typer.Option(
            "--vc",
            help="Only for jobs in this virtual cluster. Default: all virtual clusters of the tenant.",
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", "-m", help="What it is for.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Reserve whole nodes for a tenant. Jobs that name the reservation start there when it begins."""
    begins = instant(start, "--start")
    wanted = {
        "name": name,
        "tenant": tenant,
        "gpus": gpus,
        "gpu_model": gpu_model,
        "starts_at": begins.isoformat(),
        "ends_at": instant(end, "--end", after=begins).isoformat(),
        "user": user,
        "virtual_cluster": virtual_cluster,
        "note": note,
    }
    with connect() as client:
        _show(client.administration.reserve(wanted), as_json=as_json)


@group.command()
def change(
    number: Number,
    gpus: Annotated[
        int | None, typer.Option("--gpus", "-g", help="Number of GPUs; whole nodes are reserved.", min=1)
    ] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="WHEN", help=_START)] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="WHEN", help=_END)] = None,
    note: Annotated[str | None, typer.Option("--note", "-m", help="What it is for.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Change a reservation. After its start only its end and its note can change."""
    with connect() as client:
        after = None
        if end is not None and start is None:
            after = parse_time(client.administration.reservation(number)["starts_at"])
        begins = None if start is None else instant(start, "--start")
        ends = None if end is None else instant(end, "--end", after=begins or after)
        changes = changes_of(
            {
                "gpus": gpus,
                "starts_at": begins and begins.isoformat(),
                "ends_at": ends and ends.isoformat(),
                "note": note,
            },
            "--gpus, --start, --end or --note",
        )
        _show(client.administration.change_reservation(number, changes), as_json=as_json)


@group.command()
def cancel(number: Number, yes: YesOption = False) -> None:
    """Cancel a reservation, or end it early: its nodes are available to all again."""
    confirm(f"Cancel reservation {number}?", yes=yes)
    with connect() as client:
        client.administration.cancel_reservation(number)
    print_line(f"reservation {number} is cancelled")


def _show(one: Reservation, *, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    when = f"{local_time(one['starts_at'])} to {local_time(one['ends_at'])}"
    print_line(f"reservation {one['id']} ({one['name']}): {when}, {' '.join(one['nodes'])}")
