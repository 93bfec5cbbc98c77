"""The stream of the demonstration: submits a job now and then, and keeps an offer on the market.

It submits nothing while enough of its jobs are unfinished, or while it is paused. Jobs follow from their
numbers, which go on where they were after a restart.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from django.db import DatabaseError, close_old_connections, transaction

from scheduler.core.model.lifecycle import JobState
from scheduler.management import demonstration as demo
from scheduler.models.jobs import Job
from scheduler.models.market import Offer, OfferState
from tenants.errors import ApplicationError

log = logging.getLogger(__name__)


class Stream:
    """`submit` submits a job of the demonstration, `offer` puts its offer on the market."""

    def __init__(
        self, paused: Path, *, submit: Callable[[demo.DemoJob], None], offer: Callable[[], None]
    ) -> None:
        #: It is paused while there is this file.
        self._paused = paused
        self._submit, self._offer = submit, offer

    def run(self) -> None:
        """Go on for ever; what fails is tried again in the next turn."""
        dice = random.Random(demo.STREAM)
        while True:
            time.sleep(dice.expovariate(1 / demo.STREAM_SECONDS))
            try:
                self.turn()
            except (ApplicationError, DatabaseError) as error:
                log.warning("the stream of the demonstration missed a turn: %s", error)
            finally:
                close_old_connections()

    def turn(self) -> int | None:
        """Submit the next job; return its number, or None where it is not time for one."""
        if self._paused.exists():
            return None
        own = Job.objects.filter(labels__demo=demo.STREAM)
        if own.filter(state__in=[JobState.QUEUED, JobState.RUNNING]).count() >= demo.STREAM_MOST:
            return None
        last = own.order_by("-id").first()
        number = 1 if last is None else int(last.name.rpartition("-")[2]) + 1
        with transaction.atomic():
            self._submit(demo.stream_job(number))
        if not Offer.objects.filter(state=OfferState.OPEN).exists():
            with transaction.atomic():
                self._offer()
        return number
