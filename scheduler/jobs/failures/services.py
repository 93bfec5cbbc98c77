"""The site's rules for failures: read, replaced as a whole, and tried on what an attempt wrote last.

PostgreSQL matches their patterns, as it matches the searches of output (`log_search`): its engine does not
backtrack, and its statements can be cancelled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from django.db import DataError, OperationalError, connection, transaction

from scheduler.core.failures.retrying import FailedAttempt, RetryRules, judge
from scheduler.core.failures.site_rules import Retry, Severity, SiteRule, own_class, retry_of
from scheduler.core.failures.taxonomy import CLASSES, FailureClass, Layer
from scheduler.jobspec.fields import Fields, described, is_storable
from scheduler.models.failures import FailureRules
from scheduler.wiring.clock import database_now
from tenants.errors import FieldError, Invalid
from tenants.selectors import Viewer

RULES_MOST = 100
PATTERN_CHARACTERS_MOST = 500
ADVICE_CHARACTERS_MOST = 300
CODES_MOST = 32
#: What a node sends of the end of an attempt's output, and some more for trials by hand.
TEXT_CHARACTERS_MOST = 64 * 1024
#: For all rules together: a job's failure waits for it.
PATTERNS_SECONDS = 2.0
PROBLEMS_REPORTED = 100

_NAME = re.compile(r"[a-z]([a-z0-9_-]{0,38}[a-z0-9])?")
_NAME_EXPECTED = "1 to 40 lower-case letters, digits, '_' and '-', beginning with a letter"
# Flags: case does not matter, ^ and $ match at each line, and a dot does not match an end of line.
_FIRST_MATCH = """
SELECT rule.place - 1 FROM unnest(%(patterns)s::text[]) WITH ORDINALITY AS rule (pattern, place)
WHERE rule.pattern = '' OR regexp_like(%(text)s, rule.pattern, 'in') ORDER BY rule.place LIMIT 1
"""

log = logging.getLogger(__name__)


class MatchTimeout(Exception):
    """The patterns took too long over a text."""


def rules_read(value: object, *, where: str = "rules") -> list[SiteRule]:
    """Return the checked rules of a request; raise Invalid naming every wrong field."""
    problems: list[FieldError] = []
    if not isinstance(value, list) or len(value) > RULES_MOST:
        problem = (
            f"{described(value)} is not a list of rules" if not isinstance(value, list) else "is too long"
        )
        raise Invalid.of(FieldError(where, problem, f"at most {RULES_MOST} rules"))
    rules: list[SiteRule] = []
    for number, item in enumerate(value):
        fields = Fields(item, f"{where}.{number}", problems)
        rule = _rule(fields)
        if any(rule.name == other.name for other in rules):
            fields.refuse("name", f"{described(rule.name)} is used twice", "a name of its own")
        said = next((one.failure for one in rules if one.failure.name == rule.failure.name), rule.failure)
        if (said.layer, said.is_hardware) != (rule.failure.layer, rule.failure.is_hardware):
            fields.refuse(
                "retry", f"another rule defines {said.name} differently", f"{retry_of(said)}, as there"
            )
        rules.append(rule)
    if not problems:
        problems = _bad_patterns(rules, where)
    if problems:
        first = problems[0]
        raise Invalid(f"{first.field}: {first.problem}.", problems[:PROBLEMS_REPORTED])
    return rules


def rules_written(rules: Sequence[SiteRule]) -> list[dict[str, Any]]:
    """Return the rules in the form in which they are stored and shown, and read again unchanged."""
    return [
        {
            "name": rule.name,
            "class": rule.failure.name,
            "retry": None if rule.failure.name in CLASSES else str(retry_of(rule.failure)),
            "says": rule.failure.words,
            "pattern": rule.pattern,
            "exit_codes": list(rule.exit_codes),
            "signals": list(rule.signals),
            "severity": str(rule.severity),
            "advice": rule.advice,
        }
        for rule in rules
    ]


def rules_in_force() -> list[SiteRule]:
    """Return the site's rules in the order in which they are tried."""
    row = FailureRules.objects.filter(id=1).first()
    return [_rule(Fields(rule, "", [])) for rule in row.rules] if row else []


@transaction.atomic
def rules_replace(value: object, *, by: Viewer) -> list[SiteRule]:
    """Replace all rules. Attempts that failed already keep their class."""
    by.require_operator()
    rules = rules_read(value)
    FailureRules.objects.get_or_create(id=1, defaults={"changed_at": database_now()})
    row = FailureRules.objects.select_for_update().get(id=1)
    row.rules = rules_written(rules)
    row.changed_at, row.changed_by = database_now(), by.actor
    row.save()
    return rules


def rule_for(exit_code: int, text: str) -> SiteRule | None:
    """Return the rule in force that an attempt's end matches; None also when the patterns take too long."""
    rules = [rule for rule in rules_in_force() if rule.fits(exit_code)]
    if not rules:
        return None
    try:
        return first_match(rules, text)
    except MatchTimeout:
        log.warning("the patterns of %d failure rules were given up: they take too long", len(rules))
        return None


