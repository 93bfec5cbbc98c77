"""admin tenant: list tenants, make, change and remove them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.admin.asking import (
    Tenant,
    YesOption,
    changes_of,
    confirm,
    print_json,
    quota_words,
)
from allot.commands.options import JsonOption, QuietOption, connect
from allot.errors import WrongUse
from allot.output import local_time, print_line, print_table

if TYPE_CHECKING:
    from allot.schema import Tenant as TenantRow

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
COLUMNS = ("TENANT", "MEMBERS", "QUOTA", "MOST JOBS", "TITLE")
#: For `--most-jobs`: the number in the settings.
USUAL = "usual"


@group.command(name="list")
def list_tenants(as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List your tenants; operators see all."""
    with connect() as client:
        found = list(client.administration.tenants())
    if as_json:
        print_json(found)
    elif quiet:
        for tenant in found:
            print_line(tenant["name"])
    else:
        print_table(COLUMNS, [_row(tenant) for tenant in found], right=["MEMBERS", "MOST JOBS"])


def _row(tenant: TenantRow) -> list[object]:
    most = tenant["most_unfinished_jobs"]
    return [
        tenant["name"],
        tenant["members"],
        quota_words(tenant["quota"], tenant["quota_cpus"], tenant["quota_memory_bytes"]),
        USUAL if most is None else most,
        tenant["title"] or "-",
    ]


@group.command()
def show(tenant: Tenant, as_json: JsonOption = False) -> None:
    """Show one tenant."""
    with connect() as client:
        found = client.administration.tenant(tenant)
    _print(found, as_json)


def _print(found: TenantRow, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for heading, text in zip(COLUMNS, _row(found), strict=True):
        print_line(f"{heading.capitalize():<10} {text}")
    print_line(f"{'Since':<10} {local_time(found['created_at'])}")


@group.command()
def add(
    tenant: Tenant,
    title: Annotated[str, typer.Option(help="Full name of the tenant, shown on pages.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Create a tenant. For operators."""
    with connect() as client:
        made = client.administration.add_tenant({"name": tenant, "title": title})
    _print(made, as_json)


@group.command(name="set")
def change(
    tenant: Tenant,
    title: Annotated[str | None, typer.Option(help="Full name of the tenant, shown on pages.")] = None,
    most_jobs: Annotated[
        str | None,
        typer.Option(
            "--most-jobs",
            metavar="N",
            help=f"Maximum number of unfinished jobs; {USUAL}: the server's setting.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change a tenant's title, or its maximum number of unfinished jobs. For operators."""
    changes = changes_of({"title": title, "most_unfinished_jobs": most_jobs}, "--title or --most-jobs")
    if most_jobs is not None:
        changes["most_unfinished_jobs"] = _number(most_jobs)
    with connect() as client:
        changed = client.administration.change_tenant(tenant, changes)
    _print(changed, as_json)


def _number(text: str) -> int | None:
    if text == USUAL:
        return None
    if not text.isdecimal():
        raise WrongUse(f"--most-jobs: {text!r} is neither a number nor `{USUAL}`.")
    return int(text)


@group.command()
def remove(tenant: Tenant, yes: YesOption = False) -> None:
    """Remove a tenant that has no members and never had a job. Its secrets are deleted too. For operators."""
    confirm(f"Remove tenant {tenant} with its secrets, quota and budget?", yes=yes)
    with connect() as client:
        client.administration.remove_tenant(tenant)
    print_line(f"tenant {tenant} is removed")
