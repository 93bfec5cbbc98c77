"""budget: what a tenant may use up in a period, and how much of it is used."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, connect
from allot.output import Format, local_time, print_line, print_objects
from allot.times import instant

if TYPE_CHECKING:
    from allot.schema import BudgetState

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


class Unit(StrEnum):
    gpu_hours = "gpu_hours"
    cost = "cost"


class Period(StrEnum):
    month = "month"
    week = "week"
    none = "none"


class Action(StrEnum):
    warn = "warn"
    hold = "hold"


#: The terms of a budget: a tenant's, or a member's.
Amount = Annotated[float, typer.Argument(help="GPU-hours, or cost, in one period.", min=0.001)]
UnitOption = Annotated[
    Unit, typer.Option(help="gpu_hours, or cost: GPU-hours weighted by each model's hourly price.")
]
PeriodOption = Annotated[
    Period, typer.Option(help="Calendar period in UTC after which the budget is renewed; none: never.")
]
ActionOption = Annotated[
    Action, typer.Option(help="At 100 %, warn: only notify; hold: also start no further jobs.")
]


@group.command()
def show(tenant: Tenant, output: OutputOption = Format.table) -> None:
    """Show a tenant's budget, its use so far, and its expected use."""
    with connect() as client:
        found = client.notices.budget(tenant)
    print_budget(found, output)


@group.command(name="set", context_settings={"ignore_unknown_options": True})
def change(
    tenant: Tenant,
    amount: Amount,
    unit: UnitOption = Unit.gpu_hours,
    period: PeriodOption = Period.month,
    action: ActionOption = Action.warn,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Count use from this time, such as 2026-12-01T00:00. Default: the start of the period.",
        ),
    ] = "",
    output: OutputOption = Format.table,
) -> None:
    """Set the budget of a tenant. For operators."""
    wanted: dict[str, Any] = {
        "amount": amount,
        "unit": unit.value,
        "period": period.value,
        "action": action.value,
    }
    if start:
        wanted["starts_at"] = instant(start, "--from").isoformat()
    with connect() as client:
        found = client.notices.set_budget(tenant, wanted)
    print_budget(found, output)


@group.command()
def remove(tenant: Tenant) -> None:
    """Remove the budget of a tenant. For operators."""
    with connect() as client:
        client.notices.remove_budget(tenant)
    print_line(f"tenant {tenant} has no budget any more")


def print_budget(found: BudgetState, output: Format) -> None:
    if output is not Format.table:
        print_objects(found, output)
        return
    for name, text in _lines(found):
        print_line(f"{name:<10} {text}")


def _lines(found: BudgetState) -> list[tuple[str, str]]:
    budget = found["budget"]
    is_money = budget is not None and budget["unit"] == "cost"
    unit = (found["currency"] or "in cost") if is_money else "GPU-hours"
    since = f"since {local_time(found['counts_from'])}"
    until = f" until {local_time(found['ends_at'])}" if found["ends_at"] else ""
    lines = [("Used", f"{found['used']:,.1f} {unit} {since}, {found['used_last_day']:,.1f} in the last day")]
    if budget is None:
        return [("Budget", "none"), *lines]
    part = found["used"] / budget["amount"]
    lines = [("Budget", f"{budget['amount']:,.12g} {unit}{until}, {part:.0%} used"), *lines]
    if found["expected"] is not None:
        lines.append(("Expected", f"{found['expected']:,.1f} by then, as in the last day"))
    if found["reached_at"]:
        lines.append(("Used up", f"{local_time(found['reached_at'])}, at the present rate"))
    if found["is_holding"]:
        lines.append(("Now", "used up: no job starts, running jobs continue"))
    else:
        at_the_end = "nothing more is started" if budget["action"] == "hold" else "admins are told"
        lines.append(("At 100 %", at_the_end))
    return lines


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="budget", help="Show and set budgets of tenants by month or week.")
