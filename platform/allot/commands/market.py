"""market: guarantees lent between virtual clusters: offers, loans, rules, and the credits that are paid."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, ParquetOption, connect
from allot.describe import lot_words
from allot.errors import WrongUse
from allot.output import (
    Format,
    duration,
    local_time,
    plural,
    print_line,
    print_objects,
    print_table,
    say,
    since,
)
from allot.times import instant, span_seconds

if TYPE_CHECKING:
    from allot.schema import CreditAccount, CreditTransfer, Loan, MarketRule, Offer

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
rule_group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

OfferId = Annotated[int, typer.Argument(metavar="OFFER", help="Number of the offer.", min=1)]
Lender = Annotated[str, typer.Argument(metavar="VC", help="The virtual cluster that lends.")]
Borrower = Annotated[str, typer.Argument(metavar="VC", help="The virtual cluster that borrows.")]
Owner = Annotated[str, typer.Argument(metavar="VC", help="Name of the virtual cluster.")]
VcOption = Annotated[str | None, typer.Option("--vc", help="Only of this virtual cluster.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", help="Maximum number of rows.", min=1)]
GpusOption = Annotated[
    list[str] | None,
    typer.Option("--gpus", "-g", metavar="MODEL=N", help="Number of GPUs of a model; may be repeated."),
]
CellsOption = Annotated[
    list[str] | None,
    typer.Option("--cells", "-c", metavar="TYPE=N", help="Number of cells of a type; may be repeated."),
]
PriceOption = Annotated[float, typer.Option("--price", "-p", help="Credits for one GPU-hour.", min=0)]


class OfferStates(StrEnum):
    open = "open"
    taken = "taken"
    withdrawn = "withdrawn"
    expired = "expired"
    all = "all"


class LoanStates(StrEnum):
    coming = "coming"
    active = "active"
    ended = "ended"
    all = "all"


class Kind(StrEnum):
    lend = "lend"
    borrow = "borrow"


def credits_words(credits: float) -> str:
    return f"{credits:,.3f}".rstrip("0").rstrip(".")


def _lot(gpus: list[str] | None, cells: list[str] | None) -> dict[str, dict[str, int]]:
    return {"gpus": _counts(gpus or [], "--gpus"), "cells": _counts(cells or [], "--cells")}


def _counts(given: list[str], option: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in given:
        name, is_said, count = text.rpartition("=")
        if not (is_said and name and count.isdecimal() and len(count) < 10) or name in counts:
            raise WrongUse(
                f"{option}: {text!r} is not a name with a number, or is given twice; expected V100=2."
            )
        counts[name] = int(count)
    return counts


# -- offers ------------------------------------------------------------------------------------------


@group.command()
def offers(
    state: Annotated[OfferStates, typer.Option(help="Only offers in this state.")] = OfferStates.open,
    vc: VcOption = None,
    limit: LimitOption = 200,
    output: OutputOption = Format.table,
) -> None:
    """List offers of virtual clusters, and the price of each if you take it now."""
    wanted = None if state is OfferStates.all else state.value
    with connect() as client:
        found = list(client.market.offers(limit=limit, state=wanted, virtual_cluster=vc))
    if output is not Format.table:
        print_objects(found, output)
        return
    headings = ["OFFER", "VC", "LENDS", "GPUS", "FROM", "UNTIL", "PRICE", "COST NOW", "IN RETURN", "STATE"]
    print_table(headings, [_offer(row) for row in found], right=["OFFER", "GPUS", "PRICE", "COST NOW"])


def _offer(row: Offer) -> list[object]:
    return [
        row["id"],
        row["lender"],
        lot_words(row["lot"]),
        row["gpus"],
        local_time(row["starts_at"]) if row["starts_at"] else "once taken",
        local_time(row["ends_at"]),
        credits_words(row["price_per_gpu_hour"]),
        credits_words(row["cost_now"]),
        lot_words(row["in_return"]),
        row["state"].upper(),
    ]


@group.command()
def offer(
    vc: Lender,
    gpus: GpusOption = None,
    cells: CellsOption = None,
    until: Annotated[
        str, typer.Option("--until", "-u", help="When the loan ends: 2h, 1d12h or 2026-12-01T18:00.")
    ] = "",
    start: Annotated[
        str,
        typer.Option("--from", help="When the loan starts, in the same form. Default: when it is taken."),
    ] = "",
    price: PriceOption = 0.0,
    return_gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--return-gpus",
            metavar="MODEL=N",
            help="GPUs that the borrower lends in return for the same time; may be repeated.",
        ),
    ] = None,
    return_cells: Annotated[
        list[str] | None,
        typer.Option(
            "--return-cells",
            metavar="TYPE=N",
            help="Cells that the borrower lends in return for the same time; may be repeated.",
        ),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Offer GPUs or cells of a virtual cluster for loan. For admins of its only member, and operators.

    `allot market offer speech --gpus P100=2 --until 8h --price 1.5`
    """
    if not until:
        raise WrongUse("State with --until when the loan ends: 8h, or 2026-12-01T18:00.")
    begin = instant(start, "--from") if start else None
    wanted: dict[str, Any] = {
        "virtual_cluster": vc,
        "lot": _lot(gpus, cells),
        "ends_at": instant(until, "--until", after=begin).isoformat(),
        "price_per_gpu_hour": price,
    }
    if begin is not None:
        wanted["starts_at"] = begin.isoformat()
    if return_gpus or return_cells:
        wanted["in_return"] = _lot(return_gpus, return_cells)
    with connect() as client:
        made = client.market.offer(wanted)
    if output is not Format.table:
        print_objects(made, output)
        return
    cost = f"{credits_words(made['cost_now'])} credits if it is taken now"
    back = f", in return for {lot_words(made['in_return'])}" if made["in_return"] else ""
    print_line(f"offer {made['id']}: {lot_words(made['lot'])} of {vc} until {_until(made)}, {cost}{back}")


