"""The market's part of the client: `client.market.offers()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import CreditAccount, CreditTransfer, Loan, MarketRule, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Offers, loans, rules and credits, said to the server in the client's ways."""

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def offers(self, *, limit: int | None = None, **filters: str | None) -> Iterator[Offer]:
        """Offers, the newest first. Filters are those of GET /market/offers: state, virtual_cluster."""
        return cast("Iterator[Offer]", self.pages("/market/offers", filters, limit))

    def offer(self, wanted: Mapping[str, Any]) -> Offer:
        """Offer what a virtual cluster owns: virtual_cluster, lot, ends_at, starts_at, price_per_gpu_hour,
        in_return."""
        return cast("Offer", self.write("/market/offers", dict(wanted)))

    def withdraw(self, offer: int) -> Offer:
        return cast("Offer", self.write(f"/market/offers/{offer}/withdraw"))

    def take(self, offer: int, virtual_cluster: str) -> Loan:
        """Borrow what is offered, and pay for its whole time."""
        body = {"virtual_cluster": virtual_cluster}
        return cast("Loan", self.write(f"/market/offers/{offer}/take", body))

    def loans(self, *, limit: int | None = None, **filters: str | None) -> Iterator[Loan]:
        """Loans, the newest first. Filters are those of GET /market/loans: state, virtual_cluster."""
        return cast("Iterator[Loan]", self.pages("/market/loans", filters, limit))

    def end(self, loan: int) -> Loan:
        """Give back what is borrowed, or as an operator end the loan of others."""
        return cast("Loan", self.write(f"/market/loans/{loan}/end"))

    def rules(self, virtual_cluster: str | None = None) -> Iterator[MarketRule]:
        filters = {"virtual_cluster": virtual_cluster}
        return cast("Iterator[MarketRule]", self.pages("/market/rules", filters, None))

    def add_rule(self, wanted: Mapping[str, Any]) -> MarketRule:
        """Let a virtual cluster lend or borrow by itself; the fields of POST /market/rules."""
        return cast("MarketRule", self.write("/market/rules", dict(wanted)))

    def remove_rule(self, rule: int) -> None:
        self.send("DELETE", f"/market/rules/{rule}")

    def accounts(self) -> Iterator[CreditAccount]:
        return cast("Iterator[CreditAccount]", self.pages("/market/accounts", {}, None))

    def grant(self, virtual_cluster: str, credits: float, *, reason: str = "") -> CreditAccount:
        """Grant credits; less than 0 takes some back."""
        body = {"credits": credits, "reason": reason}
        return cast("CreditAccount", self.write(f"{_account(virtual_cluster)}/grant", body))

    def set_allowance(self, virtual_cluster: str, credits: float, *, every_seconds: int) -> CreditAccount:
        body = {"credits": credits, "every_seconds": every_seconds}
        return cast("CreditAccount", self.send("PUT", f"{_account(virtual_cluster)}/allowance", body=body))

    def remove_allowance(self, virtual_cluster: str) -> None:
        self.send("DELETE", f"{_account(virtual_cluster)}/allowance")

    def transfers(
        self, *, virtual_cluster: str | None = None, limit: int | None = None
    ) -> Iterator[CreditTransfer]:
        """What moved between accounts, the newest first."""
        filters = {"virtual_cluster": virtual_cluster}
        return cast("Iterator[CreditTransfer]", self.pages("/market/transfers", filters, limit))

    def export_transfers(self, virtual_cluster: str | None = None) -> str:
        """The same as the text of a CSV file, the oldest first."""
        filters = {"virtual_cluster": virtual_cluster}
        return cast(str, self.read("/market/transfers/export", filters))


def _account(virtual_cluster: str) -> str:
    return f"/market/accounts/{quote(virtual_cluster, safe='')}"
