"""policies, vc policy, vc whole, spare: which policies there are, and which one serves each
virtual cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.cluster import amounts, overrun_lines, policy_words
from allot.commands.options import OutputOption, connect
from allot.commands.vc import Name
from allot.commands.vc import group as virtual_clusters
from allot.describe import settings_lines
from allot.errors import AllotError
from allot.output import Format, plural, print_line, print_objects, print_table
from allot.plugin_text import plugin_of, text_of, value_text

if TYPE_CHECKING:
    from allot.schema import ChainSummary, Plugin

spare_pool = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Text = Annotated[
    str,
    typer.Argument(
        metavar="POLICY", help="A name, or name:parameter=value,... (`allot policies`).", show_default=False
    ),
]
PlacerOption = Annotated[
    str | None,
    typer.Option(
        "--placer", metavar="PLACER", help="Set the placer too, in the same form. Default: unchanged."
    ),
]


def policies(
    name: Annotated[str | None, typer.Argument(help="Show only this policy or placer.")] = None,
    output: OutputOption = Format.table,
) -> None:
    """List policies and placers, with their parameters and defaults."""
    with connect() as client:
        found = client.plugins()
    every = {plugin["name"]: plugin for plugin in (*found["placers"], *found["policies"])}
    if name is not None and name not in every:
        raise AllotError(f"There is no policy or placer {name!r}; there are {', '.join(sorted(every))}.")
    if output is not Format.table:
        print_objects(found if name is None else every[name], output)
    elif name is not None:
        _print_one(every[name])
    else:
        for heading, plugins in (("POLICY", found["policies"]), ("PLACER", found["placers"])):
            rows = [[plugin["name"], _defaults(plugin), plugin["summary"]] for plugin in plugins]
            print_table([heading, "PARAMETERS", "WHAT IT DOES"], rows)
            print_line("")
        print_line("Choose one with `allot vc policy NAME POLICY`, or `allot spare policy POLICY`.")


def _defaults(plugin: Plugin) -> str:
    written = [f"{each['name']}={value_text(each['default'])}" for each in plugin["parameters"]]
    return ",".join(written) or "-"


def _print_one(plugin: Plugin) -> None:
    print_line(f"{plugin['name']}: {plugin['summary']}")
    if plugin["parameters"]:
        print_line("")
        rows = [
            [each["name"], each["type"], value_text(each["default"]), ", ".join(each["choices"]) or "-"]
            for each in plugin["parameters"]
        ]
        print_table(["PARAMETER", "TYPE", "DEFAULT", "CHOICES"], rows)


@virtual_clusters.command()
def policy(name: Name, text: Text, placer: PlacerOption = None) -> None:
    """Set the policy of a virtual cluster; running jobs go on. For operators.

    `allot vc policy research "gavel:objective=max_min"`
    """
    changes = {"policy_plugin": plugin_of(text)}
    if placer is not None:
        changes["placer_plugin"] = plugin_of(placer)
    with connect() as client:
        changed = client.set_virtual_cluster(name, changes)
    now = f"policy {policy_words(changed)}, placer {text_of(changed['placer_plugin'])}"
    print_line(f"Virtual cluster {name}: {now}, from the next round on.")


@virtual_clusters.command()
def whole(
    name: Name,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Do not ask before other virtual clusters lose their guarantees."),
    ] = False,
) -> None:
    """Guarantee every GPU of the cluster to one virtual cluster, so that one policy decides about all. For
    operators.

    The other virtual clusters stay, without guarantees. Their guaranteed jobs go on, but new ones wait for a
    guarantee. Run the command again after you add nodes. If a GPU model is divided into cells, the virtual
    cluster then owns its topmost cells.
    """
    with connect() as client:
        cells, mine = client.cells(), client.virtual_cluster(name)
        others = [
            vc
            for vc in client.virtual_clusters()
            if vc["name"] != name and any(vc["own_guaranteed"].values())
        ]
        if others and not yes:
            losing = ", ".join(f"{vc['name']} ({amounts(vc['own_guaranteed'])})" for vc in others)
            clusters = plural(len(others), "virtual cluster")
            typer.confirm(f"Take away the guarantees of {clusters}, {losing}?", abort=True, err=True)
        if cells["gpu_models"]:
            owners = {name: {"cells": _topmost(cells["chains"])}}
            specification = cells["specification"] | {"virtual_clusters": owners}
            client.set_cells(specification, version=cells["version"])
            # They have changed by that.
            mine, others = (
                client.virtual_cluster(name),
                [client.virtual_cluster(vc["name"]) for vc in others],
            )
        every = {
            # Serving pools may ask theirs back, so these cannot be guaranteed.
            model["name"]: model["gpus"] - model["serving_gpus"]
            for model in client.gpu_models()
            if model["gpus"] > model["serving_gpus"] and model["name"] not in cells["gpu_models"]
        }
        # First away, then given: at no time is more guaranteed than there is.
        for vc in others:
            client.set_virtual_cluster(vc["name"], {"guaranteed": {}, "version": vc["version"]})
        changed = client.set_virtual_cluster(name, {"guaranteed": every, "version": mine["version"]})
    members = ", ".join(member["tenant"] for member in changed["members"]) or "no one yet"
    print_line(f"Virtual cluster {name} is guaranteed {amounts(changed['guaranteed'])}, all that there is.")
    print_line(f"Its members, who can submit to it: {members}.")


def _topmost(chains: Sequence[ChainSummary]) -> dict[str, int]:
    """Return all cells of all hardware that is divided, as a virtual cluster owns them in a specification."""
    of_types = Counter(kind["name"] for chain in chains for kind in chain["types"])
    every = {}
    for chain in chains:
        top = max(chain["cells"], key=lambda cells: cells["level"])
        is_unique = of_types[top["type"]] == 1
        every[top["type"] if is_unique else f"{chain['name']}/{top['type']}"] = top["total"]
    return every


@spare_pool.command()
def show(output: OutputOption = Format.table) -> None:
    """Show how spare GPUs are given to opportunistic jobs."""
    with connect() as client:
        found = client.cluster_settings()
    if output is not Format.table:
        print_objects(found, output)
        return
    print_line("Spare GPUs, for opportunistic jobs")
    lines = [
        ("Policy", text_of(found["spare_policy_plugin"])),
        ("Placer", text_of(found["spare_placer_plugin"])),
    ]
    for heading, text in (*lines, *settings_lines(found), *overrun_lines(found["overrun"])):
        print_line(f"  {heading:<12} {text}")


@spare_pool.command(name="policy")
def spare_policy(text: Text, placer: PlacerOption = None) -> None:
    """Set the policy of opportunistic jobs; running jobs go on. For operators."""
    changes = {"spare_policy_plugin": plugin_of(text)}
    if placer is not None:
        changes["spare_placer_plugin"] = plugin_of(placer)
    with connect() as client:
        changed = client.set_cluster_settings(changes)
    policy, placer = text_of(changed["spare_policy_plugin"]), text_of(changed["spare_placer_plugin"])
    now = f"policy {policy}, placer {placer}"
    print_line(f"Spare GPUs: {now}, from the next round on.")


def register(app: typer.Typer) -> None:
    app.command()(policies)
    app.add_typer(spare_pool, name="spare", help="Manage spare GPUs: those that no guaranteed job uses.")