def _until(row: Offer | Loan) -> str:
    return local_time(row["ends_at"])


@group.command()
def withdraw(offer: OfferId) -> None:
    """Withdraw an open offer."""
    with connect() as client:
        client.market.withdraw(offer)
    print_line(f"offer {offer} is withdrawn")


@group.command()
def take(offer: OfferId, vc: Borrower, output: OutputOption = Format.table) -> None:
    """Take an offer: borrow what it offers, and pay for its whole time. For owners of VC, and operators."""
    with connect() as client:
        loan = client.market.take(offer, vc)
    if output is not Format.table:
        print_objects(loan, output)
        return
    begin = "" if loan["state"] == "active" else f" from {local_time(loan['starts_at'])}"
    said = f"{lot_words(loan['lot'])} of {loan['lender']} for {vc}{begin} until {_until(loan)}"
    print_line(f"loan {loan['id']}: {said}, {credits_words(loan['paid'])} credits paid")


# -- loans -------------------------------------------------------------------------------------------


@group.command()
def loans(
    state: Annotated[
        LoanStates | None, typer.Option(help="Only loans in this state. Default: active and coming loans.")
    ] = None,
    vc: VcOption = None,
    limit: LimitOption = 200,
    output: OutputOption = Format.table,
) -> None:
    """List loans: who borrows, and until when."""
    wanted = [None] if state is LoanStates.all else [state.value] if state else ["active", "coming"]
    with connect() as client:
        found = [
            row for each in wanted for row in client.market.loans(limit=limit, state=each, virtual_cluster=vc)
        ]
    if output is not Format.table:
        print_objects(found, output)
        return
    headings = ["LOAN", "OF", "TO", "LENT", "GPUS", "FROM", "UNTIL", "LEFT", "PAID", "IN RETURN", "STATE"]
    print_table(headings, [_loan(row) for row in found], right=["LOAN", "GPUS", "LEFT", "PAID"])


def _loan(row: Loan) -> list[object]:
    left = datetime.fromisoformat(row["ends_at"]) - datetime.now().astimezone()
    return [
        row["id"],
        row["lender"],
        row["borrower"],
        lot_words(row["lot"]),
        row["gpus"],
        local_time(row["starts_at"]),
        _until(row),
        "-" if row["state"] == "ended" else duration(left.total_seconds()),
        credits_words(row["paid"] - row["refunded"]),
        lot_words(row["in_return"]),
        row["state"].upper(),
    ]