def rules_try(*, log: str, exit_code: int, rules: object = None) -> dict[str, Any]:
    """Return which rule such an attempt would match, of those given or of those in force, JSON-ready.

    Raises Invalid for wrong rules, or for patterns that take too long.
    """
    tried = rules_in_force() if rules is None else rules_read(rules)
    try:
        found = first_match([rule for rule in tried if rule.fits(exit_code)], log)
    except MatchTimeout:
        problem = f"their patterns take more than {PATTERNS_SECONDS:g} seconds"
        expected = "patterns without nested repetitions and references back"
        raise Invalid(
            f"The test of the rules was stopped: {problem}.", [FieldError("rules", problem, expected)]
        ) from None
    if found is None:
        return {"rule": None, "layer": "", "tried_again": None}
    verdict = judge(FailedAttempt(found.failure, ""), [], RetryRules())
    return {
        "rule": rules_written([found])[0],
        "layer": str(found.failure.layer),
        "tried_again": verdict.retry,
    }


def first_match(rules: Sequence[SiteRule], text: str) -> SiteRule | None:
    """Return the first rule whose pattern is found in the text. Raises MatchTimeout."""
    parameters: dict[str, Any] = {
        "patterns": [rule.pattern for rule in rules],
        "text": text[-TEXT_CHARACTERS_MOST:].replace("\0", " "),
    }
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # For this statement alone: the transaction around it goes on.
            cursor.execute("SELECT current_setting('statement_timeout')")
            (usual,) = cursor.fetchone()
            cursor.execute(_SET_TIMEOUT, [str(int(PATTERNS_SECONDS * 1_000))])
            cursor.execute(_FIRST_MATCH, parameters)
            row = cursor.fetchone()
            cursor.execute(_SET_TIMEOUT, [usual])
    except OperationalError as error:
        if "statement timeout" not in str(error):
            raise
        raise MatchTimeout from error
    return rules[row[0]] if row else None


_SET_TIMEOUT = "SELECT set_config('statement_timeout', %s, true)"


def _rule(fields: Fields) -> SiteRule:
    problems = len(fields.problems)
    name = fields.word("name", _NAME, _NAME_EXPECTED, default=None)
    rule = SiteRule(
        name=name,
        failure=_failure(fields, name),
        pattern=_text(fields, "pattern", PATTERN_CHARACTERS_MOST),
        exit_codes=_codes(fields, "exit_codes", most=255),
        signals=_codes(fields, "signals", most=64),
        severity=Severity(fields.choice("severity", tuple(Severity), default=Severity.ERROR)),
        advice=_text(fields, "advice", ADVICE_CHARACTERS_MOST),
    )
    fields.finish()
    is_right = len(fields.problems) == problems
    if is_right and not (rule.pattern or rule.exit_codes or rule.signals):
        fields.refuse("pattern", "is missing, and so are exit_codes and signals", "at least one of the three")
    return rule


def _failure(fields: Fields, name: str) -> FailureClass:
    """Return the class that a rule names: a built-in one, or one of the site's own with its `retry`."""
    class_name = fields.word("class", _NAME, _NAME_EXPECTED, default=None)
    known = CLASSES.get(class_name)
    says = _text(fields, "says", 80)
    retry = fields.take("retry")
    if known is not None:
        if retry is not None:
            expected = "no retry, or a class of your own"
            fields.refuse(
                "retry", f"{class_name} is a built-in class, which has its own rule for retries", expected
            )
        return FailureClass(known.name, known.layer, says or known.words, known.is_hardware)
    if class_name in set(Layer):
        fields.refuse("class", f"{described(class_name)} is a layer, not a class", "another name")
    if retry not in tuple(Retry):
        problem = f"{described(retry)} is not known" if retry is not None else "is missing"
        fields.refuse("retry", problem, f"for a class of your own, one of: {', '.join(Retry)}")
        retry = Retry.NEVER
    return own_class(class_name, Retry(retry), says or name.replace("-", " ").replace("_", " "))


def _text(fields: Fields, name: str, most: int) -> str:
    value = fields.take(name)
    if value is None:
        return ""
    if isinstance(value, str) and len(value) <= most and is_storable(value):
        return value
    fields.refuse(name, f"{described(value)} cannot be used", f"a text of at most {most} characters")
    return ""


def _codes(fields: Fields, name: str, *, most: int) -> tuple[int, ...]:
    value = fields.take(name)
    if value is None:
        return ()
    # In JSON as in YAML, true is not a number.
    are_right = isinstance(value, list) and all(type(code) is int and 1 <= code <= most for code in value)
    if are_right and len(value) <= CODES_MOST:
        return tuple(value)
    fields.refuse(
        name, f"{described(value)} cannot be used", f"at most {CODES_MOST} numbers from 1 to {most}"
    )
    return ()


def _bad_patterns(rules: Sequence[SiteRule], where: str) -> list[FieldError]:
    problems = []
    for number, rule in enumerate(rules):
        try:
            first_match([rule], "")
        except DataError as error:
            reason = str(error).splitlines()[0].removeprefix("invalid regular expression: ")
            expected = "a regular expression, such as scratch.*(full|quota)"
            problems.append(FieldError(f"{where}.{number}.pattern", f"cannot be used: {reason}", expected))
        except MatchTimeout:
            expected = "one without nested repetitions and references back"
            problems.append(FieldError(f"{where}.{number}.pattern", "takes too long", expected))
    return problems
