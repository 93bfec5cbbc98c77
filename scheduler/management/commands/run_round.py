"""Run one scheduling round now, in this process."""

from typing import Any

from django.core.management.base import BaseCommand

from scheduler.models.rounds import Round
from scheduler.rounds.run import run_round


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        number = run_round()
        if number is None:
            self.stdout.write("Another round is under way; nothing was done.")
            return
        record = Round.objects.get(number=number)
        self.stdout.write(
            f"Round {number} {record.state}: {record.started} started, {record.kept} kept, "
            f"{record.stopped} stopped, {record.waiting} waiting, {len(record.dropped)} dropped."
        )