@group.command()
def end(loan: Annotated[int, typer.Argument(metavar="LOAN", help="Number of the loan.", min=1)]) -> None:
    """End a loan. A borrower gets no refund. Operators can end any loan; the rest is refunded then."""
    with connect() as client:
        ended = client.market.end(loan)
    paid, refunded = credits_words(ended["paid"]), credits_words(ended["refunded"])
    print_line(f"loan {loan} has ended; {refunded} of {paid} credits were refunded")


# -- rules -------------------------------------------------------------------------------------------


@group.command()
def rules(vc: VcOption = None, output: OutputOption = Format.table) -> None:
    """List the rules by which virtual clusters lend and borrow automatically."""
    with connect() as client:
        found = list(client.market.rules(vc))
    if output is not Format.table:
        print_objects(found, output)
        return
    rows = [[row["id"], row["virtual_cluster"], row["kind"], rule_words(row)] for row in found]
    print_table(["RULE", "VC", "KIND", "DOES"], rows, right=["RULE"])


def rule_words(row: MarketRule) -> str:
    """Return in words what a rule does."""
    price = f"{credits_words(row['price_per_gpu_hour'])} credits a GPU-hour"
    if row["kind"] == "lend":
        idle, lent = duration(row["idle_seconds"] or 0), duration(row["lend_seconds"] or 0)
        return f"offers up to {lot_words(row['lot'])} idle for {idle}, for {lent}, at {price} or more"
    models = " or ".join(row["gpu_models"]) or "GPUs that they accept"
    waiting = duration(row["waiting_seconds"] or 0)
    most = plural(row["most_gpus"] or 0, "GPU")
    return f"borrows up to {most} when jobs have waited {waiting}: {models}, at {price} or less"


@rule_group.command(name="add")
def rule_add(
    kind: Annotated[Kind, typer.Argument(help="lend or borrow.")],
    vc: Owner,
    gpus: GpusOption = None,
    cells: CellsOption = None,
    idle: Annotated[str, typer.Option(help="lend: lend what has been idle for this time.")] = "10m",
    lend_for: Annotated[str, typer.Option("--for", help="lend: length of the loan.")] = "1h",
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="borrow: only this GPU model; may be repeated.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="borrow: maximum number of GPUs borrowed at once.", min=1)
    ] = None,
    waiting: Annotated[str, typer.Option(help="borrow: borrow when a job has waited for this time.")] = "5m",
    price: PriceOption = 0.0,
    output: OutputOption = Format.table,
) -> None:
    """Add a rule: lend idle GPUs, or borrow when jobs wait. For owners of the virtual cluster, and operators.

    `allot market rule add lend speech --gpus P100=2 --idle 10m --for 2h --price 1`

    `allot market rule add borrow vision --most 4 --model P100 --waiting 5m --price 2`
    """
    wanted: dict[str, Any] = {"virtual_cluster": vc, "kind": kind.value, "price_per_gpu_hour": price}
    if kind is Kind.lend:
        wanted["lot"] = _lot(gpus, cells)
        wanted["idle_seconds"] = span_seconds(idle, "--idle")
        wanted["lend_seconds"] = span_seconds(lend_for, "--for")
    elif most is None:
        raise WrongUse("Say with --most how many GPUs it may borrow at once.")
    else:
        wanted |= {"most_gpus": most, "gpu_models": model or []}
        wanted["waiting_seconds"] = span_seconds(waiting, "--waiting")
    with connect() as client:
        made = client.market.add_rule(wanted)
    if output is not Format.table:
        print_objects(made, output)
        return
    print_line(f"rule {made['id']}: {vc} {rule_words(made)}")


@rule_group.command(name="remove")
def rule_remove(rule: Annotated[int, typer.Argument(metavar="RULE", min=1)]) -> None:
    """Remove a rule. Its open offers are withdrawn; its loans go on."""
    with connect() as client:
        client.market.remove_rule(rule)
    print_line(f"rule {rule} is removed")


