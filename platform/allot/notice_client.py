"""The part of the client for notifications, webhooks and budgets: `client.notices.webhooks()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import (
        AddressAnswer,
        BudgetState,
        Delivery,
        NewWebhook,
        NotificationSettings,
        Webhook,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """Who is told of what, and what a tenant may use up, said to the server in the client's ways."""

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def settings(self) -> NotificationSettings:
        """What one gets by e-mail."""
        return cast("NotificationSettings", self.read("/notifications"))

    def change(self, changes: Mapping[str, Any]) -> NotificationSettings:
        """Change `jobs`, `tenants` or `cluster`."""
        return cast("NotificationSettings", self.send("PATCH", "/notifications", body=dict(changes)))

    def set_address(self, address: str) -> AddressAnswer:
        """Change one's own e-mail address; a mail to it may have to confirm it."""
        return cast("AddressAnswer", self.send("PUT", "/notifications/address", body={"address": address}))

    def webhooks(self, tenant: str | None) -> Iterator[Webhook]:
        """Webhooks of a tenant, or of the cluster."""
        return cast("Iterator[Webhook]", self.pages("/webhooks", {"tenant": tenant}, None))

    def webhook(self, webhook: int) -> Webhook:
        return cast("Webhook", self.read(f"/webhooks/{webhook}"))

    def add_webhook(self, wanted: Mapping[str, Any]) -> NewWebhook:
        """Make a webhook: url, topics, tenant, title. The answer alone has its secret."""
        return cast("NewWebhook", self.write("/webhooks", dict(wanted)))

    def change_webhook(self, webhook: int, changes: Mapping[str, Any]) -> Webhook:
        return cast("Webhook", self.send("PATCH", f"/webhooks/{webhook}", body=dict(changes)))

    def remove_webhook(self, webhook: int) -> None:
        self.send("DELETE", f"/webhooks/{webhook}")

    def rotate_secret(self, webhook: int) -> NewWebhook:
        """Make a new secret, which the answer alone has."""
        return cast("NewWebhook", self.write(f"/webhooks/{webhook}/secret"))

    def test_webhook(self, webhook: int) -> Delivery:
        return cast("Delivery", self.write(f"/webhooks/{webhook}/test"))

    def deliveries(
        self, webhook: int, *, state: str | None = None, limit: int | None = None
    ) -> Iterator[Delivery]:
        """What was sent to a webhook or waits, the newest first."""
        return cast(
            "Iterator[Delivery]", self.pages(f"/webhooks/{webhook}/deliveries", {"state": state}, limit)
        )

    def redeliver(self, webhook: int, delivery: int) -> Delivery:
        return cast("Delivery", self.write(f"/webhooks/{webhook}/deliveries/{delivery}/redeliver"))

    def budget(self, tenant: str) -> BudgetState:
        return cast("BudgetState", self.read(_budget(tenant)))

    def set_budget(self, tenant: str, wanted: Mapping[str, Any]) -> BudgetState:
        """Give a tenant a budget: amount, unit, period, action, starts_at."""
        return cast("BudgetState", self.send("PUT", _budget(tenant), body=dict(wanted)))

    def remove_budget(self, tenant: str) -> None:
        self.send("DELETE", _budget(tenant))


def _budget(tenant: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/budget"
