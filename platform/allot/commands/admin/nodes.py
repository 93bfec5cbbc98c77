"""admin node: expect nodes, move and cordon them, give them tokens, remove them. For operators.

`allot nodes` lists and shows them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.admin.asking import YesOption, changes_of, confirm, print_json
from allot.commands.nodes import Name, Why
from allot.commands.options import JsonOption, connect
from allot.output import print_line, say, shown_once

if TYPE_CHECKING:
    from allot.schema import NodeWithToken

SimulatedOption = Annotated[
    str | None,
    typer.Option(
        "--simulated",
        metavar="MODEL",
        help="Configure four simulated GPUs of this model, for a machine without GPUs.",
    ),
]

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@group.command()
def add(
    name: Name,
    rack: Annotated[str, typer.Option(help="Rack that the node stands in.")] = "rack-1",
    simulated: SimulatedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a node, and print its agent's configuration. The token in it is not shown again."""
    with connect() as client:
        made = client.administration.add_node({"name": name, "rack": rack})
    _print_token(made, simulated, as_json)


def _print_token(made: NodeWithToken, simulated: str | None, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    token, agent = shown_once(made["token"]), made["agent"]
    if agent is None:
        print_line(token)
        return
    configuration = agent["real"]
    if simulated is not None:
        configuration = agent["simulated"]
        configuration["inventory"]["gpu_model"] = simulated
    print_line(json.dumps(configuration, indent=2))
    say(f"Keep this as {agent['file']} on {made['name']}, and start the agent there: {agent['command']}")


@group.command(name="set")
def change(
    name: Name,
    rack: Annotated[str | None, typer.Option(help="Rack that the node stands in now.")] = None,
    cordoned: Annotated[
        bool | None,
        typer.Option("--cordon/--uncordon", help="Start no new jobs there, or return it to service."),
    ] = None,
    why: Why = "",
    as_json: JsonOption = False,
) -> None:
    """Move a node to another rack, cordon it or return it to service."""
    changes: dict[str, Any] = changes_of(
        {"rack": rack, "cordoned": cordoned}, "--rack, --cordon or --uncordon"
    )
    with connect() as client:
        changed = client.administration.change_node(name, {**changes, "why": why})
    if as_json:
        print_json(changed)
    else:
        state = "cordoned" if changed["cordoned"] else "in service"
        print_line(f"node {name}: in {changed['rack']}, {state}")


@group.command()
def token(
    name: Name, simulated: SimulatedOption = None, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Create a new token for a node's agent. The old token stops working at once."""
    confirm(f"End the token of node {name}? Its agent is refused until it has the new one.", yes=yes)
    with connect() as client:
        made = client.administration.new_node_token(name)
    _print_token(made, simulated, as_json)


@group.command()
def remove(name: Name, yes: YesOption = False) -> None:
    """Remove a node that never ran a job and whose agent does not report."""
    confirm(f"Forget node {name}, and end its token?", yes=yes)
    with connect() as client:
        client.administration.remove_node(name)
    print_line(f"node {name} is forgotten")
