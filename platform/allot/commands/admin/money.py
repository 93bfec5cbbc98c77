"""admin currency: the currency of prices and costs."""

from __future__ import annotations

from typing import Annotated

import typer

from allot.commands.options import connect
from allot.output import print_line

NONE = "none"


def currency(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE]", help="ISO 4217 code, such as EUR; `none`: cost units without a currency."
        ),
    ] = None,
) -> None:
    """Show or set the currency of prices and costs. No price is converted. Only operators can set it."""
    with connect() as client:
        if code is None:
            found = client.cluster_settings()
        else:
            wanted = "" if code.lower() == NONE else code.upper()
            found = client.set_cluster_settings({"currency": wanted})
    print_line(f"Prices and costs are in {found['currency'] or 'cost units'}.")
