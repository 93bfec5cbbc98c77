"""Decide stored rounds again and compare: the same facts must give the same plan, bit for bit.

After an upgrade the sentences of a plan may be other ones; what is decided, and why, must be the same.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.core.model import codec
from scheduler.core.model.plan import Plan, Reason
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
            plan, is_said_alike = _decided_again(number)
            if options["print"]:
                self.stdout.write(codec.plan_json(plan).decode())
            said = "" if is_said_alike else " in other words"
            self.stdout.write(
                f"Round {number}: identical plan{said} ({len(plan.actions)} actions,"
                f" {len(plan.reasons)} waiting, {sum(map(len, plan.ledger.values()))} lines of the ledger)."
            )


def _decided_again(number: int) -> tuple[Plan, bool]:
    """Return the plan, and whether its sentences are those that were stored.

    Raises CommandError when there is none, or it decides something else.
    """
    record = Round.objects.filter(number=number).first()
    if record is None:
        kept = Round.objects.order_by("number").values_list("number", flat=True)
        span = f"kept are {kept.first()} to {kept.last()}" if kept else "none is kept yet"
        raise CommandError(f"There is no round {number}; {span}.")
    if record.snapshot is None or record.plan is None:
        raise CommandError(f"Round {number} failed before it had a plan: {record.error}")
    stored, again = codec.loads_plan(bytes(record.plan)), decided_again(record)
    is_said_alike = codec.plan_json(again) == codec.plan_json(stored)
    if not is_said_alike and codec.plan_json(_unsaid(again)) != codec.plan_json(_unsaid(stored)):
        raise CommandError(f"Round {number} decides differently now:\n{_difference(stored, again)}")
    if differing := lines_that_differ(again, record.dropped):
        raise CommandError(f"Round {number} decides other lines of the ledger:\n" + "\n".join(differing))
    return again, is_said_alike


def _unsaid(plan: Plan) -> Plan:
    """Return the plan without the sentences that people read."""
    return replace(
        plan,
        actions=tuple([replace(action, message="") for action in plan.actions]),
        reasons={
            job: tuple([replace(reason, message="", hint="") for reason in reasons])
            for job, reasons in plan.reasons.items()
        },
        degraded=dict.fromkeys(plan.degraded, ""),
    )


def _difference(stored: Plan, again: Plan) -> str:
    """Return the actions and the waiting jobs that differ, as lines of a diff, and the other fields that do.

    What differs only in its sentences is left out.
    """
    was, now = _unsaid(stored), _unsaid(again)
    lines = [
        f"{sign} {action}"
        for sign, plan, ours, others in (("-", stored, was, now), ("+", again, now, was))
        for action, unsaid in zip(plan.actions, ours.actions, strict=True)
        if unsaid not in others.actions
    ]
    for job in sorted({*was.reasons, *now.reasons}):
        if was.reasons.get(job) != now.reasons.get(job):
            before, after = stored.reasons.get(job, ()), again.reasons.get(job, ())
            lines += [f"- job {job} waits: {_said(before)}", f"+ job {job} waits: {_said(after)}"]
    names = [each.name for each in fields(Plan) if getattr(was, each.name) != getattr(now, each.name)]
    others = [name for name in names if name not in ("actions", "reasons")] if lines else names
    if others:
        lines.append(f"these differ: {', '.join(others)}")
    return "\n".join(lines)


def _said(reasons: Sequence[Reason]) -> str:
    return " ".join([f"{reason.message} ({reason.code})" for reason in reasons]) or "it does not"
