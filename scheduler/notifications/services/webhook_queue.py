"""Sending to webhooks: several at once, each in the order of its messages and held back by its own failures.

At least once: a webhook is taken for a while, its oldest message is sent, and the result is written down. If
the process is killed in between, the webhook is taken again, and the same message goes out with the same id.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.models.events import Event
from scheduler.models.notifications import Delivery, DeliveryState, Webhook
from scheduler.notifications.services.advisory_lock import WEBHOOKS, advisory_lock
from scheduler.notifications.services.delivery import TIMEOUT_SECONDS, Answer, headers, post
from scheduler.wiring.clock import database_now

log = logging.getLogger(__name__)

#: Webhooks that are sent to at the same time.
_SIDE_BY_SIDE = 16
#: How long a webhook stays with the process that took it for a try.
_TAKEN_FOR = timedelta(seconds=4 * TIMEOUT_SECONDS)
#: How often new work is looked for while sends are under way.
_LOOK_SECONDS = 0.5
#: Waits after the first, second... failure in a row; then always the last of them.
WAITS = tuple(timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1_800, 3_600))
#: After this many failures a message no longer holds back those behind it.
_IN_ORDER_TRIES = 3
#: A webhook that failed for this long, and never succeeded meanwhile, is switched off.
DISABLED_AFTER = timedelta(days=5)
#: The receiver states that it no longer exists.
_GONE = 410


def deliveries_are_due() -> bool:
    return _due(database_now()).exists()


def deliver_due() -> int:
    """Send what is due, until nothing more is; return the number of tries."""
    with advisory_lock(WEBHOOKS) as is_mine:
        return _deliver() if is_mine else 0


def _deliver() -> int:
    tries = 0
    sending: dict[Future[Answer], Delivery] = {}
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="webhook") as pool:
        while True:
            for delivery in _take(_SIDE_BY_SIDE - len(sending)):
                sending[pool.submit(_send, delivery, database_now())] = delivery
            if not sending:
                return tries
            done, _ = wait(sending, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                _note(sending.pop(future), future.result())
                tries += 1


def _send(delivery: Delivery, at: datetime) -> Answer:
    """Runs in a thread of its own, without the database.

    Whatever goes wrong counts against this webhook: raised, it would end the sending to all others.
    """
    try:
        signed = headers(delivery.webhook, str(delivery.message), delivery.body, at=at)
        return post(delivery.webhook.url, delivery.body, signed)
    except Exception as error:
        log.exception("a message to webhook %d could not be sent", delivery.webhook_id)
        return Answer(problem=type(error).__name__, seconds=0.0)


def _due(now: datetime) -> QuerySet[Webhook]:
    waiting = Delivery.objects.filter(webhook=OuterRef("pk"), state=DeliveryState.WAITING, next_at__lte=now)
    free = Q(taken_until=None) | Q(taken_until__lte=now)
    ready = Q(held_until=None) | Q(held_until__lte=now)
    return Webhook.objects.filter(free, ready, Exists(waiting), active=True)


@transaction.atomic
def _take(most: int) -> list[Delivery]:
    """Take webhooks for a while; return the next delivery of each."""
    now = database_now()
    # The webhook that waited longest first, so that none is passed over for ever.
    rows = _due(now).select_for_update(skip_locked=True).order_by("taken_until", "id")
    webhooks = list(rows[:most]) if most else []
    Webhook.objects.filter(id__in=[webhook.id for webhook in webhooks]).update(taken_until=now + _TAKEN_FOR)
    return list(_next_of_each(webhooks, now))


def _next_of_each(webhooks: list[Webhook], now: datetime) -> Iterator[Delivery]:
    for webhook in webhooks:
        waiting = webhook.deliveries.filter(state=DeliveryState.WAITING, next_at__lte=now)
        delivery = waiting.order_by("id").first()
        if delivery is not None:
            delivery.webhook = webhook
            yield delivery


@transaction.atomic
def _note(delivery: Delivery, answer: Answer) -> None:
    """Write down how a try ended, and let the webhook be taken again."""
    # Removed meanwhile: then there is nothing to write down.
    webhook = Webhook.objects.select_for_update().filter(id=delivery.webhook_id).first()
    delivery = Delivery.objects.filter(id=delivery.id).first()  # type: ignore[assignment]
    if webhook is None or delivery is None:
        return
    now = database_now()
    delivery.tries += 1
    delivery.tried_at, delivery.seconds = now, answer.seconds
    delivery.status, delivery.reply, delivery.problem = answer.status, answer.reply, answer.problem
    webhook.taken_until = now
    if answer.is_taken:
        delivery.state = DeliveryState.DELIVERED
        webhook.failures, webhook.failing_since, webhook.held_until = 0, None, None
    else:
        _note_failure(webhook, delivery, now)
    delivery.save()
    webhook.save()


def _note_failure(webhook: Webhook, delivery: Delivery, now: datetime) -> None:
    webhook.failures += 1
    webhook.failing_since = webhook.failing_since or now
    webhook.held_until = now + _wait_after(webhook.failures)
    delivery.next_at = now
    if now >= delivery.until:
        delivery.state = DeliveryState.GIVEN_UP
    elif delivery.tries >= _IN_ORDER_TRIES:
        delivery.next_at = now + _wait_after(delivery.tries)
    if delivery.status == _GONE:
        _disable(webhook, f"its receiver answered {_GONE}: it no longer exists", now)
    elif now - webhook.failing_since >= DISABLED_AFTER:
        _disable(webhook, f"nothing could be delivered for {DISABLED_AFTER.days} days", now)


def _wait_after(failures: int) -> timedelta:
    return WAITS[min(failures, len(WAITS)) - 1]


def _disable(webhook: Webhook, why: str, now: datetime) -> None:
    webhook.active, webhook.problem = False, f"Switched off by the platform: {why}."
    Event.objects.create(
        at=now,
        kind="webhook.disabled",
        subject="webhook",
        subject_id=webhook.id,
        tenant_id=webhook.tenant_id,
        actor="webhooks",
        # Not its address: many services let anyone post who knows it, and all members see events.
        message=f"Webhook {webhook.id} ({webhook.title or 'untitled'}) was switched off: {why}.",
        data={"title": webhook.title},
    )
