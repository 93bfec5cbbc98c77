"""Webhooks: which users may have some, and how they change them."""

import json
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from scheduler.models.notifications import Delivery, DeliveryState, Webhook
from scheduler.notifications.services.delivery import OVERLAP, checked_url, new_seed, secret_text
from scheduler.notifications.services.fan_out import delivery_of
from scheduler.notifications.services.topics import CLUSTER_TOPICS, link
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.models import Role, Tenant
from tenants.selectors import Viewer
from tenants.times import iso

#: The most webhooks of a tenant, and of the operators.
MOST_WEBHOOKS = 10
TEST = "test"


def require_owner(by: Viewer, tenant: Tenant | None) -> None:
    """Raise unless the viewer may manage webhooks: a tenant's its admins, the cluster's the operators."""
    if tenant is None:
        by.require_operator()
    else:
        by.require(tenant, Role.ADMIN)


def webhook_get(by: Viewer, webhook_id: int) -> Webhook:
    """Return a webhook that the viewer may manage; for others it does not exist."""
    webhook = Webhook.objects.select_related("tenant").filter(id=webhook_id).first()
    if webhook is not None and (
        by.is_operator or (webhook.tenant is not None and by.may(webhook.tenant, Role.VIEWER))
    ):
        require_owner(by, webhook.tenant)
        return webhook
    raise NotFound(f"There is no webhook {webhook_id}, or you may not see it.")


@transaction.atomic
def webhook_make(
    *,
    by: Viewer,
    tenant: Tenant | None,
    url: str,
    topics: Sequence[str],
    title: str = "",
    active: bool = True,
) -> tuple[Webhook, str]:
    """Return a new webhook and its secret, which is shown now and never again."""
    require_owner(by, tenant)
    _check(tenant, url, topics)
    if tenant is not None:
        # One after another, so that the limit holds.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    if Webhook.objects.filter(tenant=tenant).count() >= MOST_WEBHOOKS:
        whose = f"Tenant {tenant.name}" if tenant else "The cluster"
        raise Conflict(f"{whose} has {MOST_WEBHOOKS} webhooks, the maximum: remove one first.")
    seed = new_seed()
    webhook = Webhook.objects.create(
        tenant=tenant,
        url=url,
        topics=list(topics),
        title=title,
        active=active,
        seed=seed,
        created_at=database_now(),
        created_by=by.actor,
    )
    return webhook, secret_text(seed)


@transaction.atomic
def webhook_change(*, by: Viewer, webhook: Webhook, **changes: Any) -> Webhook:
    """Change `url`, `topics`, `title` or `active`; one that is switched on again has no failures."""
    require_owner(by, webhook.tenant)
    webhook = _locked(webhook)
    _check(webhook.tenant, changes.get("url"), changes.get("topics"))
    if changes.get("active") or changes.get("url", webhook.url) != webhook.url:
        webhook.failures, webhook.failing_since, webhook.held_until, webhook.problem = 0, None, None, ""
    for name, value in changes.items():
        setattr(webhook, name, value)
    webhook.save()
    return webhook


@transaction.atomic
def webhook_remove(*, by: Viewer, webhook: Webhook) -> None:
    """Remove it with all that is waiting for it."""
    require_owner(by, webhook.tenant)
    webhook.delete()


@transaction.atomic
def secret_rotate(*, by: Viewer, webhook: Webhook) -> tuple[Webhook, str]:
    """Return a new secret; the former one signs beside it for a day, so that receivers can be changed."""
    require_owner(by, webhook.tenant)
    webhook = _locked(webhook)
    webhook.old_seed, webhook.seed = bytes(webhook.seed), new_seed()
    webhook.old_seed_ends_at = database_now() + OVERLAP
    webhook.save()
    return webhook, secret_text(webhook.seed)


@transaction.atomic
def webhook_test(*, by: Viewer, webhook: Webhook) -> Delivery:
    """Send a test message, which reports no event."""
    require_owner(by, webhook.tenant)
    _require_active(webhook)
    now = database_now()
    data = {
        "message": f"{by.user.username} tries this webhook.",
        "url": link(f"/webhooks/{webhook.id}"),
        "tenant": webhook.tenant.name if webhook.tenant else None,
    }
    body = {"type": TEST, "timestamp": iso(now), "data": data}
    delivery = delivery_of(webhook, TEST, json.dumps(body), at=now)
    delivery.save()
    _let_try(webhook)
    return delivery


@transaction.atomic
def redeliver(*, by: Viewer, webhook: Webhook, delivery_id: int) -> Delivery:
    """Send a message again, with the id that it had; one that waits is tried at once."""
    require_owner(by, webhook.tenant)
    _require_active(webhook)
    delivery = Delivery.objects.select_for_update().filter(webhook=webhook, id=delivery_id).first()
    if delivery is None:
        raise NotFound(f"There is no delivery {delivery_id} of this webhook.")
    now = database_now()
    again = delivery_of(webhook, delivery.topic, delivery.body, at=now)
    delivery.state, delivery.next_at, delivery.until = DeliveryState.WAITING, again.next_at, again.until
    delivery.tries = 0
    delivery.save()
    _let_try(webhook)
    return delivery


def _let_try(webhook: Webhook) -> None:
    """A person asked: no back-off."""
    Webhook.objects.filter(id=webhook.id).update(held_until=None)


def _require_active(webhook: Webhook) -> None:
    if not webhook.active:
        raise Conflict("This webhook is switched off: switch it on first.")


def _locked(webhook: Webhook) -> Webhook:
    rows = Webhook.objects.select_for_update(of=("self",)).select_related("tenant")
    found = rows.filter(id=webhook.id).first()
    if found is None:
        raise NotFound(f"There is no webhook {webhook.id} any more.")
    return found


def _check(tenant: Tenant | None, url: str | None, topics: Sequence[str] | None) -> None:
    if url is not None:
        checked_url(url)
    foreign = [topic for topic in topics or () if tenant is not None and topic in CLUSTER_TOPICS]
    if foreign:
        problem = f"{foreign[0]} is sent to webhooks of the cluster only"
        raise Invalid.of(FieldError("topics", problem, "topics of jobs and budgets"))
