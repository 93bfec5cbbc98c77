"""admin quota user, admin budget user: what a member of a tenant may hold at once, and use up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.admin.asking import Tenant, User, print_json, quota_words, size
from allot.commands.admin.options import CpusOption, MemoryOption
from allot.commands.budgets import (
    Action,
    ActionOption,
    Amount,
    Period,
    PeriodOption,
    Unit,
    UnitOption,
    print_budget,
)
from allot.commands.options import JsonOption, connect
from allot.errors import WrongUse
from allot.output import Format, print_line, print_table

if TYPE_CHECKING:
    from allot.schema import LimitsOfUser, UserQuotaState

quotas = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
budgets = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@quotas.command(name="list")
def list_limits(tenant: Tenant, as_json: JsonOption = False) -> None:
    """List quotas and budgets of a tenant's members. Members who are not admins see only their own."""
    with connect() as client:
        found = list(client.administration.limits_of_users(tenant))
    if as_json:
        print_json(found)
    else:
        print_table(["USER", "QUOTA", "BUDGET"], [_row(each) for each in found])


def _row(limits: LimitsOfUser) -> list[object]:
    quota, budget = limits["quota"], limits["budget"]
    held = _words(quota["gpus"], quota["cpus"], quota["memory_bytes"]) if quota else "-"
    if budget is None:
        return [limits["username"], held, "-"]
    unit = "in cost" if budget["unit"] == "cost" else "GPU-hours"
    period = "once" if budget["period"] == "none" else f"a {budget['period']}"
    words = f"{budget['amount']:,.12g} {unit} {period}, {budget['action']}"
    return [limits["username"], held, f"{words}, used up" if budget["is_spent"] else words]


def _words(gpus: int | None, cpus: float | None, memory_bytes: int | None) -> str:
    return quota_words({} if gpus is None else {"*": gpus}, cpus, memory_bytes)


@quotas.command()
def show(tenant: Tenant, user: User, as_json: JsonOption = False) -> None:
    """Show the quota of a member, and what the member holds now."""
    with connect() as client:
        _print(tenant, user, client.administration.user_quota(tenant, user), as_json)


@quotas.command(name="set")
def change(
    tenant: Tenant,
    user: User,
    gpus: Annotated[
        int | None,
        typer.Option(help="GPUs held at once, all models together.", min=0, show_default="no limit"),
    ] = None,
    cpus: CpusOption = None,
    memory: MemoryOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set the quota of a member, within the tenant's. For admins of the tenant.

    `allot admin quota user set vision ann --gpus 4`
    """
    if gpus is None and cpus is None and not memory:
        raise WrongUse("Say what to limit: --gpus, --cpus or --memory; `remove` takes the quota away.")
    wanted = {"gpus": gpus, "cpus": cpus, "memory_bytes": size(memory, "--memory") if memory else None}
    with connect() as client:
        _print(tenant, user, client.administration.set_user_quota(tenant, user, wanted), as_json)


@quotas.command()
def remove(tenant: Tenant, user: User, as_json: JsonOption = False) -> None:
    """Remove the quota of a member. For admins of the tenant."""
    with connect() as client:
        _print(tenant, user, client.administration.set_user_quota(tenant, user, {}), as_json)


def _print(tenant: str, user: str, quota: UserQuotaState, as_json: bool) -> None:
    if as_json:
        print_json({"tenant": tenant, "user": user, **quota})
        return
    words = _words(quota["gpus"], quota["cpus"], quota["memory_bytes"])
    held = quota["held"]
    print_line(f"user {user} of tenant {tenant}: {'no quota' if words == '-' else words}")
    print_line(f"holds now: {quota_words(held['gpus'], held['cpus'], held['memory_bytes'])}")


@budgets.command(name="show")
def show_one(tenant: Tenant, user: User, as_json: JsonOption = False) -> None:
    """Show a member's budget, its use so far, and its expected use."""
    with connect() as client:
        found = client.administration.user_budget(tenant, user)
    print_budget(found, Format.json if as_json else Format.table)


@budgets.command(name="set", context_settings={"ignore_unknown_options": True})
def change_one(
    tenant: Tenant,
    user: User,
    amount: Amount,
    unit: UnitOption = Unit.gpu_hours,
    period: PeriodOption = Period.month,
    action: ActionOption = Action.warn,
    as_json: JsonOption = False,
) -> None:
    """Set the budget of a member, within the tenant's. For admins of the tenant."""
    wanted = {"amount": amount, "unit": unit.value, "period": period.value, "action": action.value}
    with connect() as client:
        found = client.administration.set_user_budget(tenant, user, wanted)
    print_budget(found, Format.json if as_json else Format.table)


@budgets.command(name="remove")
def remove_one(tenant: Tenant, user: User) -> None:
    """Remove the budget of a member. For admins of the tenant."""
    with connect() as client:
        client.administration.remove_user_budget(tenant, user)
    print_line(f"user {user} of tenant {tenant} has no budget any more")
