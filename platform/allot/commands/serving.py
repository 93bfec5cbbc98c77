"""serving: pools of nodes that answer users' requests, and the nodes that they lend to jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from allot.commands.nodes import Name, Why, until
from allot.commands.options import OutputOption, connect
from allot.errors import WrongUse
from allot.output import Format, duration, plural, print_line, print_objects, print_table, say
from allot.times import instant, span_seconds

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Pool = Annotated[str, typer.Argument(metavar="POOL", help="The serving pool's name.")]
Needs = Annotated[
    list[str] | None,
    typer.Option(
        "--needs",
        metavar="HH:MM=N",
        help="From this time of day (UTC) the pool keeps N nodes and lends the others; may be repeated.",
    ),
]
Return = Annotated[
    str | None, typer.Option("--return", metavar="TIME", help="Maximum time for a return, such as 10m.")
]


@group.command("list")
def list_pools(output: OutputOption = Format.table) -> None:
    """List serving pools, with the number of nodes that serve, are lent or return."""
    with connect() as client:
        found = client.serving.list_pools()
    if output is not Format.table:
        print_objects(found, output)
        return
    if not found:
        say("No serving pools.")
        return
    rows = [
        [
            pool["name"],
            pool["serving"],
            pool["lent"],
            pool["returning"],
            "-" if pool["needed_now"] is None else pool["needed_now"],
            duration(pool["return_seconds"]),
            _curve_words(pool["nodes_needed"]),
        ]
        for pool in found
    ]
    columns = ["NAME", "SERVING", "LENT", "RETURNING", "NEEDS", "RETURN", "CURVE"]
    print_table(columns, rows, right=("SERVING", "LENT", "RETURNING", "NEEDS"))


def _curve_words(needed: dict[str, int] | None) -> str:
    return "-" if needed is None else " ".join(f"{time}={nodes}" for time, nodes in sorted(needed.items()))


@group.command()
def make(name: Pool, needs: Needs = None, return_time: Return = None) -> None:
    """Create a serving pool. For operators."""
    with connect() as client:
        client.serving.make(name, **_fields(needs, return_time))
    say(f"Serving pool {name} is there; assign nodes to it.")


@group.command("set")
def change(
    name: Pool,
    needs: Needs = None,
    by_name: Annotated[
        bool, typer.Option("--by-name", help="Lend nodes only by name, not by time of day.")
    ] = False,
    return_time: Return = None,
) -> None:
    """Change how many nodes a pool needs, or how long a return takes. For operators."""
    if by_name and needs:
        raise WrongUse("Give --needs or --by-name, not both.")
    fields = _fields(needs, return_time) | ({"nodes_needed": None} if by_name else {})
    if not fields:
        raise WrongUse("Nothing to change; give --needs, --by-name or --return.")
    with connect() as client:
        client.serving.change(name, **fields)
    say(f"Serving pool {name} is changed.")


def _fields(needs: list[str] | None, return_time: str | None) -> dict[str, object]:
    fields: dict[str, object] = {}
    if needs:
        fields["nodes_needed"] = dict(_need(text) for text in needs)
    if return_time is not None:
        fields["return_seconds"] = span_seconds(return_time, "--return")
    return fields


def _need(text: str) -> tuple[str, int]:
    time, _, nodes = text.partition("=")
    if not nodes.isdecimal():
        raise WrongUse(f"--needs: {text!r} is not like 08:00=6.")
    return time, int(nodes)


@group.command()
def assign(
    node: Name,
    pool: Annotated[
        str | None,
        typer.Argument(
            metavar="[POOL]", help="Name of the serving pool. Default: none, the node is the cluster's own."
        ),
    ] = None,
) -> None:
    """Assign a node to a serving pool, or return it to the cluster. For operators."""
    with connect() as client:
        client.serving.assign(node, pool)
    say(f"Node {node} is {f'of serving pool {pool}' if pool else 'the cluster’s own'}.")


@group.command()
def lend(
    node: Name,
    until_when: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="WHEN",
            help="When its pool gets it back: 8h (from now), or 2026-12-01T18:00. Default: no fixed time.",
        ),
    ] = None,
    why: Why = "",
) -> None:
    """Lend a whole node of a serving pool to jobs; this cancels a return under way. For operators."""
    at = None if until_when is None else instant(until_when, "--until")
    with connect() as client:
        client.serving.lend(node, until=at, why=why)
    say(f"Node {node} is lent.")


@group.command("return")
def ask_back(
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="The node's name.")] = None,
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="Ask for nodes of this pool, those whose return costs jobs least."),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", "-n", help="With --pool: how many nodes.", min=1)] = 1,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="TIME",
            help="Time until the pool has the node back, such as 5m. Default: the pool's return time.",
        ),
    ] = None,
    why: Why = "",
) -> None:
    """Ask for a lent node back, or for the nodes of a pool whose return costs jobs least. For operators."""
    seconds = None if deadline is None else span_seconds(deadline, "--deadline")
    if (node is None) == (pool is None):
        raise WrongUse("Give a node, or --pool.")
    with connect() as client:
        if node is not None:
            answer = client.serving.ask_back(node, deadline_seconds=seconds, why=why)
            loan = answer["loan"]
            when = f" in {until(loan['return_by'])} at the latest" if loan and loan["return_by"] else ""
            say(f"Node {node} goes back{when}.")
            return
        assert pool is not None
        asked = client.serving.ask_cheapest_back(pool, nodes, deadline_seconds=seconds, why=why)["results"]
    for each in asked:
        stops, shrinks = (plural(len(jobs), "job") for jobs in (each["stops"], each["shrinks"]))
        print_line(f"{each['node']}: stops {stops}, shrinks {shrinks}")
    say(f"{plural(len(asked), 'node')} of serving pool {pool} asked back.")


def register(app: typer.Typer) -> None:
    app.add_typer(
        group, name="serving", help="Manage serving pools, which lend nodes to jobs and take them back."
    )