# -- credits -----------------------------------------------------------------------------------------


@group.command()
def accounts(output: OutputOption = Format.table) -> None:
    """List the credits of your tenants' virtual clusters; operators see all."""
    with connect() as client:
        found = list(client.market.accounts())
    if output is not Format.table:
        print_objects(found, output)
        return
    headings = ["VC", "CREDITS", "GRANTED", "EARNED", "SPENT", "ALLOWANCE"]
    print_table(headings, [_account(row) for row in found], right=headings[1:5])


def _account(row: CreditAccount) -> list[object]:
    allowance = "-"
    if said := row["allowance"]:
        next_at = local_time(said["next_at"])
        allowance = (
            f"{credits_words(said['credits'])} every {duration(said['every_seconds'])}, next {next_at}"
        )
    sums = [credits_words(row[name]) for name in ("balance", "granted", "earned", "spent")]
    return [row["virtual_cluster"], *sums, allowance]


@group.command(context_settings={"ignore_unknown_options": True})
def grant(
    vc: Owner,
    credits: Annotated[
        float,
        typer.Argument(
            help="Number of credits; a negative number takes credits back, as far as the account has them."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Reason; members of the virtual cluster can read it.")] = "",
) -> None:
    """Grant credits to a virtual cluster. For operators."""
    with connect() as client:
        account = client.market.grant(vc, credits, reason=reason)
    print_line(f"{vc} has {credits_words(account['balance'])} credits")


@group.command()
def allowance(
    vc: Owner,
    credits: Annotated[float | None, typer.Argument(help="Credits for each period.")] = None,
    every: Annotated[str, typer.Option(help="Length of the period, such as 1d.")] = "1d",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the allowance.")] = False,
) -> None:
    """Grant credits to a virtual cluster now and in each period. For operators."""
    if (credits is None) != remove:
        raise WrongUse("Give credits, or --remove to remove the allowance.")
    with connect() as client:
        if credits is None:
            client.market.remove_allowance(vc)
            print_line(f"{vc} has no allowance any more")
            return
        seconds = int(span_seconds(every, "--every"))
        account = client.market.set_allowance(vc, credits, every_seconds=seconds)
    print_line(
        f"{vc} is granted {credits_words(credits)} credits every {duration(seconds)} and has"
        f" {credits_words(account['balance'])}"
    )


@group.command()
def transfers(
    vc: VcOption = None,
    limit: LimitOption = 50,
    csv: Annotated[bool, typer.Option("--csv", help="Print all transfers as CSV, oldest first.")] = False,
    parquet: ParquetOption = None,
    output: OutputOption = Format.table,
) -> None:
    """List transfers between accounts, newest first."""
    if csv and parquet:
        raise WrongUse("Give one of --csv and --parquet.")
    with connect() as client:
        if parquet:
            written = client.exports.parquet("market/transfers", parquet, virtual_cluster=vc)
            say(f"Wrote {written}.")
            return
        if csv:
            print_line(client.exports.csv("market/transfers", virtual_cluster=vc).rstrip("\n"))
            return
        found = list(client.market.transfers(virtual_cluster=vc, limit=limit))
    if output is not Format.table:
        print_objects(found, output)
        return
    headings = ["TRANSFER", "AGO", "KIND", "FROM", "TO", "CREDITS", "LOAN", "BY", "REASON"]
    print_table(headings, [_transfer(row) for row in found], right=["TRANSFER", "AGO", "CREDITS", "LOAN"])


def _transfer(row: CreditTransfer) -> list[object]:
    return [
        row["id"],
        since(row["at"]),
        row["kind"].replace("_", " "),
        row["from"],
        row["to"],
        credits_words(row["credits"]),
        row["loan"] or "-",
        row["by"],
        row["reason"],
    ]


def register(app: typer.Typer) -> None:
    group.add_typer(rule_group, name="rule", help="Add a rule, or remove one.")
    app.add_typer(
        group, name="market", help="Lend and borrow guarantees between virtual clusters, for credits."
    )
