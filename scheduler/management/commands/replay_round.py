"""Decide stored rounds again and compare: the same facts must give the same plan, bit for bit."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.core.model import codec
from scheduler.core.model.plan import Plan
from scheduler.models.rounds import Round
from scheduler.rounds.ledger import lines_that_differ
from scheduler.rounds.replay import decided_again


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "numbers",
            type=int,
            nargs="+",
            metavar="N",
            help="the rounds to decide again, as in the dashboard",
        )
        parser.add_argument("--print", action="store_true", help="print the plans, too, as JSON")

    def handle(self, *args: Any, numbers: list[int], **options: Any) -> None:
        for number in numbers:
            plan = _decided_again(number)
            if options["print"]:
                self.stdout.write(codec.plan_json(plan).decode())
            self.stdout.write(
                f"Round {number}: identical plan ({len(plan.actions)} actions, {len(plan.reasons)} waiting,"
                f" {sum(map(len, plan.ledger.values()))} lines of the ledger)."
            )


def _decided_again(number: int) -> Plan:
    """Return the plan; raise CommandError when there is none or it is not the one that was stored."""
    record = Round.objects.filter(number=number).first()
    if record is None:
        kept = Round.objects.order_by("number").values_list("number", flat=True)
        span = f"kept are {kept.first()} to {kept.last()}" if kept else "none is kept yet"
        raise CommandError(f"There is no round {number}; {span}.")
    if record.snapshot is None or record.plan is None:
        raise CommandError(f"Round {number} failed before it had a plan: {record.error}")
    stored, again = codec.loads_plan(bytes(record.plan)), decided_again(record)
    if codec.plan_json(again) != codec.plan_json(stored):
        raise CommandError(f"Round {number} decides differently now:\n{_difference(stored, again)}")
    if differing := lines_that_differ(again, record.dropped):
        raise CommandError(f"Round {number} decides other lines of the ledger:\n" + "\n".join(differing))
    return again


def _difference(stored: Plan, again: Plan) -> str:
    gone = [f"- {action}" for action in stored.actions if action not in again.actions]
    new = [f"+ {action}" for action in again.actions if action not in stored.actions]
    return "\n".join(gone + new) or "the actions are the same; reasons, queues or memory differ"
