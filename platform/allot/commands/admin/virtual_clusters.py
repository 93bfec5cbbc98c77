"""admin vc: make virtual clusters, change and remove them. For operators.

`allot vcs` lists and shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.admin.asking import YesOption, changes_of, confirm, counts, print_json, weights
from allot.commands.cluster import amounts
from allot.commands.options import JsonOption, connect
from allot.commands.vc import Name
from allot.output import print_line
from allot.plugin_text import plugin_of, text_of

if TYPE_CHECKING:
    from allot.schema import VirtualCluster

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TitleOption = Annotated[str | None, typer.Option(help="Full name of the virtual cluster, shown on pages.")]
GuaranteedOption = Annotated[
    list[str] | None,
    typer.Option("--guaranteed", metavar="MODEL=N", help="Guaranteed GPUs of a model; may be repeated."),
]
MemberOption = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        metavar="TENANT[=WEIGHT]",
        help="Tenant that may submit to it, with its weight (default 1); may be repeated.",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="POLICY", help="A name, or name:parameter=value,... (`allot policies`)."
    ),
]
PlacerOption = Annotated[
    str | None, typer.Option("--placer", metavar="PLACER", help="Placer, in the same form as the policy.")
]


@group.command()
def add(
    name: Name,
    title: TitleOption = None,
    guaranteed: GuaranteedOption = None,
    member: MemberOption = None,
    policy: PolicyOption = None,
    placer: PlacerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a virtual cluster.

    `allot admin vc add research --guaranteed V100=8 --member vision --member speech=2`
    """
    wanted = _wanted(title, guaranteed, member, policy, placer)
    given = {field: value for field, value in wanted.items() if value is not None}
    with connect() as client:
        made = client.administration.add_virtual_cluster({"name": name, **given})
    _print(made, as_json)


@group.command(name="set")
def change(
    name: Name,
    title: TitleOption = None,
    guaranteed: GuaranteedOption = None,
    member: MemberOption = None,
    policy: PolicyOption = None,
    placer: PlacerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a virtual cluster. If you give members or guarantees, they replace all present ones."""
    changes = changes_of(
        _wanted(title, guaranteed, member, policy, placer),
        "--title, --guaranteed, --member, --policy or --placer (and `allot vc limits`)",
    )
    with connect() as client:
        changed = client.set_virtual_cluster(name, changes)
    _print(changed, as_json)


def _wanted(
    title: str | None,
    guaranteed: list[str] | None,
    member: list[str] | None,
    policy: str | None,
    placer: str | None,
) -> dict[str, Any]:
    return {
        "title": title,
        "guaranteed": counts(guaranteed, "--guaranteed") if guaranteed else None,
        "members": weights(member, "--member") if member else None,
        "policy_plugin": plugin_of(policy) if policy else None,
        "placer_plugin": plugin_of(placer) if placer else None,
    }


def _print(found: VirtualCluster, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    members = ", ".join(f"{one['tenant']} (weight {one['weight']:g})" for one in found["members"])
    for heading, text in (
        ("VC", found["name"]),
        ("Policy", text_of(found["policy_plugin"])),
        ("Guaranteed", amounts(found["own_guaranteed"])),
        ("Members", members or "-"),
    ):
        print_line(f"{heading:<10} {text}")


@group.command()
def remove(name: Name, yes: YesOption = False) -> None:
    """Remove a virtual cluster that never had a job."""
    confirm(f"Remove virtual cluster {name}?", yes=yes)
    with connect() as client:
        client.administration.remove_virtual_cluster(name)
    print_line(f"virtual cluster {name} is removed")
