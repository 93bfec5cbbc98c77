"""fairness: how a virtual cluster is divided among its tenants, and which would be better off alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.ledger import gpus_words
from allot.commands.options import OutputOption, connect
from allot.output import Format, duration, local_time, plural, print_objects, print_table, say, since

if TYPE_CHECKING:
    from allot.schema import Fairness, TenantFairness, Violation

#: What is asked for instead of a virtual cluster.
VIOLATIONS = "violations"


def fairness(
    name: Annotated[
        str,
        typer.Argument(
            metavar="VC", help=f"Name of a virtual cluster, or `{VIOLATIONS}`.", show_default=False
        ),
    ],
    vc: Annotated[str | None, typer.Option(help="Only violations in this virtual cluster.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only violations of this tenant.")] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only open violations.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of violations.", min=1)] = 50,
    output: OutputOption = Format.table,
) -> None:
    """Show what each tenant of a virtual cluster is entitled to and has, or list fairness violations.

    A violation is a time in which a tenant would have been better off alone. HERE is the speed of the
    tenant's jobs now, ALONE their speed on the tenant's own part alone. Both are in GPUs of each job's best
    model.
    """
    with connect() as client:
        if name != VIOLATIONS:
            found = client.fairness(name)
            if output is Format.table:
                _print(name, found)
            else:
                print_objects(found, output)
            return
        filters = {"virtual_cluster": vc, "tenant": tenant, "open": "true" if open_only else None}
        violations = list(client.violations(limit=limit, **filters))
    if output is Format.table:
        _print_violations(violations)
    else:
        print_objects(violations, output)


def _print(name: str, found: Fairness) -> None:
    if not found["tenants"]:
        say(f"There are no figures of virtual cluster {name} yet.")
        return
    columns = ["TENANT", "WEIGHT", "WANTS", "OWN PART", "ENTITLED", "HAS", "BORROWED", "LENT"]
    columns += ["HERE", "ALONE", "GAIN", "RHO", "ENVY", "FRACTION"]
    rows = [_row(tenant) for tenant in found["tenants"]]
    if any(tenant["tier"] for tenant in found["tenants"]):
        columns = [*columns, "TIER"]
        rows = [[*row, tenant["tier"] or "-"] for row, tenant in zip(rows, found["tenants"], strict=True)]
    print_table(columns, rows, right=["WEIGHT", "WANTS", *columns[6:14]])
    say(
        f"As of {since(found['at'])} ago, policy {found['policy']}; gain and envy over"
        f" {duration(found['window_seconds'])}, fraction of the GPU time demanded over"
        f" {duration(found['fraction_seconds'])}."
    )
    if found["open_violations"]:
        count = plural(found["open_violations"], "tenant")
        say(f"{count} would be better off alone: `allot fairness {VIOLATIONS} --vc {name} --open`.")


def _row(tenant: TenantFairness) -> list[object]:
    return [
        tenant["tenant"],
        f"{tenant['weight']:g}",
        f"{tenant['demand_gpus']:g}",
        gpus_words(tenant["own_part"]),
        gpus_words(tenant["entitled"]),
        gpus_words(tenant["received"]),
        f"{tenant['borrowed']:.4g}",
        f"{tenant['lent']:.4g}",
        f"{tenant['speed_here']:.4g}",
        f"{tenant['speed_alone']:.4g}",
        _or_dash(tenant["gain"]),
        _or_dash(tenant["rho_worst"]),
        f"{tenant['envy']:.2g}" if tenant["envy"] else "-",
        _fraction(tenant),
    ]


def _fraction(tenant: TenantFairness) -> str:
    """Return what it got, and what its tier promises: "62% of 70%"."""
    got, promised = tenant["gpu_fraction"], tenant["guaranteed_fraction"]
    if got is None:
        return "-"
    return f"{got:.0%} of {promised:.0%}" if promised else f"{got:.0%}"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _print_violations(violations: list[Violation]) -> None:
    rows = [
        [
            row["id"],
            row["virtual_cluster"],
            row["tenant"],
            local_time(row["began_at"]),
            since(row["began_at"], until=row["ended_at"]) if row["ended_at"] else "goes on",
            f"{row['worst']:.0%}",
            f"{row['lost_gpu_seconds'] / 3_600:.3g}",
            row["cause"],
            row["message"],
        ]
        for row in violations
    ]
    columns = ["ID", "VC", "TENANT", "BEGAN", "LASTED", "WORST", "GPU HOURS LOST", "CAUSE", "WHY"]
    print_table(columns, rows, right=["ID", "WORST", "GPU HOURS LOST"])


def register(app: typer.Typer) -> None:
    app.command()(fairness)
