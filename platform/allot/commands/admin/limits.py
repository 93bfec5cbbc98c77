"""admin quota, admin budget: what a tenant may hold at once, and use up in a month or a week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.admin import user_limits
from allot.commands.admin.asking import Tenant, counts, print_json, quota_words, size
from allot.commands.admin.options import CpusOption, MemoryOption
from allot.commands.budgets import Action, ActionOption, Amount, Period, PeriodOption, Unit, UnitOption
from allot.commands.budgets import change as set_budget
from allot.commands.budgets import remove as remove_budget
from allot.commands.budgets import show as show_budget
from allot.commands.options import JsonOption, connect
from allot.errors import WrongUse
from allot.output import Format, print_line, print_table

if TYPE_CHECKING:
    from allot.schema import Quota

quotas = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
budgets = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
quotas.add_typer(user_limits.quotas, name="user", help="Show and set quotas of members of a tenant.")
budgets.add_typer(user_limits.budgets, name="user", help="Show and set budgets of members of a tenant.")


@quotas.command(name="list")
def list_quotas(as_json: JsonOption = False) -> None:
    """List the quotas of your tenants; operators see all."""
    with connect() as client:
        found: dict[str, Quota] = {
            each["name"]: {
                "limits": each["quota"],
                "cpus": each["quota_cpus"],
                "memory_bytes": each["quota_memory_bytes"],
            }
            for each in client.administration.tenants()
        }
    if as_json:
        print_json(found)
    else:
        print_table(["TENANT", "QUOTA"], [[name, quota_words(**quota)] for name, quota in found.items()])


@quotas.command()
def show(tenant: Tenant, as_json: JsonOption = False) -> None:
    """Show the quota of a tenant: GPUs by model ("*": all models together), CPUs and memory held at once."""
    with connect() as client:
        _print(tenant, client.administration.quota(tenant), as_json)


@quotas.command(name="set")
def change(
    tenant: Tenant,
    limits: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL=N...]",
            help="GPUs of a model held at once, such as V100=8; *=16 caps all models together.",
        ),
    ] = None,
    cpus: CpusOption = None,
    memory: MemoryOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set the quota of a tenant, in place of its present one. For operators.

    `allot admin quota set vision V100=8 '*=16' --cpus 128 --memory 1TiB`
    """
    if not limits and cpus is None and not memory:
        raise WrongUse("Say what to limit: MODEL=N, --cpus or --memory; `remove` takes the quota away.")
    with connect() as client:
        quota = client.administration.set_quota(
            tenant,
            counts(limits or [], "quota"),
            cpus=cpus,
            memory_bytes=size(memory, "--memory") if memory else None,
        )
    _print(tenant, quota, as_json)


@quotas.command()
def remove(tenant: Tenant, as_json: JsonOption = False) -> None:
    """Remove the quota of a tenant. For operators."""
    with connect() as client:
        _print(tenant, client.administration.set_quota(tenant, {}), as_json)


def _print(tenant: str, quota: Quota, as_json: bool) -> None:
    if as_json:
        print_json({"tenant": tenant, **quota})
    else:
        words = quota_words(**quota)
        print_line(f"tenant {tenant} has no quota" if words == "-" else f"tenant {tenant}: {words}")


@budgets.command(name="list")
def list_budgets(as_json: JsonOption = False) -> None:
    """List the budgets of your tenants; operators see all."""
    with connect() as client:
        found = list(client.administration.budgets())
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["tenant"],
            f"{row['amount']:,.12g}",
            row["unit"].replace("_", " "),
            row["period"],
            row["action"],
            "yes" if row["is_spent"] else "no",
        ]
        for row in found
    ]
    print_table(["TENANT", "AMOUNT", "UNIT", "PERIOD", "ACTION", "USED UP"], rows, right=["AMOUNT"])


@budgets.command(name="show")
def show_one(tenant: Tenant, as_json: JsonOption = False) -> None:
    """Show a tenant's budget, its use so far, and its expected use."""
    show_budget(tenant, _format(as_json))


@budgets.command(name="set", context_settings={"ignore_unknown_options": True})
def change_one(
    tenant: Tenant,
    amount: Amount,
    unit: UnitOption = Unit.gpu_hours,
    period: PeriodOption = Period.month,
    action: ActionOption = Action.warn,
    as_json: JsonOption = False,
) -> None:
    """Set the budget of a tenant. For operators."""
    set_budget(tenant, amount, unit, period, action, "", _format(as_json))


@budgets.command(name="remove")
def remove_one(tenant: Tenant) -> None:
    """Remove the budget of a tenant. For operators."""
    remove_budget(tenant)


def _format(as_json: bool) -> Format:
    return Format.json if as_json else Format.table
