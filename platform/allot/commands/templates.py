"""template: specifications of a tenant that its members start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import OutputOption, connect, only_tenant
from allot.commands.submit import specifications
from allot.errors import WrongUse
from allot.output import Format, print_line, print_objects, print_table, since
from allot.specfiles import Over

if TYPE_CHECKING:
    from allot.client import Client

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template, such as resnet.")]
TenantOption = Annotated[
    str | None,
    typer.Option(help="The template's tenant. Required if you are a member of several.", show_default=False),
]


@group.command(name="list")
def list_templates(
    tenant: Annotated[
        str | None,
        typer.Option(help="Only templates of this tenant. Default: all your tenants.", show_default=False),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """List templates: their purpose, owner and last change."""
    with connect() as client:
        tenants = [tenant] if tenant else [each["name"] for each in client.me()["tenants"]]
        found = [(name, row) for name in tenants for row in client.templates.list(name)]
    if output is not Format.table:
        print_objects([{**row, "tenant": name} for name, row in found], output)
        return
    rows = [
        [row["name"], name, row["owner"] or "-", since(row["changed_at"]), row["summary"]]
        for name, row in found
    ]
    print_table(["NAME", "TENANT", "BY", "CHANGED", "SUMMARY"], rows)


@group.command()
def show(name: Name, tenant: TenantOption = None, output: OutputOption = Format.yaml) -> None:
    """Print the specification of a template: `allot template show resnet | allot submit - --gpus 4`."""
    with connect() as client:
        template = client.templates.get(_tenant(client, tenant), name)
    print_objects(template["spec"], Format.yaml if output is Format.table else output)


@group.command()
def save(
    name: Name,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A specification in YAML or JSON, or an sbatch script; - reads standard input.",
        ),
    ],
    summary: Annotated[str, typer.Option(help="What it is for, in one sentence.")] = "",
    tenant: TenantOption = None,
) -> None:
    """Save a specification as a template, or replace the one of that name. It is checked as by `submit`."""
    sources = specifications([file], Over({}))
    if len(sources) != 1:
        raise WrongUse(f"{file} has {len(sources)} specifications; a template is one.")
    spec = dict(sources[0].spec)
    stated = spec.pop("tenant", None)
    with connect() as client:
        whose = _tenant(client, tenant or stated)
        client.templates.set(whose, name, spec, summary=summary)
    print_line(f"template {name} of {whose} is kept")


@group.command()
def delete(name: Name, tenant: TenantOption = None) -> None:
    """Delete a template that you wrote; admins can delete any template of their tenant."""
    with connect() as client:
        whose = _tenant(client, tenant)
        client.templates.delete(whose, name)
    print_line(f"template {name} of {whose} is deleted")


def _tenant(client: Client, given: str | None) -> str:
    return given or only_tenant(
        [each["name"] for each in client.me()["tenants"]], "A template belongs to one tenant."
    )


def register(app: typer.Typer) -> None:
    app.add_typer(
        group, name="template", help="Manage templates: specifications that members of a tenant start from."
    )
